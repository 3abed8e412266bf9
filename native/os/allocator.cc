// SPDX-License-Identifier: MIT
#include "os/allocator.h"

#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace sidecall {

void KeepFreedBlocks() noexcept {
#if defined(__GLIBC__)
  // Just below DEFAULT_MMAP_THRESHOLD_MAX. The block is mapped, never touched, and unmapped: no
  // page of it ever exists. Its size becomes the threshold below which blocks come from the heap,
  // and twice its size that beyond which the heap's free top is given back (mallopt(3),
  // M_MMAP_THRESHOLD).
  constexpr std::size_t kLargestKept = 32 * 1024 * 1024 - 64 * 1024;
  void* volatile const block = std::malloc(kLargestKept);
  std::free(block);
#endif
}

void ReturnFreedBlocks([[maybe_unused]] std::size_t above_bytes) noexcept {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  if (::mallinfo2().fordblks > above_bytes) ::malloc_trim(above_bytes / 2);
#elif defined(__GLIBC__)
  if (static_cast<unsigned>(::mallinfo().fordblks) > above_bytes) ::malloc_trim(above_bytes / 2);
#endif
}

}  // namespace sidecall
