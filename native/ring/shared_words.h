// SPDX-License-Identifier: MIT
// The only functions that touch shared words and payload. Each value is loaded once per decision:
// the peer may change it between two loads.
#pragma once

#include <cstring>

#include "ring/layout.h"

namespace sidecall {

// Each caller states the memory order, and the pair that it belongs to
// (docs/design.md lists the four).
[[nodiscard]] inline std::uint64_t LoadWord(const Word& word, std::memory_order order) noexcept {
  return word.load(order);
}

inline void StoreWord(Word& word, std::uint64_t value, std::memory_order order) noexcept {
  word.store(value, order);
}

// Relaxed: the producer cursor, stored behind the header, makes it visible.
[[nodiscard]] inline std::uint64_t LoadHeader(const std::byte* at) noexcept {
  return reinterpret_cast<const Word*>(at)->load(std::memory_order_relaxed);
}

inline void StoreHeader(std::byte* at, std::uint64_t header) noexcept {
  reinterpret_cast<Word*>(at)->store(header, std::memory_order_relaxed);
}

// Pauses between two loads of a word, so that the other thread of the core can run.
inline void Relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");
#endif
}

// Out of line and with a barrier behind it, so that no compiler reads the bytes a second time.
[[gnu::noinline]] inline void CopyPayload(void* to, const void* from, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
  __asm__ volatile("" ::: "memory");
}

}  // namespace sidecall
