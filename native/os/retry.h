// SPDX-License-Identifier: MIT
// Repeats a system call that a signal has interrupted (EINTR). No other code does so.
#pragma once

#include <cerrno>

namespace sidecall {

template <typename Call>
auto RetryOnInterrupt(Call call) noexcept(noexcept(call())) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

}  // namespace sidecall
