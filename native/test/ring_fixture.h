// SPDX-License-Identifier: MIT
// Two rings over plain memory in one process, whose words tests can overwrite.
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "ring/ring.h"
#include "ring/shared_words.h"

namespace sidecall::test {

// An outbox in heap memory, without a memfd. Its data area ends with the allocation, so that a
// sanitizer reports each access beyond it.
class PlainOutbox {
 public:
  explicit PlainOutbox(std::uint64_t capacity, std::uint64_t block_area = 0)
      : capacity_(capacity),
        block_area_(block_area),
        control_(std::make_unique<Control>()),
        data_(static_cast<std::byte*>(
            ::operator new (capacity + block_area, std::align_val_t{kLine}))) {
    std::memset(data_, 0, capacity + block_area);
  }
  PlainOutbox(const PlainOutbox&) = delete;
  PlainOutbox& operator=(const PlainOutbox&) = delete;
  ~PlainOutbox() { ::operator delete (data_, std::align_val_t{kLine}); }

  [[nodiscard]] Control& control() { return *control_; }
  [[nodiscard]] std::byte* data() { return data_; }
  [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
  [[nodiscard]] std::uint64_t block_area() const { return block_area_; }

  // Stores of arbitrary words, as an incorrect peer makes them.
  void SetProducer(std::uint64_t cursor) {
    StoreWord(control_->producer_cursor, cursor, std::memory_order_seq_cst);
  }
  void SetConsumer(std::uint64_t cursor) {
    StoreWord(control_->consumer_cursor, cursor, std::memory_order_seq_cst);
  }
  void SetHeader(std::uint64_t offset, std::uint64_t word) { StoreHeader(data_ + offset, word); }

 private:
  std::uint64_t capacity_;
  std::uint64_t block_area_;
  std::unique_ptr<Control> control_;
  std::byte* data_;
};

class CountingBell final : public Doorbell {
 public:
  [[nodiscard]] bool Ring() noexcept override {
    attempts += 1;
    if (is_broken) return false;
    rung += 1;
    return true;
  }
  int attempts = 0;
  int rung = 0;
  bool is_broken = false;
};

struct Sides {
  explicit Sides(std::uint64_t near_capacity, std::uint64_t far_capacity = 0,
                 std::uint64_t block_area = 0)
      : near_box(near_capacity, block_area),
        far_box(far_capacity == 0 ? near_capacity : far_capacity, block_area),
        near({near_box.control(), near_box.data(), near_box.capacity(), far_box.control(),
              far_box.data(), far_box.capacity(), block_area, block_area},
             near_bell),
        far({far_box.control(), far_box.data(), far_box.capacity(), near_box.control(),
             near_box.data(), near_box.capacity(), block_area, block_area},
            far_bell) {}

  PlainOutbox near_box;
  PlainOutbox far_box;
  CountingBell near_bell;  // rung by near, for far
  CountingBell far_bell;
  Ring near;
  Ring far;
};

using Frame = std::vector<std::uint8_t>;

inline Frame FrameOf(std::size_t bytes, std::uint64_t seed) {
  Frame frame(bytes);
  for (std::size_t at = 0; at < bytes; ++at) {
    frame[at] = static_cast<std::uint8_t>((seed * 31 + at * 7) & 0xff);
  }
  return frame;
}

inline Ring::Written Put(Ring& ring, const Frame& frame, Ring::Queue queue = Ring::Queue::kAny) {
  const std::size_t head = frame.size() < 12 ? frame.size() : 12;
  return ring.Write({frame.data(), head}, {frame.data() + head, frame.size() - head}, queue);
}

struct Received {
  Consumer::State state = Consumer::State::kEmpty;
  std::vector<Frame> frames;
};

// Drains once; takes the large record behind it, too.
inline Received DrainOnce(Ring& ring, std::uint32_t records_max = 256,
                          std::size_t slab_bytes = Consumer::kSlabMinBytes) {
  std::vector<std::uint8_t> slab(slab_bytes);
  const Consumer::Drained drained = ring.Drain(slab, records_max);
  Received received{drained.state, {}};
  for (std::size_t at = 0; at < drained.filled;) {
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, slab.data() + at, sizeof bytes);
    const auto begin = slab.begin() + static_cast<std::ptrdiff_t>(at + 4);
    received.frames.emplace_back(begin, begin + bytes);
    at += 4 + bytes;
  }
  if (drained.state == Consumer::State::kLarge) {
    Frame frame(drained.large_payload_bytes);
    const auto head = slab.begin() + static_cast<std::ptrdiff_t>(drained.filled);
    std::copy(head, head + 12, frame.begin());
    ring.Take(12, std::span(frame).subspan(12));
    received.frames.push_back(std::move(frame));
  }
  return received;
}

inline std::vector<Frame> DrainAll(Ring& ring) {
  std::vector<Frame> all;
  for (;;) {
    Received received = DrainOnce(ring);
    for (Frame& frame : received.frames) all.push_back(std::move(frame));
    const bool is_over =
        received.state == Consumer::State::kEmpty || received.state == Consumer::State::kCorrupt;
    if (is_over) return all;
  }
}

}  // namespace sidecall::test
