// SPDX-License-Identifier: MIT
// Functions over a Unix socket's descriptor.
#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "os/peer_credentials.h"
#include "os/received_fd.h"
#include "os/unix_socket.h"

namespace sidecall {
namespace {

constexpr int kTryAgain = -1;

Napi::Value Credentials(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  const auto result = ReadPeerCredentials(fd);
  if (!result.ok()) return Throw(env, result.error());
  const PeerCredentials& peer = result.value();
  Napi::Object object = Napi::Object::New(env);
  object.Set("pid", static_cast<double>(peer.pid));
  object.Set("pidIsHint", peer.pid_is_hint);
  object.Set("uid", peer.uid);
  object.Set("gid", peer.gid);
  if (peer.groups.has_value()) {
    Napi::Array groups = Napi::Array::New(env, peer.groups->size());
    for (std::uint32_t index = 0; index < peer.groups->size(); ++index) {
      groups.Set(index, (*peer.groups)[index]);
    }
    object.Set("groups", groups);
  }
  if (peer.is_alive.has_value()) object.Set("isAlive", *peer.is_alive);
  return object;
}

// (fd) => { pid, uid } of the peer: cheaper than all credentials, for crowded listeners.
Napi::Value Ids(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  const auto result = ReadPeerIds(fd);
  if (!result.ok()) return Throw(env, result.error());
  Napi::Object object = Napi::Object::New(env);
  object.Set("pid", static_cast<double>(result.value().pid));
  object.Set("uid", result.value().uid);
  return object;
}

Napi::Value Pair(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto pair = MakeSocketPair();
  if (!pair.ok()) return Throw(env, pair.error());
  Napi::Object object = Napi::Object::New(env);
  object.Set("near", State(env).Own(std::move(pair.value().near)));
  object.Set("far", State(env).Own(std::move(pair.value().far)));
  return object;
}

Napi::Value Bind(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string path = arguments.Text(0);
  if (!arguments.ok()) return info.Env().Undefined();
  auto fd = BindUnixSocket(path);
  if (!fd.ok()) return Throw(info.Env(), fd.error());
  return Napi::Number::New(info.Env(), State(info.Env()).Own(std::move(fd.value())));
}

Napi::Value Listen(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const auto backlog = static_cast<int>(arguments.Integer(1, 1, 65535));
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), ListenOn(fd, backlog));
}

Napi::Value IsHeld(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string path = arguments.Text(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto held = IsSocketHeld(path);
  if (!held.ok()) return Throw(info.Env(), held.error());
  return Napi::Boolean::New(info.Env(), held.value());
}

// (fd) => the connection, or -1: none waits.
Napi::Value Accept(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  auto accepted = AcceptConnection(fd);
  if (!accepted.ok()) return Throw(env, accepted.error());
  if (!accepted.value().has_value()) return Napi::Number::New(env, kTryAgain);
  return Napi::Number::New(env, State(env).Own(std::move(*accepted.value())));
}

Napi::Value Connect(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const std::string path = arguments.Text(0);
  if (!arguments.ok()) return env.Undefined();
  auto connected = ConnectUnixSocket(path);
  if (!connected.ok()) return Throw(env, connected.error());
  if (!connected.value().has_value()) return Napi::Number::New(env, kTryAgain);
  return Napi::Number::New(env, State(env).Own(std::move(*connected.value())));
}

// (fd, bytes, offset, descriptor or -1) => bytes taken, or -1: try again.
Napi::Value Send(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const std::span<std::uint8_t> bytes = arguments.Bytes(1);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const auto offset = static_cast<std::size_t>(arguments.Integer(2, 0, size));
  const auto descriptor = static_cast<int>(arguments.Integer(3, -1, 0x7fffffff));
  if (!arguments.ok()) return env.Undefined();
  const auto sent = SendBytes(fd, bytes.subspan(offset), descriptor);
  if (!sent.ok()) return Throw(env, sent.error());
  if (!sent.value().has_value()) return Napi::Number::New(env, kTryAgain);
  return Napi::Number::New(env, static_cast<double>(*sent.value()));
}

// (fd, target, offset, keep, is admitted, owner) => the bytes and descriptors received;
// undefined: none yet. `keep`: a single descriptor of sealed memory is kept and returned as
// `descriptor`; a thread closes all others. `is admitted`: the peer may send descriptors.
// `owner`: see os/workers.h.
Napi::Value Receive(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const std::span<std::uint8_t> target = arguments.Bytes(1);
  const auto size = static_cast<std::int64_t>(target.size());
  const auto offset = static_cast<std::size_t>(arguments.Integer(2, 0, size));
  const bool keep = info[3].IsBoolean() && info[3].As<Napi::Boolean>().Value();
  const bool is_admitted = info[4].IsBoolean() && info[4].As<Napi::Boolean>().Value();
  const Owner owner = OwnerAt(arguments, 5);
  if (!arguments.ok()) return env.Undefined();
  ReceivedCloser& closer = State(env).received_closer;
  // Too many descriptors wait to be closed: an owner that may send descriptors is not received
  // from, since the kernel would close them on this thread. Other owners are received from.
  const bool is_full = !closer.HasPlaceFor(owner);
  if (is_full && is_admitted) return Throw(env, Error{EMFILE, "recvmsg"});
  auto result = ReceiveBytes(fd, target.subspan(offset), !is_full);
  if (!result.ok()) return Throw(env, result.error());
  if (!result.value().has_value()) return env.Undefined();
  Received& received = *result.value();
  const bool is_alone =
      received.descriptors.size() == 1 && !received.is_truncated && !received.has_other_control;
  const bool is_kept = keep && is_alone && IsSealedMemory(received.descriptors.front().get());
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", static_cast<double>(received.bytes));
  object.Set("descriptors", static_cast<double>(received.descriptors.size()));
  object.Set("isTruncated", received.is_truncated);
  object.Set("hasOtherControl", received.has_other_control);
  object.Set("senderPid", received.sender_pid);
  if (is_kept) {
    object.Set("descriptor", State(env).Receive(std::move(received.descriptors.front())));
  } else if (!received.descriptors.empty()) {
    closer.Close(owner, std::move(received.descriptors));
  }
  return object;
}

// (fd, owner) => a listening Unix socket that came with one byte; -1: no byte yet. EPROTO where
// something else came, which a thread closes.
Napi::Value ReceiveListening(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const Owner owner = OwnerAt(arguments, 1);
  if (!arguments.ok()) return env.Undefined();
  std::uint8_t byte = 0;
  auto result = ReceiveBytes(fd, std::span(&byte, 1), true);
  if (!result.ok()) return Throw(env, result.error());
  if (!result.value().has_value()) return Napi::Number::New(env, kTryAgain);
  Received& received = *result.value();
  const bool is_alone =
      received.descriptors.size() == 1 && !received.is_truncated && !received.has_other_control;
  if (is_alone && IsListening(received.descriptors.front().get())) {
    return Napi::Number::New(env, State(env).Own(std::move(received.descriptors.front())));
  }
  State(env).received_closer.Close(owner, std::move(received.descriptors));
  return Throw(env, Error{EPROTO, "recvmsg"});
}

// (Int32Array, count, may yield): each of the first `count` numbers, a descriptor, becomes 1
// (readable) or 0.
Napi::Value Mark(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::span<std::int32_t> all = arguments.Integers(0);
  const auto size = static_cast<std::int64_t>(all.size());
  const auto count = static_cast<std::size_t>(arguments.Integer(1, 0, size));
  if (!arguments.ok()) return info.Env().Undefined();
  const bool may_yield = info[2].IsBoolean() && info[2].As<Napi::Boolean>().Value();
  return FromDone(info.Env(), MarkReadable(all.first(count), may_yield));
}

Napi::Value Queued(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto queued = QueuedBytes(fd);
  if (!queued.ok()) return Throw(info.Env(), queued.error());
  return Napi::Number::New(info.Env(), static_cast<double>(queued.value()));
}

Napi::Value PeerClosed(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto is_closed = IsPeerClosed(fd);
  if (!is_closed.ok()) return Throw(info.Env(), is_closed.error());
  return Napi::Boolean::New(info.Env(), is_closed.value());
}

Napi::Value Ask(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const bool is_wanted = info[1].IsBoolean() && info[1].As<Napi::Boolean>().Value();
  if (!arguments.ok()) return info.Env().Undefined();
  return Napi::Boolean::New(info.Env(), AskForSender(fd, is_wanted));
}

Napi::Value Refuse(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto refused = RefuseDescriptors(fd);
  if (!refused.ok()) return Throw(info.Env(), refused.error());
  return Napi::Boolean::New(info.Env(), refused.value());
}

// (fd, bytes): asks for buffers of this size.
Napi::Value SetBuffers(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const auto bytes = static_cast<std::uint32_t>(arguments.Integer(1, 1, 0x7fffffff));
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), SetSocketBuffers(fd, bytes));
}

// (fd) => { send, receive }, in bytes.
Napi::Value ReadBuffers(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  const auto buffers = ReadSocketBuffers(fd);
  if (!buffers.ok()) return Throw(env, buffers.error());
  Napi::Object object = Napi::Object::New(env);
  object.Set("send", buffers.value().send);
  object.Set("receive", buffers.value().receive);
  return object;
}

Napi::Value Admit(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto admitted = AdmitDescriptors(fd);
  if (!admitted.ok()) return Throw(info.Env(), admitted.error());
  return Napi::Boolean::New(info.Env(), admitted.value());
}

// (fd) => number of a watch, which `listenForEnds` reports once the peer's process has ended; 0:
// the process cannot be watched here, or has ended already.
Napi::Value WatchEnd(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  Environment& state = State(env);
  state.last_watch = state.last_watch == 0xffff'ffff ? 1 : state.last_watch + 1;
  const auto added = state.end_watch.Add(fd, state.last_watch);
  if (!added.ok()) return Throw(env, added.error());
  return Napi::Number::New(env, added.value() ? state.last_watch : 0);
}

Napi::Value ForgetEnd(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto number = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  if (arguments.ok()) State(info.Env()).end_watch.Remove(number);
  return info.Env().Undefined();
}

}  // namespace

void ExportSocket(Napi::Env env, Napi::Object exports) {
  exports.Set("socketPathMaxBytes", static_cast<double>(SocketPathMaxBytes()));
  exports.Set("peerCredentials", Napi::Function::New<Credentials>(env));
  exports.Set("peerIds", Napi::Function::New<Ids>(env));
  exports.Set("socketPair", Napi::Function::New<Pair>(env));
  exports.Set("bindSocket", Napi::Function::New<Bind>(env));
  exports.Set("listenOn", Napi::Function::New<Listen>(env));
  exports.Set("watchEnd", Napi::Function::New<WatchEnd>(env));
  exports.Set("forgetEnd", Napi::Function::New<ForgetEnd>(env));
  ExportListen(env, exports, "listenForEnds", State(env).ends);
  exports.Set("isSocketHeld", Napi::Function::New<IsHeld>(env));
  exports.Set("acceptSocket", Napi::Function::New<Accept>(env));
  exports.Set("connectSocket", Napi::Function::New<Connect>(env));
  exports.Set("send", Napi::Function::New<Send>(env));
  exports.Set("receive", Napi::Function::New<Receive>(env));
  exports.Set("receiveListening", Napi::Function::New<ReceiveListening>(env));
  exports.Set("markReadable", Napi::Function::New<Mark>(env));
  exports.Set("queuedBytes", Napi::Function::New<Queued>(env));
  exports.Set("isPeerClosed", Napi::Function::New<PeerClosed>(env));
  exports.Set("askForSender", Napi::Function::New<Ask>(env));
  exports.Set("setSocketBuffers", Napi::Function::New<SetBuffers>(env));
  exports.Set("readSocketBuffers", Napi::Function::New<ReadBuffers>(env));
  exports.Set("refuseDescriptors", Napi::Function::New<Refuse>(env));
  exports.Set("admitDescriptors", Napi::Function::New<Admit>(env));
}

}  // namespace sidecall
