// SPDX-License-Identifier: MIT
// A peer that stores invalid words: the ring is corrupt, and no record is read afterwards.
#include <doctest/doctest.h>

#include "ring_fixture.h"

namespace sidecall::ring_corrupt_test {
namespace {

using namespace test;
using State = Consumer::State;
using Written = Ring::Written;

constexpr std::uint64_t kSmall = 64 * 1024;

std::uint64_t Header(std::uint32_t payload_bytes, std::uint64_t kind, std::uint64_t zero = 0) {
  return payload_bytes | (kind << 32) | (zero << 48);
}

// A valid record first, so that the invalid word is not at the start of the ring.
void Prepare(Sides& sides) {
  REQUIRE_EQ(Put(sides.near, FrameOf(100, 1)), Written::kWritten);
  sides.near.Publish();
  REQUIRE_EQ(DrainAll(sides.far).size(), 1);
}

void CheckPoisoned(Sides& sides) {
  CHECK(sides.far.is_corrupt());
  CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
  CHECK_EQ(Put(sides.far, FrameOf(10, 1)), Written::kCorrupt);
  CHECK_FALSE(sides.far.PrepareToSleep());
  CHECK_FALSE(sides.far.HasRoom());
}

TEST_CASE("a producer cursor that lies") {
  const std::uint64_t honest = 112;
  for (const std::uint64_t cursor :
       {honest + 1, honest + 4, honest + 7, honest - 8, std::uint64_t{0}, honest + kSmall + 8,
        honest + 2 * kSmall, ~std::uint64_t{0}, ~std::uint64_t{7}, std::uint64_t{1} << 63}) {
    CAPTURE(cursor);
    Sides sides(kSmall);
    Prepare(sides);
    sides.near_box.SetProducer(cursor);
    CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
    CheckPoisoned(sides);
  }
}

TEST_CASE("a producer cursor that goes back while records are unread") {
  Sides sides(kSmall);
  for (std::uint64_t at = 0; at < 3; ++at) {
    REQUIRE_EQ(Put(sides.near, FrameOf(8, at)), Written::kWritten);
  }
  sides.near.Publish();
  REQUIRE_EQ(DrainOnce(sides.far, 1).frames.size(), 1);
  sides.near_box.SetProducer(32);
  CHECK_EQ(DrainOnce(sides.far, 1).state, State::kCorrupt);
  CheckPoisoned(sides);
}

TEST_CASE("a consumer cursor that lies") {
  for (const std::uint64_t cursor :
       {std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{kSmall}, ~std::uint64_t{7}}) {
    CAPTURE(cursor);
    Sides sides(kSmall);
    REQUIRE_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kWritten);
    REQUIRE_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kWritten);
    sides.far.Publish();
    sides.near_box.SetConsumer(cursor);
    CHECK_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kCorrupt);
    CheckPoisoned(sides);
  }
}

TEST_CASE("a consumer cursor beyond what was published, or going back") {
  Sides sides(kSmall);
  REQUIRE_EQ(Put(sides.far, FrameOf(100, 1)), Written::kWritten);
  REQUIRE_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kWritten);
  sides.far.Publish();
  REQUIRE_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kWritten);  // committed, not published
  sides.near_box.SetConsumer(sides.far.producer().written());
  CHECK_EQ(Put(sides.far, FrameOf(30'000, 1)), Written::kCorrupt);

  Sides back(kSmall);
  REQUIRE_EQ(Put(back.far, FrameOf(30'000, 1)), Written::kWritten);
  REQUIRE_EQ(Put(back.far, FrameOf(30'000, 1)), Written::kWritten);
  back.far.Publish();
  back.near_box.SetConsumer(30'008);
  REQUIRE_EQ(Put(back.far, FrameOf(30'000, 1)), Written::kWritten);
  back.far.Publish();
  back.near_box.SetConsumer(8);
  CHECK_EQ(Put(back.far, FrameOf(30'000, 1)), Written::kCorrupt);
}

TEST_CASE("a lie told to a sleeper wakes it") {
  Sides sides(kSmall);
  Prepare(sides);
  sides.near_box.SetProducer(~std::uint64_t{0});
  CHECK_FALSE(sides.far.PrepareToSleep());
  CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
}

TEST_CASE("records that no correct peer writes") {
  const std::uint64_t at = 112;  // behind the valid record
  const auto rest = static_cast<std::uint32_t>(kSmall - at);
  const auto half = static_cast<std::uint32_t>(kSmall / 2);
  const std::uint64_t headers[] = {
      Header(0, 0),   // zeroed memory: no record
      Header(0, 2),   // an empty frame
      Header(16, 0),  // no kind
      Header(16, 3),
      Header(16, 4),  // a release without block areas
      Header(16, 5),
      Header(16, 0xffff),  // unknown
      Header(16, 2, 1),
      Header(16, 2, 0x8000),  // the upper bits are not zero
      Header(half - 7, 2),    // beyond half the ring
      Header(half, 2),
      Header(rest - 8, 2),
      Header(rest, 2),
      Header(0xffff'ffff, 2),
      Header(0xffff'fff8, 2),
      Header(0xffff'fff0, 2),  // near 2^32
      Header(rest - 16, 1),
      Header(rest, 1),
      Header(0, 1),  // padding that does not end at
                     // the end
      Header(0xffff'ffff, 1),
  };
  for (const std::uint64_t header : headers) {
    CAPTURE(header);
    Sides sides(kSmall);
    Prepare(sides);
    sides.near_box.SetHeader(at, header);
    sides.near_box.SetProducer(at + kSmall);  // announced as complete
    CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
    CHECK(DrainOnce(sides.far).frames.empty());
    CheckPoisoned(sides);
  }
}

TEST_CASE("a record past the cursor") {
  Sides sides(kSmall);
  Prepare(sides);
  sides.near_box.SetHeader(112, Header(100, 2));
  sides.near_box.SetProducer(112 + 104);  // it needs 112 with its header
  CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
}

TEST_CASE("padding that is right but for the cursor") {
  Sides sides(kSmall);
  Prepare(sides);
  sides.near_box.SetHeader(112, Header(kSmall - 112 - 8, 1));
  sides.near_box.SetProducer(kSmall - 8);
  CHECK_EQ(DrainOnce(sides.far).state, State::kCorrupt);
}

TEST_CASE("the size of a large record is that of its first look") {
  Sides sides(1 << 20);
  REQUIRE_EQ(Put(sides.near, FrameOf(20'000, 1)), Written::kWritten);
  sides.near.Publish();
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  REQUIRE_EQ(sides.far.Drain(slab, 256).large_payload_bytes, 20'000);
  sides.near_box.SetHeader(0, Header(60'000, 2));  // grown meanwhile
  REQUIRE_EQ(sides.far.Drain(slab, 256).large_payload_bytes, 20'000);
  Frame rest(20'000 - 12);
  sides.far.Take(12, rest);
  CHECK_EQ(sides.far.consumer().consumed(), 20'008);
}

TEST_CASE("bytes that change after they were copied out change nothing") {
  Sides sides(kSmall);
  REQUIRE_EQ(Put(sides.near, FrameOf(1000, 1)), Written::kWritten);
  sides.near.Publish();
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  const Consumer::Drained drained = sides.far.Drain(slab, 256);
  std::memset(sides.near_box.data(), 0xee, kSmall);
  CHECK_EQ(drained.filled, 1004);
  CHECK(std::equal(slab.begin() + 4, slab.begin() + 1004, FrameOf(1000, 1).begin()));
}

TEST_CASE("endless records end with the budget") {
  Sides sides(kSmall);
  for (std::uint64_t at = 0; at < kSmall; at += 16) sides.near_box.SetHeader(at, Header(8, 2));
  std::vector<std::uint8_t> slab(64 * 1024);
  for (std::uint64_t round = 0; round < 100; ++round) {
    sides.near_box.SetProducer(sides.far.consumer().consumed() + kSmall);
    const Consumer::Drained drained = sides.far.Drain(slab, 256);
    CHECK_EQ(drained.state, State::kMore);
    CHECK_EQ(drained.records, 256);
  }
}

TEST_CASE("a frozen ring that lies says so") {
  Sides sides(kSmall);
  Prepare(sides);
  sides.near_box.SetProducer(113);
  sides.far.Freeze();
  CheckPoisoned(sides);
}

}  // namespace
}  // namespace sidecall::ring_corrupt_test
