// SPDX-License-Identifier: MIT
#include "ring/consumer.h"

#include <cassert>
#include <cstring>

#include "ring/shared_words.h"

namespace sidecall {
namespace {

constexpr std::uint64_t kLengthBytes = 4;

void PutLength(std::uint8_t* at, std::uint64_t length) noexcept {
  const auto value = static_cast<std::uint32_t>(length);
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

Consumer::Drained Consumer::Drain(std::span<std::uint8_t> slab,
                                  std::uint32_t records_max) noexcept {
  assert(slab.size() >= kSlabMinBytes);
  Drained result;
  if (!Peek()) return {.state = State::kCorrupt};
  while (consumed_ != produced_ && result.records < records_max) {
    const std::uint64_t offset = consumed_ & (capacity_ - 1);
    const std::byte* const payload = data_ + offset + kRecordHeader;
    if (block_record_bytes_ != 0) break;
    if (large_payload_bytes_ == 0) {
      const auto header = RecordHeader::Split(LoadHeader(data_ + offset));
      if (!IsValid(header, capacity_ - offset, produced_ - consumed_)) {
        return {.state = State::kCorrupt};
      }
      const std::uint64_t bytes = header.payload_bytes;
      const auto kind = static_cast<RecordKind>(header.kind);
      if (kind == RecordKind::kBlockFrame) {
        block_record_bytes_ = bytes;
        break;
      }
      if (kind != RecordKind::kFrame || bytes <= kSmallMaxBytes) {
        if (kind == RecordKind::kBlockRelease && !TakeBack(payload, bytes)) {
          return {.state = State::kCorrupt};
        }
        if (kind == RecordKind::kFrame) {
          if (slab.size() - result.filled < kLengthBytes + bytes) break;
          PutLength(slab.data() + result.filled, bytes);
          CopyPayload(slab.data() + result.filled + kLengthBytes, payload, bytes);
          result.filled += kLengthBytes + bytes;
        }
        result.records += 1;
        consumed_ += RecordBytes(bytes);
        if (consumed_ - released_ >= RecordMaxBytes(capacity_)) result.ring |= Release();
        continue;
      }
      large_payload_bytes_ = bytes;
    }
    if (slab.size() - result.filled < kHeadBytes) break;
    CopyPayload(slab.data() + result.filled, payload, kHeadBytes);
    result.large_payload_bytes = large_payload_bytes_;
    break;
  }
  result.ring |= Release();
  if (result.large_payload_bytes != 0)
    result.state = State::kLarge;
  else if (block_record_bytes_ != 0)
    result.state = State::kBlock;
  else if (consumed_ != produced_)
    result.state = State::kMore;
  return result;
}

bool Consumer::Take(std::uint64_t skip, std::span<std::uint8_t> target) noexcept {
  assert(large_payload_bytes_ != 0 && skip + target.size() == large_payload_bytes_);
  const std::uint64_t offset = consumed_ & (capacity_ - 1);
  CopyPayload(target.data(), data_ + offset + kRecordHeader + skip, target.size());
  consumed_ += RecordBytes(large_payload_bytes_);
  large_payload_bytes_ = 0;
  return Release();
}

std::optional<Consumer::TakenBlock> Consumer::TakeBlock(std::span<std::uint8_t> slab) noexcept {
  assert(block_record_bytes_ != 0 && slab.size() >= block_record_bytes_);
  const std::uint64_t bytes = block_record_bytes_;
  const std::uint64_t offset = consumed_ & (capacity_ - 1);
  CopyPayload(slab.data(), data_ + offset + kRecordHeader, bytes);
  TakenBlock taken = {.record_bytes = bytes, .reference = {}, .ring = false};
  CopyPayload(&taken.reference, slab.data(), sizeof taken.reference);
  if (!leases_.Accept(taken.reference)) return std::nullopt;
  consumed_ += RecordBytes(bytes);
  block_record_bytes_ = 0;
  taken.ring = Release();
  return taken;
}

void Consumer::Linger(std::uint32_t looks) const noexcept {
  for (; looks > 0; --looks) {
    // Relaxed: a look. Peek() loads the cursor again before a byte is read.
    if (LoadWord(peer_.producer_cursor, std::memory_order_relaxed) != consumed_) return;
    Relax();
  }
}

bool Consumer::Freeze() noexcept {
  const bool is_fine = Peek();
  is_frozen_ = true;
  return is_fine;
}

bool Consumer::HasUnseenRecords() const noexcept {
  // PAIR 3: publish/sleep (producer.cc Publish()). Loaded after our epoch was stored.
  return LoadWord(peer_.producer_cursor, std::memory_order_seq_cst) != consumed_;
}

bool Consumer::Peek() noexcept {
  if (is_frozen_) return true;
  // PAIR 1: publish/read (producer.cc Publish()). Acquire: the bytes below the cursor are visible.
  const std::uint64_t cursor = LoadWord(peer_.producer_cursor, std::memory_order_acquire);
  const std::uint64_t available = cursor - consumed_;
  const bool is_valid =
      cursor % kRecordAlign == 0 && available <= capacity_ && available >= produced_ - consumed_;
  if (!is_valid) return false;
  produced_ = cursor;
  high_water_ = std::max(high_water_, available);
  return true;
}

bool Consumer::Release() noexcept {
  if (released_ == consumed_) return false;
  released_ = consumed_;
  // PAIR 2: release/reuse (producer.cc LookForSpace()). Reading of these bytes is over.
  // PAIR 4: release/sleep (ring.cc PrepareToSleep()). The cursor is stored before the epoch is
  // loaded, as in pair 3: seq_cst.
  StoreWord(mine_.consumer_cursor, released_, std::memory_order_seq_cst);
  const std::uint64_t epoch = LoadWord(peer_.space_sleep_epoch, std::memory_order_seq_cst);
  if (epoch % 2 == 0 || epoch == answered_) return false;
  answered_ = epoch;
  return true;
}

bool Consumer::TakeBack(const std::byte* payload, std::uint64_t bytes) noexcept {
  std::uint64_t ids[kReleasesPerRecord];
  CopyPayload(ids, payload, bytes);
  for (std::uint64_t at = 0; at < bytes / sizeof(ids[0]); ++at) {
    if (!blocks_.TakeBack(ids[at])) return false;
  }
  return true;
}

bool Consumer::IsValid(RecordHeader header, std::uint64_t until_end,
                       std::uint64_t available) const noexcept {
  const std::uint64_t size = RecordBytes(header.payload_bytes);
  if (header.zero != 0 || size > until_end || size > available) return false;
  switch (static_cast<RecordKind>(header.kind)) {
    case RecordKind::kPadding: return header.payload_bytes == until_end - kRecordHeader;
    case RecordKind::kFrame: return header.payload_bytes >= 1 && size <= RecordMaxBytes(capacity_);
    case RecordKind::kBlockFrame:
      return leases_.is_agreed() && header.payload_bytes <= kSmallMaxBytes &&
             header.payload_bytes >= sizeof(BlockReference) + kFrameMinBytes;
    case RecordKind::kBlockRelease:
      return header.payload_bytes >= sizeof(std::uint64_t) &&
             header.payload_bytes % sizeof(std::uint64_t) == 0 &&
             header.payload_bytes <= kReleasesPerRecord * sizeof(std::uint64_t);
  }
  return false;
}

}  // namespace sidecall
