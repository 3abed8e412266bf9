// SPDX-License-Identifier: MIT
#include "os/process.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>
#if defined(__linux__)
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <charconv>
#include <span>
#endif

#include "base/unique_fd.h"
#include "os/retry.h"
#include "os/workers.h"

namespace sidecall {

#if defined(__linux__)
namespace {

// The process that forks; 0: its children outlive it.
thread_local pid_t forks_die_with = 0;

// Runs in the child, between fork and exec: system calls only. A kernel that refuses the first
// (seccomp) leaves the child to the end of its session.
void AfterFork() noexcept {
  if (forks_die_with == 0) return;
  const bool is_armed = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  // It may have ended before the call above; then no signal will ever come.
  if (is_armed && ::getppid() != forks_die_with) ::_exit(128 + SIGKILL);
}

struct Fork {
  pid_t pid = 0;
  UniqueFd pidfd;
};

// The file has each number with a space behind it. No stream of the library reads it: these bring
// 200 kB of locales into an addon that is linked with its own library.
std::vector<Fork> ForksOfThread() {
  std::vector<Fork> forks;
  const UniqueFd children(::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> piece{};
  const auto read = [&] { return ::read(children.get(), piece.data(), piece.size()); };
  pid_t pid = 0;
  for (auto got = RetryOnInterrupt(read); got > 0; got = RetryOnInterrupt(read)) {
    for (const char letter : std::span(piece).first(static_cast<std::size_t>(got))) {
      if (letter != ' ') {
        pid = pid * 10 + (letter - '0');
        continue;
      }
      forks.push_back({pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)))});
      pid = 0;
    }
  }
  return forks;
}

// One thread reaps all forks: which one ends first is unknown, and one may live for ever.
void Reap(std::vector<Fork>& forks) {
  std::erase_if(forks, [](const Fork& fork) { return !fork.pidfd.is_open(); });
  while (!forks.empty()) {
    std::vector<pollfd> ends;
    ends.reserve(forks.size());
    for (const Fork& fork : forks) ends.push_back({fork.pidfd.get(), POLLIN, 0});
    RetryOnInterrupt([&] { return ::poll(ends.data(), ends.size(), -1); });
    std::erase_if(forks,
                  [](const Fork& fork) { return ::waitpid(fork.pid, nullptr, WNOHANG) != 0; });
  }
}

}  // namespace
#endif

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

void OutliveParent() noexcept {
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, 0);
#endif
}

void KillForksWithUs([[maybe_unused]] bool is_wanted) noexcept {
#if defined(__linux__)
  static const bool is_registered = ::pthread_atfork(nullptr, nullptr, AfterFork) == 0;
  forks_die_with = is_registered && is_wanted ? ::getpid() : 0;
#endif
}

ThreadTimes ReadThreadTimes() noexcept {
  ThreadTimes times;
#if defined(__linux__)
  const UniqueFd file(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text;
  const ssize_t bytes = file.is_open() ? ::read(file.get(), text.data(), text.size()) : -1;
  if (bytes <= 0) return times;
  const char* const end = text.data() + bytes;
  const auto run = std::from_chars(text.data(), end, times.run_ns);
  if (run.ec != std::errc() || run.ptr == end) return {};
  if (std::from_chars(run.ptr + 1, end, times.waited_ns).ec != std::errc()) return {};
#endif
  return times;
}

bool IsMainThread() noexcept {
#if defined(__linux__)
  return ::syscall(SYS_gettid) == ::getpid();
#else
  return ::pthread_main_np() != 0;
#endif
}

void ReapOwnForks() noexcept {
#if defined(__linux__)
  auto forks = std::make_unique<std::vector<Fork>>(ForksOfThread());
  if (forks->empty()) return;
  const auto reap = [](void* argument) -> void* {
    Reap(*std::unique_ptr<std::vector<Fork>>(static_cast<std::vector<Fork>*>(argument)));
    return nullptr;
  };
  if (Workers::Start(reap, forks.get())) [[maybe_unused]]
    const auto* given_away = forks.release();
#endif
}

}  // namespace sidecall
