// SPDX-License-Identifier: MIT
// The real code of ring/ as two processes in one thread, under a scheduler that a seed drives. The
// other process may run before each access to shared memory. Stores wait in a buffer for as long
// as their order allows; loads take place in the order of the program.
//
//   ring_schedule SEEDS [BUG]
//
// Exits with 1 and prints the seed where a record is lost or wrong, a doorbell is one too many, or
// both processes sleep for ever. BUG makes one kind of store weaker or moves it, as the seeded bug
// of that name in model/ring_model.py does.
#include <ucontext.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ring/ring.h"
#include "ring/shared_words.h"

namespace {

using sidecall::Consumer;
using sidecall::Control;
using sidecall::Ring;
using sidecall::Word;

constexpr std::uint64_t kCapacity = sidecall::kCapacityMin;
// Three of them fill a ring, so that writers wait for space.
constexpr std::size_t kFrameBytes = 20'000;
constexpr int kFrames = 5;
constexpr int kStepsMax = 20'000;
constexpr std::size_t kStackBytes = std::size_t{256} * 1024;

struct Outbox {
  alignas(sidecall::kLine) Control control;
  alignas(sidecall::kLine) std::array<std::byte, kCapacity> data;

  [[nodiscard]] bool Holds(const void* at) const noexcept {
    const auto* const byte = static_cast<const std::byte*>(at);
    const auto* const begin = reinterpret_cast<const std::byte*>(this);
    return byte >= begin && byte < begin + sizeof *this;
  }
};

// A store that others do not see yet.
struct Pending {
  void* at;
  std::vector<std::byte> bytes;
  bool is_release;
};

class CountingBell final : public sidecall::Doorbell {
 public:
  [[nodiscard]] bool Ring() noexcept override {
    rung += 1;
    return true;
  }
  int rung = 0;
};

struct Process {
  Outbox* box = nullptr;
  CountingBell* bell = nullptr;   // that this process rings
  CountingBell* heard = nullptr;  // that it is woken by
  std::unique_ptr<Ring> ring;
  std::deque<Pending> buffer;
  ucontext_t context = {};
  std::vector<std::byte> stack;
  bool is_blocked = false;
  bool is_done = false;
  int sent = 0;
  int received = 0;
  int to_send = 0;
  int to_receive = 0;
  // A store that the bug holds back.
  std::deque<Pending> held;
};

std::mt19937_64 chance;
ucontext_t scheduler;
std::array<Process, 2> processes;
Process* running = nullptr;
std::string bug;
const char* violation = nullptr;

std::size_t Below(std::size_t end) { return static_cast<std::size_t>(chance() % end); }

void Fail(const char* what) {
  if (violation == nullptr) violation = what;
}

// The scheduler may let others run, or stores become visible, before the process goes on.
void Step() {
  if (running != nullptr) swapcontext(&running->context, &scheduler);
}

void Show(const Pending& store) { std::memcpy(store.at, store.bytes.data(), store.bytes.size()); }

void FlushAll(Process& process) {
  for (; !process.buffer.empty(); process.buffer.pop_front()) Show(process.buffer.front());
}

bool Overlap(const Pending& first, const Pending& second) {
  const auto* const a = static_cast<const std::byte*>(first.at);
  const auto* const b = static_cast<const std::byte*>(second.at);
  return a < b + second.bytes.size() && b < a + first.bytes.size();
}

// Makes one store visible that may be: a release waits for all before it, others only for those to
// the same place.
void FlushOne(Process& process) {
  if (process.buffer.empty()) return;
  const std::size_t at = Below(process.buffer.size());
  if (process.buffer[at].is_release && at > 0) return;
  for (std::size_t before = 0; before < at; ++before) {
    if (Overlap(process.buffer[before], process.buffer[at])) return;
  }
  Show(process.buffer[at]);
  process.buffer.erase(process.buffer.begin() + static_cast<std::ptrdiff_t>(at));
}

// The bytes at a place as this process sees them: its own stores first.
void See(const void* at, void* into, std::size_t bytes) {
  std::memcpy(into, at, bytes);
  if (running == nullptr) return;
  for (const Pending& store : running->buffer) {
    if (store.at == at && store.bytes.size() >= bytes) std::memcpy(into, store.bytes.data(), bytes);
  }
}

void Keep(void* at, const void* from, std::size_t bytes, bool is_release) {
  const auto* const begin = static_cast<const std::byte*>(from);
  running->buffer.push_back({at, std::vector<std::byte>(begin, begin + bytes), is_release});
}

enum class Field { kProducer, kConsumer, kDataSleep, kSpaceSleep, kOther };

Field FieldOf(const Word& word) {
  for (const Process& process : processes) {
    if (process.box == nullptr || !process.box->Holds(&word)) continue;
    const Control& control = process.box->control;
    if (&word == &control.producer_cursor) return Field::kProducer;
    if (&word == &control.consumer_cursor) return Field::kConsumer;
    if (&word == &control.data_sleep_epoch) return Field::kDataSleep;
    if (&word == &control.space_sleep_epoch) return Field::kSpaceSleep;
  }
  return Field::kOther;
}

// The order of a store where the bug makes it weaker.
std::memory_order OrderOf(Field field, std::memory_order order) {
  const bool is_weaker = (bug == "publish-unordered" && field == Field::kProducer) ||
                         (bug == "release-unordered" && field == Field::kConsumer) ||
                         (bug == "announce-unordered" && field == Field::kDataSleep) ||
                         (bug == "wait-unordered" && field == Field::kSpaceSleep);
  if (is_weaker && order == std::memory_order_seq_cst) return std::memory_order_release;
  if (bug == "cursor-relaxed" && field == Field::kProducer) return std::memory_order_relaxed;
  return order;
}

}  // namespace

namespace sidecall {

std::uint64_t LoadWord(const Word& word, std::memory_order) noexcept {
  Step();
  std::uint64_t value = 0;
  See(&word, &value, sizeof value);
  // The bug: the announcement becomes visible behind the last look.
  if (running != nullptr && !running->held.empty() && FieldOf(word) == Field::kProducer) {
    Step();
    for (; !running->held.empty(); running->held.pop_front()) Show(running->held.front());
  }
  return value;
}

void StoreWord(Word& word, std::uint64_t value, std::memory_order given) noexcept {
  Step();
  const Field field = FieldOf(word);
  const std::memory_order order = OrderOf(field, given);
  if (bug == "look-then-announce" && field == Field::kDataSleep && value % 2 == 1) {
    FlushAll(*running);
    const auto* const begin = reinterpret_cast<const std::byte*>(&value);
    running->held.push_back({&word, std::vector<std::byte>(begin, begin + sizeof value), false});
    return;
  }
  if (bug == "cursor-before-payload" && field == Field::kProducer) {
    std::memcpy(static_cast<void*>(&word), &value, sizeof value);
    Step();
    FlushAll(*running);
    return;
  }
  Keep(&word, &value, sizeof value, order != std::memory_order_relaxed);
  if (order == std::memory_order_seq_cst) FlushAll(*running);
}

std::uint64_t LoadHeader(const std::byte* at) noexcept {
  Step();
  std::uint64_t header = 0;
  See(at, &header, sizeof header);
  return header;
}

void StoreHeader(std::byte* at, std::uint64_t header) noexcept {
  Step();
  Keep(at, &header, sizeof header, false);
}

void CopyPayload(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes == 0) return;
  if (running == nullptr || !running->box->Holds(to)) {
    Step();
    std::memcpy(to, from, bytes);
    return;
  }
  Step();
  Keep(to, from, bytes, false);
}

}  // namespace sidecall

namespace {

std::uint8_t ByteOf(int frame) { return static_cast<std::uint8_t>(1 + frame); }

void SendOne(Process& process) {
  const std::vector<std::uint8_t> frame(kFrameBytes, ByteOf(process.sent));
  const auto header = std::span<const std::uint8_t>(frame).first(16);
  const auto payload = std::span<const std::uint8_t>(frame).subspan(16);
  const Ring::Written written = process.ring->Write(header, payload);
  if (written == Ring::Written::kWritten) process.sent += 1;
  if (written == Ring::Written::kCorrupt) Fail("a correct outbox was taken for a corrupt one");
}

bool ReceiveOne(Process& process) {
  std::array<std::uint8_t, std::size_t{16}* 1024> slab = {};
  const Consumer::Drained drained = process.ring->Drain(slab, 4);
  if (drained.state == Consumer::State::kCorrupt)
    Fail("a correct outbox was taken for a corrupt one");
  if (drained.state != Consumer::State::kLarge) return false;
  std::vector<std::uint8_t> frame(drained.large_payload_bytes);
  process.ring->Take(0, frame);
  for (const std::uint8_t byte : frame) {
    if (byte != ByteOf(process.received)) return Fail("a record has other bytes"), false;
  }
  process.received += 1;
  return true;
}

// As RingTransport: look, write, publish; and sleep where there is nothing to do.
void Live(Process& process) {
  while (violation == nullptr) {
    const bool has_received = ReceiveOne(process);
    const int sent = process.sent;
    if (process.sent < process.to_send) SendOne(process);
    process.ring->Publish();
    const bool is_finished =
        process.sent == process.to_send && process.received == process.to_receive;
    if (is_finished) break;
    if (has_received || process.sent != sent) continue;
    if (!process.ring->PrepareToSleep()) continue;
    process.is_blocked = true;
    Step();
    const int bytes = process.heard->rung;
    process.heard->rung = 0;
    if (!process.ring->OnDoorbell(static_cast<std::uint64_t>(bytes))) Fail("a doorbell too many");
  }
  FlushAll(process);
  process.is_done = true;
  swapcontext(&process.context, &scheduler);
}

void Enter(int at) { Live(processes[static_cast<std::size_t>(at)]); }

void Prepare(Process& process, Process& peer, CountingBell& rings, CountingBell& hears) {
  process.bell = &rings;
  process.heard = &hears;
  process.ring = std::make_unique<Ring>(Ring::Memory{.mine = process.box->control,
                                                     .my_data = process.box->data.data(),
                                                     .my_capacity = kCapacity,
                                                     .peer = peer.box->control,
                                                     .peer_data = peer.box->data.data(),
                                                     .peer_capacity = kCapacity},
                                        rings);
  process.stack.resize(kStackBytes);
  getcontext(&process.context);
  process.context.uc_stack.ss_sp = process.stack.data();
  process.context.uc_stack.ss_size = process.stack.size();
  process.context.uc_link = &scheduler;
}

// Two processes to their end, or to a violation.
void RunSeed(std::uint64_t seed) {
  chance.seed(seed);
  violation = nullptr;
  std::array<CountingBell, 2> bells;
  std::array<std::unique_ptr<Outbox>, 2> boxes = {std::make_unique<Outbox>(),
                                                  std::make_unique<Outbox>()};
  for (std::size_t at = 0; at < 2; ++at) {
    processes[at] = Process();
    processes[at].box = boxes[at].get();
  }
  for (std::size_t at = 0; at < 2; ++at) {
    processes[at].to_send = at == 0 ? kFrames : static_cast<int>(Below(3));
  }
  for (std::size_t at = 0; at < 2; ++at) processes[at].to_receive = processes[1 - at].to_send;
  for (std::size_t at = 0; at < 2; ++at) {
    Prepare(processes[at], processes[1 - at], bells[at], bells[1 - at]);
    makecontext(&processes[at].context, reinterpret_cast<void (*)()>(Enter), 1,
                static_cast<int>(at));
  }
  // Some seeds switch often, some seldom, and stores wait for long or not.
  const std::size_t switches = 1 + Below(12);
  const std::size_t flushes = 1 + Below(40);
  std::size_t at = 0;
  for (int steps = 0; violation == nullptr; ++steps) {
    if (processes[0].is_done && processes[1].is_done) break;
    if (steps == kStepsMax) return Fail("the processes never come to an end");
    if (Below(flushes) == 0) FlushOne(processes[Below(2)]);
    if (Below(switches) == 0) at = 1 - at;
    for (Process& process : processes) {
      if (process.is_blocked && process.heard->rung > 0) process.is_blocked = false;
    }
    if (processes[at].is_done || processes[at].is_blocked) at = 1 - at;
    Process& next = processes[at];
    if (next.is_done || next.is_blocked) {
      // Stores that wait would become visible, and wake no process.
      return Fail("a wake-up is lost: no process can go on");
    }
    running = &next;
    swapcontext(&scheduler, &next.context);
    running = nullptr;
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::uint64_t seeds = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 10'000;
  if (count > 2) bug = arguments[2];
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    RunSeed(seed);
    if (violation == nullptr) continue;
    std::printf("schedule %llu: %s\n", static_cast<unsigned long long>(seed), violation);
    return 1;
  }
  std::printf("%llu schedules without a fault\n", static_cast<unsigned long long>(seeds));
  return 0;
}
