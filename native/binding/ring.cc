// SPDX-License-Identifier: MIT
// Making, accepting and joining outboxes: what happens once per connection.
#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "os/allocator.h"
#include "os/descriptor.h"

namespace sidecall {
namespace {

constexpr double kShareMaxBytes = 64.0 * 1024 * 1024 * 1024;

Environment& State(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

RingEntry* Entry(const Napi::CallbackInfo& info, Arguments& arguments) {
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  if (!arguments.ok()) return nullptr;
  RingEntry* const entry = State(info.Env()).rings.Find(handle);
  if (entry == nullptr) {
    Napi::TypeError::New(info.Env(), "no such ring").ThrowAsJavaScriptException();
  }
  return entry;
}

// (…, capacity, block area, nonce) from argument `first` on.
OutboxShape Shape(Arguments& arguments, std::size_t first) {
  OutboxShape shape;
  shape.capacity_bytes = static_cast<std::uint64_t>(
      arguments.Integer(first, 0, static_cast<std::int64_t>(kCapacityMax)));
  shape.block_area_bytes = static_cast<std::uint64_t>(
      arguments.Integer(first + 1, 0, static_cast<std::int64_t>(kBlockAreaMax)));
  const std::span<std::uint8_t> nonce = arguments.Bytes(first + 2);
  if (arguments.ok() && nonce.size() == kNonceBytes) {
    std::memcpy(shape.nonce, nonce.data(), kNonceBytes);
  }
  return shape;
}

bool IsShape(const OutboxShape& shape) {
  return IsCapacity(shape.capacity_bytes) && IsBlockArea(shape.block_area_bytes);
}

// The memory that per-frame calls go through, made once per environment and held to its end.
Napi::Value GetExchange(const Napi::CallbackInfo& info) {
  constexpr std::size_t kSlabBytes = 128 * 1024;
  constexpr std::size_t kStagedBytes = 72 * 1024;
  static_assert(kSlabBytes >= Consumer::kSlabMinBytes && kStagedBytes >= kRecordMaxBytes);
  const Napi::Env env = info.Env();
  RingTable& rings = State(env).rings;
  if (rings.exchange_object.IsEmpty()) {
    auto slab = Napi::Uint8Array::New(env, kSlabBytes);
    auto staged = Napi::Uint8Array::New(env, kStagedBytes);
    auto registers = Napi::Float64Array::New(env, static_cast<std::size_t>(Register::kCount));
    Napi::Object object = Napi::Object::New(env);
    object.Set("slab", slab);
    object.Set("staged", staged);
    object.Set("registers", registers);
    rings.exchange = {{slab.Data(), slab.ByteLength()},
                      {staged.Data(), staged.ByteLength()},
                      {registers.Data(), registers.ElementLength()}};
    rings.exchange_object = Napi::Persistent(object);
  }
  return rings.exchange_object.Value();
}

Napi::Value Open(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), State(info.Env()).rings.Open());
}

// Twice is once: whatever half of a connection was made, it is given back. What leases are over
// stays mapped until they were collected.
Napi::Value Close(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  if (arguments.ok()) State(info.Env()).rings.Close(info.Env(), handle);
  return info.Env().Undefined();
}

// (ring, capacity, block area, nonce, share) => descriptor to send, or -1: the share is used up.
Napi::Value Create(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const OutboxShape shape = Shape(arguments, 1);
  const auto share = static_cast<std::uint64_t>(
      arguments.Integer(4, 0, static_cast<std::int64_t>(kShareMaxBytes)));
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  if (!IsShape(shape) || entry->mine->memory.is_mapped()) {
    return Throw(env, Error{EINVAL, "createOutbox"});
  }
  auto outbox = CreateOutbox(shape, share);
  if (!outbox.ok()) return Throw(env, outbox.error());
  if (!outbox.value().has_value()) return Napi::Number::New(env, -1);
  *entry->mine = std::move(*outbox.value());
  entry->my_shape = shape;
  return Napi::Number::New(env, State(env).Own(std::move(entry->mine->descriptor)));
}

// (ring, descriptor received, capacity, block area, nonce) => undefined, or { isViolation, what }.
Napi::Value Accept(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const int number = arguments.Descriptor(1);
  const OutboxShape shape = Shape(arguments, 2);
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  auto node = State(env).received.extract(number);
  if (node.empty() || !IsShape(shape) || entry->peer->ok()) {
    return Throw(env, Error{EINVAL, "acceptOutbox"});
  }
  UniqueFd descriptor = std::move(node.mapped());
  *entry->peer = AcceptOutbox(descriptor.get(), shape);
  entry->peer_shape = shape;
  if (entry->peer->ok()) return env.Undefined();  // sealed memory: closing it here cannot block
  State(env).CloseStranger(std::move(descriptor));
  const OutboxRefusal& refusal = entry->peer->refusal;
  Napi::Object object = Napi::Object::New(env);
  object.Set("isViolation", refusal.is_violation);
  std::string what = refusal.what;
  if (refusal.number != 0) what.append(": ").append(std::strerror(refusal.number));
  object.Set("what", what);
  return object;
}

// (descriptor received): it is not wanted.
Napi::Value Drop(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int number = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  auto node = State(info.Env()).received.extract(number);
  if (!node.empty()) State(info.Env()).CloseStranger(std::move(node.mapped()));
  return info.Env().Undefined();
}

// (descriptor): a socket on which a peer may have queued descriptors whose close blocks.
Napi::Value CloseStranger(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int number = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  auto node = State(info.Env()).owned.extract(number);
  if (!node.empty()) State(info.Env()).CloseStranger(std::move(node.mapped()));
  return info.Env().Undefined();
}

Napi::Value HasCloserRoom(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), State(info.Env()).strangers.has_room());
}

// (ring, socket, may lend, may borrow): both outboxes are there; from now on frames can go. The
// last two: are messages in the block area of ours, and of the peer's, agreed?
Napi::Value Join(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const int socket = arguments.Descriptor(1);
  const bool may_lend = info[2].IsBoolean() && info[2].As<Napi::Boolean>().Value();
  const bool may_borrow = info[3].IsBoolean() && info[3].As<Napi::Boolean>().Value();
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  const bool is_ready = entry->mine->memory.is_mapped() && entry->peer->ok() && !entry->ring;
  if (!is_ready || State(env).rings.exchange.slab.empty()) {
    return Throw(env, Error{EINVAL, "joinRing"});
  }
  auto duplicate = DuplicateDescriptor(socket);
  if (!duplicate.ok()) return Throw(env, duplicate.error());
  entry->bell.emplace(std::move(duplicate.value()));
  entry->ring.emplace(
      Ring::Memory{.mine = entry->mine->control(),
                   .my_data = entry->mine->data(),
                   .my_capacity = entry->my_shape.capacity_bytes,
                   .peer = entry->peer->control(),
                   .peer_data = entry->peer->data(),
                   .peer_capacity = entry->peer_shape.capacity_bytes,
                   .my_block_area = may_lend ? entry->my_shape.block_area_bytes : 0,
                   .peer_block_area = may_borrow ? entry->peer_shape.block_area_bytes : 0},
      *entry->bell);
  return env.Undefined();
}

Napi::Value KeepFreed(const Napi::CallbackInfo& info) {
  KeepFreedBlocks();
  return info.Env().Undefined();
}

Napi::Value ReservedBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(MemoryShare::ReservedBytes()));
}

}  // namespace

void ExportRing(Napi::Env env, Napi::Object exports) {
  exports.Set("ringExchange", Napi::Function::New<GetExchange>(env));
  exports.Set("openRing", Napi::Function::New<Open>(env));
  exports.Set("closeRing", Napi::Function::New<Close>(env));
  exports.Set("createOutbox", Napi::Function::New<Create>(env));
  exports.Set("acceptOutbox", Napi::Function::New<Accept>(env));
  exports.Set("dropReceived", Napi::Function::New<Drop>(env));
  exports.Set("closeStranger", Napi::Function::New<CloseStranger>(env));
  exports.Set("hasCloserRoom", Napi::Function::New<HasCloserRoom>(env));
  exports.Set("joinRing", Napi::Function::New<Join>(env));
  exports.Set("keepFreedBlocks", Napi::Function::New<KeepFreed>(env));
  exports.Set("ringMemoryBytes", Napi::Function::New<ReservedBytes>(env));
}

}  // namespace sidecall
