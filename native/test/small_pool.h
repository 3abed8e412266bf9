// SPDX-License-Identifier: MIT
// A small pool of buffers of shmipc-go.
#pragma once

#include <cstdint>
#include <span>

#include "shmipc/words.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::test {

// A pool with lists of 64 and of 256 bytes, in a span of zeros.
inline void WritePool(std::span<std::byte> file, std::uint32_t count) {
  std::uint32_t at = 8;
  for (const std::uint32_t capacity : {64U, 256U}) {
    std::byte* const header = file.data() + at;
    const std::uint32_t stride = capacity + 20;
    shmipc::Store32(header, count);
    shmipc::Store32(header + 4, count);
    shmipc::Store32(header + 8, 0);
    shmipc::Store32(header + 12, (count - 1) * stride);
    shmipc::Store32(header + 16, capacity);
    for (std::uint32_t index = 0; index < count; index += 1) {
      std::byte* const slice = header + 36 + index * stride;
      shmipc::Store32(slice, capacity);
      shmipc::Store32(slice + 12, (index + 1) * stride);
      shmipc::Store8(slice + 16, index + 1 < count ? 1 : 0);
    }
    at += 36 + count * stride;
  }
  shmipc::Store32(file.data(), 2);
  shmipc::Store32(file.data() + 4, at - 8);
}

}  // namespace sidecall::test
#endif
