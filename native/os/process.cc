// SPDX-License-Identifier: MIT
#include "os/process.h"

#include <unistd.h>

#include <csignal>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

namespace sidecall {

Result<OwnCredentials> ReadOwnCredentials() {
  OwnCredentials own{.pid = ::getpid(), .uid = ::geteuid(), .gid = ::getegid(), .groups = {}};
  const int count = ::getgroups(0, nullptr);
  if (count == -1) return Error::FromErrno("getgroups");
  std::vector<gid_t> groups(static_cast<std::size_t>(count));
  const int filled = ::getgroups(count, groups.data());
  if (filled == -1) return Error::FromErrno("getgroups");
  own.groups.assign(groups.begin(), groups.begin() + filled);
  return own;
}

Result<ParentWatch> DieWithParent([[maybe_unused]] std::int64_t parent_pid) noexcept {
#if defined(__linux__)
  if (::getppid() != parent_pid) return ParentWatch::kNotChild;
  // SIGKILL: a blocked event loop runs no handler of another signal.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) == -1) return Error::FromErrno("prctl");
  // It may have ended between the two calls above; then no signal will ever come.
  return ::getppid() == parent_pid ? ParentWatch::kArmed : ParentWatch::kOrphaned;
#else
  return ParentWatch::kUnsupported;
#endif
}

}  // namespace sidecall
