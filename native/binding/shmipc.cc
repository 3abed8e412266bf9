// SPDX-License-Identifier: MIT
// Sessions with programs that use shmipc-go: the handshake on a thread, then messages out and in.
#include <string>
#include <utility>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "os/descriptor.h"

namespace sidecall {

#if SIDECALL_HAS_SHMIPC
namespace {

// Results of `shmipcSend`.
constexpr int kShmipcSent = 0;
constexpr int kShmipcSentAndWake = 1;
constexpr int kShmipcFull = 2;
constexpr int kShmipcNoMemory = 3;

std::uint32_t ShmipcNumberAt(Arguments& arguments, std::size_t index) {
  return static_cast<std::uint32_t>(arguments.Integer(index, 0, 0xffff'ffff));
}

ShmipcEntry* ShmipcEntryOf(const Napi::CallbackInfo& info, Arguments& arguments) {
  const std::uint32_t number = ShmipcNumberAt(arguments, 0);
  return arguments.ok() ? State(info.Env()).shmipc.Find(number) : nullptr;
}

// The open session of the first argument; where there is none, an error is thrown.
shmipc::Session* ShmipcSessionOf(const Napi::CallbackInfo& info, Arguments& arguments) {
  ShmipcEntry* const entry = ShmipcEntryOf(info, arguments);
  if (entry != nullptr && entry->session != nullptr) return entry->session.get();
  if (arguments.ok()) Throw(info.Env(), Error{EINVAL, "shmipc"});
  return nullptr;
}

// Runs `meet` on a thread, with a descriptor of its own, since the socket may be closed meanwhile.
template <typename Meet>
Napi::Value BeginShmipc(Napi::Env env, int fd, Owner owner, Meet meet) {
  Environment& state = State(env);
  auto own = DuplicateDescriptor(fd);
  if (!own.ok()) return Throw(env, own.error());
  if (!state.shmipc.workers.HasThread()) return Throw(env, Error{EAGAIN, "pthread_create"});
  const std::uint32_t number = state.shmipc.Open();
  state.shmipc.Find(number)->meeting = MakeOnThread<shmipc::Met>(
      state.shmipc.workers, owner,
      [kept = std::move(own.value()), meet = std::move(meet)]() mutable {
        shmipc::Met met = meet(kept.get());
        kept.Reset();
        return met;
      },
      [listeners = state.shmipc.listeners, number] { listeners->Tell(number); });
  return Napi::Number::New(env, number);
}

// (fd, owner, timeout, directory, uid, most bytes of memory) => number of the session, whose
// handshake has begun as the server.
Napi::Value ShmipcAccept(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const Owner owner = OwnerAt(arguments, 1);
  shmipc::AcceptSettings settings;
  settings.timeout = std::chrono::milliseconds(arguments.Integer(2, 1, 600'000));
  settings.directory = arguments.Text(3);
  settings.uid = ShmipcNumberAt(arguments, 4);
  settings.memory_max_bytes = static_cast<std::uint64_t>(
      arguments.Integer(5, 0, static_cast<std::int64_t>(shmipc::kPoolMaxBytes)));
  if (!arguments.ok()) return info.Env().Undefined();
  return BeginShmipc(info.Env(), fd, owner,
                     [settings](int own) { return shmipc::Accept(own, settings); });
}

// (fd, owner, timeout, elements of a queue, bytes of buffers) => number of the session, whose
// handshake has begun as the client.
Napi::Value ShmipcConnect(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const Owner owner = OwnerAt(arguments, 1);
  shmipc::ConnectSettings settings;
  settings.timeout = std::chrono::milliseconds(arguments.Integer(2, 1, 600'000));
  settings.queue_capacity =
      static_cast<std::uint32_t>(arguments.Integer(3, 1, shmipc::kQueueCapacityMax));
  settings.buffer_bytes = static_cast<std::uint64_t>(arguments.Integer(
      4, shmipc::kPoolMinBytes, static_cast<std::int64_t>(shmipc::kPoolMaxBytes)));
  if (!arguments.ok()) return info.Env().Undefined();
  return BeginShmipc(info.Env(), fd, owner,
                     [settings](int own) { return shmipc::Connect(own, settings); });
}

const char* ShmipcNameOf(shmipc::Met::Outcome outcome) {
  switch (outcome) {
    case shmipc::Met::Outcome::kMet: break;
    case shmipc::Met::Outcome::kViolation: return "violation";
    case shmipc::Met::Outcome::kVersion: return "version";
    case shmipc::Met::Outcome::kSystem: return "system";
    case shmipc::Met::Outcome::kTimeout: return "timeout";
    case shmipc::Met::Outcome::kGone: return "gone";
  }
  return "met";
}

// (session) => undefined: the handshake is under way; { outcome, what, version, capacityBytes }.
Napi::Value ShmipcTake(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  ShmipcEntry* const entry = ShmipcEntryOf(info, arguments);
  if (entry == nullptr || entry->meeting == nullptr) {
    return arguments.ok() ? Throw(env, Error{EINVAL, "shmipcTake"}) : env.Undefined();
  }
  auto met = entry->meeting->Take();
  if (!met.has_value()) return env.Undefined();
  entry->meeting.reset();
  entry->session = std::move(met->session);
  Napi::Object object = Napi::Object::New(env);
  object.Set("outcome", ShmipcNameOf(met->outcome));
  object.Set("what", met->what);
  object.Set("version", met->version);
  const double capacity =
      entry->session == nullptr ? 0 : static_cast<double>(entry->session->capacity());
  object.Set("capacityBytes", capacity);
  return object;
}

// The number of a result of sending; EBADMSG is thrown for corrupt memory.
Napi::Value FromSent(Napi::Env env, shmipc::Session& session, shmipc::Session::Sent sent) {
  int number = kShmipcSent;
  switch (sent) {
    case shmipc::Session::Sent::kDone: break;
    case shmipc::Session::Sent::kDoneAndWake: number = kShmipcSentAndWake; break;
    case shmipc::Session::Sent::kFull: number = kShmipcFull; break;
    case shmipc::Session::Sent::kNoMemory: number = kShmipcNoMemory; break;
    case shmipc::Session::Sent::kCorrupt: return Throw(env, Error{EBADMSG, session.fault()});
  }
  return Napi::Number::New(env, number);
}

// (session, stream, bytes)
Napi::Value ShmipcSend(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  shmipc::Session* const session = ShmipcSessionOf(info, arguments);
  const std::uint32_t stream = ShmipcNumberAt(arguments, 1);
  const std::span<std::uint8_t> bytes = arguments.Bytes(2);
  if (!arguments.ok() || session == nullptr) return info.Env().Undefined();
  if (bytes.empty()) return Throw(info.Env(), Error{EINVAL, "shmipcSend"});
  return FromSent(info.Env(), *session, session->Send(stream, bytes));
}

// (session, stream)
Napi::Value ShmipcSendClose(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  shmipc::Session* const session = ShmipcSessionOf(info, arguments);
  const std::uint32_t stream = ShmipcNumberAt(arguments, 1);
  if (!arguments.ok() || session == nullptr) return info.Env().Undefined();
  return FromSent(info.Env(), *session, session->SendClose(stream));
}

// (session, bytes of a part, bytes in all) => { isIdle, received, parts: [stream, status, bytes or
// undefined, …] }. `received`: messages that were received whole, ever. `isIdle`: all was, and the
// peer sends an event with the next one.
Napi::Value ShmipcReceive(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  shmipc::Session* const session = ShmipcSessionOf(info, arguments);
  const auto part_max = static_cast<std::size_t>(arguments.Integer(1, 1, 0x7fff'ffff));
  const auto all_max = static_cast<std::size_t>(arguments.Integer(2, 1, 0x7fff'ffff));
  if (!arguments.ok() || session == nullptr) return env.Undefined();
  constexpr std::uint32_t kPartsMax = 1024;
  constexpr std::size_t kPieceCost = 64;  // an empty slice takes time, too
  Napi::Array parts = Napi::Array::New(env);
  bool is_idle = false;
  std::uint32_t at = 0;
  for (std::size_t bytes = 0; bytes < all_max && at < 3 * kPartsMax;) {
    shmipc::Session::Received received;
    const auto next = session->Receive(part_max, received);
    if (next == shmipc::Session::Next::kCorrupt) {
      return Throw(env, Error{EBADMSG, session->fault()});
    }
    is_idle = next == shmipc::Session::Next::kNone;
    if (is_idle) break;
    parts[at++] = Napi::Number::New(env, received.stream);
    parts[at++] = Napi::Number::New(env, received.status);
    if (next == shmipc::Session::Next::kStreamClosed) {
      parts[at++] = env.Undefined();
      continue;
    }
    auto buffer = Napi::Buffer<std::uint8_t>::New(env, received.bytes);
    if (env.IsExceptionPending()) return env.Undefined();
    if (!session->Take({buffer.Data(), buffer.Length()})) {
      return Throw(env, Error{EBADMSG, session->fault()});
    }
    parts[at++] = buffer;
    bytes += received.bytes + received.pieces * kPieceCost;
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("isIdle", is_idle);
  object.Set("received", static_cast<double>(session->received()));
  object.Set("parts", parts);
  return object;
}

// (session) => messages that the peer has put into its queue, ever.
Napi::Value ShmipcCountPut(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  shmipc::Session* const session = ShmipcSessionOf(info, arguments);
  if (session == nullptr) return env.Undefined();
  std::int64_t put = 0;
  if (!session->CountPut(put)) return Throw(env, Error{EBADMSG, session->fault()});
  return Napi::Number::New(env, static_cast<double>(put));
}

// (session) => { consumed, isConsumed, freeBytes }: `consumed` counts the elements that the peer
// has taken, as of the last send.
Napi::Value ShmipcProgress(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  shmipc::Session* const session = ShmipcSessionOf(info, arguments);
  if (session == nullptr) return env.Undefined();
  shmipc::Session::Progress progress;
  if (!session->Look(progress)) return Throw(env, Error{EBADMSG, session->fault()});
  Napi::Object object = Napi::Object::New(env);
  object.Set("consumed", static_cast<double>(progress.consumed));
  object.Set("isConsumed", progress.is_consumed);
  object.Set("freeBytes", static_cast<double>(progress.free_bytes));
  return object;
}

// (session): gives its memory back, on a thread; a second call does nothing.
Napi::Value ShmipcClose(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::uint32_t number = ShmipcNumberAt(arguments, 0);
  if (arguments.ok()) State(info.Env()).shmipc.Close(number);
  return info.Env().Undefined();
}

}  // namespace

void ExportShmipc(Napi::Env env, Napi::Object exports) {
  exports.Set("shmipcAccept", Napi::Function::New<ShmipcAccept>(env));
  exports.Set("shmipcConnect", Napi::Function::New<ShmipcConnect>(env));
  exports.Set("shmipcTake", Napi::Function::New<ShmipcTake>(env));
  exports.Set("shmipcSend", Napi::Function::New<ShmipcSend>(env));
  exports.Set("shmipcSendClose", Napi::Function::New<ShmipcSendClose>(env));
  exports.Set("shmipcReceive", Napi::Function::New<ShmipcReceive>(env));
  exports.Set("shmipcCountPut", Napi::Function::New<ShmipcCountPut>(env));
  exports.Set("shmipcProgress", Napi::Function::New<ShmipcProgress>(env));
  exports.Set("shmipcClose", Napi::Function::New<ShmipcClose>(env));
  ExportListen(env, exports, "listenForShmipc", State(env).shmipc.listeners);
}
#else
// The addon has no such functions here, and JavaScript says so.
void ExportShmipc(Napi::Env, Napi::Object) {}
#endif

}  // namespace sidecall
