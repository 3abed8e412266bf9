// SPDX-License-Identifier: MIT
// What happens per frame and per turn. Plain Node-API; numbers in and out, and the payload itself
// where it is long or text; no object per call: the wrapper's conversions cost more than the work.
#include <node_api.h>

#include <array>
#include <limits>

#include "binding/environment.h"
#include "binding/exports.h"

namespace sidecall {
namespace {

// Results of the functions that write. src/shm/ring.ts has the same.
constexpr std::int32_t kWritten = 1;
constexpr std::int32_t kFull = 0;
constexpr std::int32_t kCorrupt = -1;
constexpr std::int32_t kRefused = -2;  // an argument that no caller of ours passes

template <std::size_t kCount>
class Call {
 public:
  Call(napi_env env, napi_callback_info info) noexcept : env_(env) {
    std::size_t count = kCount;
    napi_get_cb_info(env, info, &count, values_.data(), nullptr, nullptr);
    void* state = nullptr;
    napi_get_instance_data(env, &state);
    table_ = &static_cast<Environment*>(state)->rings;
    RingEntry* const entry = table_->Find(Number(0));
    ring_ = entry != nullptr && entry->ring.has_value() ? &*entry->ring : nullptr;
  }

  [[nodiscard]] Ring* ring() const noexcept { return ring_; }
  [[nodiscard]] const Exchange& exchange() const noexcept { return table_->exchange; }
  [[nodiscard]] napi_value value(std::size_t index) const noexcept { return values_[index]; }

  // The largest number where it is none: no check lets it through.
  [[nodiscard]] std::uint32_t Number(std::size_t index) const noexcept {
    std::uint32_t number = 0;
    const bool is_number = napi_get_value_uint32(env_, values_[index], &number) == napi_ok;
    return is_number ? number : std::numeric_limits<std::uint32_t>::max();
  }

  // Empty where it is no Uint8Array.
  [[nodiscard]] std::span<std::uint8_t> Bytes(std::size_t index) const noexcept {
    napi_typedarray_type type = napi_int8_array;
    std::size_t length = 0;
    void* data = nullptr;
    const napi_status status =
        napi_get_typedarray_info(env_, values_[index], &type, &length, &data, nullptr, nullptr);
    if (status != napi_ok || type != napi_uint8_array) return {};
    return {static_cast<std::uint8_t*>(data), length};
  }

  void Set(Register which, double value) const noexcept {
    table_->exchange.registers[static_cast<std::size_t>(which)] = value;
  }
  void Set(Register which, std::uint64_t value) const noexcept {
    Set(which, static_cast<double>(value));
  }

  [[nodiscard]] napi_value Return(std::int32_t number) const noexcept {
    napi_value result = nullptr;
    napi_create_int32(env_, number, &result);
    return result;
  }

  [[nodiscard]] napi_value ReturnWritten(Ring::Written written) const noexcept {
    switch (written) {
      case Ring::Written::kWritten: Set(Register::kWritten, ring_->producer().written()); break;
      case Ring::Written::kFull: return Return(kFull);
      case Ring::Written::kCorrupt: return Return(kCorrupt);
      case Ring::Written::kTooLarge: return Return(kRefused);
    }
    return Return(kWritten);
  }

 private:
  napi_env env_;
  std::array<napi_value, kCount> values_ = {};
  RingTable* table_ = nullptr;
  Ring* ring_ = nullptr;
};

// (ring, staged bytes, is bulk): a whole frame lies in the staging memory.
napi_value WriteStaged(napi_env env, napi_callback_info info) {
  const Call<3> call(env, info);
  const std::uint32_t bytes = call.Number(1);
  if (call.ring() == nullptr || bytes > call.exchange().staged.size()) return call.Return(kRefused);
  const auto frame = call.exchange().staged.first(bytes);
  return call.ReturnWritten(call.ring()->Write(frame, {}, call.Number(2) == 1));
}

// (ring, staged header bytes, payload, is bulk): the payload goes from its own memory into the
// ring.
napi_value WriteBytes(napi_env env, napi_callback_info info) {
  const Call<4> call(env, info);
  const std::uint32_t header_bytes = call.Number(1);
  const std::span<std::uint8_t> payload = call.Bytes(2);
  if (call.ring() == nullptr || header_bytes > call.exchange().staged.size()) {
    return call.Return(kRefused);
  }
  const auto header = call.exchange().staged.first(header_bytes);
  return call.ReturnWritten(call.ring()->Write(header, payload, call.Number(3) == 1));
}

// (ring) => is nothing owed? Else the kernel had no memory for a doorbell, and somebody has to try
// again.
napi_value Publish(napi_env env, napi_callback_info info) {
  const Call<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Publish();
  return call.Return(call.ring()->owes_doorbell() ? kFull : kWritten);
}

// (ring, records at most) => kEmpty, kMore, kLarge as numbers, or corrupt.
napi_value Drain(napi_env env, napi_callback_info info) {
  const Call<2> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const Consumer::Drained drained = call.ring()->Drain(call.exchange().slab, call.Number(1));
  if (drained.state == Consumer::State::kCorrupt) return call.Return(kCorrupt);
  call.Set(Register::kFilled, drained.filled);
  call.Set(Register::kLargeBytes, drained.large_payload_bytes);
  call.Set(Register::kRecords, std::uint64_t{drained.records});
  return call.Return(static_cast<std::int32_t>(drained.state));
}

// (ring, bytes to skip, target): the large record, straight to its final place.
napi_value Take(napi_env env, napi_callback_info info) {
  const Call<3> call(env, info);
  const std::uint32_t skip = call.Number(1);
  const std::span<std::uint8_t> target = call.Bytes(2);
  const bool fits = call.ring() != nullptr && !call.ring()->is_corrupt() &&
                    skip <= Consumer::kHeadBytes && !target.empty() &&
                    skip + target.size() == call.ring()->consumer().large_payload_bytes();
  if (!fits) return call.Return(kRefused);
  call.ring()->Take(skip, target);
  return call.Return(kWritten);
}

// (ring) => is there room for what was refused last?
napi_value HasRoom(napi_env env, napi_callback_info info) {
  const Call<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const bool has_room = call.ring()->HasRoom();
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : has_room ? kWritten : kFull);
}

// (ring) => asleep?
napi_value PrepareToSleep(napi_env env, napi_callback_info info) {
  const Call<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const bool is_asleep = call.ring()->PrepareToSleep();
  call.Set(Register::kOwesDoorbell, std::uint64_t{call.ring()->owes_doorbell() ? 1u : 0u});
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : is_asleep ? kWritten : kFull);
}

// (ring)
napi_value Wake(napi_env env, napi_callback_info info) {
  const Call<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Wake();
  return call.Return(kWritten);
}

// (ring, bytes from the socket) => were so many sleeps announced?
napi_value OnDoorbell(napi_env env, napi_callback_info info) {
  const Call<2> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  return call.Return(call.ring()->OnDoorbell(call.Number(1)) ? kWritten : kCorrupt);
}

// (ring): the peer is gone; what it published until now is all there will be.
napi_value Freeze(napi_env env, napi_callback_info info) {
  const Call<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.ring()->Freeze();
  call.Set(Register::kSeen, call.ring()->producer().seen());
  return call.Return(call.ring()->is_corrupt() ? kCorrupt : kWritten);
}

}  // namespace

void ExportRingHot(napi_env env, napi_value exports) {
  const auto add = [&](const char* name, napi_callback function) {
    napi_value value = nullptr;
    napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value);
    napi_set_named_property(env, exports, name, value);
  };
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
}

}  // namespace sidecall
