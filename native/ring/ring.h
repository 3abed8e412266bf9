// SPDX-License-Identifier: MIT
// Two outboxes joined: frames out, frames in, and sleep when there is nothing to move.
#pragma once

#include <cstdint>
#include <span>

#include "ring/consumer.h"
#include "ring/producer.h"

namespace sidecall {

// What wakes a sleeping peer.
class Doorbell {
 public:
  Doorbell() = default;
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;
  virtual ~Doorbell() = default;

  // False: the byte could not be taken now and is owed.
  [[nodiscard]] virtual bool Ring() noexcept = 0;
};

// NOTE: one thread. Once corrupt, always corrupt: nothing is read or written any more.
class Ring {
 public:
  struct Memory {
    Control& mine;
    std::byte* my_data;
    std::uint64_t my_capacity;
    const Control& peer;
    const std::byte* peer_data;
    std::uint64_t peer_capacity;
  };
  enum class Written { kWritten, kFull, kTooLarge, kCorrupt };

  Ring(const Memory& memory, Doorbell& bell) noexcept
      : mine_(memory.mine),
        producer_(memory.mine, memory.my_data, memory.peer, memory.my_capacity),
        consumer_(memory.mine, memory.peer, memory.peer_data, memory.peer_capacity),
        bell_(bell) {}

  // One frame, in two parts. `is_bulk`: a piece of a long message, of which few may be unread, so
  // that a small call finds a short queue. What was refused is remembered as the wish for room.
  [[nodiscard]] Written Write(std::span<const std::uint8_t> header,
                              std::span<const std::uint8_t> payload, bool is_bulk) noexcept;
  // The same in steps: room for up to `bytes`, then what was really put there.
  [[nodiscard]] Written Reserve(std::uint64_t bytes, bool is_bulk) noexcept;
  [[nodiscard]] std::byte* reserved() const noexcept { return reserved_; }
  void CommitReserved(std::uint64_t bytes) noexcept;
  void Publish() noexcept;

  [[nodiscard]] Consumer::Drained Drain(std::span<std::uint8_t> slab,
                                        std::uint32_t records_max) noexcept;
  void Take(std::uint64_t skip, std::span<std::uint8_t> target) noexcept;

  // Is there room now for what was refused last?
  [[nodiscard]] bool HasRoom() noexcept;

  // Publishes, announces sleep, and looks once more. True: asleep, and the peer will ring.
  [[nodiscard]] bool PrepareToSleep() noexcept;
  void Wake() noexcept;
  // `bytes` came from the socket. False: more than sleeps were announced.
  [[nodiscard]] bool OnDoorbell(std::uint64_t bytes) noexcept;

  // The peer is gone: fixes what is still to be read.
  void Freeze() noexcept;

  [[nodiscard]] bool is_corrupt() const noexcept { return is_corrupt_; }
  [[nodiscard]] bool owes_doorbell() const noexcept { return owes_doorbell_; }
  [[nodiscard]] const Producer& producer() const noexcept { return producer_; }
  [[nodiscard]] const Consumer& consumer() const noexcept { return consumer_; }

 private:
  static constexpr std::uint64_t kBulkRecordsUnread = 2;

  void RingIf(bool wants) noexcept;
  [[nodiscard]] Written Refuse(std::uint64_t wanted) noexcept;

  Control& mine_;
  Producer producer_;
  Consumer consumer_;
  Doorbell& bell_;
  std::byte* reserved_ = nullptr;
  std::uint64_t wanted_ = 0;  // bytes that a refused write needs free, padding included; 0: none waits
  std::uint64_t data_epoch_ = 0;
  std::uint64_t space_epoch_ = 0;
  std::uint64_t sleeps_announced_ = 0;
  std::uint64_t doorbells_received_ = 0;
  bool owes_doorbell_ = false;
  bool is_corrupt_ = false;
};

}  // namespace sidecall
