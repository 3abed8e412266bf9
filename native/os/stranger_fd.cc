// SPDX-License-Identifier: MIT
#include "os/stranger_fd.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <utility>

namespace sidecall {
namespace {

struct Errand {
  std::vector<UniqueFd> descriptors;
  std::shared_ptr<std::atomic<int>> pending;
};

void* Run(void* argument) {
  const std::unique_ptr<Errand> errand(static_cast<Errand*>(argument));
  errand->descriptors.clear();  // may block for as long as the stranger likes
  errand->pending->fetch_sub(1);
  return nullptr;
}

// The thread runs our code, so the library must stay when the last environment lets go of it.
void PinOwnLibrary() noexcept {
  Dl_info own = {};
  if (::dladdr(reinterpret_cast<void*>(&Run), &own) == 0 || own.dli_fname == nullptr) return;
  // The handle is kept on purpose: giving it back would undo the pin on some systems.
  [[maybe_unused]] void* const kept =
      ::dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// The first question that asks no stranger's daemon: only memory files know seals.
bool ClosesAtOnce([[maybe_unused]] const UniqueFd& fd) noexcept {
#if defined(__linux__) && defined(F_GET_SEALS)
  constexpr int kMemorySealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  return seals != -1 && (seals & kMemorySealed) == kMemorySealed;
#else
  return false;
#endif
}

}  // namespace

void StrangerCloser::Close(std::vector<UniqueFd> descriptors) {
  std::erase_if(descriptors, ClosesAtOnce);
  if (descriptors.empty()) return;
  PinOwnLibrary();
  auto errand = std::make_unique<Errand>(Errand{std::move(descriptors), pending_});
  pending_->fetch_add(1);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  if (::pthread_create(&thread, &attributes, Run, errand.get()) == 0) {
    [[maybe_unused]] const auto* const given_away = errand.release();
  } else {
    pending_->fetch_sub(1);  // no thread to be had: close here, as any program would
  }
  ::pthread_attr_destroy(&attributes);
}

}  // namespace sidecall
