// SPDX-License-Identifier: MIT
// Threads for work that a peer can make last: closing what it sent, checking its memory, unmapping
// it. The event loop never waits for one of them, and neither does the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sidecall {

// A task is one piece of work. It runs once, on a thread of its own; it is dropped unrun only with
// the process.
struct Task {
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  virtual void Run() noexcept = 0;
};

// The process for whose sake a task runs: its pid, or 0 where nobody knows it.
using Owner = std::int64_t;

class Workers {
 public:
  struct Bounds {
    int threads = 0;
    int threads_per_owner = 0;  // so that one peer cannot keep all of them
  };
  // A task that runs for longer is taken to hang.
  static constexpr int kHangsAfterMs = 1'000;

  explicit Workers(const Bounds& bounds);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // Threads finish what was submitted, and end.
  ~Workers();

  // Tasks of one owner begin in the order in which they were submitted.
  void Submit(Owner owner, std::unique_ptr<Task> task);

  // Tasks that wait or run.
  [[nodiscard]] std::size_t pending() const noexcept;
  // False: every thread hangs, or one that works for this owner does.
  [[nodiscard]] bool IsFreeFor(Owner owner) const noexcept;

 private:
  struct State;
  static void* Run(void* state) noexcept;

  std::shared_ptr<State> state_;
};

}  // namespace sidecall
