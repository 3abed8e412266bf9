// SPDX-License-Identifier: MIT
// The functions of a ring that are called for each frame and each turn.
#include "binding/exports.h"
#include "binding/ring_call.h"

namespace sidecall {
namespace {

// 0: any frame, 1: a piece of a long message, 2: the same beside short messages.
Ring::Queue QueueOf(std::uint32_t number) noexcept {
  if (number == 0) return Ring::Queue::kAny;
  return number == 1 ? Ring::Queue::kBulk : Ring::Queue::kShared;
}

// (ring, staged bytes, queue): a whole frame lies in the staging memory.
napi_value WriteStaged(napi_env env, napi_callback_info info) {
  const RingCall<3> call(env, info);
  const std::uint32_t bytes = call.Number(1);
  if (call.ring() == nullptr || bytes > call.exchange().staged.size()) return call.Return(kRefused);
  const auto frame = call.exchange().staged.first(bytes);
  return call.ReturnWritten(call.ring()->Write(frame, {}, QueueOf(call.Number(2))));
}

// (ring, staged header bytes, payload, queue): the payload goes
// from its own memory into the ring.
napi_value WriteBytes(napi_env env, napi_callback_info info) {
  const RingCall<4> call(env, info);
  const std::uint32_t header_bytes = call.Number(1);
  const std::span<std::uint8_t> payload = call.Bytes(2);
  if (call.ring() == nullptr || header_bytes > call.exchange().staged.size()) {
    return call.Return(kRefused);
  }
  const auto header = call.exchange().staged.first(header_bytes);
  return call.ReturnWritten(call.ring()->Write(header, payload, QueueOf(call.Number(3))));
}

// (ring): publishes. kFull: the kernel had no memory for a doorbell, or the ring no room for
// released leases, and the caller has to try again.
napi_value Publish(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Publish();
  const bool owes = call.ring()->owes_doorbell() || call.ring()->owes_releases();
  return call.Return(owes ? kFull : kWritten);
}

// (ring, records at most, looks before it gives up) =>
// a Consumer::State as its number, or corrupt.
napi_value Drain(napi_env env, napi_callback_info info) {
  const RingCall<3> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Linger(call.Number(2));
  const Consumer::Drained drained = call.ring()->Drain(call.exchange().slab, call.Number(1));
  if (drained.state == Consumer::State::kCorrupt) return call.Return(kCorrupt);
  call.Set(Register::kFilled, drained.filled);
  call.Set(Register::kLargeBytes, drained.large_payload_bytes);
  call.Set(Register::kRecords, std::uint64_t{drained.records});
  return call.Return(static_cast<std::int32_t>(drained.state));
}

// (ring, bytes to skip, target): the large record, straight to its final place.
napi_value Take(napi_env env, napi_callback_info info) {
  const RingCall<3> call(env, info);
  const std::uint32_t skip = call.Number(1);
  const std::span<std::uint8_t> target = call.Bytes(2);
  const bool fits = call.ring() != nullptr && !call.ring()->is_corrupt() &&
                    skip <= Consumer::kHeadBytes && !target.empty() &&
                    skip + target.size() == call.ring()->consumer().large_payload_bytes();
  if (!fits) return call.Return(kRefused);
  call.ring()->Take(skip, target);
  return call.Return(kWritten);
}

// (ring) => kWritten: there is room for a frame that was refused; kFull: there is none yet.
napi_value HasRoom(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const bool has_room = call.ring()->HasRoom();
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : has_room ? kWritten : kFull);
}

// (ring) => asleep?
napi_value PrepareToSleep(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const bool is_asleep = call.ring()->PrepareToSleep();
  call.Set(Register::kOwesDoorbell, std::uint64_t{call.ring()->owes_doorbell() ? 1u : 0u});
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : is_asleep ? kWritten : kFull);
}

// (ring)
napi_value Wake(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Wake();
  return call.Return(kWritten);
}

// (ring, doorbells received) => kCorrupt: more doorbells than sleeps that were announced.
napi_value OnDoorbell(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  return call.Return(call.ring()->OnDoorbell(call.Number(1)) ? kWritten : kCorrupt);
}

// (ring): doorbells sent, received and suppressed, in registers.
napi_value CountDoorbells(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const auto& counts = call.ring()->doorbell_counts();
  call.Set(Register::kBlock, counts.sent);
  call.Set(Register::kBlockBytes, call.ring()->doorbells_received());
  call.Set(Register::kRecords, counts.suppressed);
  return call.Return(kWritten);
}

// (ring): unread bytes of our outbox and of the peer's, and the most that were ever unread in the
// peer's, in registers.
napi_value CountMemory(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.Set(Register::kBlock, call.ring()->UnreadByPeer());
  call.Set(Register::kBlockBytes, call.ring()->consumer().unread());
  call.Set(Register::kRecords, call.ring()->consumer().high_water());
  return call.Return(kWritten);
}

// (ring): the peer is gone; records that are published later are not read.
napi_value Freeze(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Freeze();
  call.Set(Register::kSeen, call.ring()->producer().seen());
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : kWritten);
}

struct Named {
  const char* name;
  std::int32_t value;
};

template <std::size_t kCount>
void SetNumbers(napi_env env, napi_value target, const char* name, const Named (&numbers)[kCount]) {
  napi_value object = nullptr;
  napi_create_object(env, &object);
  for (const Named& number : numbers) {
    napi_value value = nullptr;
    napi_create_int32(env, number.value, &value);
    napi_set_named_property(env, object, number.name, value);
  }
  napi_set_named_property(env, target, name, object);
}

// The numbers that these functions return, and the registers. src/shm/ring.ts has them as constants
// of its own, which the compiler puts in their place; test/shm/ring.test.ts compares the two.
void ExportNumbers(napi_env env, napi_value exports) {
  napi_value all = nullptr;
  napi_create_object(env, &all);
  SetNumbers(
      env, all, "written",
      {{"written", kWritten}, {"full", kFull}, {"corrupt", kCorrupt}, {"refused", kRefused}});
  using State = Consumer::State;
  SetNumbers(env, all, "left",
             {{"nothing", static_cast<std::int32_t>(State::kEmpty)},
              {"more", static_cast<std::int32_t>(State::kMore)},
              {"large", static_cast<std::int32_t>(State::kLarge)},
              {"block", static_cast<std::int32_t>(State::kBlock)},
              {"corrupt", kCorrupt}});
  SetNumbers(env, all, "register",
             {{"filled", static_cast<std::int32_t>(Register::kFilled)},
              {"largeBytes", static_cast<std::int32_t>(Register::kLargeBytes)},
              {"records", static_cast<std::int32_t>(Register::kRecords)},
              {"written", static_cast<std::int32_t>(Register::kWritten)},
              {"seen", static_cast<std::int32_t>(Register::kSeen)},
              {"owesDoorbell", static_cast<std::int32_t>(Register::kOwesDoorbell)},
              {"block", static_cast<std::int32_t>(Register::kBlock)},
              {"blockBytes", static_cast<std::int32_t>(Register::kBlockBytes)},
              {"blockOffset", static_cast<std::int32_t>(Register::kBlockOffset)}});
  napi_set_named_property(env, exports, "ringNumbers", all);
}

}  // namespace

void ExportRingFrames(napi_env env, napi_value exports) {
  ExportNumbers(env, exports);
  const Exporter add(env, exports);
  add("ringWriteStaged", WriteStaged);
  add("ringWriteBytes", WriteBytes);
  add("ringPublish", Publish);
  add("ringDrain", Drain);
  add("ringTake", Take);
  add("ringHasRoom", HasRoom);
  add("ringPrepareToSleep", PrepareToSleep);
  add("ringWake", Wake);
  add("ringOnDoorbell", OnDoorbell);
  add("ringFreeze", Freeze);
  add("ringCountDoorbells", CountDoorbells);
  add("ringCountMemory", CountMemory);
}

}  // namespace sidecall
