// SPDX-License-Identifier: MIT
// Threads for work that a peer can make last: closing what it sent, checking its memory, unmapping
// it. The event loop never waits for one of them, and neither does the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sidecall {

// A task is one piece of work. It runs once, on a thread
// of its own; it is dropped unrun only with the process.
struct Task {
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  virtual void Run() noexcept = 0;
};

// The process for whose sake a task runs: its pid; its uid, negated and less one, where the pid is
// not visible here; 0: our own.
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

  // Tasks of one owner begin in the order in which they were submitted. Where the system has no
  // thread left, a task waits: each later question and task tries again.
  void Submit(Owner owner, std::unique_ptr<Task> task);
  // True: a thread runs, or has just been started.
  [[nodiscard]] bool HasThread();

  // Tasks that wait or run.
  [[nodiscard]] std::size_t pending() const noexcept;
  // False: every thread hangs, or one that works for this owner does; or tasks wait in vain.
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
