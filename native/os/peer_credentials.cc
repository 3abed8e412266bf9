// SPDX-License-Identifier: MIT
#include "os/peer_credentials.h"

#include <poll.h>
#include <sys/types.h>
#include <sys/un.h>
#if defined(__APPLE__)
#include <sys/ucred.h>
#endif

#include <array>

#include "base/unique_fd.h"
#include "os/retry.h"

namespace sidecall {
namespace {

int HasEnded(int pidfd) {
  pollfd poll_fd = {.fd = pidfd, .events = POLLIN, .revents = 0};
  return RetryOnInterrupt([&] { return ::poll(&poll_fd, 1, 0); });
}

#if defined(__linux__)

// Missing from older headers; the values are the kernel's ABI.
constexpr int kPeerGroups = 59;  // SO_PEERGROUPS, Linux 4.13

Result<std::optional<std::vector<std::uint32_t>>> ReadGroups(int fd, const CredentialCalls& calls) {
  std::vector<gid_t> groups(32);
  // The list is fixed at connect time, so the second size is right; the third round is for a
  // kernel that says otherwise.
  for (int round = 0; round < 3; ++round) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (calls.get_option(fd, SOL_SOCKET, kPeerGroups, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(gid_t));
      return std::optional(std::vector<std::uint32_t>(groups.begin(), groups.end()));
    }
    if (errno == ENOPROTOOPT) return std::optional<std::vector<std::uint32_t>>();
    if (errno != ERANGE || size <= groups.size() * sizeof(gid_t)) break;
    groups.resize(size / sizeof(gid_t));
  }
  return Error::FromErrno("getsockopt");
}

Result<std::optional<bool>> ReadAlive(int fd, const CredentialCalls& calls) {
  int number = -1;
  socklen_t size = sizeof number;
  if (calls.get_option(fd, SOL_SOCKET, kPeerPidfd, &number, &size) == -1) {
    if (errno == ENOPROTOOPT) return std::optional<bool>();
    if (errno == ESRCH) return std::optional(false);  // reaped
    return Error::FromErrno("getsockopt");
  }
  const UniqueFd pidfd(number);
  const int ended = calls.has_ended(pidfd.get());
  if (ended == -1) return Error::FromErrno("poll");
  return std::optional(ended == 0);
}

#endif

}  // namespace

CredentialCalls CredentialCalls::System() noexcept {
  return {.get_option = ::getsockopt, .has_ended = HasEnded};
}

#if defined(__linux__)

Result<PeerCredentials> ReadPeerIds(int fd, const CredentialCalls& calls) {
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  if (calls.get_option(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == -1) {
    return Error::FromErrno("getsockopt");
  }
  // getsockopt() succeeds with uid -1 on a socket that is not connected or of another family.
  constexpr auto kNobody = static_cast<uid_t>(-1);
  if (size != sizeof credentials || credentials.uid == kNobody) {
    return Error{ENOTCONN, "getsockopt"};
  }
  return PeerCredentials{.pid = credentials.pid,
                         .uid = credentials.uid,
                         .gid = credentials.gid,
                         .groups = std::nullopt,
                         .is_alive = std::nullopt};
}

Result<PeerCredentials> ReadPeerCredentials(int fd, const CredentialCalls& calls) {
  auto peer = ReadPeerIds(fd, calls);
  if (!peer.ok()) return peer;
  auto groups = ReadGroups(fd, calls);
  if (!groups.ok()) return groups.error();
  const auto is_alive = ReadAlive(fd, calls);
  if (!is_alive.ok()) return is_alive.error();
  peer.value().groups = std::move(groups.value());
  peer.value().is_alive = is_alive.value();
  return peer;
}

#elif defined(__APPLE__)

Result<PeerCredentials> ReadPeerCredentials(int fd, const CredentialCalls& calls) {
  xucred credentials = {};
  socklen_t size = sizeof credentials;
  if (calls.get_option(fd, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &size) == -1) {
    return Error::FromErrno("getsockopt");
  }
  if (size < sizeof credentials || credentials.cr_version != XUCRED_VERSION ||
      credentials.cr_ngroups < 1 || credentials.cr_ngroups > NGROUPS) {
    return Error{ENOTCONN, "getsockopt"};
  }
  pid_t pid = 0;
  size = sizeof pid;
  if (calls.get_option(fd, SOL_LOCAL, LOCAL_PEERPID, &pid, &size) == -1) {
    return Error::FromErrno("getsockopt");
  }
  // The first entry is the effective group, the rest are the supplementary ones.
  const gid_t* const groups = credentials.cr_groups;
  const auto count = static_cast<std::size_t>(credentials.cr_ngroups);
  return PeerCredentials{.pid = pid,
                         .pid_is_hint = true,
                         .uid = credentials.cr_uid,
                         .gid = groups[0],
                         .groups = std::vector<std::uint32_t>(groups + 1, groups + count),
                         .is_alive = std::nullopt};
}

Result<PeerCredentials> ReadPeerIds(int fd, const CredentialCalls& calls) {
  return ReadPeerCredentials(fd, calls);
}

#else
#error "sidecall knows peer credentials on Linux and macOS only"
#endif

}  // namespace sidecall
