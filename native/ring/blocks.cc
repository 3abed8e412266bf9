// SPDX-License-Identifier: MIT
#include "ring/blocks.h"

#include <algorithm>
#include <bit>

namespace sidecall {
namespace {

constexpr std::uint64_t kWordBits = 64;

[[nodiscard]] constexpr std::uint64_t PagesFor(std::uint64_t bytes) noexcept {
  return (bytes + kBlockAlign - 1) / kBlockAlign;
}

// Ids only grow, so both tables are sorted, and short: kLeasesMax at most.
template <typename Item>
[[nodiscard]] auto FindId(Item& items, std::uint64_t Item::value_type::*id,
                          std::uint64_t wanted) noexcept {
  const auto found = std::ranges::lower_bound(items, wanted, {}, id);
  return found != items.end() && (*found).*id == wanted ? found : items.end();
}

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

BlockAllocator::BlockAllocator(std::uint64_t area_bytes) : pages_(area_bytes / kBlockAlign) {
  std::ranges::fill(heads_, kNone);
  if (!pages_.empty()) lent_.reserve(kLeasesMax);
  // The largest blocks that fit, each at a multiple of its size.
  const auto count = static_cast<std::uint32_t>(pages_.size());
  for (std::uint32_t page = 0; page < count;) {
    const auto fitting = static_cast<std::uint32_t>(std::bit_width(count - page)) - 1;
    const auto aligned =
        page == 0 ? kOrders - 1 : static_cast<std::uint32_t>(std::countr_zero(page));
    const std::uint32_t order = std::min({fitting, aligned, kOrders - 1});
    Push(page, order);
    page += PagesOf(order);
  }
}

std::optional<std::uint64_t> BlockAllocator::Allocate(std::uint64_t bytes) noexcept {
  const std::uint64_t pages = PagesFor(bytes);
  if (bytes == 0 || bytes > kBlockAreaMax || in_use_ >= kLeasesMax) return std::nullopt;
  const auto order = static_cast<std::uint32_t>(std::bit_width(pages - 1));
  std::uint32_t from = order;
  while (from < kOrders && heads_[from] == kNone) from += 1;
  if (from == kOrders) return std::nullopt;
  const std::uint32_t page = heads_[from];
  Remove(page);
  while (from > order) {
    from -= 1;
    Push(page + PagesOf(from), from);
  }
  pages_[page].state = State::kFilling;
  pages_[page].order = static_cast<std::uint8_t>(order);
  in_use_ += 1;
  return std::uint64_t{page} * kBlockAlign;
}

bool BlockAllocator::Free(std::uint64_t offset) noexcept {
  if (!IsFilling(offset)) return false;
  Merge(static_cast<std::uint32_t>(offset / kBlockAlign));
  return true;
}

std::optional<std::uint64_t> BlockAllocator::Lend(std::uint64_t offset,
                                                  std::uint64_t bytes) noexcept {
  if (!IsFilling(offset)) return std::nullopt;
  const auto page = static_cast<std::uint32_t>(offset / kBlockAlign);
  if (bytes == 0 || PagesFor(bytes) > PagesOf(pages_[page].order)) return std::nullopt;
  pages_[page].state = State::kLent;
  lent_.push_back({++last_id_, page});
  return last_id_;
}

bool BlockAllocator::TakeBack(std::uint64_t lease_id) noexcept {
  const auto found = FindId(lent_, &Lent::id, lease_id);
  if (found == lent_.end()) return false;
  const std::uint32_t page = found->page;
  lent_.erase(found);
  Merge(page);
  return true;
}

bool BlockAllocator::IsFilling(std::uint64_t offset) const noexcept {
  const std::uint64_t page = offset / kBlockAlign;
  return offset % kBlockAlign == 0 && page < pages_.size() && pages_[page].state == State::kFilling;
}

void BlockAllocator::Push(std::uint32_t page, std::uint32_t order) noexcept {
  const std::uint32_t next = heads_[order];
  pages_[page] = {State::kFree, static_cast<std::uint8_t>(order), kNone, next};
  if (next != kNone) pages_[next].previous = page;
  heads_[order] = page;
}

void BlockAllocator::Remove(std::uint32_t page) noexcept {
  const Page& block = pages_[page];
  if (block.next != kNone) pages_[block.next].previous = block.previous;
  if (block.previous != kNone)
    pages_[block.previous].next = block.next;
  else
    heads_[block.order] = block.next;
  pages_[page].state = State::kInside;
}

void BlockAllocator::Merge(std::uint32_t page) noexcept {
  in_use_ -= 1;
  std::uint32_t order = pages_[page].order;
  pages_[page].state = State::kInside;
  while (order + 1 < kOrders) {
    const std::uint32_t buddy = page ^ PagesOf(order);
    const bool is_free = buddy < pages_.size() && pages_[buddy].state == State::kFree &&
                         pages_[buddy].order == order;
    if (!is_free) break;
    Remove(buddy);
    page = std::min(page, buddy);
    order += 1;
  }
  Push(page, order);
}

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
