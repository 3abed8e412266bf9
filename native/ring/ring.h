// SPDX-License-Identifier: MIT
// Two outboxes joined: frames out, frames in, and sleep when there is nothing to move.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ring/block_allocator.h"
#include "ring/consumer.h"
#include "ring/producer.h"

namespace sidecall {

// The doorbell of a sleeping peer.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  virtual ~Doorbell() = default;

  // False: the byte could not be taken now and is owed.
  [[nodiscard]] virtual bool Ring() noexcept = 0;
};

// NOTE: one thread. Once corrupt, always corrupt: nothing is read or written any more.
class Ring {
 public:
  struct Memory {
    Control& mine;
    std::byte* my_data;
    std::uint64_t my_capacity;
    const Control& peer;
    const std::byte* peer_data;
    std::uint64_t peer_capacity;
    // Bytes of the block areas that may be used; 0: there is none, or the side that reads it does
    // not want to.
    std::uint64_t my_block_area = 0;
    std::uint64_t peer_block_area = 0;
  };
  enum class Written { kWritten, kFull, kTooLarge, kCorrupt };

  Ring(const Memory& memory, Doorbell& bell) noexcept
      : mine_(memory.mine),
        my_blocks_(memory.my_data + memory.my_capacity),
        peer_blocks_(memory.peer_data + memory.peer_capacity),
        blocks_(memory.my_block_area),
        leases_(memory.peer_block_area),
        producer_(memory.mine, memory.my_data, memory.peer, memory.my_capacity),
        consumer_(memory.mine, memory.peer, memory.peer_data, memory.peer_capacity, blocks_,
                  leases_),
        bell_(bell) {
    if (leases_.is_agreed()) releases_.reserve(kLeasesMax);
  }

  // A piece of a long message waits while others are unread, so that a small call finds a short
  // queue: kBulk for two of the longest pieces, kShared for two of 16 KiB.
  enum class Queue : std::uint8_t { kAny, kBulk, kShared };

  // Writes one frame, in two parts. HasRoom() reports room for a frame that was refused.
  [[nodiscard]] Written Write(std::span<const std::uint8_t> header,
                              std::span<const std::uint8_t> payload,
                              Queue queue = Queue::kAny) noexcept;
  // The same in steps: room for up to `bytes`, then what was really put there.
  [[nodiscard]] Written Reserve(std::uint64_t bytes, Queue queue = Queue::kAny) noexcept;
  [[nodiscard]] std::byte* reserved() const noexcept { return reserved_; }
  void CommitReserved(std::uint64_t bytes) noexcept;
  void Publish() noexcept;

  [[nodiscard]] Consumer::Drained Drain(std::span<std::uint8_t> slab,
                                        std::uint32_t records_max) noexcept;
  // Polls for records, `looks` times at most.
  void Linger(std::uint32_t looks) const noexcept {
    if (!is_corrupt_) consumer_.Linger(looks);
  }
  void Take(std::uint64_t skip, std::span<std::uint8_t> target) noexcept;

  // A block of our outbox, for a message that is written in place; `offset` identifies it.
  // AllocateBlock() returns no value where no block is free, or the ring is corrupt.
  struct Block {
    std::byte* data;
    std::uint64_t offset;
  };
  [[nodiscard]] std::optional<Block> AllocateBlock(std::uint64_t bytes) noexcept;
  // Frees a block that is not sent. False: no such block is being filled.
  [[nodiscard]] bool FreeBlock(std::uint64_t offset) noexcept { return blocks_.Free(offset); }
  // Writes a frame whose message is the first `bytes` of a block. kTooLarge: the frame is too long,
  // or the block is not being filled, or too short.
  [[nodiscard]] Written WriteBlock(std::span<const std::uint8_t> frame, std::uint64_t offset,
                                   std::uint64_t bytes) noexcept;

  // The block frame that Drain() stopped at. No value: corrupt. Its lease is held until it is
  // released; the peer learns of the release with the next publication that finds room.
  [[nodiscard]] std::optional<Consumer::TakenBlock> TakeBlock(
      std::span<std::uint8_t> slab) noexcept;
  // Empty: not held.
  [[nodiscard]] std::span<const std::byte> Lease(std::uint64_t lease_id) const noexcept;
  // False: not held, or of another length.
  [[nodiscard]] bool CopyLease(std::uint64_t lease_id,
                               std::span<std::uint8_t> target) const noexcept;
  [[nodiscard]] bool ReleaseLease(std::uint64_t lease_id) noexcept;
  [[nodiscard]] bool owes_releases() const noexcept { return !releases_.empty(); }

  // True: there is room now for the smallest write that was refused.
  [[nodiscard]] bool HasRoom() noexcept;

  // Publishes, announces sleep, and looks once more. True: asleep, and the peer will ring.
  [[nodiscard]] bool PrepareToSleep() noexcept;
  void Wake() noexcept;
  // `bytes` came from the socket. False: more than sleeps were announced.
  [[nodiscard]] bool OnDoorbell(std::uint64_t bytes) noexcept;

  // The peer is gone: records that are published later are not read.
  void Freeze() noexcept;

  [[nodiscard]] bool is_corrupt() const noexcept { return is_corrupt_; }
  [[nodiscard]] bool owes_doorbell() const noexcept { return owes_doorbell_; }
  // Doorbells sent, and publishes that needed none, because the peer was awake or is waking.
  struct DoorbellCounts {
    std::uint64_t sent = 0;
    std::uint64_t suppressed = 0;
  };
  [[nodiscard]] const DoorbellCounts& doorbell_counts() const noexcept { return counts_; }
  [[nodiscard]] std::uint64_t doorbells_received() const noexcept { return doorbells_received_; }
  // Bytes that the peer has not consumed, padding included.
  [[nodiscard]] std::uint64_t UnreadByPeer() noexcept;
  [[nodiscard]] const Producer& producer() const noexcept { return producer_; }
  [[nodiscard]] const Consumer& consumer() const noexcept { return consumer_; }
  [[nodiscard]] const BlockAllocator& blocks() const noexcept { return blocks_; }
  [[nodiscard]] const LeaseTable& leases() const noexcept { return leases_; }

 private:
  static constexpr std::uint64_t kPiecesUnread = 2;
  static constexpr std::uint64_t kSharedPieceBytes = 16ULL * 1024;

  void RingIf(bool wants) noexcept;
  void Commit(std::uint64_t bytes, RecordKind kind) noexcept;
  void WriteReleases() noexcept;
  // The least space that a refused write waits for; 0: none waits.
  [[nodiscard]] std::uint64_t Wanted() const noexcept;
  [[nodiscard]] Written Refuse(std::uint64_t wanted) noexcept;

  Control& mine_;
  std::byte* const my_blocks_;
  const std::byte* const peer_blocks_;
  BlockAllocator blocks_;
  LeaseTable leases_;
  std::vector<std::uint64_t> releases_;  // ids that the peer was not told of yet
  std::uint64_t releases_wanted_ = 0;    // as `wanted_`, for the record of those
  Producer producer_;
  Consumer consumer_;
  Doorbell& bell_;
  std::byte* reserved_ = nullptr;
  std::uint64_t wanted_ =
      0;  // bytes that a refused write needs free, padding included; 0: none waits
  std::uint64_t data_epoch_ = 0;
  std::uint64_t space_epoch_ = 0;
  std::uint64_t sleeps_announced_ = 0;
  std::uint64_t doorbells_received_ = 0;
  DoorbellCounts counts_;
  bool owes_doorbell_ = false;
  bool is_corrupt_ = false;
};

}  // namespace sidecall
