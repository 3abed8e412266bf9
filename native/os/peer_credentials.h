// SPDX-License-Identifier: MIT
// The process at the other end of a Unix socket, as the kernel recorded it.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"

namespace sidecall {

#if defined(__linux__)
// SO_PEERPIDFD, Linux 6.5; missing from older headers.
inline constexpr int kPeerPidfd = 77;
#endif

struct PeerCredentials {
  std::int64_t pid = 0;      // 0: the kernel shows none (another pid namespace)
  bool pid_is_hint = false;  // macOS: the last process that used the socket, perhaps not the peer
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  // Supplementary groups; no value where the kernel does not report them.
  std::optional<std::vector<std::uint32_t>> groups;
  // State of the process by its pidfd; no value where the kernel has none.
  std::optional<bool> is_alive;
};

// The calls that can fail, so that a test can make each of them fail with each errno.
struct CredentialCalls {
  int (*get_option)(int fd, int level, int option, void* value, socklen_t* size) = nullptr;
  // Has the process behind a pidfd ended? -1 with errno where poll fails.
  int (*has_ended)(int pidfd) = nullptr;

  static CredentialCalls System() noexcept;
};

// Any failing look-up is an error; nothing is filled in by default.
Result<PeerCredentials> ReadPeerCredentials(
    int fd, const CredentialCalls& calls = CredentialCalls::System());

// Pid, uid and gid only, in a fifth of the time.
Result<PeerCredentials> ReadPeerIds(int fd,
                                    const CredentialCalls& calls = CredentialCalls::System());

}  // namespace sidecall
