// SPDX-License-Identifier: MIT
// The result of an operation: a value, or the system call that failed. A full queue and a dead peer
// are ordinary outcomes, so they are values.
#pragma once

#include <cassert>
#include <cerrno>
#include <utility>
#include <variant>

namespace sidecall {

struct Error {
  int number = 0;            // an errno value, never 0
  const char* syscall = "";  // a literal: the call that failed

  [[nodiscard]] static Error FromErrno(const char* syscall) noexcept { return {errno, syscall}; }
};

struct Done {};  // the value of an operation that has none

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, error) { assert(error.number != 0); }

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  [[nodiscard]] T& value() noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] const T& value() const noexcept { return *std::get_if<0>(&state_); }
  [[nodiscard]] const Error& error() const noexcept { return *std::get_if<1>(&state_); }

 private:
  std::variant<T, Error> state_;
};

}  // namespace sidecall
