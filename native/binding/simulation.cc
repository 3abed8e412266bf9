// SPDX-License-Identifier: MIT
// Rings whose two ends are in this process, for simulations: the same code over the same bytes, but
// no socket, and no thread.
#include <cstring>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"

namespace sidecall {
namespace {

RingEntry* EntryAt(const Napi::CallbackInfo& info, Arguments& arguments, std::size_t index) {
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(index, 0, 0xffff'ffff));
  if (!arguments.ok()) return nullptr;
  RingEntry* const entry = State(info.Env()).rings.Find(handle);
  if (entry == nullptr) {
    Napi::TypeError::New(info.Env(), "no such ring").ThrowAsJavaScriptException();
  }
  return entry;
}

void Join(RingEntry& entry) {
  auto bell = std::make_unique<CountedDoorbell>();
  entry.counted_bell = bell.get();
  entry.bell = std::move(bell);
  entry.ring.emplace(Ring::Memory{.mine = entry.mine->control(),
                                  .my_data = entry.mine->data(),
                                  .my_capacity = entry.my_shape.capacity_bytes,
                                  .peer = entry.peer->control(),
                                  .peer_data = entry.peer->data(),
                                  .peer_capacity = entry.peer_shape.capacity_bytes,
                                  .my_block_area = entry.my_shape.block_area_bytes,
                                  .peer_block_area = entry.peer_shape.block_area_bytes},
                     *entry.bell);
}

// (ring, ring, capacity, block area): makes both outboxes of each, and joins them. Each of the two
// has both areas for blocks, where `block area` is not 0.
Napi::Value JoinOwn(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const near = EntryAt(info, arguments, 0);
  RingEntry* const far = near == nullptr ? nullptr : EntryAt(info, arguments, 1);
  OutboxShape shape;
  shape.capacity_bytes =
      static_cast<std::uint64_t>(arguments.Integer(2, 0, static_cast<std::int64_t>(kCapacityMax)));
  shape.block_area_bytes =
      static_cast<std::uint64_t>(arguments.Integer(3, 0, static_cast<std::int64_t>(kBlockAreaMax)));
  if (!arguments.ok() || near == nullptr || far == nullptr) return env.Undefined();
  const bool are_new = near != far && !near->ring.has_value() && !far->ring.has_value() &&
                       !near->mine->memory.is_mapped() && !far->mine->memory.is_mapped();
  const bool is_shape = IsCapacity(shape.capacity_bytes) && IsBlockArea(shape.block_area_bytes);
  if (!are_new || !is_shape || State(env).rings.exchange.slab.empty()) {
    return Throw(env, Error{EINVAL, "joinOwnRings"});
  }
  for (RingEntry* const entry : {near, far}) {
    auto made = CreateOutbox(shape, MemoryShare());
    if (!made.ok()) return Throw(env, made.error());
    *entry->mine = std::move(made.value());
    entry->my_shape = shape;
    entry->peer_shape = shape;
  }
  *near->peer = MapOwnOutbox(*far->mine);
  *far->peer = MapOwnOutbox(*near->mine);
  if (!near->peer->ok() || !far->peer->ok()) return Throw(env, Error{ENOMEM, "mmap"});
  for (RingEntry* const entry : {near, far}) {
    entry->mine->descriptor.Reset();
    Join(*entry);
  }
  return env.Undefined();
}

// (ring, refuse) => doorbells that the ring has rung since the last call; 0 once it is closed.
// `refuse`: further ones fail as if the kernel had no memory for them.
Napi::Value TakeDoorbells(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  const bool is_refused = info[1].IsBoolean() && info[1].As<Napi::Boolean>().Value();
  if (!arguments.ok()) return info.Env().Undefined();
  RingEntry* const entry = State(info.Env()).rings.Find(handle);
  if (entry == nullptr || entry->counted_bell == nullptr) return Napi::Number::New(info.Env(), 0);
  entry->counted_bell->is_refused = is_refused;
  return Napi::Number::New(info.Env(), std::exchange(entry->counted_bell->rung, 0));
}

// (ring, offset, bytes) => the part of the ring's own outbox from `offset` on, as long as `bytes`.
// Empty, and an exception is pending: the arguments do not fit.
std::span<std::byte> PartOfOutbox(const Napi::CallbackInfo& info, Arguments& arguments,
                                  std::span<std::uint8_t> bytes) {
  RingEntry* const entry = EntryAt(info, arguments, 0);
  const auto offset = static_cast<std::size_t>(arguments.Integer(1, 0, 0x7fff'ffff));
  if (!arguments.ok() || entry == nullptr) return {};
  const std::size_t size = entry->counted_bell == nullptr ? 0 : entry->mine->memory.size();
  if (offset > size || bytes.size() > size - offset) {
    Throw(info.Env(), Error{ERANGE, "outbox"});
    return {};
  }
  return {entry->mine->memory.data() + offset, bytes.size()};
}

// (ring, offset, bytes): a store of an incorrect process into its own outbox.
Napi::Value Overwrite(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::span<std::uint8_t> bytes = arguments.Bytes(2);
  const auto part = PartOfOutbox(info, arguments, bytes);
  if (!part.empty()) std::memcpy(part.data(), bytes.data(), part.size());
  return info.Env().Undefined();
}

// (ring, offset, bytes): copies a part of the ring's own outbox into `bytes`.
Napi::Value ReadOwn(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::span<std::uint8_t> bytes = arguments.Bytes(2);
  const auto part = PartOfOutbox(info, arguments, bytes);
  if (!part.empty()) std::memcpy(bytes.data(), part.data(), part.size());
  return info.Env().Undefined();
}

}  // namespace

void ExportSimulation(Napi::Env env, Napi::Object exports) {
  exports.Set("joinOwnRings", Napi::Function::New<JoinOwn>(env));
  exports.Set("takeDoorbells", Napi::Function::New<TakeDoorbells>(env));
  exports.Set("overwriteOutbox", Napi::Function::New<Overwrite>(env));
  exports.Set("readOutbox", Napi::Function::New<ReadOwn>(env));
}

}  // namespace sidecall
