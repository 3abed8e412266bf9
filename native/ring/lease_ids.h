// SPDX-License-Identifier: MIT
// The units of both ends of a lease: pages of a block area, and ids.
#pragma once

#include <algorithm>

#include "ring/layout.h"

namespace sidecall {

[[nodiscard]] constexpr std::uint64_t PagesFor(std::uint64_t bytes) noexcept {
  return (bytes + kBlockAlign - 1) / kBlockAlign;
}

// Ids only grow, so the tables are sorted, and short: kLeasesMax at most.
template <typename Item>
[[nodiscard]] auto FindId(Item& items, std::uint64_t Item::value_type::*id,
                          std::uint64_t wanted) noexcept {
  const auto found = std::ranges::lower_bound(items, wanted, {}, id);
  return found != items.end() && (*found).*id == wanted ? found : items.end();
}

}  // namespace sidecall
