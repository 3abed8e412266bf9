// SPDX-License-Identifier: MIT
#include "os/memory_share.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "os/shared_memory.h"

namespace sidecall {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
// No other test reserves meanwhile, but earlier ones may have left something with an owner of
// theirs.
constexpr Owner kFirst = 101;
constexpr Owner kSecond = 102;

OutboxShape Shape() {
  OutboxShape shape;
  shape.capacity_bytes = kCapacityMin;
  return shape;
}

Outbox MakeFor(Owner owner) {
  auto share = MemoryShare::Reserve(owner, Shape().total_bytes(), 1024 * kMiB);
  REQUIRE(share.has_value());
  auto outbox = CreateOutbox(Shape(), std::move(*share));
  REQUIRE(outbox.ok());
  return std::move(outbox.value());
}

TEST_CASE("shares are counted, refused beyond what all may take, and given back") {
  const std::uint64_t before = MemoryShare::ReservedBytes();
  {
    const auto first = MemoryShare::Reserve(kFirst, 3 * kMiB, before + 5 * kMiB);
    REQUIRE(first.has_value());
    CHECK_EQ(MemoryShare::ReservedBytes(), before + 3 * kMiB);
    CHECK_FALSE(MemoryShare::Reserve(kSecond, 3 * kMiB, before + 5 * kMiB).has_value());
    CHECK(MemoryShare::Reserve(kSecond, 2 * kMiB, before + 5 * kMiB).has_value());
  }
  CHECK_EQ(MemoryShare::ReservedBytes(), before);
  CHECK_FALSE(MemoryShare::Reserve(kFirst, 1, 0).has_value());
}

TEST_CASE("the last eighth is for owners that have nothing yet") {
  const std::uint64_t max = MemoryShare::ReservedBytes() + 16 * kMiB;
  std::vector<MemoryShare> shares;
  for (;;) {
    auto share = MemoryShare::Reserve(kFirst, kMiB, max);
    if (!share.has_value()) break;
    shares.push_back(std::move(*share));
  }
  CHECK_EQ(shares.size(), 14);
  CHECK(MemoryShare::Reserve(kSecond, 2 * kMiB, max).has_value());
}

TEST_CASE("the first outbox of an owner may take all that is left") {
  const std::uint64_t max = MemoryShare::ReservedBytes() + 16 * kMiB;
  CHECK(MemoryShare::Reserve(kFirst, 16 * kMiB, max).has_value());
}

#if defined(__linux__)
TEST_CASE("a share counts for as long as a peer keeps the memory, mapped or open") {
  const test::DescriptorsUnchanged unchanged;
  const std::uint64_t before = MemoryShare::ReservedBytes();
  const std::size_t kept_before = MemoryShare::KeptCount();
  const std::uint64_t bytes = Shape().total_bytes();
  UniqueFd received;
  void* place = MAP_FAILED;
  {
    const Outbox outbox = MakeFor(kFirst);
    received = UniqueFd(::dup(outbox.descriptor.get()));
    place = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, received.get(), 0);
    REQUIRE(place != MAP_FAILED);
  }
  CHECK_EQ(MemoryShare::ReservedBytes(), before + bytes);
  received.Reset();
  CHECK(MemoryShare::Sweep().empty());
  CHECK_EQ(MemoryShare::KeptCount(), kept_before + 1);
  ::munmap(place, bytes);
  CHECK_EQ(MemoryShare::Sweep().size(), 1);
  CHECK_EQ(MemoryShare::ReservedBytes(), before);
  CHECK_EQ(MemoryShare::KeptCount(), kept_before);
}

TEST_CASE("an outbox whose peer has let go first is given back with its session") {
  const test::DescriptorsUnchanged unchanged;
  const std::uint64_t before = MemoryShare::ReservedBytes();
  { const Outbox outbox = MakeFor(kFirst); }
  CHECK_EQ(MemoryShare::ReservedBytes(), before);
}

TEST_CASE("an owner that keeps what it was given gets no more, and others do") {
  const test::DescriptorsUnchanged unchanged;
  std::vector<UniqueFd> received;
  for (std::size_t index = 0; index < MemoryShare::kKeptPerOwnerMax; ++index) {
    const Outbox outbox = MakeFor(kFirst);
    received.emplace_back(::dup(outbox.descriptor.get()));
  }
  CHECK_FALSE(MemoryShare::Reserve(kFirst, kMiB, 1024 * kMiB).has_value());
  CHECK(MemoryShare::Reserve(kSecond, kMiB, 1024 * kMiB).has_value());
  received.clear();
  std::size_t swept = 0;
  for (std::size_t round = 0; round < 4; ++round) swept += MemoryShare::Sweep().size();
  CHECK_EQ(swept, MemoryShare::kKeptPerOwnerMax);
  CHECK(MemoryShare::Reserve(kFirst, kMiB, 1024 * kMiB).has_value());
}
#endif

}  // namespace
}  // namespace sidecall
