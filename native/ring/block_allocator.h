// SPDX-License-Identifier: MIT
// The block area of our own outbox, and the owner of each block. All bookkeeping is private memory;
// the peer sees bytes and the references that we send.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ring/layout.h"

namespace sidecall {

// A buddy allocator of power-of-two multiples of kBlockAlign. The block that was freed
// last is used first, since its memory is still in the cache. A block is free, being
// filled, or lent to the peer.
class BlockAllocator {
 public:
  // NOTE: `area_bytes` was checked by IsBlockArea(); 0: there is no area.
  explicit BlockAllocator(std::uint64_t area_bytes);

  // Offset of a block of at least `bytes`, to be filled. No value: no block is free,
  // or kLeasesMax are in use.
  [[nodiscard]] std::optional<std::uint64_t> Allocate(std::uint64_t bytes) noexcept;
  // Frees a block that was not lent. False: no block that is being filled begins there.
  [[nodiscard]] bool Free(std::uint64_t offset) noexcept;
  // Lends a filled block; returns the id of the lease. No value: no block that is being filled
  // begins there, or it is shorter.
  [[nodiscard]] std::optional<std::uint64_t> Lend(std::uint64_t offset,
                                                  std::uint64_t bytes) noexcept;
  // The peer gave it back. False: it holds no such lease.
  [[nodiscard]] bool TakeBack(std::uint64_t lease_id) noexcept;

  [[nodiscard]] std::uint32_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] std::uint32_t lent() const noexcept {
    return static_cast<std::uint32_t>(lent_.size());
  }

 private:
  static constexpr std::uint32_t kOrders = 19;  // 2^18 pages of 4 KiB are 1 GiB
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static_assert((kBlockAreaMax / kBlockAlign) >> (kOrders - 1) == 1);

  enum class State : std::uint8_t { kInside, kFree, kFilling, kLent };
  // The first page of a block; of its other pages only the state is used.
  struct Page {
    State state = State::kInside;
    std::uint8_t order = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };
  struct Lent {
    std::uint64_t id;
    std::uint32_t page;
  };

  [[nodiscard]] bool IsFilling(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::uint32_t PagesOf(std::uint32_t order) const noexcept { return 1U << order; }
  void Push(std::uint32_t page, std::uint32_t order) noexcept;
  void Remove(std::uint32_t page) noexcept;
  // Frees a block, merged with its free neighbours as far as possible.
  void Merge(std::uint32_t page) noexcept;

  std::vector<Page> pages_;
  std::uint32_t heads_[kOrders];
  std::vector<Lent> lent_;  // by id: they only grow
  std::uint64_t last_id_ = 0;
  std::uint32_t in_use_ = 0;
};

}  // namespace sidecall
