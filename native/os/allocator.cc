// SPDX-License-Identifier: MIT
#include "os/allocator.h"

#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace sidecall {

void KeepFreedBlocks() noexcept {
#if defined(__GLIBC__)
  // Just below DEFAULT_MMAP_THRESHOLD_MAX. The block is mapped, never touched,
  // and unmapped: no page of it ever exists. Its size becomes the threshold
  // below which blocks come from the heap, and twice its size that beyond
  // which the heap's free top is given back (mallopt(3), M_MMAP_THRESHOLD).
  constexpr std::size_t kLargestKept = 32 * 1024 * 1024 - 64 * 1024;
  void* volatile const block = std::malloc(kLargestKept);
  std::free(block);
#endif
}

#if defined(__GLIBC__)
// Newer glibc has mallinfo2(), whose figures do not
// wrap at 4 GiB: then too little is given back, once.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
static std::size_t FreedBytes() noexcept {
  // It takes the allocator's locks: a wrong figure costs one trim more or less.
  return static_cast<unsigned>(::mallinfo().fordblks);  // NOLINT(concurrency-mt-unsafe)
}
#pragma GCC diagnostic pop

void ReturnFreedBlocks(std::size_t above_bytes) noexcept {
  if (FreedBytes() > above_bytes) ::malloc_trim(above_bytes / 2);
}
#else
void ReturnFreedBlocks(std::size_t) noexcept {}
#endif

}  // namespace sidecall
