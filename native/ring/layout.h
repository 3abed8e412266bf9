// SPDX-License-Identifier: MIT
// The bytes that both processes see: control page, record header. docs/protocol.md draws them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace sidecall {

// A word that one process stores and the other loads, without a lock.
using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

inline constexpr std::uint32_t kOutboxMagic = 0x6c616373;  // the bytes "scal"
inline constexpr std::uint32_t kOutboxVersion = 1;
inline constexpr std::size_t kNonceBytes = 16;

// The page size of Apple silicon: each part of an object must be a multiple of it there.
inline constexpr std::uint64_t kControlPageBytes = 16'384;
inline constexpr std::uint64_t kCapacityMin = std::uint64_t{64} * 1024;
inline constexpr std::uint64_t kCapacityMax = std::uint64_t{64} * 1024 * 1024;
inline constexpr std::uint64_t kBlockAreaMax = std::uint64_t{1024} * 1024 * 1024;
inline constexpr std::uint64_t kBlockAreaUnit = 16'384;

// A header never straddles the end of the data area, and is loaded in one instruction.
inline constexpr std::uint64_t kRecordAlign = 8;
inline constexpr std::uint64_t kRecordHeader = 8;
inline constexpr std::uint64_t kRecordMaxBytes = 64 * 1024 + 128;

// A block of the block area begins at a multiple of it.
inline constexpr std::uint64_t kBlockAlign = 4096;
// Most blocks of one area in use at once. Both sides count, so that no correct peer sends more.
inline constexpr std::uint32_t kLeasesMax = 1024;
inline constexpr std::uint32_t kReleasesPerRecord = 128;

inline constexpr std::uint8_t kDoorbell = 0x01;

// 128: the cache line of Apple's cores, and the pair of lines that x86 prefetches together.
inline constexpr std::size_t kLine = 128;

// Written once, before sealing.
struct OutboxHeader {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t capacity_bytes;
  std::uint64_t block_area_bytes;
  std::uint8_t nonce[kNonceBytes];
};

// The beginning of an outbox. Its owner stores here and never loads: it keeps its own values in
// private memory. The peer has it mapped read-only.
struct Control {
  alignas(kLine) OutboxHeader header;
  alignas(kLine) Word producer_cursor;    // bytes published here
  alignas(kLine) Word consumer_cursor;    // bytes consumed of the peer's outbox
  alignas(kLine) Word data_sleep_epoch;   // odd: the owner sleeps, waiting for records
  alignas(kLine) Word space_sleep_epoch;  // odd: the owner sleeps, waiting for space
};
static_assert(std::is_standard_layout_v<Control>);
static_assert(sizeof(OutboxHeader) == 40);
static_assert(offsetof(Control, header) == 0);
static_assert(offsetof(Control, producer_cursor) == 128);
static_assert(offsetof(Control, consumer_cursor) == 256);
static_assert(offsetof(Control, data_sleep_epoch) == 384);
static_assert(offsetof(Control, space_sleep_epoch) == 512);
static_assert(sizeof(Control) == 640 && sizeof(Control) <= kControlPageBytes);

// A record header is one u64: payload_bytes in its lower half, then the kind, then zero.
enum class RecordKind : std::uint16_t {
  kPadding = 1,
  kFrame = 2,
  kBlockFrame = 3,    // a reference, then a frame whose message lies in the block area
  kBlockRelease = 4,  // ids of leases, u64 each, that the sender of this record gives back
};

// Where a message lies in its sender's block area.
struct BlockReference {
  std::uint64_t offset;
  std::uint64_t payload_bytes;
  std::uint64_t lease_id;  // one more than the last
};
static_assert(sizeof(BlockReference) == 24 && std::is_trivially_copyable_v<BlockReference>);

struct RecordHeader {
  std::uint32_t payload_bytes;
  std::uint16_t kind;
  std::uint16_t zero;

  [[nodiscard]] static constexpr RecordHeader Split(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
            static_cast<std::uint16_t>(word >> 48)};
  }
  [[nodiscard]] static constexpr std::uint64_t Join(std::uint32_t payload_bytes,
                                                    RecordKind kind) noexcept {
    return payload_bytes | (static_cast<std::uint64_t>(kind) << 32);
  }
};

// In u64: a length near 2^32 must not wrap.
[[nodiscard]] constexpr std::uint64_t RecordBytes(std::uint64_t payload_bytes) noexcept {
  return (kRecordHeader + payload_bytes + kRecordAlign - 1) & ~(kRecordAlign - 1);
}

// Half the ring at most, so that an empty ring takes any record at any offset.
[[nodiscard]] constexpr std::uint64_t RecordMaxBytes(std::uint64_t capacity) noexcept {
  return capacity / 2 < kRecordMaxBytes ? capacity / 2 : kRecordMaxBytes;
}

[[nodiscard]] constexpr bool IsCapacity(std::uint64_t bytes) noexcept {
  return bytes >= kCapacityMin && bytes <= kCapacityMax && (bytes & (bytes - 1)) == 0;
}

[[nodiscard]] constexpr bool IsBlockArea(std::uint64_t bytes) noexcept {
  return bytes <= kBlockAreaMax && bytes % kBlockAreaUnit == 0;
}

}  // namespace sidecall
