// SPDX-License-Identifier: MIT
// Records, space and sleep for rings of several sizes. Invalid peers: ring_corrupt_test.cc.
#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "ring_fixture.h"

namespace sidecall::ring_test {
namespace {

using namespace test;
using State = Consumer::State;
using Written = Ring::Written;

constexpr std::uint64_t kTiny = 256;  // records of 128 bytes at most: all remainders can be tried
constexpr std::uint64_t kSmall = 64 * 1024;

// No record is shorter than 16 bytes, so none begins at offset 8.
bool CanBegin(std::uint64_t offset) { return offset != 8; }

// Moves both cursors of near's outbox to `offset`, a multiple of 8 where a record can begin.
void MoveTo(Sides& sides, std::uint64_t offset) {
  const auto step = [&](std::size_t bytes) {
    REQUIRE_EQ(Put(sides.near, FrameOf(bytes, 1)), Written::kWritten);
    sides.near.Publish();
    REQUIRE_EQ(DrainAll(sides.far).size(), 1);
  };
  if (offset % 16 == 8) step(9);  // 24 bytes with its header; all others take 16
  while (sides.near.producer().written() != offset) step(1);
}

TEST_CASE("a frame of every size comes out at every offset as it went in") {
  for (std::uint64_t offset = 0; offset < kTiny; offset += 8) {
    if (!CanBegin(offset)) continue;
    for (std::size_t bytes = 1; bytes <= kTiny / 2 - kRecordHeader; ++bytes) {
      Sides sides(kTiny);
      MoveTo(sides, offset);
      const Frame frame = FrameOf(bytes, offset + bytes);
      REQUIRE_EQ(Put(sides.near, frame), Written::kWritten);
      sides.near.Publish();
      const std::vector<Frame> frames = DrainAll(sides.far);
      REQUIRE_EQ(frames.size(), 1);
      REQUIRE(frames[0] == frame);
      REQUIRE_EQ(sides.far.consumer().consumed(), sides.near.producer().written());
    }
  }
}

TEST_CASE("an empty ring takes the largest record at every offset") {
  for (std::uint64_t offset = 0; offset < kTiny; offset += 8) {
    if (!CanBegin(offset)) continue;
    Sides sides(kTiny);
    MoveTo(sides, offset);
    CHECK_EQ(Put(sides.near, FrameOf(kTiny / 2 - kRecordHeader, 1)), Written::kWritten);
  }
}

TEST_CASE("a record that ends exactly at the end needs no padding") {
  Sides sides(kTiny);
  MoveTo(sides, kTiny - 64);
  const std::uint64_t before = sides.near.producer().written();
  REQUIRE_EQ(Put(sides.near, FrameOf(56, 1)), Written::kWritten);
  CHECK_EQ(sides.near.producer().written() - before, 64);
  REQUIRE_EQ(Put(sides.near, FrameOf(8, 2)), Written::kWritten);
  sides.near.Publish();
  CHECK_EQ(DrainAll(sides.far).size(), 2);
}

TEST_CASE("padding of one header alone fills the last 8 bytes") {
  Sides sides(kTiny);
  MoveTo(sides, kTiny - 8);
  const std::uint64_t before = sides.near.producer().written();
  REQUIRE_EQ(Put(sides.near, FrameOf(1, 1)), Written::kWritten);
  CHECK_EQ(sides.near.producer().written() - before, 8 + 16);
  sides.near.Publish();
  CHECK(DrainAll(sides.far) == std::vector<Frame>{FrameOf(1, 1)});
}

TEST_CASE("padded at the end and still no room at the front: nothing was changed") {
  Sides sides(kTiny);
  MoveTo(sides, 128);
  REQUIRE_EQ(Put(sides.near, FrameOf(88, 1)), Written::kWritten);  // 128 to 224: 32 are left
  sides.near.Publish();
  const std::uint64_t before = sides.near.producer().written();
  // 32 of padding and 128 of record are exactly the 160 that are free.
  REQUIRE_EQ(Put(sides.near, FrameOf(120, 2)), Written::kWritten);
  CHECK_EQ(sides.near.producer().written() - before, 32 + 128);
  REQUIRE_EQ(Put(sides.near, FrameOf(1, 3)), Written::kFull);
  CHECK_EQ(sides.near.producer().written() - before, 32 + 128);
  sides.near.Publish();
  CHECK(DrainAll(sides.far) == std::vector<Frame>{FrameOf(88, 1), FrameOf(120, 2)});
  CHECK(sides.near.HasRoom());
  CHECK_EQ(Put(sides.near, FrameOf(1, 3)), Written::kWritten);

  // A ring that is full: 32 are left at the end, and too few are free at the front.
  Sides other(kTiny);
  REQUIRE_EQ(Put(other.near, FrameOf(40, 1)), Written::kWritten);  // 0 to 48
  REQUIRE_EQ(Put(other.near, FrameOf(88, 2)), Written::kWritten);  // to 144
  REQUIRE_EQ(Put(other.near, FrameOf(72, 3)), Written::kWritten);  // to 224
  other.near.Publish();
  REQUIRE_EQ(DrainOnce(other.far, 1).frames.size(), 1);  // 48 are free at the front
  const std::uint64_t written = other.near.producer().written();
  CHECK_EQ(Put(other.near, FrameOf(48, 4)), Written::kFull);  // 32 of padding, 56 of record
  CHECK_EQ(other.near.producer().written(), written);
  CHECK_FALSE(other.near.HasRoom());
  REQUIRE_EQ(DrainOnce(other.far, 1).frames.size(), 1);
  CHECK(other.near.HasRoom());
  CHECK_EQ(Put(other.near, FrameOf(48, 4)), Written::kWritten);
  other.near.Publish();
  CHECK(DrainAll(other.far) == std::vector<Frame>{FrameOf(72, 3), FrameOf(48, 4)});
}

TEST_CASE("a record larger than half the ring is the caller's mistake") {
  Sides sides(kTiny);
  CHECK_EQ(Put(sides.near, FrameOf(kTiny / 2 - kRecordHeader + 1, 1)), Written::kTooLarge);
  Sides large(1 << 20);
  CHECK_EQ(Put(large.near, FrameOf(kRecordMaxBytes - kRecordHeader + 1, 1)), Written::kTooLarge);
  CHECK_EQ(Put(large.near, FrameOf(kRecordMaxBytes - kRecordHeader, 1)), Written::kWritten);
  CHECK_EQ(large.near.Reserve(~0ULL), Written::kTooLarge);
}

TEST_CASE("nothing is seen before it is published") {
  Sides sides(kSmall);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 1)), Written::kWritten);
  CHECK(DrainAll(sides.far).empty());
  sides.near.Publish();
  CHECK_EQ(DrainAll(sides.far).size(), 1);
}

TEST_CASE("the first record for a sleeper becomes visible, and rings, by itself") {
  Sides sides(kSmall);
  REQUIRE(sides.far.PrepareToSleep());
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 1)), Written::kWritten);
  CHECK_EQ(sides.near_bell.rung, 1);
  CHECK_EQ(DrainAll(sides.far).size(), 1);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 2)), Written::kWritten);  // rung for already
  CHECK(DrainAll(sides.far).empty());
}

TEST_CASE("what is reserved and not committed is abandoned") {
  Sides sides(kSmall);
  REQUIRE_EQ(sides.near.Reserve(100), Written::kWritten);
  std::memset(sides.near.reserved(), 0xff, 100);
  REQUIRE_EQ(Put(sides.near, FrameOf(20, 2)), Written::kWritten);
  sides.near.Publish();
  CHECK(DrainAll(sides.far) == std::vector<Frame>{FrameOf(20, 2)});
}

TEST_CASE("less than was reserved may be committed") {
  Sides sides(kSmall);
  REQUIRE_EQ(sides.near.Reserve(300), Written::kWritten);
  const Frame frame = FrameOf(40, 3);
  std::memcpy(sides.near.reserved(), frame.data(), frame.size());
  sides.near.CommitReserved(frame.size());
  CHECK_EQ(sides.near.producer().written(), 48);
  sides.near.Publish();
  CHECK(DrainAll(sides.far) == std::vector<Frame>{frame});
}

TEST_CASE("one record's worth unpublished becomes visible by itself") {
  Sides sides(1 << 20);
  const std::size_t half = kRecordMaxBytes / 2;
  REQUIRE_EQ(Put(sides.near, FrameOf(half, 1)), Written::kWritten);
  CHECK(DrainAll(sides.far).empty());
  REQUIRE_EQ(Put(sides.near, FrameOf(half, 2)), Written::kWritten);
  CHECK_EQ(DrainAll(sides.far).size(), 2);
}

TEST_CASE("of a long message two records at most are unread, and a small frame still goes") {
  Sides sides(1 << 20);
  const Frame piece = FrameOf(kRecordMaxBytes - kRecordHeader, 1);
  REQUIRE_EQ(Put(sides.near, piece, Ring::Queue::kBulk), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, piece, Ring::Queue::kBulk), Written::kWritten);
  CHECK_EQ(Put(sides.near, piece, Ring::Queue::kBulk), Written::kFull);
  CHECK_EQ(Put(sides.near, FrameOf(100, 2)), Written::kWritten);
  CHECK_FALSE(sides.near.HasRoom());
  sides.near.Publish();
  REQUIRE_EQ(DrainOnce(sides.far).frames.size(), 1);
  CHECK(sides.near.HasRoom());
  CHECK_EQ(Put(sides.near, piece, Ring::Queue::kBulk), Written::kWritten);
}

TEST_CASE("beside small frames two pieces of 16 KiB at most are unread") {
  Sides sides(1 << 20);
  const Frame piece = FrameOf(16 * 1024, 1);
  const Frame longest = FrameOf(kRecordMaxBytes - kRecordHeader, 1);
  REQUIRE_EQ(Put(sides.near, piece, Ring::Queue::kShared), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, piece, Ring::Queue::kShared), Written::kWritten);
  CHECK_EQ(Put(sides.near, piece, Ring::Queue::kShared), Written::kFull);
  CHECK_EQ(Put(sides.near, FrameOf(100, 2)), Written::kWritten);
  CHECK_EQ(Put(sides.near, longest, Ring::Queue::kBulk), Written::kWritten);
  sides.near.Publish();
  REQUIRE_EQ(DrainAll(sides.far).size(), 4);
  CHECK(sides.near.HasRoom());
  CHECK_EQ(Put(sides.near, piece, Ring::Queue::kShared), Written::kWritten);
}

TEST_CASE("a drain stops at its number of records, and at the end of its slab") {
  Sides sides(kSmall);
  for (std::uint64_t at = 0; at < 10; ++at) {
    REQUIRE_EQ(Put(sides.near, FrameOf(3000, at)), Written::kWritten);
  }
  sides.near.Publish();
  test::Received first = DrainOnce(sides.far, 1);
  CHECK_EQ(first.state, State::kMore);
  CHECK_EQ(first.frames.size(), 1);
  test::Received second = DrainOnce(sides.far, 256);  // 8,316 bytes: two of 3,004 fit
  CHECK_EQ(second.state, State::kMore);
  CHECK_EQ(second.frames.size(), 2);
  CHECK_EQ(DrainAll(sides.far).size(), 7);
}

TEST_CASE("a payload of more than 8 KiB is handed out head first and taken in one piece") {
  Sides sides(1 << 20);
  const Frame large = FrameOf(Consumer::kSmallMaxBytes + 1, 1);
  const Frame small = FrameOf(Consumer::kSmallMaxBytes, 2);
  for (const Frame& frame : {small, large, small}) {
    REQUIRE_EQ(Put(sides.near, frame), Written::kWritten);
  }
  sides.near.Publish();
  test::Received first = DrainOnce(sides.far);
  // The slab is full with the first; the second begins a drain of its own.
  CHECK(first.frames == std::vector<Frame>{small, large});
  CHECK(DrainAll(sides.far) == std::vector<Frame>{small});
}

TEST_CASE("a large record is released only when it was taken") {
  Sides sides(1 << 20);
  REQUIRE_EQ(Put(sides.near, FrameOf(20'000, 1)), Written::kWritten);
  sides.near.Publish();
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  for (int look = 0; look < 2; ++look) {  // a second call has the same result
    const Consumer::Drained drained = sides.far.Drain(slab, 256);
    CHECK_EQ(drained.state, State::kLarge);
    CHECK_EQ(drained.large_payload_bytes, 20'000);
    CHECK_EQ(sides.far.consumer().consumed(), 0);
  }
  Frame rest(20'000 - 28);
  sides.far.Take(28, rest);
  CHECK_EQ(sides.far.consumer().consumed(), 20'008);
  CHECK(std::equal(rest.begin(), rest.end(), FrameOf(20'000, 1).begin() + 28));
}

TEST_CASE("a sleeper is rung for once, by the first publication") {
  Sides sides(kSmall);
  REQUIRE(sides.far.PrepareToSleep());
  for (std::uint64_t at = 0; at < 5; ++at) {
    REQUIRE_EQ(Put(sides.near, FrameOf(10, at)), Written::kWritten);
    sides.near.Publish();
  }
  CHECK_EQ(sides.near_bell.rung, 1);
  CHECK(sides.far.OnDoorbell(1));
  CHECK_EQ(DrainAll(sides.far).size(), 5);
  // Awake: no doorbell is rung.
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 9)), Written::kWritten);
  sides.near.Publish();
  CHECK_EQ(sides.near_bell.rung, 1);
  CHECK_FALSE(sides.far.PrepareToSleep());  // a record is ready
  CHECK_EQ(DrainAll(sides.far).size(), 1);
  REQUIRE(sides.far.PrepareToSleep());
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 9)), Written::kWritten);
  sides.near.Publish();
  CHECK_EQ(sides.near_bell.rung, 2);  // another sleep
}

TEST_CASE("who goes to sleep makes visible what it wrote") {
  Sides sides(kSmall);
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 1)), Written::kWritten);
  REQUIRE(sides.near.PrepareToSleep());
  CHECK_EQ(DrainAll(sides.far).size(), 1);
}

TEST_CASE("who waits for space is rung for when there is some, and not before") {
  Sides sides(kTiny);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 1)), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 2)), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 3)), Written::kFull);
  REQUIRE(sides.near.PrepareToSleep());
  CHECK_EQ(sides.far_bell.rung, 0);
  REQUIRE_EQ(DrainOnce(sides.far, 1).frames.size(), 1);
  CHECK_EQ(sides.far_bell.rung, 1);
  CHECK(sides.near.OnDoorbell(1));
  CHECK(sides.near.HasRoom());
  CHECK_EQ(Put(sides.near, FrameOf(100, 3)), Written::kWritten);
}

TEST_CASE("space that came between the refusal and the sleep is seen") {
  Sides sides(kTiny);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 1)), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 2)), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 3)), Written::kFull);
  sides.near.Publish();
  CHECK_EQ(DrainAll(sides.far).size(), 2);
  CHECK_FALSE(sides.near.PrepareToSleep());
  CHECK(sides.near.HasRoom());
}

TEST_CASE("a doorbell beyond the announced sleeps is a violation") {
  Sides sides(kSmall);
  CHECK_FALSE(sides.near.OnDoorbell(1));
  Sides others(kSmall);
  REQUIRE(others.near.PrepareToSleep());
  CHECK(others.near.OnDoorbell(1));
  CHECK_FALSE(others.near.OnDoorbell(1));
  Sides waiting(kTiny);
  REQUIRE_EQ(Put(waiting.near, FrameOf(100, 1)), Written::kWritten);
  REQUIRE_EQ(Put(waiting.near, FrameOf(100, 2)), Written::kWritten);
  REQUIRE_EQ(Put(waiting.near, FrameOf(100, 3)), Written::kFull);
  REQUIRE(waiting.near.PrepareToSleep());  // for data and for space: two
  CHECK(waiting.near.OnDoorbell(2));
  CHECK_FALSE(waiting.near.OnDoorbell(1));
}

TEST_CASE("a doorbell that the kernel had no memory for is owed, and keeps its owner awake") {
  Sides sides(kSmall);
  REQUIRE(sides.far.PrepareToSleep());
  sides.near_bell.is_broken = true;
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 1)), Written::kWritten);
  sides.near.Publish();
  CHECK(sides.near.owes_doorbell());
  CHECK_FALSE(sides.near.PrepareToSleep());
  CHECK_EQ(sides.near_bell.attempts, 2);
  sides.near_bell.is_broken = false;
  CHECK(sides.near.PrepareToSleep());
  CHECK_FALSE(sides.near.owes_doorbell());
  CHECK_EQ(sides.near_bell.rung, 1);
}

TEST_CASE("flipped epochs cost one doorbell per publication at most") {
  Sides sides(kSmall);
  for (std::uint64_t epoch = 1; epoch < 41; epoch += 2) {
    StoreWord(sides.far_box.control().data_sleep_epoch, epoch, std::memory_order_seq_cst);
    REQUIRE_EQ(Put(sides.near, FrameOf(10, 1)), Written::kWritten);
    sides.near.Publish();
    sides.near.Publish();
  }
  CHECK_EQ(sides.near_bell.attempts, 20);
}

TEST_CASE("of a peer that is gone what it had published is read, and nothing later") {
  Sides sides(kSmall);
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 1)), Written::kWritten);
  sides.near.Publish();
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 2)), Written::kWritten);  // half written
  sides.far.Freeze();
  sides.near.Publish();
  CHECK(DrainAll(sides.far) == std::vector<Frame>{FrameOf(10, 1)});
}

TEST_CASE("both directions do not disturb each other, whatever their capacities") {
  Sides sides(kTiny, kSmall);
  for (std::uint64_t round = 0; round < 2000; ++round) {
    const Frame there = FrameOf(1 + round % 120, round);
    const Frame back = FrameOf(1 + (round * 97) % 30'000, round);
    REQUIRE_EQ(Put(sides.near, there), Written::kWritten);
    REQUIRE_EQ(Put(sides.far, back), Written::kWritten);
    sides.near.Publish();
    sides.far.Publish();
    REQUIRE(DrainAll(sides.far) == std::vector<Frame>{there});
    REQUIRE(DrainAll(sides.near) == std::vector<Frame>{back});
  }
}

TEST_CASE(
    "lingering ends with its looks, or with a record that comes meanwhile, and takes nothing") {
  Sides sides(64 * 1024);
  sides.far.Linger(1000);  // no record arrives
  REQUIRE_EQ(Put(sides.near, FrameOf(10, 1)), Written::kWritten);
  std::thread later([&sides] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sides.near.Publish();
  });
  sides.far.Linger(~std::uint32_t{0});  // a return without a wait finds no record
  CHECK_EQ(DrainAll(sides.far).size(), 1);
  later.join();
}

}  // namespace
}  // namespace sidecall::ring_test
