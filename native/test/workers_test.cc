// SPDX-License-Identifier: MIT
#include "os/workers.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "fixture.h"

namespace sidecall::workers_test {
namespace {

using std::chrono::milliseconds;

// A source of tasks that run until Open().
class Gate {
 public:
  void Open() { open_.set_value(); }
  std::unique_ptr<Task> Waiter(std::atomic<int>& done) {
    struct Waits final : Task {
      std::shared_future<void> opened;
      std::atomic<int>* count = nullptr;
      void Run() noexcept override {
        opened.wait();
        *count += 1;
      }
    };
    auto task = std::make_unique<Waits>();
    task->opened = opened_;
    task->count = &done;
    return task;
  }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

std::unique_ptr<Task> Counts(std::atomic<int>& done) {
  struct Counting final : Task {
    std::atomic<int>* count = nullptr;
    void Run() noexcept override { *count += 1; }
  };
  auto task = std::make_unique<Counting>();
  task->count = &done;
  return task;
}

void Await(const std::atomic<int>& count, int wanted) {
  while (count != wanted) std::this_thread::sleep_for(milliseconds(1));
}

TEST_CASE("tasks run on other threads, in numbers, and threads end by themselves") {
  std::atomic<int> done = 0;
  Workers workers({.threads = 3, .threads_per_owner = 3});
  for (int index = 0; index < 1'000; ++index) workers.Submit(index % 7, Counts(done));
  Await(done, 1'000);
  while (workers.pending() != 0) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(400));  // all threads end meanwhile
  workers.Submit(1, Counts(done));
  Await(done, 1'001);
}

TEST_CASE("one owner cannot keep all threads") {
  std::atomic<int> hung = 0;
  std::atomic<int> done = 0;
  Gate gate;
  Workers workers({.threads = 4, .threads_per_owner = 2});
  for (int index = 0; index < 20; ++index) workers.Submit(1, gate.Waiter(hung));
  for (int index = 0; index < 20; ++index) workers.Submit(2, Counts(done));
  Await(done, 20);
  CHECK_EQ(hung, 0);
  CHECK_EQ(workers.pending(), 20);
  gate.Open();
  Await(hung, 20);
}

TEST_CASE("an owner whose task hangs is known, and all are once every thread does") {
  std::atomic<int> hung = 0;
  Gate gate;
  Workers workers({.threads = 2, .threads_per_owner = 1});
  CHECK(workers.IsFreeFor(1));
  workers.Submit(1, gate.Waiter(hung));
  while (workers.IsFreeFor(1)) std::this_thread::sleep_for(milliseconds(20));
  CHECK(workers.IsFreeFor(2));
  workers.Submit(2, gate.Waiter(hung));
  while (workers.IsFreeFor(2)) std::this_thread::sleep_for(milliseconds(20));
  CHECK_FALSE(workers.IsFreeFor(3));
  gate.Open();
  Await(hung, 2);
  while (!workers.IsFreeFor(1)) std::this_thread::sleep_for(milliseconds(1));
  CHECK(workers.IsFreeFor(3));
}

std::atomic<bool> has_threads = false;
bool StartWhereAllowed(void* (*run)(void*), void* argument) {
  return has_threads && Workers::Start(run, argument);
}

TEST_CASE("where the system has no thread left, that is known, and work begins when it has") {
  has_threads = false;
  std::atomic<int> done = 0;
  Workers workers({.threads = 2, .threads_per_owner = 2}, StartWhereAllowed);
  CHECK_FALSE(workers.HasThread());
  CHECK(workers.IsFreeFor(1));  // no task waits
  workers.Submit(1, Counts(done));
  CHECK_FALSE(workers.IsFreeFor(1));
  CHECK_FALSE(workers.IsFreeFor(2));
  CHECK_EQ(workers.pending(), 1);
  has_threads = true;
  CHECK(workers.IsFreeFor(2));
  Await(done, 1);
}

TEST_CASE("tasks that wait in vain are known") {
  std::atomic<int> done = 0;
  std::atomic<int> hung = 0;
  Gate gate;
  Workers workers({.threads = 2, .threads_per_owner = 1});
  workers.Submit(1, gate.Waiter(hung));
  workers.Submit(1, Counts(done));  // waits for a thread of its own owner only
  std::this_thread::sleep_for(milliseconds(Workers::kHangsAfterMs + 100));
  CHECK(workers.IsFreeFor(2));
  gate.Open();
  Await(done, 1);
}

TEST_CASE("what was submitted runs, also where nobody waits for it any more") {
  std::atomic<int> done = 0;
  {
    Workers workers({.threads = 1, .threads_per_owner = 1});
    for (int index = 0; index < 50; ++index) workers.Submit(1, Counts(done));
  }
  Await(done, 50);
}

}  // namespace
}  // namespace sidecall::workers_test
