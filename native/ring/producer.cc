// SPDX-License-Identifier: MIT
#include "ring/producer.h"

#include <cassert>

#include "ring/shared_words.h"

namespace sidecall {
Producer::Claimed Producer::Claim(std::uint64_t payload_bytes) noexcept {
  if (payload_bytes > record_max_bytes()) return {.space = Space::kTooLarge};
  const std::uint64_t size = RecordBytes(payload_bytes);
  if (size > record_max_bytes()) return {.space = Space::kTooLarge};
  const std::uint64_t until_end = capacity_ - OffsetOf(written_);
  const std::uint64_t total = size <= until_end ? size : until_end + size;
  if (total > free()) {
    if (!LookForSpace(std::memory_order_acquire)) return {.space = Space::kCorrupt};
    if (total > free()) return {.space = Space::kFull, .wanted = total};
  }
  if (size > until_end) {
    const auto padding = static_cast<std::uint32_t>(until_end - kRecordHeader);
    StoreHeader(data_ + OffsetOf(written_), RecordHeader::Join(padding, RecordKind::kPadding));
    written_ += until_end;
  }
  return {.space = Space::kFree, .place = data_ + OffsetOf(written_) + kRecordHeader};
}

void Producer::Commit(std::uint64_t payload_bytes, RecordKind kind) noexcept {
  const std::uint64_t size = RecordBytes(payload_bytes);
  assert(size <= free() && size <= capacity_ - OffsetOf(written_));
  StoreHeader(data_ + OffsetOf(written_),
              RecordHeader::Join(static_cast<std::uint32_t>(payload_bytes), kind));
  written_ += size;
}

bool Producer::Publish() noexcept {
  if (published_ == written_) return false;
  published_ = written_;
  // PAIR 1: publish/read (consumer.cc Peek()). The records below the cursor are visible with it.
  // PAIR 3: publish/sleep (ring.cc PrepareToSleep()). The cursor is stored before the epoch is
  // loaded, in one order with the other side's store and load: seq_cst, since release would let the
  // load come first, and neither side would see the other.
  StoreWord(mine_.producer_cursor, published_, std::memory_order_seq_cst);
  const std::uint64_t epoch = LoadWord(peer_.data_sleep_epoch, std::memory_order_seq_cst);
  if (epoch % 2 == 0 || epoch == answered_) return false;
  answered_ = epoch;
  return true;
}

bool Producer::IsPeerAsleep() const noexcept {
  // Relaxed: a hint. Publish() looks again, in the order of pair 3, before anything depends on it.
  const std::uint64_t epoch = LoadWord(peer_.data_sleep_epoch, std::memory_order_relaxed);
  return epoch % 2 == 1 && epoch != answered_;
}

bool Producer::LookForSpace(std::memory_order order) noexcept {
  // PAIR 2: release/reuse (consumer.cc Release()). Reading of the bytes below the cursor is over
  // before they are written again: acquire.
  // PAIR 4: release/sleep, where `order` is seq_cst (ring.cc PrepareToSleep()).
  const std::uint64_t consumed = LoadWord(peer_.consumer_cursor, order);
  // Unsigned: catches a cursor that went back, too.
  if (consumed % kRecordAlign != 0 || consumed - seen_ > published_ - seen_) return false;
  seen_ = consumed;
  return true;
}

}  // namespace sidecall
