// SPDX-License-Identifier: MIT
#include "ring/lease_table.h"

#include <algorithm>

#include "ring/lease_ids.h"

namespace sidecall {
namespace {

constexpr std::uint64_t kWordBits = 64;

// Bits `from` to `to` of one word.
[[nodiscard]] constexpr std::uint64_t MaskOf(std::uint64_t from, std::uint64_t to) noexcept {
  const std::uint64_t high = to == kWordBits ? ~std::uint64_t{0} : (std::uint64_t{1} << to) - 1;
  return high & ~((std::uint64_t{1} << from) - 1);
}

// Calls `visit(word, mask)` for each word that holds some of the bits.
template <typename Visit>
void EachWord(std::uint64_t first, std::uint64_t count, Visit visit) noexcept {
  const std::uint64_t end = first + count;
  for (std::uint64_t bit = first; bit < end;) {
    const std::uint64_t word = bit / kWordBits;
    const std::uint64_t stop = std::min(end, (word + 1) * kWordBits);
    visit(word, MaskOf(bit - word * kWordBits, stop - word * kWordBits));
    bit = stop;
  }
}

}  // namespace

LeaseTable::LeaseTable(std::uint64_t area_bytes)
    : area_bytes_(area_bytes), pages_((area_bytes / kBlockAlign + kWordBits - 1) / kWordBits) {
  if (area_bytes != 0) held_.reserve(kLeasesMax);
}

bool LeaseTable::Accept(const BlockReference& reference) noexcept {
  const auto& [offset, bytes, id] = reference;
  const bool is_inside = offset % kBlockAlign == 0 && offset <= area_bytes_ && bytes != 0 &&
                         bytes <= area_bytes_ - offset;
  if (!is_inside || id != last_id_ + 1 || held_.size() >= kLeasesMax) return false;
  const std::uint64_t first = offset / kBlockAlign;
  const std::uint64_t count = PagesFor(bytes);
  if (AnyHeld(first, count)) return false;
  Mark(first, count, true);
  last_id_ = id;
  held_.push_back(reference);
  return true;
}

const BlockReference* LeaseTable::Find(std::uint64_t lease_id) const noexcept {
  const auto found = FindId(held_, &BlockReference::lease_id, lease_id);
  return found == held_.end() ? nullptr : &*found;
}

bool LeaseTable::Release(std::uint64_t lease_id) noexcept {
  const auto found = FindId(held_, &BlockReference::lease_id, lease_id);
  if (found == held_.end()) return false;
  Mark(found->offset / kBlockAlign, PagesFor(found->payload_bytes), false);
  held_.erase(found);
  return true;
}

bool LeaseTable::AnyHeld(std::uint64_t first, std::uint64_t count) const noexcept {
  bool any = false;
  EachWord(first, count, [&](std::uint64_t word, std::uint64_t mask) {
    any = any || (pages_[word] & mask) != 0;
  });
  return any;
}

void LeaseTable::Mark(std::uint64_t first, std::uint64_t count, bool is_held) noexcept {
  EachWord(first, count, [&](std::uint64_t word, std::uint64_t mask) {
    pages_[word] = is_held ? pages_[word] | mask : pages_[word] & ~mask;
  });
}

}  // namespace sidecall
