// SPDX-License-Identifier: MIT
// Threads for work whose duration a peer controls: closing descriptors that it sent, checking its
// memory, unmapping it. Neither the event loop nor the exit of the process waits for a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sidecall {

// A task is work that runs once, on a thread, unless the process ends first.
struct Task {
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  virtual void Run() noexcept = 0;
};

// The process on whose behalf a task runs: its pid; -1 - uid where the pid is not visible
// here; 0: our own process.
using Owner = std::int64_t;
inline constexpr Owner kOwnerMin = -0x1'0000'0000;
inline constexpr Owner kOwnerMax = 0x7fff'ffff;

class Workers {
 public:
  struct Bounds {
    int threads = 0;
    int threads_per_owner = 0;  // so that one peer cannot keep all of them
  };
  // A task that runs for longer is taken to hang.
  static constexpr int kHangsAfterMs = 1'000;

  // How a thread is started, so that a test can make it fail.
  using Starter = bool (*)(void* (*run)(void*), void* argument);
  static bool Start(void* (*run)(void*), void* argument) noexcept;

  explicit Workers(const Bounds& bounds, Starter start = Start);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Threads finish what was submitted, and end.
  ~Workers();

  // Tasks of one owner begin in the order in which they were submitted. Where the system can start
  // no thread, a task waits: each later call of Submit(), HasThread() or IsFreeFor() tries again.
  void Submit(Owner owner, std::unique_ptr<Task> task);
  // True: a thread runs, or has just been started.
  [[nodiscard]] bool HasThread();

  // Tasks that wait or run.
  [[nodiscard]] std::size_t pending() const noexcept;
  // False: all threads hang, or a thread that works for this owner does, or a task
  // waits in vain for a thread.
  [[nodiscard]] bool IsFreeFor(Owner owner);

 private:
  struct State;
  static void* Run(void* state) noexcept;
  // False: the system has no thread left.
  bool StartOne();

  std::shared_ptr<State> state_;
  Starter start_;
};

}  // namespace sidecall
