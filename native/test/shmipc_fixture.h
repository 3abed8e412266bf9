// SPDX-License-Identifier: MIT
// Both ends of a session of shmipc-go in one process.
#pragma once

#include "fixture.h"
#include "os/descriptor.h"
#include "shmipc/session.h"
#include "small_pool.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::test {

inline MemoryFile MapAgain(const MemoryFile& file) {
  auto own = DuplicateDescriptor(file.fd.get());
  REQUIRE(own.ok());
  auto mapped = MapMemory(std::move(own.value()), shmipc::kPoolMaxBytes);
  REQUIRE(mapped.ok());
  REQUIRE(mapped.value().Allocate().ok());
  return std::move(mapped.value());
}

struct ShmipcSides {
  explicit ShmipcSides(std::uint32_t capacity = 64, std::uint64_t bytes = 2 * 1024 * 1024) {
    auto queues = CreateMemory("queues", 2 * shmipc::HalfBytes(capacity));
    auto buffers = CreateMemory("buffers", bytes);
    REQUIRE(queues.ok());
    REQUIRE(buffers.ok());
    shmipc::Files far;
    far.queues = MapAgain(queues.value());
    far.buffers = MapAgain(buffers.value());
    queue_words = queues.value().memory.data();
    pool_words = buffers.value().memory.data();
    shmipc::Files near;
    near.queues = std::move(queues.value());
    near.buffers = std::move(buffers.value());
    client = shmipc::Session::Create(std::move(near), capacity);
    const char* fault = "";
    server = shmipc::Session::Open(std::move(far), fault);
    INFO(fault);
    REQUIRE(server != nullptr);
  }

  std::unique_ptr<shmipc::Session> client;
  std::unique_ptr<shmipc::Session> server;
  std::byte* queue_words = nullptr;
  std::byte* pool_words = nullptr;
};

}  // namespace sidecall::test
#endif
