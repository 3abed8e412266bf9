// SPDX-License-Identifier: MIT
// Two processes over real outboxes. ring_stress records N | sleeps N | wedge SECONDS
//   records: N records in both directions, of random sizes, all bytes verified at the receiver.
//   sleeps: N sleeps that race with publications; doorbells are polled in memory.
//   wedge: as sleeps, exits with 0 after a lost wake-up. For the build with a planted bug.
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "ball_game.h"
#include "os/doorbell.h"
#include "os/shared_memory.h"
#include "os/unix_socket.h"

namespace {

using namespace sidecall;
using namespace sidecall::test;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "ring_stress: %s: %s\n", what, std::strerror(errno));
  std::_Exit(1);
}

struct Shared {
  MemoryBells bells;
  std::atomic<int> players_done{0};
};

Shared* MakeShared() {
  void* const place =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) Fail("mmap");
  return new (place) Shared();
}

// The end of one process: its own outbox, made and sealed, and the peer's, received and checked.
struct End {
  End(UniqueFd own_socket, std::uint64_t capacity) : socket(std::move(own_socket)) {
    shape.capacity_bytes = capacity;
    auto made = CreateOutbox(shape, MemoryShare());
    if (!made.ok()) Fail("create");
    mine = std::move(made.value());
    const std::uint8_t byte = 0;
    if (!SendBytes(socket.get(), {&byte, 1}, mine.descriptor.get()).ok()) Fail("send");
    std::uint8_t heard[1];
    for (;;) {
      pollfd waited = {socket.get(), POLLIN, 0};
      ::poll(&waited, 1, -1);
      auto got = ReceiveBytes(socket.get(), heard, true);
      if (!got.ok()) Fail("receive");
      if (!got.value().has_value()) continue;
      if (got.value()->descriptors.size() != 1) Fail("descriptors");
      peer = AcceptOutbox(got.value()->descriptors[0].get(), shape, MappedPart::kRingAndBlocks);
      break;
    }
    if (!peer.ok()) Fail("accept");
  }

  [[nodiscard]] Ring::Memory memory() const {
    return {mine.control(), mine.data(), shape.capacity_bytes,
            peer.control(), peer.data(), shape.capacity_bytes};
  }

  UniqueFd socket;
  OutboxShape shape;
  Outbox mine;
  PeerOutbox peer;
};

class SocketBell final : public Doorbell {
 public:
  explicit SocketBell(int fd) : fd_(fd) {}
  [[nodiscard]] bool Ring() noexcept override { return RingDoorbell(fd_); }

 private:
  int fd_;
};

// The records of one direction, generated identically on both sides.
class Tape {
 public:
  explicit Tape(std::uint64_t seed, std::uint64_t record_max_bytes)
      : random_(seed), frame_max_bytes_(record_max_bytes - kRecordHeader) {
    for (std::size_t at = 0; at < sizeof pattern_; ++at) {
      pattern_[at] = static_cast<std::uint8_t>(random_.Next());
    }
  }

  // The next record's bytes; valid until the next call.
  std::span<const std::uint8_t> Next() {
    const std::uint64_t drawn = random_.Next();
    number_ += 1;
    const std::uint64_t bytes =
        number_ % 1000 == 0 ? 1 + drawn % frame_max_bytes_ : 1 + drawn % 256;
    // A random position in the pattern, so that sources are unaligned and records differ.
    return {pattern_ + (drawn >> 32) % (sizeof pattern_ - frame_max_bytes_),
            static_cast<std::size_t>(bytes)};
  }

 private:
  Random random_;
  std::uint64_t frame_max_bytes_;
  std::uint64_t number_ = 0;
  std::uint8_t pattern_[128 * 1024];
};

// Sends `records` and verifies `records`; sleeps on the socket where there is nothing to do.
bool ExchangeRecords(End& end, int who, std::uint64_t records) {
  SocketBell bell(end.socket.get());
  Ring ring(end.memory(), bell);
  const std::uint64_t record_max = ring.producer().record_max_bytes();
  auto out = std::make_unique<Tape>(static_cast<std::uint64_t>(who) + 1, record_max);
  auto in = std::make_unique<Tape>(static_cast<std::uint64_t>(1 - who) + 1, record_max);
  std::vector<std::uint8_t> slab(128 * 1024);
  std::vector<std::uint8_t> large(record_max);
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t sleeps = 0;
  std::span<const std::uint8_t> next = out->Next();
  const auto verify = [&](const std::uint8_t* bytes, std::uint64_t count) {
    const auto expected = in->Next();
    received += 1;
    return count == expected.size() && std::memcmp(bytes, expected.data(), count) == 0;
  };
  while (sent < records || received < records) {
    std::uint64_t batch = 0;
    while (sent < records && batch < 64 && ring.Write(next, {}) == Ring::Written::kWritten) {
      sent += 1;
      batch += 1;
      next = out->Next();
    }
    ring.Publish();
    const Consumer::Drained drained = ring.Drain(slab, 256);
    if (drained.state == Consumer::State::kCorrupt) return false;
    for (std::uint64_t at = 0; at < drained.filled;) {
      std::uint32_t count = 0;
      std::memcpy(&count, slab.data() + at, sizeof count);
      if (!verify(slab.data() + at + 4, count)) return false;
      at += 4 + count;
    }
    if (drained.state == Consumer::State::kLarge) {
      const std::uint64_t count = drained.large_payload_bytes;
      std::memcpy(large.data(), slab.data() + drained.filled, 100);
      ring.Take(100, std::span(large).subspan(100, count - 100));
      if (!verify(large.data(), count)) return false;
    }
    const bool is_idle =
        batch == 0 && drained.records == 0 && drained.state == Consumer::State::kEmpty;
    if (!is_idle || !ring.PrepareToSleep()) continue;
    sleeps += 1;
    pollfd waited = {end.socket.get(), POLLIN, 0};
    if (::poll(&waited, 1, 10'000) != 1) {
      std::fprintf(stderr, "ring_stress: asleep for 10 s\n");
      return false;
    }
    std::uint8_t heard[64];
    const ssize_t got = ::read(end.socket.get(), heard, sizeof heard);
    if (got <= 0 || !ring.OnDoorbell(static_cast<std::uint64_t>(got))) return false;
  }
  std::printf("side %d: %llu records sent and verified, %llu sleeps\n", who,
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(sleeps));
  std::fflush(stdout);
  return true;
}

GameResult PlayBall(End& end, Shared& shared, int who, std::uint64_t sleeps) {
  MemoryBell bell(shared.bells.rung[1 - who]);
  Ring ring(end.memory(), bell);
  Player player(ring, shared.bells.rung[who], static_cast<std::uint64_t>(who) + 1);
  return player.Play(who == 0, sleeps, shared.players_done);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc == 3 ? argv[1] : "";
  if (mode != "records" && mode != "sleeps" && mode != "wedge") {
    return std::fputs("usage: ring_stress records N | sleeps N | wedge SECONDS\n", stderr), 2;
  }
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  Shared* const shared = MakeShared();
  auto pair = MakeSocketPair();
  if (!pair.ok()) Fail("socketpair");
  const pid_t child = ::fork();
  if (child == -1) Fail("fork");
  const int who = child == 0 ? 1 : 0;
  if (who == 1) pair.value().near.Reset();
  End end(who == 0 ? std::move(pair.value().near) : std::move(pair.value().far),
          mode == "records" ? 1 << 20 : kCapacityMin);
  if (mode == "wedge") ::alarm(static_cast<unsigned>(count));  // SIGALRM: no lost wake-up in time
  bool is_right = false;
  GameResult result;
  if (mode == "records") {
    is_right = ExchangeRecords(end, who, count / 2);
  } else {
    result = PlayBall(end, *shared, who, mode == "wedge" ? ~0ull : count / 2);
    is_right = !result.is_wrong && !result.is_wedged;
    std::printf("side %d: %llu sleeps, %llu records%s%s\n", who,
                static_cast<unsigned long long>(result.sleeps),
                static_cast<unsigned long long>(result.records),
                result.is_wedged ? ", a wake-up was LOST" : "", result.is_wrong ? ", WRONG" : "");
    std::fflush(stdout);
  }
  if (who == 1) std::_Exit(is_right ? 0 : result.is_wedged ? 3 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool is_other_right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const bool is_wedged = result.is_wedged || (WIFEXITED(status) && WEXITSTATUS(status) == 3);
  if (mode == "wedge") return is_wedged ? 0 : 1;
  std::puts(is_right && is_other_right ? "right" : "WRONG");
  return is_right && is_other_right ? 0 : 1;
}
