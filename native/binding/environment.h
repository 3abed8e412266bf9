// SPDX-License-Identifier: MIT
// What one Node environment (main thread or worker) owns. No globals: environments share the
// library.
#pragma once

#include <unordered_map>

#include "base/unique_fd.h"
#include "os/stranger_fd.h"

namespace sidecall {

struct Environment {
  // Descriptors whose numbers JavaScript holds. An environment that is torn down in the middle of
  // anything closes them here: locks are released, half-made connections end.
  std::unordered_map<int, UniqueFd> owned;
  StrangerCloser strangers;

  [[nodiscard]] int Own(UniqueFd fd) {
    const int number = fd.get();
    owned.insert_or_assign(number, std::move(fd));
    return number;
  }
};

}  // namespace sidecall
