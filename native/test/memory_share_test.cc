// SPDX-License-Identifier: MIT
#include "os/memory_share.h"

#include <vector>

#include "fixture.h"

namespace sidecall::memory_share_test {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
constexpr Owner kFirst = 101;
constexpr Owner kSecond = 102;
constexpr Owner kThird = 103;
constexpr Owner kFourth = 104;

// Takes shares of a mebibyte until one is refused.
std::vector<MemoryShare> TakeAll(Owner owner, std::uint64_t max_bytes) {
  std::vector<MemoryShare> shares;
  for (;;) {
    MemoryShare share;
    if (!share.Reserve(owner, kMiB, max_bytes)) return shares;
    shares.push_back(std::move(share));
  }
}

TEST_CASE("shares are counted, refused beyond what all may take, and given back") {
  REQUIRE_EQ(MemoryShare::ReservedBytes(), 0);
  {
    MemoryShare first;
    MemoryShare second;
    CHECK(first.Reserve(kFirst, 3 * kMiB, 5 * kMiB));
    CHECK_EQ(MemoryShare::ReservedBytes(), 3 * kMiB);
    CHECK_FALSE(second.Reserve(kSecond, 3 * kMiB, 5 * kMiB));
    CHECK(second.Reserve(kSecond, 2 * kMiB, 5 * kMiB));
  }
  CHECK_EQ(MemoryShare::ReservedBytes(), 0);
  CHECK_FALSE(MemoryShare().Reserve(kFirst, 1, 0));
}

TEST_CASE("one owner may take all, and then others that have little get some more") {
  constexpr std::uint64_t kMax = 64 * kMiB;
  const auto first = TakeAll(kFirst, kMax);
  CHECK_EQ(first.size(), 64);
  const auto second = TakeAll(kSecond, kMax);
  CHECK_EQ(second.size(), 4);  // a sixteenth
  CHECK_FALSE(MemoryShare().Reserve(kThird, 5 * kMiB, kMax));
  const auto third = TakeAll(kThird, kMax);
  CHECK_EQ(third.size(), 4);
  CHECK(TakeAll(kFourth, kMax).empty());  // an eighth in all
  CHECK(TakeAll(0, kMax).empty());
}

TEST_CASE("our own process may take what all may take, and no more") {
  CHECK_EQ(TakeAll(0, 64 * kMiB).size(), 64);
}

}  // namespace
}  // namespace sidecall::memory_share_test
