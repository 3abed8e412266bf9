// SPDX-License-Identifier: MIT
// EINTR is never news: the one place where a call is made again.
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
