// SPDX-License-Identifier: MIT
// Two sides that send batches of records in turn over a ring, and sleep where none has arrived:
// each sleep races with the other side's publication. A side that stays asleep is a lost wake-up.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ring/ring.h"
#include "ring/shared_words.h"

namespace sidecall::test {

// A doorbell polled in memory, since a system call would order memory by itself.
struct MemoryBells {
  alignas(kLine) std::atomic<std::uint32_t> rung[2] = {};
};

class MemoryBell final : public Doorbell {
 public:
  explicit MemoryBell(std::atomic<std::uint32_t>& bell) : bell_(bell) {}
  [[nodiscard]] bool Ring() noexcept override {
    bell_.fetch_add(1, std::memory_order_seq_cst);
    return true;
  }

 private:
  std::atomic<std::uint32_t>& bell_;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435769u + 88172645463325252u) {}
  std::uint64_t Next() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }

 private:
  std::uint64_t state_;
};

struct GameResult {
  std::uint64_t sleeps = 0;
  std::uint64_t records = 0;
  bool is_wedged = false;  // asleep with a record unread and no doorbell on its way
  bool is_wrong = false;   // a record that is not the next one, corrupt, or a doorbell too many
};

// A player is one side of the game; `heard` is the bell that the other side rings. Play() ends when
// both sides have slept `sleeps_max` times (counted in `players_done`), or after an error.
class Player {
 public:
  Player(Ring& ring, std::atomic<std::uint32_t>& heard, std::uint64_t seed)
      : ring_(ring), heard_(heard), random_(seed) {}

  // `has_ball`: this side sends first. `players_done`:
  // shared, the number of sides that have slept enough.
  GameResult Play(bool has_ball, std::uint64_t sleeps_max, std::atomic<int>& players_done) {
    bool is_counted = false;
    while (!result_.is_wedged && !result_.is_wrong) {
      if (!is_counted && result_.sleeps >= sleeps_max) {
        is_counted = true;
        players_done.fetch_add(1);
      }
      if (players_done.load(std::memory_order_relaxed) >= 2) break;
      if (has_ball) SendBatch();
      has_ball = Listen(players_done);
    }
    if (!is_counted) players_done.fetch_add(1);
    if (result_.is_wedged || result_.is_wrong) players_done.store(2);
    return result_;
  }

 private:
  struct Record {
    std::uint64_t number;
    std::uint64_t left;  // records of its batch that follow
  };

  void SendBatch() {
    for (std::uint64_t left = 1 + random_.Next() % 8; left > 0; --left) {
      const Record record = {sent_++, left - 1};
      std::uint8_t frame[sizeof record];
      std::memcpy(frame, &record, sizeof record);
      if (ring_.Write(frame, {}) != Ring::Written::kWritten) result_.is_wrong = true;
      Pause(1024);
      ring_.Publish();
    }
  }

  // True: the batch is complete, and it is this side's turn.
  bool Listen(std::atomic<int>& players_done) {
    const Consumer::Drained drained = ring_.Drain(slab_, 256);
    if (drained.state == Consumer::State::kCorrupt) result_.is_wrong = true;
    bool is_complete = false;
    for (std::uint64_t at = 0; at < drained.filled; at += 4 + sizeof(Record)) {
      Record record = {};
      std::memcpy(&record, slab_.data() + at + 4, sizeof record);
      if (record.number != received_) result_.is_wrong = true;
      received_ += 1;
      result_.records += 1;
      is_complete = record.left == 0;
    }
    if (drained.records > 0) return is_complete;
    Pause(1024);
    if (ring_.PrepareToSleep()) Sleep(players_done);
    return false;
  }

  void Sleep(std::atomic<int>& players_done) {
    result_.sleeps += 1;
    auto begun = std::chrono::steady_clock::now();
    for (std::uint64_t spin = 1;; ++spin) {
      const std::uint32_t bytes = heard_.load(std::memory_order_acquire) - taken_;
      if (bytes != 0) {
        taken_ += bytes;
        if (!ring_.OnDoorbell(bytes)) result_.is_wrong = true;
        return;
      }
      if (players_done.load(std::memory_order_relaxed) >= 2) return ring_.Wake();
      if (spin % 4096 != 0) continue;
      if (std::chrono::steady_clock::now() - begun < std::chrono::milliseconds(100)) continue;
      if (ring_.consumer().HasUnseenRecords() && heard_.load() == taken_) {
        result_.is_wedged = true;
        return;
      }
      begun = std::chrono::steady_clock::now();
    }
  }

  void Pause(std::uint64_t turns_max) {
    for (std::uint64_t turn = random_.Next() % turns_max; turn > 0; --turn) {
      __asm__ volatile("" ::: "memory");
    }
  }

  Ring& ring_;
  std::atomic<std::uint32_t>& heard_;
  Random random_;
  GameResult result_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint32_t taken_ = 0;
  std::vector<std::uint8_t> slab_ = std::vector<std::uint8_t>(64 * 1024);
};

}  // namespace sidecall::test
