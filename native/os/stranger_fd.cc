// SPDX-License-Identifier: MIT
#include "os/stranger_fd.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

namespace sidecall {
namespace {

// The thread runs our code, so the library must stay when the last environment lets go of it.
void PinOwnLibrary(void* (*own_function)(void*)) noexcept {
  Dl_info own = {};
  if (::dladdr(reinterpret_cast<void*>(own_function), &own) == 0 || own.dli_fname == nullptr) {
    return;
  }
  // The handle is kept on purpose: giving it back would undo the pin on some systems.
  [[maybe_unused]] void* const kept =
      ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// Freeing the pages of a large object takes as long as it is large.
bool ClosesAtOnce(const UniqueFd& fd) noexcept {
  constexpr off_t kLittleBytes = 2 * 1024 * 1024;
  struct stat status = {};
  return IsSealedMemory(fd.get()) && ::fstat(fd.get(), &status) == 0 &&
         status.st_size <= kLittleBytes;
}

}  // namespace

bool IsSealedMemory([[maybe_unused]] int fd) noexcept {
#if defined(__linux__) && defined(F_GET_SEALS)
  constexpr int kMemorySealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals != -1 && (seals & kMemorySealed) == kMemorySealed;
#else
  // macOS has no seals, and no descriptor whose close is known to block: what it is, is checked
  // later.
  return true;
#endif
}

int StrangerCloser::pending() const noexcept {
  const std::lock_guard lock(queue_->mutex);
  return queue_->threads;
}

void StrangerCloser::Close(std::vector<UniqueFd> descriptors) {
  std::erase_if(descriptors, ClosesAtOnce);
  if (descriptors.empty()) return;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->waiting.push_back(std::move(descriptors));
    if (queue_->threads == kThreadsMax) return;  // a thread that comes back takes it
    queue_->threads += 1;
  }
  PinOwnLibrary(&Run);
  auto shared = std::make_unique<std::shared_ptr<Queue>>(queue_);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  if (::pthread_create(&thread, &attributes, &Run, shared.get()) == 0) {
    [[maybe_unused]] const auto* const given_away = shared.release();
  } else {
    Run(shared.release());  // no thread to be had: close here, as any program would
  }
  ::pthread_attr_destroy(&attributes);
}

void* StrangerCloser::Run(void* argument) {
  const std::unique_ptr<std::shared_ptr<Queue>> shared(
      static_cast<std::shared_ptr<Queue>*>(argument));
  Queue& queue = **shared;
  for (;;) {
    std::vector<UniqueFd> errand;
    {
      const std::lock_guard lock(queue.mutex);
      if (queue.waiting.empty()) {
        queue.threads -= 1;
        return nullptr;
      }
      errand = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    errand.clear();  // may block for as long as the stranger likes
  }
}

}  // namespace sidecall
