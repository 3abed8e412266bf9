// SPDX-License-Identifier: MIT
#include "os/stranger_fd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "fixture.h"

namespace sidecall {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void AwaitPending(const StrangerCloser& closer, int count) {
  while (closer.pending() != count) std::this_thread::sleep_for(milliseconds(1));
}

// A socket whose last close blocks: it lingers on bytes that its peer never reads.
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

TEST_CASE("row 24: a descriptor whose close blocks does not block us") {
  StrangerCloser closer;
  BlockingSocket socket(3);
  const auto begun = steady_clock::now();
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(std::move(socket.near));
  closer.Close(std::move(descriptors));
  CHECK_EQ(closer.pending(), 1);
  AwaitPending(closer, 0);
  // It did block, elsewhere: else this test would prove nothing.
  CHECK_GE(steady_clock::now() - begun, milliseconds(2000));
}

TEST_CASE("row 24: at most four closes hang, then there is no room") {
  StrangerCloser closer;
  std::vector<BlockingSocket> sockets;
  for (int index = 0; index < StrangerCloser::kThreadsMax; ++index) {
    REQUIRE(closer.has_room());
    sockets.emplace_back(2);
    std::vector<UniqueFd> descriptors;
    descriptors.push_back(std::move(sockets.back().near));
    closer.Close(std::move(descriptors));
  }
  CHECK_FALSE(closer.has_room());
  // What comes now waits for a thread, and is closed in the end.
  sockets.emplace_back(0);
  std::vector<UniqueFd> late;
  late.push_back(std::move(sockets.back().near));
  closer.Close(std::move(late));
  CHECK_EQ(closer.pending(), StrangerCloser::kThreadsMax);
  AwaitPending(closer, 0);
  CHECK(closer.has_room());
}

#if defined(__linux__)
TEST_CASE("sealed memory is closed at once, without a thread") {
  const test::DescriptorsUnchanged unchanged;
  StrangerCloser closer;
  UniqueFd memory(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE_EQ(::ftruncate(memory.get(), 4096), 0);
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  REQUIRE_EQ(::fcntl(memory.get(), F_ADD_SEALS, kSeals), 0);
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(std::move(memory));
  closer.Close(std::move(descriptors));
  CHECK_EQ(closer.pending(), 0);
}
#endif

}  // namespace
}  // namespace sidecall
