// SPDX-License-Identifier: MIT
#include "shmipc/queue.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {
namespace {

constexpr std::size_t kQueueCapacityAt = 0;
constexpr std::size_t kQueueHeadAt = 4;   // elements taken, ever
constexpr std::size_t kQueueTailAt = 12;  // elements put, ever
constexpr std::size_t kQueueFlagAt = 20;  // 1: the consumer is awake, or an event is on its way

std::byte* ElementAt(std::byte* half, std::int64_t count, std::uint32_t capacity) noexcept {
  return half + kQueueHeaderBytes + static_cast<std::size_t>(count % capacity) * kElementBytes;
}

}  // namespace

void InitializeHalf(std::byte* half, std::uint32_t capacity) noexcept {
  Store32(half + kQueueCapacityAt, capacity);
}

std::uint32_t CapacityOf(const std::byte* half) noexcept { return Load32(half + kQueueCapacityAt); }

SendQueue::Room SendQueue::HasRoom() noexcept {
  const std::int64_t head = LoadCounter(half_ + kQueueHeadAt);
  if (head < head_ || head > tail_ || LoadCounter(half_ + kQueueTailAt) != tail_) return Room::kCorrupt;
  head_ = head;
  return tail_ - head < capacity_ ? Room::kSome : Room::kNone;
}

SendQueue::Put SendQueue::Push(const Element& element) noexcept {
  std::byte* const at = ElementAt(half_, tail_, capacity_);
  Store32(at, element.stream);
  Store32(at + 4, element.offset);
  Store32(at + 8, element.status);
  IncrementCounter(half_ + kQueueTailAt);
  tail_ += 1;
  return CompareExchange32(half_ + kQueueFlagAt, 0, 1) ? Put::kDoneAndWake : Put::kDone;
}

bool ReceiveQueue::CountPut(std::int64_t& put) noexcept {
  put = LoadCounter(half_ + kQueueTailAt);
  if (put < tail_ || put - head_ > capacity_) return false;
  tail_ = put;
  return true;
}

ReceiveQueue::Popped ReceiveQueue::Pop(Element& element) noexcept {
  std::int64_t tail = 0;
  if (LoadCounter(half_ + kQueueHeadAt) != head_ || !CountPut(tail)) return Popped::kCorrupt;
  if (tail == head_) return Popped::kEmpty;
  const std::byte* const at = ElementAt(half_, head_, capacity_);
  element = {.stream = Load32(at), .offset = Load32(at + 4), .status = Load32(at + 8) & 0xff};
  IncrementCounter(half_ + kQueueHeadAt);
  head_ += 1;
  return Popped::kElement;
}

bool ReceiveQueue::Rest() noexcept {
  // The order "flag, then tail" here, and "tail, then flag" of the producer: one of the two sees
  // the other's store, so that no element is left behind.
  [[maybe_unused]] const std::uint32_t before = Exchange32(half_ + kQueueFlagAt, 0);
  if (LoadCounter(half_ + kQueueTailAt) == head_) return true;
  Store32(half_ + kQueueFlagAt, 1);
  return false;
}

}  // namespace sidecall::shmipc
#endif
