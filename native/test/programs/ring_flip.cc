// SPDX-License-Identifier: MIT
// For ASan and UBSan: a reader against a thread that rewrites headers, cursors, epochs and payload
// of the peer's outbox without pause. ring_flip SECONDS, and until both records and corrupt rings
// were seen. Any result but a report is valid.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "ball_game.h"
#include "ring_fixture.h"

namespace {

using namespace sidecall;
using namespace sidecall::test;

constexpr std::uint64_t kCapacity = 64 * 1024;

class Flipper {
 public:
  explicit Flipper(PlainOutbox& box) : box_(box) {}

  // Mostly slightly wrong values near the reader, since
  // the reader refuses distant ones at its first check.
  void Flip() {
    const std::uint64_t drawn = random_.Next();
    const std::uint64_t near = (cursor_ + (drawn >> 8) % 4096) & ~std::uint64_t{7};
    switch (drawn % 256) {
      case 0: box_.SetProducer(drawn); break;
      case 1: box_.SetConsumer((drawn >> 20) & ~std::uint64_t{7}); break;
      case 2: box_.SetHeader(near % kCapacity, drawn); break;
      case 3: StoreWord(box_.control().data_sleep_epoch, drawn, std::memory_order_seq_cst); break;
      case 4: box_.SetProducer(near); break;
      default: {
        const std::uint64_t sizes[] = {1, 40, 100, 4000, 9000, kCapacity / 2 - 8, kCapacity};
        const std::uint64_t size = sizes[(drawn >> 24) % 7];
        const std::uint64_t kind = (drawn >> 32) % 16 == 0 ? 1 : 2;
        box_.SetHeader(near % kCapacity, size | kind << 32);
      }
    }
  }

  // Moves the flips and the producer cursor to the reader's position.
  void Follow(std::uint64_t cursor) {
    cursor_ = cursor;
    box_.SetProducer(cursor + 16 * 1024);
  }

 private:
  PlainOutbox& box_;
  Random random_{7};
  std::uint64_t cursor_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fputs("usage: ring_flip SECONDS\n", stderr), 2;
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::seconds(std::strtoul(argv[1], nullptr, 10));
  PlainOutbox liar(kCapacity);
  PlainOutbox mine(kCapacity);
  CountingBell bell;
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> consumed{0};
  std::uint64_t flips = 0;
  std::thread flipping([&] {
    Flipper flipper(liar);
    while (!is_over.load(std::memory_order_relaxed)) {
      flipper.Flip();
      if (++flips % 64 == 0) flipper.Follow(consumed.load(std::memory_order_relaxed));
    }
  });
  std::uint64_t corrupt = 0;
  std::uint64_t frames = 0;
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  auto large = std::make_unique<std::uint8_t[]>(kRecordMaxBytes);
  while (std::chrono::steady_clock::now() < end || frames == 0 || corrupt == 0) {
    liar.SetProducer(0);
    liar.SetConsumer(0);
    Ring ring({mine.control(), mine.data(), kCapacity, liar.control(), liar.data(), kCapacity},
              bell);
    for (int turn = 0; turn < 64; ++turn) {
      const Consumer::Drained drained = ring.Drain(slab, 256);
      consumed.store(ring.consumer().consumed(), std::memory_order_relaxed);
      if (drained.state == Consumer::State::kCorrupt) break;
      if (drained.records > 256 || drained.filled > slab.size()) std::abort();
      frames += drained.records;
      if (drained.state == Consumer::State::kLarge) {
        // Memory of the announced length: a byte more is a report of ASan.
        const std::unique_ptr<std::uint8_t[]> exact(
            new std::uint8_t[drained.large_payload_bytes - 12]);
        ring.Take(12, {exact.get(), drained.large_payload_bytes - 12});
      }
      (void)Put(ring, FrameOf(1 + static_cast<std::size_t>(turn) * 400, 1));
      ring.Publish();
      (void)ring.HasRoom();
      (void)ring.PrepareToSleep();
      ring.Wake();
    }
    corrupt += ring.is_corrupt() ? 1 : 0;
  }
  is_over = true;
  flipping.join();
  std::printf("%llu flips, %llu records read, %llu rings found corrupt\n",
              static_cast<unsigned long long>(flips), static_cast<unsigned long long>(frames),
              static_cast<unsigned long long>(corrupt));
  return 0;
}
