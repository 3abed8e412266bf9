// SPDX-License-Identifier: MIT
// Our leases in the peer's block area. All bookkeeping is private memory.
#pragma once

#include <vector>

#include "ring/layout.h"

namespace sidecall {

// Blocks that the peer lent us of its area, as references that were checked.
class LeaseTable {
 public:
  // NOTE: `area_bytes` was agreed in the hello; 0: no references are taken.
  explicit LeaseTable(std::uint64_t area_bytes);

  // False: no correct peer sends such a reference. One to pages of a lease that is still held is
  // refused, too, since V8 needs one backing store per address.
  [[nodiscard]] bool Accept(const BlockReference& reference) noexcept;
  // nullptr: not held.
  [[nodiscard]] const BlockReference* Find(std::uint64_t lease_id) const noexcept;
  // False: not held.
  [[nodiscard]] bool Release(std::uint64_t lease_id) noexcept;

  [[nodiscard]] bool is_agreed() const noexcept { return area_bytes_ != 0; }
  [[nodiscard]] std::uint32_t held() const noexcept {
    return static_cast<std::uint32_t>(held_.size());
  }

 private:
  // AnyHeld(): is any page of the block held? Mark(): marks its pages as held, or as
  // free. Both work word by word.
  [[nodiscard]] bool AnyHeld(std::uint64_t first, std::uint64_t count) const noexcept;
  void Mark(std::uint64_t first, std::uint64_t count, bool is_held) noexcept;

  std::uint64_t area_bytes_;
  std::vector<std::uint64_t> pages_;  // a bit per page
  std::vector<BlockReference> held_;  // by id: they only grow
  std::uint64_t last_id_ = 0;
};

}  // namespace sidecall
