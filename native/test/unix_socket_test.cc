// SPDX-License-Identifier: MIT
#include "os/unix_socket.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstring>

#include "fixture.h"

namespace sidecall::unix_socket_test {
namespace {

using test::Bytes;
using test::DescriptorsUnchanged;
using test::ScratchDirectory;

// Sends one byte with `count` descriptors in each of `messages` control messages.
void SendDescriptors(int fd, int count, int messages) {
  std::vector<std::byte> control(static_cast<std::size_t>(messages) *
                                 CMSG_SPACE(static_cast<std::size_t>(count) * sizeof(int)));
  std::uint8_t byte = 1;
  iovec piece = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  for (int index = 0; index < messages; ++index) {
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(static_cast<std::size_t>(count) * sizeof(int));
    const std::vector<int> numbers(static_cast<std::size_t>(count), fd);
    if (count > 0) std::memcpy(CMSG_DATA(header), numbers.data(), numbers.size() * sizeof(int));
    header = CMSG_NXTHDR(&message, header);
  }
  REQUIRE_EQ(::sendmsg(fd, &message, 0), 1);
}

TEST_CASE("a pair closes on exec; our end does not block, the other's does") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  for (const int fd : {pair.value().near.get(), pair.value().far.get()}) {
    CHECK_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
  CHECK_NE(::fcntl(pair.value().near.get(), F_GETFL) & O_NONBLOCK, 0);
  CHECK_EQ(::fcntl(pair.value().far.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_CASE("a path holds 107 bytes on Linux and 103 on macOS, and not one more") {
  const ScratchDirectory scratch;
  const std::string fits =
      scratch.file(std::string(SocketPathMaxBytes() - scratch.path().size() - 1, 'x'));
  CHECK_EQ(fits.size(), SocketPathMaxBytes());
  CHECK(BindUnixSocket(fits).ok());
  CHECK_EQ(BindUnixSocket(fits + "x").error().number, ENAMETOOLONG);
  CHECK_EQ(ConnectUnixSocket(fits + "x").error().number, ENAMETOOLONG);
  CHECK_EQ(BindUnixSocket("").error().number, ENAMETOOLONG);
}

#if defined(__linux__)
TEST_CASE("a socket has mode 0600 from birth, whatever the umask") {
  const ScratchDirectory scratch;
  for (const mode_t mask : {0000u, 0022u, 0077u}) {
    const mode_t before = ::umask(mask);
    const std::string path = scratch.file("s" + std::to_string(mask));
    const auto bound = BindUnixSocket(path);
    ::umask(before);
    REQUIRE(bound.ok());
    CHECK_EQ(test::ModeOf(path), 0600u);
  }
}
#endif

TEST_CASE("bind replaces nothing") {
  const ScratchDirectory scratch;
  const auto first = BindUnixSocket(scratch.file("s"));
  REQUIRE(first.ok());
  CHECK_EQ(BindUnixSocket(scratch.file("s")).error().number, EADDRINUSE);
}

TEST_CASE("connect tells a dead socket, no socket and a full backlog apart") {
  const DescriptorsUnchanged unchanged;
  const ScratchDirectory scratch;
  const std::string path = scratch.file("s");
  CHECK_EQ(ConnectUnixSocket(path).error().number, ENOENT);
  const auto bound = BindUnixSocket(path);
  CHECK_EQ(ConnectUnixSocket(path).error().number, ECONNREFUSED);
  REQUIRE(ListenOn(bound.value().get(), 1).ok());
  std::vector<UniqueFd> connected;
  bool is_full = false;
  while (!is_full && connected.size() < 16) {
    auto next = ConnectUnixSocket(path);
    REQUIRE(next.ok());
    is_full = !next.value().has_value();
    if (!is_full) connected.push_back(std::move(*next.value()));
  }
  CHECK(is_full);
}

TEST_CASE("bytes go and come in any pieces, and wait for nobody") {
  const auto pair = MakeSocketPair();
  const int near = pair.value().near.get();
  const int far = pair.value().far.get();
  auto target = Bytes(64, 0);
  CHECK_FALSE(ReceiveBytes(near, target, true).value().has_value());
  const auto sent = Bytes(64);
  for (std::size_t at = 0; at < sent.size(); ++at) {
    REQUIRE_EQ(SendBytes(far, std::span(sent).subspan(at, 1), -1).value(), std::optional(1ul));
    const auto got = ReceiveBytes(near, std::span(target).subspan(at), true);
    REQUIRE_EQ(got.value()->bytes, 1u);
  }
  CHECK_EQ(target, sent);
}

TEST_CASE("a full socket refuses, and says so") {
  const auto pair = MakeSocketPair();
  const auto bytes = Bytes(1 << 16);
  int rounds = 0;
  while (SendBytes(pair.value().near.get(), bytes, -1).value().has_value())
    REQUIRE_LT(++rounds, 1000);
}

TEST_CASE("a peer has left once its end is closed and its last byte was read") {
  auto pair = MakeSocketPair();
  const int near = pair.value().near.get();
  CHECK_EQ(IsPeerClosed(near).value(), false);
  REQUIRE_EQ(::send(pair.value().far.get(), "x", 1, 0), 1);
  pair.value().far.Reset();
  CHECK_EQ(IsPeerClosed(near).value(), false);
  std::array<std::uint8_t, 4> bytes = {};
  CHECK_EQ(ReceiveBytes(near, bytes, false).value()->bytes, 1u);
  CHECK_EQ(IsPeerClosed(near).value(), true);
  // A peer that closes with unread bytes of ours.
  pair = MakeSocketPair();
  REQUIRE_EQ(::send(pair.value().near.get(), "x", 1, 0), 1);
  pair.value().far.Reset();
  CHECK_EQ(IsPeerClosed(pair.value().near.get()).value(), true);
  CHECK_EQ(IsPeerClosed(-1).error().number, EBADF);
}

TEST_CASE("writing to a closed peer is an error, not a signal") {
  auto pair = MakeSocketPair();
  pair.value().far.Reset();
  CHECK_EQ(SendBytes(pair.value().near.get(), Bytes(1), -1).error().number, EPIPE);
  auto target = Bytes(1);
  CHECK_EQ(ReceiveBytes(pair.value().near.get(), target, true).value()->bytes, 0u);
}

TEST_CASE("a descriptor arrives once, owned, and closes on exec") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  const UniqueFd offered(::open("/", O_RDONLY));
  REQUIRE(SendBytes(pair.value().far.get(), Bytes(8), offered.get()).ok());
  auto target = Bytes(64);
  const auto got = ReceiveBytes(pair.value().near.get(), target, true);
  REQUIRE_EQ(got.value()->descriptors.size(), 1u);
  CHECK_EQ(got.value()->bytes, 8u);
  CHECK_NE(::fcntl(got.value()->descriptors[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  CHECK_FALSE(got.value()->is_truncated);
}

TEST_CASE("0 to 253 descriptors in one or more control messages all end with their owner") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  for (const int count : {0, 1, 2, 3, 10, 253}) {
    for (const int messages : {1, 2, 3}) {
      if (count * messages > 253) continue;  // the sender is refused by its own kernel
      SendDescriptors(pair.value().far.get(), count, messages);
      auto target = Bytes(1);
      const auto got = ReceiveBytes(pair.value().near.get(), target, true);
      REQUIRE(got.ok());
      const auto total = static_cast<std::size_t>(count * messages);
      CHECK_EQ(got.value()->descriptors.size(), total);
      CHECK_FALSE(got.value()->is_truncated);
    }
  }
}

#if defined(__linux__)
TEST_CASE("253 descriptors have room beside the name of the sender, which has room without them") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  REQUIRE(AskForSender(pair.value().near.get(), true));
  auto target = Bytes(1);
  SendDescriptors(pair.value().far.get(), 253, 1);
  const auto got = ReceiveBytes(pair.value().near.get(), target, true);
  REQUIRE(got.ok());
  CHECK_EQ(got.value()->descriptors.size(), 253u);
  CHECK_FALSE(got.value()->is_truncated);
  CHECK_EQ(got.value()->sender_pid, ::getpid());
  for (const int count : {0, 1}) {
    SendDescriptors(pair.value().far.get(), count, 1);
    const auto none = ReceiveBytes(pair.value().near.get(), target, false);
    REQUIRE(none.ok());
    CHECK_EQ(none.value()->descriptors.size(), 0u);
    CHECK_EQ(none.value()->is_truncated, count > 0);
    CHECK_EQ(none.value()->sender_pid, ::getpid());
  }
}
#endif

TEST_CASE("where our limit lets nothing in, the kernel says that it dropped it") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  SendDescriptors(pair.value().far.get(), 1, 1);
  rlimit before = {};
  REQUIRE_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int lowest = ::dup(0);  // the next number: a limit at exactly this one lets none in
  ::close(lowest);
  const rlimit edge = {static_cast<rlim_t>(lowest), before.rlim_max};
  REQUIRE_EQ(::setrlimit(RLIMIT_NOFILE, &edge), 0);
  auto target = Bytes(1);
  const auto got = ReceiveBytes(pair.value().near.get(), target, true);
  REQUIRE_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  REQUIRE(got.ok());
  CHECK_EQ(got.value()->descriptors.size(), 0u);
  CHECK(got.value()->is_truncated);
}

TEST_CASE("without room for descriptors none arrives") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  SendDescriptors(pair.value().far.get(), 2, 1);
  auto target = Bytes(1);
  const auto got = ReceiveBytes(pair.value().near.get(), target, false);
  CHECK_EQ(got.value()->descriptors.size(), 0u);
  CHECK(got.value()->is_truncated);
}

TEST_CASE("after RefuseDescriptors the sender is refused, where the kernel can") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  const auto refused = RefuseDescriptors(pair.value().near.get());
  REQUIRE(refused.ok());
  const UniqueFd offered(::open("/", O_RDONLY));
  const auto sent = SendBytes(pair.value().far.get(), Bytes(1), offered.get());
  CHECK_EQ(sent.ok(), !refused.value());
  if (!sent.ok()) CHECK_EQ(sent.error().number, EPERM);
}

TEST_CASE(
    "a socket file that no process holds is told from one that is held, also where it is full") {
  const test::DescriptorsUnchanged unchanged;
  const test::ScratchDirectory scratch;
  const std::string path = scratch.file("s");
  {
    const auto listener = BindUnixSocket(path);
    REQUIRE(listener.ok());
    CHECK(IsSocketHeld(path).value());  // about to listen
    REQUIRE(ListenOn(listener.value().get(), 1).ok());
    std::vector<UniqueFd> waiting;
    for (;;) {
      auto connected = ConnectUnixSocket(path);
      REQUIRE(connected.ok());
      if (!connected.value().has_value()) break;
      waiting.push_back(std::move(*connected.value()));
    }
    CHECK(IsSocketHeld(path).value());
  }
  CHECK_FALSE(IsSocketHeld(path).value());
  CHECK_EQ(IsSocketHeld(scratch.file("none")).error().number, ENOENT);
}

TEST_CASE("what a datagram socket is told about a stream socket's file") {
  CHECK(IsHeldBy(EPROTOTYPE).value());
  CHECK_FALSE(IsHeldBy(ECONNREFUSED).value());
  for (const int number : {EACCES, ENOENT, ENOTSOCK, EAGAIN, ENOBUFS}) {
    CHECK_EQ(IsHeldBy(number).error().number, number);
  }
}

TEST_CASE("sockets are told apart by whether a receive would wait") {
  const test::DescriptorsUnchanged unchanged;
  const auto quiet = MakeSocketPair();
  const auto written = MakeSocketPair();
  auto ended = MakeSocketPair();
  REQUIRE_EQ(::send(written.value().far.get(), "x", 1, 0), 1);
  ended.value().far = UniqueFd();
  std::array<std::int32_t, 4> descriptors = {quiet.value().near.get(), written.value().near.get(),
                                             ended.value().near.get(), 1'000'000};
  REQUIRE(MarkReadable(descriptors, true).ok());
  CHECK_EQ(descriptors, std::array<std::int32_t, 4>{0, 1, 1, 1});
  CHECK(MarkReadable({}, true).ok());
}

TEST_CASE("a listening Unix stream socket is known among all other descriptors") {
  const ScratchDirectory scratch;
  auto socket = BindUnixSocket(scratch.path() + "/socket");
  REQUIRE(socket.ok());
  CHECK_FALSE(IsListening(socket.value().get()));
  REQUIRE(ListenOn(socket.value().get(), 1).ok());
  CHECK(IsListening(socket.value().get()));
  const auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  CHECK_FALSE(IsListening(pair.value().near.get()));
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  CHECK_FALSE(IsListening(file.get()));
  const UniqueFd internet(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::listen(internet.get(), 1) == 0);
  CHECK_FALSE(IsListening(internet.get()));
  CHECK_FALSE(IsListening(-1));
}

TEST_CASE("the kernel names the process that sends, while it is asked") {
  const auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  const int near = pair.value().near.get();
  const int far = pair.value().far.get();
  const std::array<std::uint8_t, 1> byte = {7};
  std::array<std::uint8_t, 8> target = {};
  const auto sender = [&] {
    REQUIRE(SendBytes(far, byte, -1).ok());
    const auto received = ReceiveBytes(near, target, true);
    REQUIRE(received.ok());
    CHECK_FALSE(received.value()->has_other_control);
    return received.value()->sender_pid;
  };
  CHECK_EQ(sender(), 0);
#if defined(__linux__)
  REQUIRE(AskForSender(near, true));
  CHECK_EQ(sender(), ::getpid());
  REQUIRE(AskForSender(near, false));
  CHECK_EQ(sender(), 0);
#else
  CHECK_FALSE(AskForSender(near, true));
#endif
}

TEST_CASE("connections are accepted one by one, until none waits") {
  const test::DescriptorsUnchanged unchanged;
  const test::ScratchDirectory scratch;
  const std::string path = scratch.file("s");
  const auto listener = BindUnixSocket(path);
  REQUIRE(listener.ok());
  REQUIRE(ListenOn(listener.value().get(), 8).ok());
  REQUIRE_EQ(::fcntl(listener.value().get(), F_SETFL, O_NONBLOCK), 0);
  std::vector<UniqueFd> ends;
  for (int count = 0; count < 3; ++count) {
    ends.push_back(std::move(*ConnectUnixSocket(path).value()));
  }
  for (int count = 0; count < 3; ++count) {
    auto accepted = AcceptConnection(listener.value().get());
    REQUIRE(accepted.ok());
    REQUIRE(accepted.value().has_value());
    CHECK_EQ(::fcntl(accepted.value()->get(), F_GETFD), FD_CLOEXEC);
    CHECK_NE(::fcntl(accepted.value()->get(), F_GETFL) & O_NONBLOCK, 0);
  }
  CHECK_FALSE(AcceptConnection(listener.value().get()).value().has_value());
  CHECK_EQ(AcceptConnection(-1).error().number, EBADF);
}

}  // namespace
}  // namespace sidecall::unix_socket_test
