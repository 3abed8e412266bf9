// SPDX-License-Identifier: MIT
// Buffers of JavaScript over memory of ours.
#pragma once

#include <node_api.h>

#include <cstddef>
#include <memory>

#include "os/workers.h"

namespace sidecall {

// The reference of an external buffer to the mapping below it, which lives for as long as V8 may
// use the buffer.
struct Hold {
  std::shared_ptr<const void> memory;
  std::shared_ptr<Workers> reclaimers;
};

// nullptr: the host wants no external buffers.
napi_value ExternalBuffer(napi_env env, const std::byte* data, std::size_t bytes, Hold hold);

}  // namespace sidecall
