// SPDX-License-Identifier: MIT
// Long messages need fresh memory for each, and fresh pages cost more than their bytes.
#pragma once

#include <cstddef>

namespace sidecall {

// Lets the C library keep freed blocks of up to 32 MiB for the next one, instead of giving their
// pages back to the kernel each time. It does so by itself after such a block was freed once; this
// frees one. A program that has set its own thresholds keeps them. Does nothing but on glibc.
// Cheap; once is enough.
void KeepFreedBlocks() noexcept;

// Gives the pages of freed blocks back to the kernel where they exceed `above_bytes`: the C library
// itself gives back the top of the heap only. Other threads wait for the heap meanwhile. NOTE: only
// in a pause of the traffic. Does nothing but on glibc.
void ReturnFreedBlocks(std::size_t above_bytes) noexcept;

}  // namespace sidecall
