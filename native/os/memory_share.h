// SPDX-License-Identifier: MIT
// Shares of the memory that this process lets rings take. All environments count together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/unique_fd.h"
#include "os/workers.h"

namespace sidecall {

// A share counts until its memory is gone: a peer that keeps what it was given keeps the share,
// too.
class [[nodiscard]] MemoryShare {
 public:
  // The last eighth is for processes that have nothing yet.
  static constexpr std::uint64_t kReservedPart = 8;
  // Outboxes that peers may keep after the end of their sessions: of one process, and of all.
  static constexpr std::size_t kKeptPerOwnerMax = 256;
  static constexpr std::size_t kKeptMax = 2048;
  // Kept outboxes that are looked at in one go.
  static constexpr std::size_t kLooksMax = 256;

  MemoryShare() = default;
  MemoryShare(MemoryShare&& other) noexcept;
  MemoryShare& operator=(MemoryShare&& other) noexcept;
  MemoryShare(const MemoryShare&) = delete;
  MemoryShare& operator=(const MemoryShare&) = delete;
  ~MemoryShare() { Reset(); }

  // Nothing: with it, all threads of this process would hold more than `max_bytes`, or this owner
  // more than its part, or it keeps too many outboxes.
  [[nodiscard]] static std::optional<MemoryShare> Reserve(Owner owner, std::uint64_t bytes,
                                                          std::uint64_t max_bytes);
  [[nodiscard]] static std::uint64_t ReservedBytes();

  // `witness` is an open file of the memory that no peer gets. A peer gets another one.
  void Watch(UniqueFd witness) noexcept { witness_ = std::move(witness); }
  // Gives the share back now, or, while a peer has the memory, leaves it to a sweep.
  void Reset() noexcept;

  // Looks at some of the outboxes that peers kept, and gives back the shares of those that are
  // gone. Closing what is returned frees their memory: NOTE: not on an event loop.
  [[nodiscard]] static std::vector<UniqueFd> Sweep();
  // Outboxes that peers keep.
  [[nodiscard]] static std::size_t KeptCount();

 private:
  MemoryShare(Owner owner, std::uint64_t bytes) noexcept : owner_(owner), bytes_(bytes) {}

  Owner owner_ = 0;
  std::uint64_t bytes_ = 0;
  UniqueFd witness_;
};

}  // namespace sidecall
