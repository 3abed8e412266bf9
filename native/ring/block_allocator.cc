// SPDX-License-Identifier: MIT
#include "ring/block_allocator.h"

#include <algorithm>
#include <bit>

#include "ring/lease_ids.h"

namespace sidecall {
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

}  // namespace sidecall
