// SPDX-License-Identifier: MIT
// The two queues of a session of shmipc-go, in one file: the first half goes from the client to the
// server. An element names a stream and the first slice of its message.
#pragma once

#include "shmipc/words.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {

struct Element {
  std::uint32_t stream = 0;
  std::uint32_t offset = 0;  // of the first slice, in the buffer file
  std::uint32_t status = 0;  // kData, kClosed
};

inline constexpr std::uint32_t kData = 0;
inline constexpr std::uint32_t kClosed = 1;

inline constexpr std::size_t kQueueHeaderBytes = 24;
inline constexpr std::size_t kElementBytes = 12;
inline constexpr std::uint32_t kQueueCapacityMax = 1U << 20;

[[nodiscard]] constexpr std::size_t HalfBytes(std::uint32_t capacity) noexcept {
  return kQueueHeaderBytes + kElementBytes * capacity;
}

// Writes the header of an empty half whose memory is zero.
void InitializeHalf(std::byte* half, std::uint32_t capacity) noexcept;

// The capacity in the header of a half; read once, since the peer may change it.
[[nodiscard]] std::uint32_t CapacityOf(const std::byte* half) noexcept;

// The half that we send by. Its counters lie in memory that the peer writes, too, so the private
// copies count.
class SendQueue {
 public:
  enum class Put { kDone, kDoneAndWake };

  SendQueue(std::byte* half, std::uint32_t capacity) noexcept : half_(half), capacity_(capacity) {}

  enum class Room { kSome, kNone, kCorrupt };
  [[nodiscard]] Room HasRoom() noexcept;
  // NOTE: only after HasRoom(). kDoneAndWake: the peer sleeps, and waits for an event.
  [[nodiscard]] Put Push(const Element& element) noexcept;
  // True: the peer has taken all elements.
  [[nodiscard]] bool IsConsumed() const noexcept { return LoadCounter(half_ + 4) == tail_; }
  // Elements that the peer has taken so far, as of the last HasRoom().
  [[nodiscard]] std::int64_t consumed() const noexcept { return head_; }

 private:
  std::byte* half_;
  std::uint32_t capacity_;
  std::int64_t tail_ = 0;
  std::int64_t head_ = 0;  // the last that was seen
};

// The half that we receive by.
class ReceiveQueue {
 public:
  ReceiveQueue(std::byte* half, std::uint32_t capacity) noexcept
      : half_(half), capacity_(capacity) {}

  enum class Popped { kElement, kEmpty, kCorrupt };
  [[nodiscard]] Popped Pop(Element& element) noexcept;
  // Elements that the producer has put, ever. False: corrupt.
  [[nodiscard]] bool CountPut(std::int64_t& put) noexcept;
  // Elements that were popped, ever.
  [[nodiscard]] std::int64_t taken() const noexcept { return head_; }
  // Announces that we sleep. False: an element came meanwhile, and we do not.
  [[nodiscard]] bool Rest() noexcept;

 private:
  std::byte* half_;
  std::uint32_t capacity_;
  std::int64_t head_ = 0;
  std::int64_t tail_ = 0;  // the last that was seen
};

}  // namespace sidecall::shmipc
#endif
