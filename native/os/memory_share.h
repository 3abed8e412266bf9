// SPDX-License-Identifier: MIT
// Shares of the memory that this process lets rings take. All environments count together.
#pragma once

#include <cstdint>

#include "os/workers.h"

namespace sidecall {

// Given back when it is destroyed.
class [[nodiscard]] MemoryShare {
 public:
  // Beyond what all may take there is an eighth of it for peer processes that have little: with
  // what they ask for, no more than a sixteenth.
  static constexpr std::uint64_t kReserveParts = 8;
  static constexpr std::uint64_t kLittleParts = 16;

  MemoryShare() = default;
  MemoryShare(MemoryShare&& other) noexcept;
  MemoryShare& operator=(MemoryShare&& other) noexcept;
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  ~MemoryShare() { Reset(); }

  // False: all threads of this process would hold more than `max_bytes` with it, and the owner does
  // not have little, or is our own process (0).
  [[nodiscard]] bool Reserve(Owner owner, std::uint64_t bytes, std::uint64_t max_bytes);
  [[nodiscard]] static std::uint64_t ReservedBytes();
  void Reset() noexcept;

 private:
  Owner owner_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace sidecall
