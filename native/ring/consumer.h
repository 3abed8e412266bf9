// SPDX-License-Identifier: MIT
// Reads records out of the peer's outbox, and checks every value that it reads.
#pragma once

#include <optional>
#include <span>

#include "ring/block_allocator.h"
#include "ring/layout.h"
#include "ring/lease_table.h"

namespace sidecall {

class Consumer {
 public:
  // Payloads beyond this are not copied by Drain() but straight to their final place, by Take().
  static constexpr std::uint64_t kSmallMaxBytes = std::uint64_t{8} * 1024;
  // Bytes of a large payload that Drain() copies: the size of the largest header of a frame.
  static constexpr std::uint64_t kHeadBytes = 120;
  // The least that a slab has to hold: one small payload with its length, then a head.
  static constexpr std::uint64_t kSlabMinBytes = 4 + kSmallMaxBytes + kHeadBytes;

  // The smallest header of a frame.
  static constexpr std::uint64_t kFrameMinBytes = 12;

  enum class State { kEmpty, kMore, kLarge, kBlock, kCorrupt };
  struct Drained {
    State state = State::kEmpty;
    std::uint64_t filled = 0;               // bytes in the slab: u32 length, payload, and again
    std::uint32_t records = 0;              // padding counts, too
    std::uint64_t large_payload_bytes = 0;  // kLarge: its head lies behind what is filled
    bool ring = false;                      // the peer sleeps for space and was not rung for yet
  };

  // `data` begins the data area of the peer's outbox; `mine` is our own control page; `blocks` is
  // what we lend, `leases` what we are lent.
  Consumer(Control& mine, const Control& peer, const std::byte* data, std::uint64_t capacity,
           BlockAllocator& blocks, LeaseTable& leases) noexcept
      : mine_(mine),
        peer_(peer),
        data_(data),
        capacity_(capacity),
        blocks_(blocks),
        leases_(leases) {}

  // Copies records out until there are none, a large one or a block frame is next, the slab is
  // full, or `records_max` were seen; then gives their space back. Releases take effect at once.
  [[nodiscard]] Drained Drain(std::span<std::uint8_t> slab, std::uint32_t records_max) noexcept;

  // The large record that Drain() stopped at, from byte `skip` on, which must leave exactly
  // `target.size()`. True: the peer sleeps for space and was not rung for yet.
  [[nodiscard]] bool Take(std::uint64_t skip, std::span<std::uint8_t> target) noexcept;
  [[nodiscard]] std::uint64_t large_payload_bytes() const noexcept { return large_payload_bytes_; }

  // The block frame that Drain() stopped at: its whole record is copied into the slab, and its
  // lease is held from now on. No value: corrupt.
  struct TakenBlock {
    std::uint64_t record_bytes;  // in the slab: the reference, then the frame
    BlockReference reference;
    bool ring;  // as Take()
  };
  [[nodiscard]] std::optional<TakenBlock> TakeBlock(std::span<std::uint8_t> slab) noexcept;
  [[nodiscard]] bool is_block_next() const noexcept { return block_record_bytes_ != 0; }

  // Polls the peer's cursor up to `looks` times for further records. A hint: Drain()
  // loads the cursor itself.
  void Linger(std::uint32_t looks) const noexcept;

  // Later records are not read: the peer is gone, and bytes that are still written there are not
  // part of the session. False: corrupt.
  [[nodiscard]] bool Freeze() noexcept;

  // True: there are records beyond those consumed. The last check before sleep.
  [[nodiscard]] bool HasUnseenRecords() const noexcept;

  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_; }
  // Bytes that wait, as of the last drain, and the most that ever did.
  [[nodiscard]] std::uint64_t unread() const noexcept { return produced_ - consumed_; }
  [[nodiscard]] std::uint64_t high_water() const noexcept { return high_water_; }

 private:
  // Loads the peer's producer cursor. False: no correct peer stores such a value.
  [[nodiscard]] bool Peek() noexcept;
  [[nodiscard]] bool Release() noexcept;
  // Blocks of ours that the peer gives back. False: it did not hold all of them.
  [[nodiscard]] bool TakeBack(const std::byte* payload, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool IsValid(RecordHeader header, std::uint64_t until_end,
                             std::uint64_t available) const noexcept;

  Control& mine_;
  const Control& peer_;
  const std::byte* const data_;
  const std::uint64_t capacity_;
  BlockAllocator& blocks_;
  LeaseTable& leases_;
  // Invariant: released <= consumed <= produced <= consumed + capacity.
  std::uint64_t released_ = 0;
  std::uint64_t consumed_ = 0;
  std::uint64_t produced_ = 0;             // the peer's producer cursor, as last accepted
  std::uint64_t answered_ = 0;             // the last odd epoch of the peer's that we rang for
  std::uint64_t large_payload_bytes_ = 0;  // by the one load of its header; 0: none is next
  std::uint64_t block_record_bytes_ = 0;   // the same of a block frame
  std::uint64_t high_water_ = 0;           // the most that ever waited
  bool is_frozen_ = false;
};

}  // namespace sidecall
