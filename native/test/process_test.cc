// SPDX-License-Identifier: MIT
#include "os/process.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "binding/errno_names.h"
#include "fixture.h"

namespace sidecall::process_test {
namespace {

TEST_CASE("own ids are the effective ones, by system calls") {
  const auto own = ReadOwnCredentials();
  REQUIRE(own.ok());
  CHECK_EQ(own.value().pid, ::getpid());
  CHECK_EQ(own.value().uid, ::geteuid());
  CHECK_EQ(own.value().gid, ::getegid());
}

#if defined(__linux__)

TEST_CASE("the time that a thread waits while another one runs in its place grows") {
  cpu_set_t all;
  REQUIRE_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  std::atomic<bool> is_over = false;
  std::thread other([&] {
    (void)::sched_setaffinity(0, sizeof one, &one);
    while (!is_over) continue;
  });
  CHECK_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const ThreadTimes begun = ReadThreadTimes();
  CHECK_GT(begun.run_ns, 0);
  ThreadTimes now = begun;
  while (now.waited_ns == begun.waited_ns || now.run_ns == begun.run_ns) now = ReadThreadTimes();
  is_over = true;
  other.join();
  (void)::sched_setaffinity(0, sizeof all, &all);
  CHECK_GT(now.run_ns, begun.run_ns);
}

TEST_CASE("nothing is armed for a process that is not our parent") {
  const auto watch = DieWithParent(::getpid());
  REQUIRE(watch.ok());
  CHECK_EQ(watch.value(), ParentWatch::kNotChild);
}

TEST_CASE("a child that blocks for ever dies with its parent") {
  int pipe_ends[2];
  REQUIRE_EQ(::pipe(pipe_ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto watch = DieWithParent(::getppid());
      const char armed = watch.ok() && watch.value() == ParentWatch::kArmed ? 'y' : 'n';
      if (::write(pipe_ends[1], &armed, 1) != 1) ::_exit(1);
      for (;;) ::pause();  // holds the write end: the EOF below shows its end
    }
    char armed = 0;
    if (::read(pipe_ends[0], &armed, 1) != 1) ::_exit(1);
    ::_exit(armed == 'y' ? 0 : 2);
  }
  ::close(pipe_ends[1]);
  int status = 0;
  REQUIRE_EQ(::waitpid(parent, &status, 0), parent);
  CHECK_EQ(status, 0);
  char byte = 0;
  CHECK_EQ(::read(pipe_ends[0], &byte, 1), 0);
  ::close(pipe_ends[0]);
}

// A child that never ends by itself; it holds the write end, whose end shows its own.
pid_t ForkForEver() {
  const pid_t child = ::fork();
  for (; child == 0;) ::pause();
  return child;
}

TEST_CASE("a fork dies with the process that wanted it so, and no other one") {
  for (const bool is_wanted : {true, false}) {
    int pipe_ends[2];
    REQUIRE_EQ(::pipe(pipe_ends), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      KillForksWithUs(is_wanted);
      const pid_t child = ForkForEver();
      ::_exit(::write(pipe_ends[1], &child, sizeof child) == sizeof child ? 0 : 1);
    }
    ::close(pipe_ends[1]);
    int status = 0;
    REQUIRE_EQ(::waitpid(parent, &status, 0), parent);
    CHECK_EQ(status, 0);
    pid_t child = 0;
    REQUIRE_EQ(::read(pipe_ends[0], &child, sizeof child), sizeof child);
    if (!is_wanted) CHECK_EQ(::kill(child, SIGKILL), 0);
    char byte = 0;
    CHECK_EQ(::read(pipe_ends[0], &byte, 1), 0);
    ::close(pipe_ends[0]);
  }
}

TEST_CASE("the forks of a thread are reaped behind it, though one of them lives") {
  pid_t children[2] = {};
  std::thread([&] {
    for (pid_t& child : children) child = ForkForEver();
    ReapOwnForks();
  }).join();
  CHECK_FALSE(children[0] <= 0);
  // The second one first: the other does not hold it up.
  for (const pid_t child : {children[1], children[0]}) {
    CHECK_EQ(::kill(child, SIGKILL), 0);
    while (::kill(child, 0) == 0) ::usleep(1'000);
    CHECK_EQ(errno, ESRCH);
  }
}

#endif

#if defined(__GLIBC__)
TEST_CASE("each number that a system call fails with has its name") {
  for (int number = 1; number <= 4095; ++number) {
    const char* const known = ::strerrorname_np(number);
    if (known == nullptr) continue;
    CHECK_EQ(ErrnoNameOf(number), known);
  }
  CHECK_EQ(ErrnoNameOf(ENOSPC), "ENOSPC");
  CHECK_EQ(ErrnoNameOf(4095), "E4095");
}
#endif

}  // namespace
}  // namespace sidecall::process_test
