// SPDX-License-Identifier: MIT
#include "os/workers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#if defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace sidecall {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A thread that finds nothing to do waits a little for more: connections come in bursts.
constexpr milliseconds kIdleMax(200);

// Keeps the library loaded after the last environment has released it, since a
// thread still runs its code.
void PinOwnLibrary(void* (*own_function)(void*)) noexcept {
  Dl_info own = {};
  if (::dladdr(reinterpret_cast<void*>(own_function), &own) == 0 || own.dli_fname == nullptr) {
    return;
  }
  // The handle is kept on purpose: giving it back would undo the pin on some systems.
  [[maybe_unused]] void* const kept =
      ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// Requests a short time slice, so that a thread that wakes up runs at once, even where the
// event loop is busy: tasks are short as a rule. Kernels before Linux 6.12 ignore the
// request, and it may be refused.
void AskForShortSlices() noexcept {
#if defined(__linux__) && defined(SYS_sched_setattr)
  if (::sched_getscheduler(0) != SCHED_OTHER) return;
  struct {
    std::uint32_t size = 48;
    std::uint32_t policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000;
    std::uint64_t deadline_ns = 0;
    std::uint64_t period_ns = 0;
  } wish;
  wish.nice = ::getpriority(PRIO_PROCESS, 0);
  ::syscall(SYS_sched_setattr, 0, &wish, 0);
#endif
}

}  // namespace

// Starts a detached thread that blocks all signals: handlers of the program must run on its own
// threads, and a signal would restart a long system call.
bool Workers::Start(void* (*run)(void*), void* argument) noexcept {
  PinOwnLibrary(run);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);  // a macro on macOS
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const bool is_started = ::pthread_create(&thread, &attributes, run, argument) == 0;
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return is_started;
}

// Shared with the threads, which may outlive the environment; they touch nothing else of ours.
struct Workers::State {
  struct Waiting {
    Owner owner;
    std::unique_ptr<Task> task;
    steady_clock::time_point since;
  };
  struct Running {
    std::uint64_t id;
    Owner owner;
    steady_clock::time_point since;
  };

  explicit State(const Bounds& given) : bounds(given) {}

  // The first task whose owner has a thread left.
  std::deque<Waiting>::iterator FindNext() {
    return std::find_if(waiting.begin(), waiting.end(), [this](const Waiting& one) {
      return CountOf(one.owner) < bounds.threads_per_owner;
    });
  }

  // Returns nullptr where no task may begin now.
  std::unique_ptr<Task> TakeNext(std::uint64_t& id) {
    const auto next = FindNext();
    if (next == waiting.end()) return nullptr;
    id = ++begun;
    running.push_back({id, next->owner, steady_clock::now()});
    std::unique_ptr<Task> task = std::move(next->task);
    waiting.erase(next);
    return task;
  }

  void Forget(std::uint64_t id) {
    std::erase_if(running, [id](const Running& one) { return one.id == id; });
  }

  [[nodiscard]] int CountOf(Owner owner) const {
    return static_cast<int>(
        std::count_if(running.begin(), running.end(),
                      [owner](const Running& one) { return one.owner == owner; }));
  }

  const Bounds bounds;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Waiting> waiting;
  std::vector<Running> running;
  std::uint64_t begun = 0;
  int threads = 0;
  int idle = 0;
  bool is_ending = false;
};

Workers::Workers(const Bounds& bounds, Starter start)
    : state_(std::make_shared<State>(bounds)), start_(start) {}

Workers::~Workers() {
  const std::lock_guard lock(state_->mutex);
  state_->is_ending = true;
  state_->changed.notify_all();
}

void Workers::Submit(Owner owner, std::unique_ptr<Task> task) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->waiting.push_back({owner, std::move(task), steady_clock::now()});
    state_->changed.notify_one();
    // An idle thread takes the task, or, where no further thread may start, a busy one later.
    const bool is_enough = state_->idle >= static_cast<int>(state_->waiting.size());
    if (is_enough || state_->threads == state_->bounds.threads) return;
  }
  StartOne();
}

bool Workers::StartOne() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->threads += 1;
  }
  auto shared = std::make_unique<std::shared_ptr<State>>(state_);
  if (start_(&Run, shared.get())) {
    [[maybe_unused]] const auto* const given_away = shared.release();
    return true;
  }
  const std::lock_guard lock(state_->mutex);
  state_->threads -= 1;
  return false;
}

bool Workers::HasThread() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->threads > 0) return true;
  }
  return StartOne();
}

std::size_t Workers::pending() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() + state_->running.size();
}

bool Workers::IsFreeFor(Owner owner) {
  const auto latest = steady_clock::now() - milliseconds(kHangsAfterMs);
  if (pending() > 0 && !HasThread()) return false;
  const std::lock_guard lock(state_->mutex);
  const auto next = state_->FindNext();
  if (next != state_->waiting.end() && next->since < latest) return false;
  int hanging = 0;
  for (const State::Running& one : state_->running) {
    if (one.since > latest) continue;
    if (one.owner == owner) return false;
    hanging += 1;
  }
  return hanging < state_->bounds.threads;
}

void* Workers::Run(void* argument) noexcept {
  const std::unique_ptr<std::shared_ptr<State>> shared(
      static_cast<std::shared_ptr<State>*>(argument));
  State& state = **shared;
  AskForShortSlices();
  std::unique_lock lock(state.mutex);
  for (;;) {
    std::uint64_t id = 0;
    std::unique_ptr<Task> task = state.TakeNext(id);
    if (task != nullptr) {
      lock.unlock();
      task->Run();
      task.reset();
      lock.lock();
      state.Forget(id);
      if (!state.waiting.empty()) state.changed.notify_one();
      continue;
    }
    if (state.is_ending) break;
    state.idle += 1;
    const auto why = state.changed.wait_for(lock, kIdleMax);
    state.idle -= 1;
    if (why == std::cv_status::timeout && state.waiting.empty()) break;
  }
  state.threads -= 1;
  return nullptr;
}

}  // namespace sidecall
