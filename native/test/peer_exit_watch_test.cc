// SPDX-License-Identifier: MIT
#include "os/peer_exit_watch.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "fixture.h"
#include "os/unix_socket.h"

namespace sidecall::peer_exit_watch_test {
namespace {

#if defined(__linux__)
using std::chrono::milliseconds;

// A child that connects, and forks a grandchild that keeps the socket until its pipe ends.
struct Forking {
  UniqueFd accepted;
  UniqueFd hold;
  pid_t child = -1;

  explicit Forking(const test::ScratchDirectory& scratch) {
    const std::string path = scratch.file("s");
    const auto listener = BindUnixSocket(path);
    REQUIRE(listener.ok());
    REQUIRE(ListenOn(listener.value().get(), 4).ok());
    int ends[2] = {-1, -1};
    REQUIRE_EQ(::pipe(ends), 0);
    hold = UniqueFd(ends[1]);
    child = ::fork();
    if (child == 0) {
      ::close(ends[1]);
      const auto connected = ConnectUnixSocket(path);
      if (::fork() != 0) {
        for (;;) ::pause();
      }
      char byte = 0;
      [[maybe_unused]] const auto got = ::read(ends[0], &byte, 1);
      ::_exit(0);
    }
    ::close(ends[0]);
    while (!accepted.is_open()) {
      auto next = AcceptConnection(listener.value().get());
      REQUIRE(next.ok());
      if (next.value().has_value()) accepted = std::move(*next.value());
    }
  }

  ~Forking() { Kill(); }

  void Kill() {
    if (child == -1) return;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    child = -1;
  }
};

// The thread of a watch closes its descriptors after the watch was destroyed.
void AwaitDescriptors(int count) {
  while (test::CountDescriptors() != count) std::this_thread::sleep_for(milliseconds(1));
}

std::atomic<int> told = 0;
bool StartNone(void* (*)(void*), void*) { return false; }

TEST_CASE("the end of a peer is told, though another process still holds its socket") {
  const int descriptors = test::CountDescriptors();
  const test::ScratchDirectory scratch;
  told = 0;
  {
    PeerExitWatch watch([](std::uint32_t number) { told += static_cast<int>(number); });
    Forking first(scratch);
    const auto added = watch.Add(first.accepted.get(), 7);
    REQUIRE(added.ok());
    if (!added.value()) return;  // before Linux 6.5
    CHECK_EQ(told, 0);
    first.Kill();
    while (told != 7) std::this_thread::sleep_for(milliseconds(1));
    // A process that ended before Add is either refused by Add or told at once: kernels differ.
    if (watch.Add(first.accepted.get(), 7).value()) {
      while (told != 14) std::this_thread::sleep_for(milliseconds(1));
    }
  }
  AwaitDescriptors(descriptors);
}

TEST_CASE("a watch that was removed tells nothing, and no thread is an error") {
  const int descriptors = test::CountDescriptors();
  const test::ScratchDirectory scratch;
  told = 0;
  {
    PeerExitWatch watch([](std::uint32_t) { told += 1; });
    Forking first(scratch);
    if (!watch.Add(first.accepted.get(), 1).value()) return;
    watch.Remove(1);
    watch.Remove(1);
    PeerExitWatch none([](std::uint32_t) {}, StartNone);
    CHECK_EQ(none.Add(first.accepted.get(), 1).error().number, EAGAIN);
    CHECK_FALSE(watch.Add(-1, 2).ok());
    first.Kill();
    std::this_thread::sleep_for(milliseconds(50));
    CHECK_EQ(told, 0);
  }
  AwaitDescriptors(descriptors);
}
#endif

}  // namespace
}  // namespace sidecall::peer_exit_watch_test
