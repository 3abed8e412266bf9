// SPDX-License-Identifier: MIT
// In place of ring/shared_words.h for programs/ring_schedule.cc: each access to a shared word or to
// payload is a step of a scheduler, and stores become visible later, as the order allows.
#pragma once

#include "ring/layout.h"

namespace sidecall {

[[nodiscard]] std::uint64_t LoadWord(const Word& word, std::memory_order order) noexcept;
void StoreWord(Word& word, std::uint64_t value, std::memory_order order) noexcept;
[[nodiscard]] std::uint64_t LoadHeader(const std::byte* at) noexcept;
void StoreHeader(std::byte* at, std::uint64_t header) noexcept;
void CopyPayload(void* to, const void* from, std::size_t bytes) noexcept;
inline void Relax() noexcept {}

}  // namespace sidecall
