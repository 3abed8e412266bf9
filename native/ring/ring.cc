// SPDX-License-Identifier: MIT
#include "ring/ring.h"

#include <algorithm>

#include "ring/words.h"

namespace sidecall {

Ring::Written Ring::Write(std::span<const std::uint8_t> header,
                          std::span<const std::uint8_t> payload, bool is_bulk) noexcept {
  const std::uint64_t bytes = header.size() + payload.size();
  const Written written = Reserve(bytes, is_bulk);
  if (written != Written::kWritten) return written;
  CopyPayload(reserved_, header.data(), header.size());
  CopyPayload(reserved_ + header.size(), payload.data(), payload.size());
  CommitReserved(bytes);
  return Written::kWritten;
}

Ring::Written Ring::Reserve(std::uint64_t bytes, bool is_bulk) noexcept {
  if (is_corrupt_) return Written::kCorrupt;
  const std::uint64_t bulk_max = kBulkRecordsUnread * producer_.record_max_bytes();
  if (is_bulk && producer_.unread() >= bulk_max) {
    is_corrupt_ = !producer_.LookForSpace(std::memory_order_acquire);
    if (is_corrupt_) return Written::kCorrupt;
    if (producer_.unread() >= bulk_max) {
      return Refuse(producer_.capacity() - bulk_max + kRecordAlign);  // then less than it is unread
    }
  }
  const Producer::Claimed claimed = producer_.Claim(bytes);
  switch (claimed.space) {
    case Producer::Space::kFree: break;
    case Producer::Space::kFull: return Refuse(claimed.wanted);
    case Producer::Space::kTooLarge: return Written::kTooLarge;
    case Producer::Space::kCorrupt: is_corrupt_ = true; return Written::kCorrupt;
  }
  reserved_ = claimed.place;
  return Written::kWritten;
}

void Ring::CommitReserved(std::uint64_t bytes) noexcept {
  producer_.Commit(bytes, RecordKind::kFrame);
  // Not all of a turn at once: the peer can start, or begin to wake up.
  const bool is_much = producer_.unpublished() >= producer_.record_max_bytes();
  if (is_much || producer_.IsPeerAsleep()) Publish();
}

void Ring::Publish() noexcept {
  if (!is_corrupt_) RingIf(producer_.Publish());
}

Consumer::Drained Ring::Drain(std::span<std::uint8_t> slab, std::uint32_t records_max) noexcept {
  if (is_corrupt_) return {.state = Consumer::State::kCorrupt};
  const Consumer::Drained drained = consumer_.Drain(slab, records_max);
  is_corrupt_ = drained.state == Consumer::State::kCorrupt;
  if (!is_corrupt_) RingIf(drained.ring);
  return drained;
}

void Ring::Take(std::uint64_t skip, std::span<std::uint8_t> target) noexcept {
  if (!is_corrupt_) RingIf(consumer_.Take(skip, target));
}

bool Ring::HasRoom() noexcept {
  if (is_corrupt_ || wanted_ == 0) return false;
  is_corrupt_ = !producer_.LookForSpace(std::memory_order_acquire);
  if (is_corrupt_ || wanted_ > producer_.free()) return false;
  wanted_ = 0;
  return true;
}

bool Ring::PrepareToSleep() noexcept {
  Publish();  // nothing committed stays invisible while we sleep
  if (owes_doorbell_) RingIf(true);
  if (owes_doorbell_ || is_corrupt_) return false;
  // Before the cursors are looked at once more. Pairs with: producer.cc Publish().
  StoreWord(mine_.data_sleep_epoch, ++data_epoch_);
  sleeps_announced_ += 1;
  if (wanted_ != 0) {
    // Pairs with: consumer.cc Release().
    StoreWord(mine_.space_sleep_epoch, ++space_epoch_);
    sleeps_announced_ += 1;
  }
  bool is_needed = consumer_.HasNews();
  if (!is_needed && wanted_ != 0) {
    is_corrupt_ = !producer_.LookForSpace(std::memory_order_seq_cst);
    is_needed = is_corrupt_ || wanted_ <= producer_.free();
  }
  if (is_needed) Wake();
  return !is_needed;
}

void Ring::Wake() noexcept {
  // Relaxed: seen late, it costs one doorbell too many and nothing else.
  if (data_epoch_ % 2 == 1) {
    StoreWord(mine_.data_sleep_epoch, ++data_epoch_, std::memory_order_relaxed);
  }
  if (space_epoch_ % 2 == 1) {
    StoreWord(mine_.space_sleep_epoch, ++space_epoch_, std::memory_order_relaxed);
  }
}

bool Ring::OnDoorbell(std::uint64_t bytes) noexcept {
  doorbells_received_ += bytes;
  if (doorbells_received_ > sleeps_announced_) return false;
  Wake();
  return true;
}

void Ring::Freeze() noexcept {
  if (is_corrupt_) return;
  is_corrupt_ = !consumer_.Freeze();
  // The last word on what the peer took: it decides what is known of a call's delivery.
  if (!is_corrupt_) is_corrupt_ = !producer_.LookForSpace(std::memory_order_acquire);
}

void Ring::RingIf(bool wants) noexcept {
  if (wants) owes_doorbell_ = !bell_.Ring();
}

Ring::Written Ring::Refuse(std::uint64_t wanted) noexcept {
  // The least of what waits: whoever waits for more is refused again, and waits again.
  wanted_ = wanted_ == 0 ? wanted : std::min(wanted_, wanted);
  return Written::kFull;
}

}  // namespace sidecall
