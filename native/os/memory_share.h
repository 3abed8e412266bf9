// SPDX-License-Identifier: MIT
// Shares of the memory that this process lets rings take. All environments count together.
#pragma once

#include <cstdint>

#include "os/workers.h"

namespace sidecall {

// A reservation of ring memory; the destructor releases it.
class [[nodiscard]] MemoryShare {
 public:
  // A reserve of an eighth of `max_bytes`, beyond it, for peer processes that hold little: at most
  // a sixteenth of `max_bytes`, the request included.
  static constexpr std::uint64_t kReserveParts = 8;
  static constexpr std::uint64_t kLittleParts = 16;

  MemoryShare() = default;
  MemoryShare(MemoryShare&& other) noexcept;
  MemoryShare& operator=(MemoryShare&& other) noexcept;
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  ~MemoryShare() { Reset(); }

  // False: with the reservation all threads of this process would hold more than `max_bytes`, plus
  // the reserve for an owner that holds little. The reserve is not for our own process (0).
  [[nodiscard]] bool Reserve(Owner owner, std::uint64_t bytes, std::uint64_t max_bytes);
  [[nodiscard]] static std::uint64_t ReservedBytes();
  void Reset() noexcept;

 private:
  Owner owner_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace sidecall
