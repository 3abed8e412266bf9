// SPDX-License-Identifier: MIT
// The rings of one environment, by the numbers that JavaScript holds, and the memory through which
// the two sides hand bytes and figures to each other without a conversion per call.
#pragma once

#include <napi.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "os/doorbell.h"
#include "os/pending.h"
#include "os/shared_memory.h"
#include "os/workers.h"
#include "ring/ring.h"

namespace sidecall {

// The doorbell of one connection, on a duplicate of its socket: net.Socket closes its own
// descriptor, and the number may then belong to another file.
class SocketDoorbell final : public Doorbell {
 public:
  explicit SocketDoorbell(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  [[nodiscard]] bool Ring() noexcept override { return RingDoorbell(fd_.get()); }

 private:
  UniqueFd fd_;
};

// The doorbell of a simulated connection: it is counted, and the simulation carries it.
class CountedDoorbell final : public Doorbell {
 public:
  [[nodiscard]] bool Ring() noexcept override {
    if (!is_refused) rung += 1;
    return !is_refused;
  }

  std::uint32_t rung = 0;   // since the simulation looked last
  bool is_refused = false;  // as if the kernel had no memory for the byte
};

// Both outboxes of one connection, made and accepted one after the other, and then joined. Members
// are destroyed in reverse order: the ring before the memory that it uses.
struct RingEntry {
  // Shared with the array buffers over their block areas, which may outlive the session.
  std::shared_ptr<Outbox> mine = std::make_shared<Outbox>();
  std::shared_ptr<PeerOutbox> peer = std::make_shared<PeerOutbox>();
  // Under way on a thread.
  std::shared_ptr<Pending<Result<Outbox>>> making;
  std::shared_ptr<Pending<PeerOutbox>> checking;
  OutboxShape my_shape;
  OutboxShape peer_shape;
  // Array buffers over either memory that were not collected yet. A detached one may still be read
  // by a job of the thread pool, which keeps the object.
  std::uint32_t my_objects = 0;
  std::uint32_t peer_objects = 0;
  bool is_closed = false;
  std::int64_t external_bytes = 0;  // reported to V8, so that it collects such array buffers
  std::unique_ptr<Doorbell> bell;
  CountedDoorbell* counted_bell = nullptr;  // the same, of a simulated connection
  std::optional<Ring> ring;
};

// Largest memory of ours that is made and unmapped on the event loop; more takes too long there.
inline constexpr std::uint64_t kAtOnceMaxBytes = std::uint64_t{2} * 1024 * 1024;

// Memory of JavaScript's: views of it are what `ringExchange()` gave out.
struct Exchange {
  std::span<std::uint8_t> slab;    // Drain() fills it
  std::span<std::uint8_t> staged;  // a frame, or its header, to be written
  std::span<double> registers;     // further results of a call
};

// Indices of `Exchange::registers`; src/shm/ring.ts has the same.
enum class Register : std::size_t {
  kFilled = 0,        // bytes in the slab
  kLargeBytes = 1,    // payload of the large record that is next; 0: none
  kRecords = 2,       // looked at by the last drain
  kWritten = 3,       // our producer's position
  kSeen = 4,          // bytes of it that the peer has certainly consumed
  kOwesDoorbell = 5,  // 1: the kernel had no memory for a doorbell
  kBlock = 6,         // offset of a block of ours, or id of a lease
  kBlockBytes = 7,    // of the message that lies in a block
  kBlockOffset = 8,   // of the message that was taken, in the peer's block area
  kCount = 9,
};

class RingTable {
 public:
  [[nodiscard]] std::uint32_t Open();
  // nullptr: no such ring.
  [[nodiscard]] RingEntry* Find(std::uint32_t handle) noexcept;
  // Closes the ring: no more bytes are moved. Its number and memory stay in use until the last
  // array buffer over them is dropped.
  void Close(napi_env env, std::uint32_t handle) noexcept;
  void DropObject(napi_env env, std::uint32_t handle, bool is_mine) noexcept;

  // Threads that unmap memory, which takes long for large memory. Shared, since array buffers may
  // outlive the environment.
  std::shared_ptr<Workers> reclaimers =
      std::make_shared<Workers>(Workers::Bounds{.threads = 2, .threads_per_owner = 2});
  Exchange exchange;
  Napi::ObjectReference exchange_object;  // keeps that memory alive

  RingTable() = default;
  RingTable(const RingTable&) = delete;
  RingTable& operator=(const RingTable&) = delete;
  // Large memory, and a peer's, is unmapped on a thread, also at the end of the environment.
  ~RingTable();

 private:
  // Unmaps the memory of a closed entry that no array buffer covers any more.
  void GiveBack(napi_env env, std::uint32_t handle) noexcept;

  std::vector<std::unique_ptr<RingEntry>> entries_;
  std::vector<std::uint32_t> free_;
};

}  // namespace sidecall
