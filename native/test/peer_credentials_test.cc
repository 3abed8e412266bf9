// SPDX-License-Identifier: MIT
#include "os/peer_credentials.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "fixture.h"
#include "os/unix_socket.h"

namespace sidecall::peer_credentials_test {
namespace {

using test::DescriptorsUnchanged;

TEST_CASE("a pair shows its creator at both ends") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  for (const int fd : {pair.value().near.get(), pair.value().far.get()}) {
    const auto peer = ReadPeerCredentials(fd);
    REQUIRE(peer.ok());
    CHECK_EQ(peer.value().pid, ::getpid());
    CHECK_EQ(peer.value().uid, ::geteuid());
    CHECK_EQ(peer.value().gid, ::getegid());
    CHECK(peer.value().groups.has_value());
    CHECK_NE(peer.value().is_alive, std::optional(false));
    const auto ids = ReadPeerIds(fd);
    REQUIRE(ids.ok());
    CHECK_EQ(ids.value().pid, ::getpid());
    CHECK_EQ(ids.value().uid, ::geteuid());
  }
}

TEST_CASE("what is no connected Unix socket has no peer, never a default one") {
  const DescriptorsUnchanged unchanged;
  const UniqueFd lonely(::socket(AF_UNIX, SOCK_STREAM, 0));
  CHECK_EQ(ReadPeerCredentials(lonely.get()).error().number, ENOTCONN);
  const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM, 0));
  CHECK_FALSE(ReadPeerCredentials(tcp.get()).ok());
  const UniqueFd directory(::open("/", O_RDONLY));
  CHECK_EQ(ReadPeerCredentials(directory.get()).error().number, ENOTSOCK);
  CHECK_EQ(ReadPeerCredentials(9999).error().number, EBADF);
  CHECK_EQ(ReadPeerIds(lonely.get()).error().number, ENOTCONN);
}

#if defined(__linux__)

// Fails one option with one errno and leaves the others to the system.
int failing_option = -1;
int failing_errno = 0;
int FailingGetOption(int fd, int level, int option, void* value, socklen_t* size) {
  if (option == failing_option) {
    errno = failing_errno;
    return -1;
  }
  return ::getsockopt(fd, level, option, value, size);
}

int FailingHasEnded(int) {
  errno = failing_errno;
  return -1;
}

constexpr int kPeerGroups = 59;
constexpr int kPeerPidfd = 77;

// These errnos say that an older kernel, or a peer that was reaped, has no answer to the option.
bool MeansNoAnswer(int option, int number) {
  if (option == SO_PEERCRED) return false;
  return number == ENOPROTOOPT || (option == kPeerPidfd && number == ESRCH);
}

TEST_CASE("each errno at each look-up is an error") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  const CredentialCalls calls{FailingGetOption, CredentialCalls::System().has_ended};
  const CredentialCalls cannot_poll{FailingGetOption, FailingHasEnded};
  int errnos = 0;
  for (int number = 1; number <= 4095; ++number) {
    if (::strerrorname_np(number) == nullptr) continue;
    ++errnos;
    failing_errno = number;
    for (const int option : {SO_PEERCRED, kPeerGroups, kPeerPidfd}) {
      failing_option = option;
      const auto peer = ReadPeerCredentials(pair.value().near.get(), calls);
      REQUIRE_EQ(peer.ok(), MeansNoAnswer(option, number));
      if (!peer.ok()) CHECK_EQ(peer.error().number, number);
    }
    failing_option = -1;
    CHECK_EQ(ReadPeerCredentials(pair.value().near.get(), cannot_poll).error().number, number);
  }
  CHECK_GE(errnos, 130);
}

TEST_CASE("an older kernel tells less, and says that it does not know") {
  const auto pair = MakeSocketPair();
  const CredentialCalls calls{FailingGetOption, CredentialCalls::System().has_ended};
  failing_errno = ENOPROTOOPT;
  failing_option = kPeerGroups;
  CHECK_FALSE(ReadPeerCredentials(pair.value().near.get(), calls).value().groups.has_value());
  failing_option = kPeerPidfd;
  CHECK_FALSE(ReadPeerCredentials(pair.value().near.get(), calls).value().is_alive.has_value());
  failing_errno = ESRCH;
  CHECK_EQ(ReadPeerCredentials(pair.value().near.get(), calls).value().is_alive,
           std::optional(false));
  failing_option = -1;
}

TEST_CASE("a short answer is an error") {
  const auto pair = MakeSocketPair();
  const auto shorten = [](int fd, int level, int option, void* value, socklen_t* size) {
    const int result = ::getsockopt(fd, level, option, value, size);
    if (option == SO_PEERCRED) *size -= 4;
    return result;
  };
  const CredentialCalls calls{shorten, CredentialCalls::System().has_ended};
  CHECK_EQ(ReadPeerCredentials(pair.value().near.get(), calls).error().number, ENOTCONN);
}

TEST_CASE("more groups than fit at first are all told") {
  static int rounds;
  rounds = 0;
  const auto many = [](int fd, int level, int option, void* value, socklen_t* size) {
    if (option != kPeerGroups) return ::getsockopt(fd, level, option, value, size);
    constexpr socklen_t kCount = 1000;
    ++rounds;
    if (*size < kCount * sizeof(gid_t)) {
      *size = kCount * sizeof(gid_t);
      errno = ERANGE;
      return -1;
    }
    auto* const groups = static_cast<gid_t*>(value);
    for (gid_t index = 0; index < kCount; ++index) groups[index] = index;
    *size = kCount * sizeof(gid_t);
    return 0;
  };
  const auto pair = MakeSocketPair();
  const CredentialCalls calls{many, CredentialCalls::System().has_ended};
  const auto peer = ReadPeerCredentials(pair.value().near.get(), calls);
  REQUIRE(peer.ok());
  CHECK_EQ(rounds, 2);
  CHECK_EQ(peer.value().groups->size(), 1000u);
  CHECK_EQ(peer.value().groups->back(), 999u);
}

TEST_CASE("a process that connected and ended is not alive") {
  const DescriptorsUnchanged unchanged;
  const test::ScratchDirectory scratch;
  const auto listener = BindUnixSocket(scratch.file("s"));
  REQUIRE(ListenOn(listener.value().get(), 1).ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto connected = ConnectUnixSocket(scratch.file("s"));
    ::_exit(connected.ok() ? 0 : 1);
  }
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  REQUIRE_EQ(status, 0);
  const UniqueFd accepted(::accept(listener.value().get(), nullptr, nullptr));
  const auto peer = ReadPeerCredentials(accepted.get());
  REQUIRE(peer.ok());
  CHECK_EQ(peer.value().pid, child);
  CHECK_NE(peer.value().is_alive, std::optional(true));
}

#endif

}  // namespace
}  // namespace sidecall::peer_credentials_test
