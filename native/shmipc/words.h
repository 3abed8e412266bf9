// SPDX-License-Identifier: MIT
// The words of shmipc-go's memory, which both processes write. Counters of its queues are 8 bytes
// at addresses that are multiples of 4 only, so that no type of C++ describes them: instructions of
// the processor do.
#pragma once

#include <cstddef>
#include <cstdint>

// Where shmipc-go has this layout. On arm64 its queues look otherwise.
#if defined(__linux__) && defined(__x86_64__)
#define SIDECALL_HAS_SHMIPC 1
#else
#define SIDECALL_HAS_SHMIPC 0
#endif

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {

[[nodiscard]] inline std::uint32_t Load32(const std::byte* at) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(at), __ATOMIC_ACQUIRE);
}

inline void Store32(std::byte* at, std::uint32_t value) noexcept {
  __atomic_store_n(reinterpret_cast<std::uint32_t*>(at), value, __ATOMIC_RELEASE);
}

// The value after the addition.
inline std::uint32_t Add32(std::byte* at, std::uint32_t value) noexcept {
  return __atomic_add_fetch(reinterpret_cast<std::uint32_t*>(at), value, __ATOMIC_SEQ_CST);
}

[[nodiscard]] inline std::uint32_t Exchange32(std::byte* at, std::uint32_t value) noexcept {
  return __atomic_exchange_n(reinterpret_cast<std::uint32_t*>(at), value, __ATOMIC_SEQ_CST);
}

// True: the word was `expected`, and is `value` now.
[[nodiscard]] inline bool CompareExchange32(std::byte* at, std::uint32_t expected,
                                            std::uint32_t value) noexcept {
  return __atomic_compare_exchange_n(reinterpret_cast<std::uint32_t*>(at), &expected, value, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

[[nodiscard]] inline std::uint8_t Load8(const std::byte* at) noexcept {
  return __atomic_load_n(reinterpret_cast<const std::uint8_t*>(at), __ATOMIC_ACQUIRE);
}

inline void Store8(std::byte* at, std::uint8_t value) noexcept {
  __atomic_store_n(reinterpret_cast<std::uint8_t*>(at), value, __ATOMIC_RELEASE);
}

[[nodiscard]] inline std::int64_t LoadCounter(const std::byte* at) noexcept {
  std::int64_t value = 0;
  // NOLINTNEXTLINE(hicpp-no-assembler)
  __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(at) : "memory");
  return value;
}

// A full barrier, so that what was written before is visible before the new count.
inline void IncrementCounter(std::byte* at) noexcept {
  // NOLINTNEXTLINE(hicpp-no-assembler)
  __asm__ volatile("lock incq (%0)" : : "r"(at) : "memory", "cc");
}

}  // namespace sidecall::shmipc
#endif
