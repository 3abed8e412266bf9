// SPDX-License-Identifier: MIT
// For TSan: two threads over one mapping of each outbox, since TSan shadows addresses: two mappings
// of one memory would hide races. ring_race SLEEPS RECORDS
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "ball_game.h"
#include "ring_fixture.h"

namespace {

using namespace sidecall;
using namespace sidecall::test;

struct Table {
  explicit Table(std::uint64_t capacity)
      : near_box(capacity),
        far_box(capacity),
        near_bell(bells.rung[1]),
        far_bell(bells.rung[0]),
        near({near_box.control(), near_box.data(), capacity, far_box.control(), far_box.data(),
              capacity},
             near_bell),
        far({far_box.control(), far_box.data(), capacity, near_box.control(), near_box.data(),
             capacity},
            far_bell) {}
  MemoryBells bells;
  PlainOutbox near_box;
  PlainOutbox far_box;
  MemoryBell near_bell;
  MemoryBell far_bell;
  Ring near;
  Ring far;
};

bool PlayBall(std::uint64_t sleeps) {
  Table table(256);
  std::atomic<int> done{0};
  GameResult far_result;
  std::thread other([&] {
    far_result = Player(table.far, table.bells.rung[1], 2).Play(false, sleeps / 2, done);
  });
  const GameResult result = Player(table.near, table.bells.rung[0], 1).Play(true, sleeps / 2, done);
  other.join();
  std::printf("ball: %llu sleeps, %llu records\n",
              static_cast<unsigned long long>(result.sleeps + far_result.sleeps),
              static_cast<unsigned long long>(result.records + far_result.records));
  return !result.is_wedged && !result.is_wrong && !far_result.is_wedged && !far_result.is_wrong;
}

// Sends records of all sizes in one direction; both sides spin.
bool SendRecords(std::uint64_t records) {
  Table table(64 * 1024);
  std::thread writer([&] {
    for (std::uint64_t number = 0; number < records; ++number) {
      const Frame frame = FrameOf(1 + (number * 131) % 20'000, number);
      while (Put(table.near, frame) != Ring::Written::kWritten) table.near.Publish();
      table.near.Publish();
    }
  });
  std::uint64_t received = 0;
  bool is_right = true;
  while (received < records && is_right) {
    for (const Frame& frame : DrainOnce(table.far).frames) {
      is_right = is_right && frame == FrameOf(1 + (received * 131) % 20'000, received);
      received += 1;
    }
  }
  writer.join();
  std::printf("records: %llu\n", static_cast<unsigned long long>(received));
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: ring_race SLEEPS RECORDS\n", stderr), 2;
  const bool is_right = SendRecords(std::strtoull(argv[2], nullptr, 10)) &&
                        PlayBall(std::strtoull(argv[1], nullptr, 10));
  std::puts(is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
