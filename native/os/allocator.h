// SPDX-License-Identifier: MIT
// Long messages need fresh memory for each, and fresh pages cost more than their bytes.
#pragma once

namespace sidecall {

// Lets the C library keep freed blocks of up to 32 MiB for the next one, instead of giving their
// pages back to the kernel each time. It does so by itself after such a block was freed once; this
// frees one. A program that has set its own thresholds keeps them. Does nothing but on glibc.
// Cheap; once is enough.
void KeepFreedBlocks() noexcept;

}  // namespace sidecall
