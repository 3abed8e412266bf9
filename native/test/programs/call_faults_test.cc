// SPDX-License-Identifier: MIT
// Each system call of native/os/ fails, one after the other, with each errno: nothing crashes,
// hangs or leaks, whatever the caller makes of it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <thread>

#include "fixture.h"
#include "os/descriptor.h"
#include "os/doorbell.h"
#include "os/files.h"
#include "os/peer_credentials.h"
#include "os/peer_exit_watch.h"
#include "os/process.h"
#include "os/received_fd.h"
#include "os/shared_memory.h"
#include "os/unix_socket.h"
#include "programs/faulty_calls.h"

namespace sidecall::test {
namespace {

constexpr int kErrors[] = {EMFILE, ENOMEM, EINTR, EAGAIN, ECONNRESET};
constexpr unsigned kSecondsMax = 60;  // a scenario that hangs ends the program by SIGALRM

int CountMappings() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/memfd:") != std::string::npos) ++count;
  }
  return count;
}

// Threads close and unmap what they were given a little later.
bool IsEventually(int wanted, int (*count)()) {
  for (int left = 200; left > 0; --left) {
    if (count() == wanted) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// Runs a scenario without a fault, then once for each of its calls and each errno. A scenario
// checks nothing: it goes on with what succeeded.
void FailEachCall(const std::function<void()>& scenario) {
  const int before = CountDescriptors();
  scenario();
  (void)IsEventually(before, CountDescriptors);  // what the C library opens once stays open
  const int descriptors = CountDescriptors();
  const int mappings = CountMappings();
  BeginCalls(0, 0);
  scenario();
  const int calls = EndCalls();
  REQUIRE_GT(calls, 0);
  for (int failing = 1; failing <= calls; ++failing) {
    for (const int number : kErrors) {
      ::alarm(kSecondsMax);
      BeginCalls(failing, number);
      scenario();
      EndCalls();
      ::alarm(0);
      INFO("call " << failing << ", " << std::string(FailedCall()) << ", errno " << number);
      CHECK_NE(std::string(FailedCall()), "");
      CHECK(IsEventually(descriptors, CountDescriptors));
      CHECK(IsEventually(mappings, CountMappings));
    }
  }
  MESSAGE(calls << " calls, each with " << std::size(kErrors) << " errors");
}

OutboxShape Shape() { return {.capacity_bytes = 65'536, .block_area_bytes = 65'536}; }

}  // namespace

TEST_CASE("each call of making and accepting memory may fail") {
  FailEachCall([] {
    auto made = CreateOutbox(Shape(), MemoryShare());
    if (!made.ok()) return;
    const PeerOutbox accepted =
        AcceptOutbox(made.value().descriptor.get(), Shape(), MappedPart::kRingAndBlocks);
    const PeerOutbox own = MapOwnOutbox(made.value());
    (void)accepted.ok();
    (void)own.ok();
  });
}

TEST_CASE("each call of a socket pair may fail") {
  FailEachCall([] {
    auto pair = MakeSocketPair();
    if (!pair.ok()) return;
    const int near = pair.value().near.get();
    const int far = pair.value().far.get();
    const auto bytes = Bytes(100);
    auto target = Bytes(100);
    (void)RefuseDescriptors(near);
    (void)AdmitDescriptors(near);
    (void)RingDoorbell(near);
    const auto sent = SendBytes(near, bytes, 0);
    std::int32_t waiting[] = {near, far};
    (void)MarkReadable(waiting, true);
    (void)QueuedBytes(near);
    (void)IsPeerClosed(near);
    if (sent.ok()) (void)ReceiveBytes(far, target, true);
    (void)ReadPeerCredentials(near);
    (void)ReadPeerIds(near);
    (void)DescribeDescriptor(near);
    (void)DuplicateDescriptor(near);
    (void)SetCloseOnExec(near);
  });
}

TEST_CASE("each call of listening and connecting may fail") {
  const ScratchDirectory scratch;
  FailEachCall([&scratch] {
    const std::string path = scratch.file("socket");
    {
      auto listener = BindUnixSocket(path);
      if (listener.ok() && ListenOn(listener.value().get(), 5).ok()) {
        auto connected = ConnectUnixSocket(path);
        auto accepted = AcceptConnection(listener.value().get());
        (void)IsSocketHeld(path);
        if (accepted.ok() && accepted.value().has_value()) {
          (void)ReadPeerCredentials(accepted.value()->get());
        }
      }
    }
    std::filesystem::remove(path);
  });
}

TEST_CASE("each call of files may fail") {
  const ScratchDirectory scratch;
  FailEachCall([&scratch] {
    auto directory = OpenDirectory(scratch.path());
    if (!directory.ok()) return;
    const int fd = directory.value().get();
    (void)StatDescriptor(fd);
    {
      auto lock = OpenLockFile(fd, "lock");
      if (lock.ok()) (void)TryLock(lock.value().get());
      (void)StatAt(fd, "lock");
      auto held = OpenEntry(fd, "lock");
      const int entry = held.ok() && held.value().has_value() ? held.value()->get() : -1;
      (void)ChangeModeAt(fd, "lock", entry, 0600);
      (void)ChangeOwnerAt(fd, "lock", entry, ::geteuid(), kSameId);
    }
    (void)UnlinkAt(fd, "lock");
    (void)ReadOwnCredentials();
  });
}

TEST_CASE("each call of watching the end of a peer may fail") {
  FailEachCall([] {
    auto pair = MakeSocketPair();
    if (!pair.ok()) return;
    PeerExitWatch watch([](std::uint32_t) {});
    (void)watch.Add(pair.value().near.get(), 1);
    watch.Remove(1);
  });
}

TEST_CASE("each call of closing what a peer has sent may fail") {
  FailEachCall([] {
    auto pair = MakeSocketPair();
    if (!pair.ok()) return;
    ReceivedCloser closer;
    std::vector<UniqueFd> one;
    one.push_back(std::move(pair.value().far));
    closer.Close(1, std::move(one));
    closer.CloseSocket(1, std::move(pair.value().near));
    while (closer.pending() > 0) std::this_thread::yield();
  });
}

}  // namespace sidecall::test
