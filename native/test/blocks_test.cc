// SPDX-License-Identifier: MIT
// The block area: its allocator, references that are checked, and leases that go back.
#include <doctest/doctest.h>

#include <random>
#include <set>

#include "ring_fixture.h"

namespace sidecall::blocks_test {
namespace {

using namespace test;
using State = Consumer::State;
using Written = Ring::Written;

constexpr std::uint64_t kSmall = 64 * 1024;
constexpr std::uint64_t kArea = 64 * kBlockAlign;

// Sends one frame in a block; returns the block that the other side took.
Consumer::TakenBlock Lend(Sides& sides, std::uint64_t bytes, std::uint8_t filling) {
  const auto block = sides.near.AllocateBlock(bytes);
  REQUIRE(block.has_value());
  std::memset(block->data, filling, bytes);
  REQUIRE_EQ(sides.near.WriteBlock(FrameOf(16, 1), block->offset, bytes), Written::kWritten);
  sides.near.Publish();
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  REQUIRE_EQ(sides.far.Drain(slab, 1).state, State::kBlock);
  const auto taken = sides.far.TakeBlock(slab);
  REQUIRE(taken.has_value());
  CHECK_EQ(taken->record_bytes, 24 + 16);
  CHECK(std::equal(slab.begin() + 24, slab.begin() + 40, FrameOf(16, 1).begin()));
  return *taken;
}

TEST_CASE("blocks never overlap, and all of them come together again") {
  for (const std::uint64_t area : {kBlockAreaUnit, kArea, kArea + kBlockAreaUnit, 11 * kArea}) {
    CAPTURE(area);
    BlockAllocator allocator(area);
    std::mt19937_64 random(7);
    struct Piece {
      std::uint64_t offset, bytes, id;
    };
    std::vector<Piece> pieces;
    std::vector<bool> taken(area / kBlockAlign);
    const auto mark = [&](const Piece& piece, bool is_taken) {
      const std::uint64_t pages = (piece.bytes + kBlockAlign - 1) / kBlockAlign;
      for (std::uint64_t at = 0; at < pages; ++at) {
        REQUIRE_NE(taken[piece.offset / kBlockAlign + at], is_taken);
        taken[piece.offset / kBlockAlign + at] = is_taken;
      }
    };
    for (int round = 0; round < 20'000; ++round) {
      if (random() % 2 == 0) {
        const std::uint64_t bytes = 1 + random() % (area / (1 + random() % 8));
        const auto offset = allocator.Allocate(bytes);
        if (!offset.has_value()) continue;
        REQUIRE_EQ(*offset % kBlockAlign, 0);
        REQUIRE_LE(*offset + bytes, area);
        Piece piece = {*offset, bytes, 0};
        mark(piece, true);
        if (random() % 2 == 0) piece.id = allocator.Lend(*offset, bytes).value();
        pieces.push_back(piece);
      } else if (!pieces.empty()) {
        std::swap(pieces[random() % pieces.size()], pieces.back());
        const Piece piece = pieces.back();
        pieces.pop_back();
        mark(piece, false);
        REQUIRE((piece.id == 0 ? allocator.Free(piece.offset) : allocator.TakeBack(piece.id)));
      }
    }
    for (const Piece& piece : pieces) {
      REQUIRE((piece.id == 0 ? allocator.Free(piece.offset) : allocator.TakeBack(piece.id)));
    }
    CHECK_EQ(allocator.in_use(), 0);
    // All pages are free again: the largest possible block can be allocated.
    std::uint64_t largest = kBlockAlign;
    while (largest * 2 <= area) largest *= 2;
    CHECK(allocator.Allocate(largest).has_value());
  }
}

TEST_CASE("an allocator refuses what it has not, and what nobody holds") {
  BlockAllocator none(0);
  CHECK_FALSE(none.Allocate(1).has_value());
  BlockAllocator allocator(kArea);
  CHECK_FALSE(allocator.Allocate(0).has_value());
  CHECK_FALSE(allocator.Allocate(kArea + 1).has_value());
  CHECK_FALSE(allocator.Allocate(~std::uint64_t{0}).has_value());
  const auto offset = allocator.Allocate(kBlockAlign);
  REQUIRE(offset.has_value());
  CHECK_FALSE(allocator.Lend(*offset + 1, 1).has_value());
  CHECK_FALSE(allocator.Lend(*offset, kBlockAlign + 1).has_value());
  CHECK_FALSE(allocator.Lend(*offset, 0).has_value());
  CHECK_FALSE(allocator.Free(kArea));
  const auto id = allocator.Lend(*offset, kBlockAlign);
  REQUIRE_EQ(id.value(), 1);
  CHECK_FALSE(allocator.Free(*offset));  // lent: only the peer gives it back
  CHECK_FALSE(allocator.Lend(*offset, 1).has_value());
  CHECK_FALSE(allocator.TakeBack(0));
  CHECK_FALSE(allocator.TakeBack(2));
  CHECK(allocator.TakeBack(1));
  CHECK_FALSE(allocator.TakeBack(1));
}

TEST_CASE("as many blocks are in use as may be lent, and no more") {
  BlockAllocator allocator(2 * kLeasesMax * kBlockAlign);
  std::vector<std::uint64_t> offsets;
  for (std::uint32_t at = 0; at < kLeasesMax; ++at) {
    offsets.push_back(allocator.Allocate(1).value());
  }
  CHECK_FALSE(allocator.Allocate(1).has_value());
  CHECK(allocator.Free(offsets.back()));
  CHECK(allocator.Allocate(1).has_value());
}

TEST_CASE("a message in a block arrives where it was written, and goes back") {
  Sides sides(kSmall, 0, kArea);
  for (std::uint64_t round = 1; round <= 500; ++round) {
    const std::uint64_t bytes = 1 + round * 523 % kArea;
    const auto taken = Lend(sides, bytes, static_cast<std::uint8_t>(round));
    CHECK_EQ(taken.reference.lease_id, round);
    CHECK_EQ(taken.reference.payload_bytes, bytes);
    // The fixture's memory is shared: the far side reads the block in place.
    const std::byte* const there = sides.near_box.data() + kSmall + taken.reference.offset;
    const auto lease = sides.far.Lease(round);
    REQUIRE_EQ(lease.size(), bytes);
    CHECK_EQ(lease.data(), there);
    CHECK_EQ(std::to_integer<int>(lease.back()), static_cast<int>(round & 0xff));
    CHECK_EQ(sides.near.blocks().lent(), 1);
    REQUIRE(sides.far.ReleaseLease(round));
    CHECK_FALSE(sides.far.ReleaseLease(round));
    CHECK(sides.far.Lease(round).empty());
    sides.far.Publish();
    CHECK_EQ(DrainOnce(sides.near).state, State::kEmpty);
    CHECK_EQ(sides.near.blocks().in_use(), 0);
  }
}

TEST_CASE("frames around a block keep their order, and a second look finds the same block") {
  Sides sides(kSmall, 0, kArea);
  const auto block = sides.near.AllocateBlock(5000);
  REQUIRE(block.has_value());
  REQUIRE_EQ(Put(sides.near, FrameOf(20, 1)), Written::kWritten);
  REQUIRE_EQ(sides.near.WriteBlock(FrameOf(32, 2), block->offset, 5000), Written::kWritten);
  REQUIRE_EQ(Put(sides.near, FrameOf(20, 3)), Written::kWritten);
  sides.near.Publish();
  Received first = DrainOnce(sides.far);
  CHECK_EQ(first.state, State::kBlock);
  REQUIRE_EQ(first.frames.size(), 1);
  Received again = DrainOnce(sides.far);
  CHECK_EQ(again.state, State::kBlock);
  CHECK(again.frames.empty());
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  REQUIRE(sides.far.TakeBlock(slab).has_value());
  CHECK_EQ(DrainAll(sides.far).size(), 1);
  CHECK_FALSE(sides.far.TakeBlock(slab).has_value());  // none is next
  CHECK_FALSE(sides.far.is_corrupt());
}

TEST_CASE("a release that finds no room is made good when there is some") {
  Sides sides(kSmall, 0, kArea);
  (void)Lend(sides, 100, 1);
  while (Put(sides.far, FrameOf(30'000, 1)) == Written::kWritten) {
  }
  while (Put(sides.far, FrameOf(100, 1)) == Written::kWritten) {
  }
  while (Put(sides.far, FrameOf(1, 1)) == Written::kWritten) {
  }
  REQUIRE(sides.far.ReleaseLease(1));
  sides.far.Publish();
  CHECK(sides.far.owes_releases());
  CHECK(sides.far.PrepareToSleep());  // sleeps for space
  CHECK_GT(DrainAll(sides.near).size(), 2);
  CHECK_EQ(sides.near_bell.rung, 1);  // a doorbell for the space
  REQUIRE(sides.far.OnDoorbell(1));
  sides.far.Publish();
  CHECK_FALSE(sides.far.owes_releases());
  CHECK_EQ(sides.near.blocks().lent(), 1);
  (void)DrainAll(sides.near);
  CHECK_EQ(sides.near.blocks().lent(), 0);
}

// Stores a block reference as given, valid or not, with a frame header of 12 zero bytes.
State Offer(Sides& sides, std::uint64_t offset, std::uint64_t bytes, std::uint64_t id,
            std::uint64_t payload_bytes = 36, std::uint64_t kind = 3) {
  const std::uint64_t at = sides.far.consumer().consumed();
  sides.near_box.SetHeader(at, payload_bytes | kind << 32);
  sides.near_box.SetHeader(at + 8, offset);
  sides.near_box.SetHeader(at + 16, bytes);
  sides.near_box.SetHeader(at + 24, id);
  sides.near_box.SetProducer(at + RecordBytes(payload_bytes));
  std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  const auto drained = sides.far.Drain(slab, 1);
  if (drained.state != State::kBlock) return drained.state;
  return sides.far.TakeBlock(slab).has_value() ? State::kBlock : State::kCorrupt;
}

TEST_CASE("references that no correct peer sends") {
  struct Lie {
    const char* what;
    std::uint64_t offset, bytes, id, payload_bytes;
  };
  const std::uint64_t huge = ~std::uint64_t{0};
  for (const Lie& lie : {
           Lie{"misaligned", 1, 10, 1, 36},
           Lie{"at the end of the area", kArea, 1, 1, 36},
           Lie{"beyond the area", kArea + kBlockAlign, 1, 1, 36},
           Lie{"longer than the area", 0, kArea + 1, 1, 36},
           Lie{"across the end", kArea - kBlockAlign, kBlockAlign + 1, 1, 36},
           Lie{"a sum that wraps", huge - (kBlockAlign - 1), kBlockAlign, 1, 36},
           Lie{"a length that wraps", kBlockAlign, huge, 1, 36},
           Lie{"empty", 0, 0, 1, 36},
           Lie{"id 0", 0, 1, 0, 36},
           Lie{"an id ahead", 0, 1, 2, 36},
           Lie{"no room for a frame", 0, 1, 1, 35},
           Lie{"no room for a reference", 0, 1, 1, 8},
           Lie{"longer than any reference", 0, 1, 1, Consumer::kSmallMaxBytes + 1},
       }) {
    CAPTURE(lie.what);
    Sides sides(kSmall, 0, kArea);
    CHECK_EQ(Offer(sides, lie.offset, lie.bytes, lie.id, lie.payload_bytes), State::kCorrupt);
    CHECK(sides.far.is_corrupt());
    CHECK_EQ(sides.far.leases().held(), 0);
  }
  Sides sides(kSmall, 0, kArea);
  CHECK_EQ(Offer(sides, 0, kArea, 1), State::kBlock);  // a valid reference of the same shape
}

TEST_CASE("the same page twice, an id again, or no agreement at all") {
  for (const std::uint64_t offset : {std::uint64_t{0}, kBlockAlign, 2 * kBlockAlign}) {
    CAPTURE(offset);
    Sides sides(kSmall, 0, kArea);
    REQUIRE_EQ(Offer(sides, 0, 2 * kBlockAlign + 1, 1), State::kBlock);
    CHECK_EQ(Offer(sides, offset, 1, 2), State::kCorrupt);
  }
  Sides behind(kSmall, 0, kArea);
  REQUIRE_EQ(Offer(behind, 0, 2 * kBlockAlign + 1, 1), State::kBlock);
  CHECK_EQ(Offer(behind, 3 * kBlockAlign, 1, 2), State::kBlock);
  REQUIRE(behind.far.ReleaseLease(1));
  CHECK_EQ(Offer(behind, kBlockAlign, 1, 3), State::kBlock);  // released before: valid
  Sides again(kSmall, 0, kArea);
  REQUIRE_EQ(Offer(again, 0, 1, 1), State::kBlock);
  CHECK_EQ(Offer(again, kBlockAlign, 1, 1), State::kCorrupt);
  Sides without(kSmall);
  CHECK_EQ(Offer(without, 0, 1, 1), State::kCorrupt);
}

TEST_CASE("more leases than there may be") {
  Sides sides(kSmall, 0, 2 * kLeasesMax * kBlockAlign);
  for (std::uint64_t id = 1; id <= kLeasesMax; ++id) {
    // Near the end of the data area a padding record is stored first.
    if (sides.far.consumer().consumed() % kSmall > kSmall - 64) {
      const std::uint64_t at = sides.far.consumer().consumed();
      const std::uint64_t rest = kSmall - at % kSmall;
      sides.near_box.SetHeader(at % kSmall, (rest - 8) | std::uint64_t{1} << 32);
      sides.near_box.SetProducer(at + rest);
      REQUIRE_EQ(DrainOnce(sides.far).state, State::kEmpty);
    }
    const std::uint64_t at = sides.far.consumer().consumed() % kSmall;
    REQUIRE_EQ(at % 8, 0);
    sides.near_box.SetHeader(at, 36 | std::uint64_t{3} << 32);
    sides.near_box.SetHeader(at + 8, (id - 1) * kBlockAlign);
    sides.near_box.SetHeader(at + 16, 1);
    sides.near_box.SetHeader(at + 24, id);
    sides.near_box.SetProducer(sides.far.consumer().consumed() + 48);
    std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
    REQUIRE_EQ(sides.far.Drain(slab, 1).state, State::kBlock);
    REQUIRE(sides.far.TakeBlock(slab).has_value());
  }
  CHECK_EQ(Offer(sides, kLeasesMax * kBlockAlign, 1, kLeasesMax + 1), State::kCorrupt);
}

TEST_CASE("a peer that never reads cannot make us remember releases without end") {
  Sides sides(kSmall, 0, kArea);
  // Our ring is full, so no release can be sent.
  while (Put(sides.far, FrameOf(30'000, 1)) == Written::kWritten) {
  }
  while (Put(sides.far, FrameOf(1, 1)) == Written::kWritten) {
  }
  std::uint32_t accepted = 0;
  for (std::uint64_t id = 1; id <= 3 * kLeasesMax; ++id) {
    const std::uint64_t at = sides.far.consumer().consumed();
    if (kSmall - at % kSmall < 64) {
      const std::uint64_t rest = kSmall - at % kSmall;
      sides.near_box.SetHeader(at % kSmall, (rest - 8) | std::uint64_t{1} << 32);
      sides.near_box.SetProducer(at + rest);
      REQUIRE_EQ(DrainOnce(sides.far).state, State::kEmpty);
    }
    const std::uint64_t place = sides.far.consumer().consumed() % kSmall;
    sides.near_box.SetHeader(place, 36 | std::uint64_t{3} << 32);
    sides.near_box.SetHeader(place + 8, 0);
    sides.near_box.SetHeader(place + 16, 1);
    sides.near_box.SetHeader(place + 24, id);
    sides.near_box.SetProducer(sides.far.consumer().consumed() + 48);
    std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
    if (sides.far.Drain(slab, 1).state != State::kBlock) break;
    if (!sides.far.TakeBlock(slab).has_value()) break;
    accepted += 1;
    REQUIRE(sides.far.ReleaseLease(id));
    sides.far.Publish();
  }
  CHECK_EQ(accepted, kLeasesMax);
  CHECK(sides.far.is_corrupt());
}

TEST_CASE("releases of what is not lent") {
  struct Lie {
    const char* what;
    std::uint64_t bytes;
    std::uint64_t first, second;
  };
  for (const Lie& lie :
       {Lie{"never lent", 8, 2, 0}, Lie{"id 0", 8, 0, 0}, Lie{"twice at once", 16, 1, 1},
        Lie{"half an id", 12, 1, 0}, Lie{"nothing", 0, 0, 0},
        Lie{"more than one record holds", 8 * (kReleasesPerRecord + 1), 1, 0}}) {
    CAPTURE(lie.what);
    Sides sides(kSmall, 0, kArea);
    (void)Lend(sides, 100, 1);
    sides.far_box.SetHeader(0, lie.bytes | std::uint64_t{4} << 32);
    sides.far_box.SetHeader(8, lie.first);
    sides.far_box.SetHeader(16, lie.second);
    sides.far_box.SetProducer(RecordBytes(lie.bytes));
    CHECK_EQ(DrainOnce(sides.near).state, State::kCorrupt);
  }
  Sides without(kSmall);
  without.far_box.SetHeader(0, 8 | std::uint64_t{4} << 32);
  without.far_box.SetHeader(8, 1);
  without.far_box.SetProducer(16);
  CHECK_EQ(DrainOnce(without.near).state, State::kCorrupt);
}

TEST_CASE("a block that cannot be sent as it is stays where it was") {
  Sides sides(kSmall, 0, kArea);
  const auto block = sides.near.AllocateBlock(100);
  REQUIRE(block.has_value());
  CHECK_EQ(sides.near.WriteBlock(FrameOf(Consumer::kSmallMaxBytes, 1), block->offset, 100),
           Written::kTooLarge);
  CHECK_EQ(sides.near.WriteBlock(FrameOf(16, 1), block->offset + kBlockAlign, 100),
           Written::kTooLarge);
  CHECK(sides.near.FreeBlock(block->offset));
  sides.near.Publish();
  CHECK_EQ(DrainOnce(sides.far).state, State::kEmpty);  // no record was written
  CHECK_EQ(Put(sides.near, FrameOf(20, 3)), Written::kWritten);
  sides.near.Publish();
  CHECK_EQ(DrainAll(sides.far).size(), 1);
}

}  // namespace
}  // namespace sidecall::blocks_test
