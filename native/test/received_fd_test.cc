// SPDX-License-Identifier: MIT
#include "os/received_fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fixture.h"

namespace sidecall::received_fd_test {
namespace {

using std::chrono::milliseconds;

void AwaitPending(const ReceivedCloser& closer, int count) {
  while (closer.pending() != count) std::this_thread::sleep_for(milliseconds(1));
}

// A socket whose last close blocks: it lingers for bytes that its peer does not read.
struct BlockingSocket {
  UniqueFd near;
  UniqueFd far;

  explicit BlockingSocket(int linger_seconds) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    REQUIRE_EQ(::bind(listener.get(), raw, size), 0);
    REQUIRE_EQ(::listen(listener.get(), 1), 0);
    REQUIRE_EQ(::getsockname(listener.get(), raw, &size), 0);
    near = UniqueFd(::socket(AF_INET, SOCK_STREAM, 0));
    REQUIRE_EQ(::connect(near.get(), raw, size), 0);
    far = UniqueFd(::accept(listener.get(), nullptr, nullptr));
    const linger wait = {1, linger_seconds};
    REQUIRE_EQ(::setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
    const auto bytes = test::Bytes(1 << 16);
    while (::send(near.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
    }
  }
};

TEST_CASE("a socket that lingers is told not to, so that its close does not wait") {
  ReceivedCloser closer;
  BlockingSocket socket(30);
  const UniqueFd kept(::dup(socket.near.get()));
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(std::move(socket.near));
  closer.Close(1, std::move(descriptors));
  AwaitPending(closer, 0);
  linger now = {};
  socklen_t size = sizeof now;
  REQUIRE_EQ(::getsockopt(kept.get(), SOL_SOCKET, SO_LINGER, &now, &size), 0);
  CHECK_EQ(now.l_onoff, 0);
}

TEST_CASE("a socket's peer sees the end before its close had a thread") {
  int ends[2] = {-1, -1};
  REQUIRE_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd far(ends[1]);
  ReceivedCloser closer;
  closer.CloseSocket(1, UniqueFd(ends[0]));
  std::uint8_t byte = 0;
  CHECK_EQ(::recv(far.get(), &byte, 1, 0), 0);
  AwaitPending(closer, 0);
}

TEST_CASE("descriptors that wait are counted, and bounded") {
  const test::DescriptorsUnchanged unchanged;
  {
    ReceivedCloser closer;
    CHECK(closer.HasRoomFor(1));
    std::vector<UniqueFd> descriptors;
    for (int index = 0; index < 100; ++index) {
      descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    }
    closer.Close(1, std::move(descriptors));
    AwaitPending(closer, 0);
    CHECK(closer.HasRoomFor(1));
  }
}

std::atomic<bool> has_threads = false;
bool StartWhereAllowed(void* (*run)(void*), void* argument) {
  return has_threads && Workers::Start(run, argument);
}

std::vector<UniqueFd> Open(int count) {
  std::vector<UniqueFd> descriptors;
  while (count-- > 0) descriptors.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return descriptors;
}

TEST_CASE("an owner whose descriptors wait has no place, and others have") {
  const test::DescriptorsUnchanged unchanged;
  has_threads = false;
  ReceivedCloser closer(StartWhereAllowed);
  closer.Close(1, Open(ReceivedCloser::kOwnerMax - 1));
  CHECK(closer.HasPlaceFor(1));
  closer.Close(1, Open(1));
  CHECK_FALSE(closer.HasPlaceFor(1));
  CHECK(closer.HasPlaceFor(2));
  CHECK_FALSE(closer.HasRoomFor(2));  // no thread
  Owner next = 2;
  for (; closer.pending() < ReceivedCloser::kSharedMax; ++next) closer.Close(next, Open(1));
  CHECK_FALSE(closer.HasPlaceFor(2));
  CHECK(closer.HasPlaceFor(next));
  for (; closer.pending() < ReceivedCloser::kDescriptorsMax; ++next) closer.Close(next, Open(1));
  CHECK_FALSE(closer.HasPlaceFor(next));
  has_threads = true;
  while (!closer.HasRoomFor(1)) std::this_thread::sleep_for(milliseconds(1));
  AwaitPending(closer, 0);
}

}  // namespace
}  // namespace sidecall::received_fd_test
