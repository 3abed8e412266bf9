// SPDX-License-Identifier: MIT
// Our own ids, and a helper that dies with its parent.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace sidecall {

struct OwnCredentials {
  std::int64_t pid = 0;
  std::uint32_t uid = 0;  // effective, as a peer sees us
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;
};

// System calls only: works for a uid that no user database knows.
Result<OwnCredentials> ReadOwnCredentials();

enum class ParentWatch {
  kArmed,       // SIGKILL follows the thread that spawned us
  kNotChild,    // that process is not our parent, or has ended: nothing was armed
  kOrphaned,    // it ended while we were arming
  kUnsupported  // not Linux
};

// Asks the kernel to kill this process when its parent `parent_pid` ends. On Linux it does so at
// the end of the parent's *thread* that spawned us: a helper of a worker dies with that worker.
Result<ParentWatch> DieWithParent(std::int64_t parent_pid) noexcept;
// Takes that back: this process outlives its parent.
void OutliveParent() noexcept;

// While `is_wanted`, the kernel kills each process that this thread forks when this thread ends,
// from the fork on (Linux): the setting passes an exec, except that of a set-user-ID program.
void KillForksWithUs(bool is_wanted) noexcept;

[[nodiscard]] bool IsMainThread() noexcept;

// Time that this thread has run, and time for which it was ready and others ran in its place, since
// it began; zeros where the system does not tell (Linux with /proc does).
struct ThreadTimes {
  std::uint64_t run_ns = 0;
  std::uint64_t waited_ns = 0;
};
[[nodiscard]] ThreadTimes ReadThreadTimes() noexcept;

// Takes the exit status of each process that this thread has forked, on another thread, as they
// end: for a thread (of a worker) that is about to end, whose loop would have done it. Without
// /proc or another thread they stay as zombies.
void ReapOwnForks() noexcept;

}  // namespace sidecall
