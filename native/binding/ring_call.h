// SPDX-License-Identifier: MIT
// A call from JavaScript to a ring. Plain Node-API; numbers in and out, and the payload itself
// where it is long or text; no object per call: the wrapper's conversions cost more than the work.
#pragma once

#include <node_api.h>

#include <array>
#include <limits>

#include "binding/environment.h"

namespace sidecall {

// Results of the functions that write; exported to JavaScript as `ringNumbers`.
inline constexpr std::int32_t kWritten = 1;
inline constexpr std::int32_t kFull = 0;
inline constexpr std::int32_t kCorrupt = -1;
inline constexpr std::int32_t kRefused = -2;  // an invalid call: a mistake of this package

template <std::size_t kCount>
class RingCall {
 public:
  RingCall(napi_env env, napi_callback_info info) noexcept : env_(env) {
    std::size_t count = kCount;
    napi_get_cb_info(env, info, &count, values_.data(), nullptr, nullptr);
    void* state = nullptr;
    napi_get_instance_data(env, &state);
    table_ = &static_cast<Environment*>(state)->rings;
    handle_ = Number(0);
    entry_ = table_->Find(handle_);
    ring_ = entry_ != nullptr && entry_->ring.has_value() ? &*entry_->ring : nullptr;
  }

  // nullptr: there is no such ring, or it was closed.
  [[nodiscard]] Ring* ring() const noexcept { return ring_; }
  [[nodiscard]] RingEntry* entry() const noexcept { return entry_; }
  void DropObject(bool is_mine) const noexcept { table_->DropObject(env_, handle_, is_mine); }
  [[nodiscard]] const std::shared_ptr<Workers>& reclaimers() const noexcept {
    return table_->reclaimers;
  }
  [[nodiscard]] const Exchange& exchange() const noexcept { return table_->exchange; }
  [[nodiscard]] napi_value value(std::size_t index) const noexcept { return values_[index]; }

  // The argument as a u32; the largest u32 where it is no number, which no check accepts.
  [[nodiscard]] std::uint32_t Number(std::size_t index) const noexcept {
    std::uint32_t number = 0;
    const bool is_number = napi_get_value_uint32(env_, values_[index], &number) == napi_ok;
    return is_number ? number : std::numeric_limits<std::uint32_t>::max();
  }

  // The argument as a positive number; 0 where it is none, which is the id of no lease.
  [[nodiscard]] std::uint64_t LongNumber(std::size_t index) const noexcept {
    std::int64_t number = 0;
    const bool is_number = napi_get_value_int64(env_, values_[index], &number) == napi_ok;
    return is_number && number > 0 ? static_cast<std::uint64_t>(number) : 0;
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
  std::uint32_t handle_ = 0;
  RingEntry* entry_ = nullptr;
  Ring* ring_ = nullptr;
};

// Adds functions to the exports.
class Exporter {
 public:
  Exporter(napi_env env, napi_value exports) noexcept : env_(env), exports_(exports) {}
  void operator()(const char* name, napi_callback function) const {
    napi_value value = nullptr;
    napi_create_function(env_, name, NAPI_AUTO_LENGTH, function, nullptr, &value);
    napi_set_named_property(env_, exports_, name, value);
  }

 private:
  napi_env env_;
  napi_value exports_;
};

}  // namespace sidecall
