// SPDX-License-Identifier: MIT
#include "ring/ring.h"

#include <algorithm>

#include "ring/shared_words.h"

namespace sidecall {

Ring::Written Ring::Write(std::span<const std::uint8_t> header,
                          std::span<const std::uint8_t> payload, Queue queue) noexcept {
  const std::uint64_t bytes = header.size() + payload.size();
  const Written written = Reserve(bytes, queue);
  if (written != Written::kWritten) return written;
  CopyPayload(reserved_, header.data(), header.size());
  CopyPayload(reserved_ + header.size(), payload.data(), payload.size());
  CommitReserved(bytes);
  return Written::kWritten;
}

Ring::Written Ring::Reserve(std::uint64_t bytes, Queue queue) noexcept {
  if (is_corrupt_) return Written::kCorrupt;
  const std::uint64_t piece_bytes = queue == Queue::kShared
                                        ? std::min(kSharedPieceBytes, producer_.record_max_bytes())
                                        : producer_.record_max_bytes();
  const std::uint64_t bulk_max = kPiecesUnread * piece_bytes;
  if (queue != Queue::kAny && producer_.unread() >= bulk_max) {
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

void Ring::CommitReserved(std::uint64_t bytes) noexcept { Commit(bytes, RecordKind::kFrame); }

void Ring::Commit(std::uint64_t bytes, RecordKind kind) noexcept {
  producer_.Commit(bytes, kind);
  // Not all of a turn at once: the peer can start, or begin to wake up.
  const bool is_much = producer_.unpublished() >= producer_.record_max_bytes();
  if (is_much || producer_.IsPeerAsleep()) Publish();
}

void Ring::Publish() noexcept {
  if (!releases_.empty()) WriteReleases();
  if (is_corrupt_) return;
  const bool has_news = producer_.unpublished() > 0;
  const bool wants = producer_.Publish();
  if (has_news && !wants) ++counts_.suppressed;
  RingIf(wants);
}

std::optional<Ring::Block> Ring::AllocateBlock(std::uint64_t bytes) noexcept {
  const auto offset = blocks_.Allocate(bytes);
  if (is_corrupt_ || !offset.has_value()) return std::nullopt;
  return Block{my_blocks_ + *offset, *offset};
}

Ring::Written Ring::WriteBlock(std::span<const std::uint8_t> frame, std::uint64_t offset,
                               std::uint64_t bytes) noexcept {
  BlockReference reference = {.offset = offset, .payload_bytes = bytes, .lease_id = 0};
  const std::uint64_t record_bytes = sizeof reference + frame.size();
  if (record_bytes > Consumer::kSmallMaxBytes) return Written::kTooLarge;
  const Written written = Reserve(record_bytes);
  if (written != Written::kWritten) return written;
  const auto lease_id = blocks_.Lend(offset, bytes);
  if (!lease_id.has_value()) return Written::kTooLarge;  // the claim is abandoned
  reference.lease_id = *lease_id;
  CopyPayload(reserved_, &reference, sizeof reference);
  CopyPayload(reserved_ + sizeof reference, frame.data(), frame.size());
  Commit(record_bytes, RecordKind::kBlockFrame);
  return Written::kWritten;
}

std::optional<Consumer::TakenBlock> Ring::TakeBlock(std::span<std::uint8_t> slab) noexcept {
  if (is_corrupt_ || !consumer_.is_block_next()) return std::nullopt;
  // Releases that the peer was not told of count as held: the peer still counts them as lent, so a
  // correct one lends no more.
  if (leases_.held() + releases_.size() >= kLeasesMax) {
    is_corrupt_ = true;
    return std::nullopt;
  }
  const auto taken = consumer_.TakeBlock(slab);
  is_corrupt_ = !taken.has_value();
  if (!is_corrupt_) RingIf(taken->ring);
  return taken;
}

std::span<const std::byte> Ring::Lease(std::uint64_t lease_id) const noexcept {
  const BlockReference* const lease = leases_.Find(lease_id);
  if (lease == nullptr) return {};
  return {peer_blocks_ + lease->offset, lease->payload_bytes};
}

bool Ring::CopyLease(std::uint64_t lease_id, std::span<std::uint8_t> target) const noexcept {
  const auto lease = Lease(lease_id);
  if (lease.empty() || lease.size() != target.size()) return false;
  CopyPayload(target.data(), lease.data(), lease.size());
  return true;
}

bool Ring::ReleaseLease(std::uint64_t lease_id) noexcept {
  if (!leases_.Release(lease_id)) return false;
  releases_.push_back(lease_id);
  return true;
}

void Ring::WriteReleases() noexcept {
  while (!releases_.empty() && !is_corrupt_) {
    const std::size_t count = std::min<std::size_t>(releases_.size(), kReleasesPerRecord);
    const std::uint64_t bytes = count * sizeof releases_[0];
    const Producer::Claimed claimed = producer_.Claim(bytes);
    is_corrupt_ = claimed.space == Producer::Space::kCorrupt;
    releases_wanted_ = claimed.wanted;
    if (claimed.space != Producer::Space::kFree) return;
    CopyPayload(claimed.place, releases_.data(), bytes);
    producer_.Commit(bytes, RecordKind::kBlockRelease);
    releases_.erase(releases_.begin(), releases_.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

std::uint64_t Ring::Wanted() const noexcept {
  if (wanted_ == 0 || releases_wanted_ == 0) return std::max(wanted_, releases_wanted_);
  return std::min(wanted_, releases_wanted_);
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

std::uint64_t Ring::UnreadByPeer() noexcept {
  if (!is_corrupt_) is_corrupt_ = !producer_.LookForSpace(std::memory_order_acquire);
  return producer_.unread();
}

bool Ring::PrepareToSleep() noexcept {
  Publish();  // nothing committed stays invisible while we sleep
  if (owes_doorbell_) RingIf(true);
  if (owes_doorbell_ || is_corrupt_) return false;
  // PAIR 3: publish/sleep (producer.cc Publish()). The epoch is stored before the cursor is loaded
  // once more: one of the two sides sees the other.
  StoreWord(mine_.data_sleep_epoch, ++data_epoch_, std::memory_order_seq_cst);
  sleeps_announced_ += 1;
  const std::uint64_t wanted = Wanted();
  if (wanted != 0) {
    // PAIR 4: release/sleep (consumer.cc Release()). As pair 3, for space.
    StoreWord(mine_.space_sleep_epoch, ++space_epoch_, std::memory_order_seq_cst);
    sleeps_announced_ += 1;
  }
  bool is_needed = consumer_.HasUnseenRecords();
  if (!is_needed && wanted != 0) {
    is_corrupt_ = !producer_.LookForSpace(std::memory_order_seq_cst);
    is_needed = is_corrupt_ || wanted <= producer_.free();
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
  // The peer's final consumer cursor decides whether a call may have been delivered.
  if (!is_corrupt_) is_corrupt_ = !producer_.LookForSpace(std::memory_order_acquire);
}

void Ring::RingIf(bool wants) noexcept {
  if (!wants) return;
  owes_doorbell_ = !bell_.Ring();
  if (!owes_doorbell_) ++counts_.sent;
}

Ring::Written Ring::Refuse(std::uint64_t wanted) noexcept {
  // The smallest refused write counts: a larger one is refused again, and waits again.
  wanted_ = wanted_ == 0 ? wanted : std::min(wanted_, wanted);
  return Written::kFull;
}

}  // namespace sidecall
