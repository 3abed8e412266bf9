// SPDX-License-Identifier: MIT
// Results that tasks make on threads, and that the event loop takes.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "os/workers.h"

namespace sidecall {

template <typename T>
class Pending {
 public:
  void Set(T value) {
    const std::lock_guard lock(mutex_);
    value_.emplace(std::move(value));
  }

  // Returns nothing while the result is not there, and once it was taken.
  [[nodiscard]] std::optional<T> Take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(value_, std::nullopt);
  }

 private:
  std::mutex mutex_;
  std::optional<T> value_;
};

// Runs `make` and then `tell` on a thread; that thread also frees both, with their captures.
template <typename T, typename Make, typename Tell>
std::shared_ptr<Pending<T>> MakeOnThread(Workers& workers, Owner owner, Make make, Tell tell) {
  struct Making final : Task {
    Making(std::shared_ptr<Pending<T>> given, Make how, Tell then)
        : result(std::move(given)), make_(std::move(how)), tell_(std::move(then)) {}
    void Run() noexcept override {
      result->Set(make_());
      tell_();
    }
    std::shared_ptr<Pending<T>> result;
    Make make_;
    Tell tell_;
  };
  auto result = std::make_shared<Pending<T>>();
  workers.Submit(owner, std::make_unique<Making>(result, std::move(make), std::move(tell)));
  return result;
}

// Destroys on a thread what takes long to destroy.
template <typename T>
void DropOnThread(Workers& workers, Owner owner, T value) {
  struct Dropping final : Task {
    explicit Dropping(T given) : value(std::move(given)) {}
    void Run() noexcept override { [[maybe_unused]] const T dropped = std::move(value); }
    T value;
  };
  workers.Submit(owner, std::make_unique<Dropping>(std::move(value)));
}

}  // namespace sidecall
