// SPDX-License-Identifier: MIT
// Writes records into our outbox: claim, commit, publish, look for space.
#pragma once

#include "ring/layout.h"

namespace sidecall {

class Producer {
 public:
  enum class Space { kFree, kFull, kTooLarge, kCorrupt };
  struct Claimed {
    Space space = Space::kFull;
    std::byte* place = nullptr;  // of the payload, where there is space
    std::uint64_t wanted = 0;    // bytes that have to be free, padding included, where it is full
  };

  // `data` begins the data area of `mine`; `peer` is the other outbox's control page.
  Producer(Control& mine, std::byte* data, const Control& peer, std::uint64_t capacity) noexcept
      : mine_(mine), data_(data), peer_(peer), capacity_(capacity) {}

  // Takes space for one record. A claim that is not committed is abandoned: it has changed
  // nothing that the peer can see.
  [[nodiscard]] Claimed Claim(std::uint64_t payload_bytes) noexcept;

  // Completes the record last claimed, after its bytes were copied in; it may be shorter.
  void Commit(std::uint64_t payload_bytes, RecordKind kind) noexcept;

  // Makes all committed records visible. True: the peer sleeps and was not rung for yet.
  [[nodiscard]] bool Publish() noexcept;

  // True: the peer sleeps, and sleeps on until the next publication. A hint:
  // only Publish() is exact.
  [[nodiscard]] bool IsPeerAsleep() const noexcept;

  // Loads the peer's consumer cursor. False: no correct peer stores such a value.
  [[nodiscard]] bool LookForSpace(std::memory_order order) noexcept;

  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }
  [[nodiscard]] std::uint64_t seen() const noexcept { return seen_; }
  [[nodiscard]] std::uint64_t unpublished() const noexcept { return written_ - published_; }
  [[nodiscard]] std::uint64_t unread() const noexcept { return written_ - seen_; }
  [[nodiscard]] std::uint64_t free() const noexcept { return capacity_ - unread(); }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint64_t record_max_bytes() const noexcept {
    return RecordMaxBytes(capacity_);
  }

 private:
  [[nodiscard]] std::uint64_t OffsetOf(std::uint64_t cursor) const noexcept {
    return cursor & (capacity_ - 1);
  }

  Control& mine_;
  std::byte* const data_;
  const Control& peer_;
  const std::uint64_t capacity_;
  // Invariant: seen <= published <= written <= seen + capacity.
  std::uint64_t seen_ = 0;       // the peer's consumer cursor, as last accepted
  std::uint64_t published_ = 0;  // what our producer cursor says
  std::uint64_t written_ = 0;
  std::uint64_t answered_ = 0;  // the last odd epoch of the peer's that we rang for
};

}  // namespace sidecall
