// SPDX-License-Identifier: MIT
#include "os/doorbell.h"

#include <sys/socket.h>

#include "fixture.h"
#include "os/unix_socket.h"
#include "ring/layout.h"

namespace sidecall::doorbell_test {
namespace {

TEST_CASE("a doorbell is one byte, and a queue full of them counts as rung") {
  auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  REQUIRE(RingDoorbell(pair.value().near.get()));
  std::uint8_t heard[8] = {};
  CHECK_EQ(::recv(pair.value().far.get(), heard, sizeof heard, 0), 1);
  CHECK_EQ(heard[0], kDoorbell);
  for (int count = 0; count < 5000; ++count) REQUIRE(RingDoorbell(pair.value().near.get()));
}

TEST_CASE("a peer that is gone counts as rung, and no signal comes") {
  auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  pair.value().far.Reset();
  CHECK(RingDoorbell(pair.value().near.get()));
}

}  // namespace
}  // namespace sidecall::doorbell_test
