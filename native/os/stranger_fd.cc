// SPDX-License-Identifier: MIT
#include "os/stranger_fd.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

namespace sidecall {
namespace {

// So that its close does not wait for a peer that reads nothing. Whatever is no socket says so.
void DoNotLinger(int fd) noexcept {
  const linger none = {0, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

class CloseTask final : public Task {
 public:
  CloseTask(std::vector<UniqueFd> descriptors, std::shared_ptr<std::atomic<int>> pending) noexcept
      : descriptors_(std::move(descriptors)), pending_(std::move(pending)) {}

  void Run() noexcept override {
    for (UniqueFd& descriptor : descriptors_) {
      DoNotLinger(descriptor.get());
      descriptor.Reset();  // may block for as long as the stranger likes
      *pending_ -= 1;
    }
  }

 private:
  std::vector<UniqueFd> descriptors_;
  std::shared_ptr<std::atomic<int>> pending_;
};

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

bool StrangerCloser::HasRoomFor(Owner owner) const noexcept {
  return *pending_ < kDescriptorsMax && workers_.IsFreeFor(owner);
}

void StrangerCloser::Close(Owner owner, std::vector<UniqueFd> descriptors) {
  if (descriptors.empty()) return;
  *pending_ += static_cast<int>(descriptors.size());
  workers_.Submit(owner, std::make_unique<CloseTask>(std::move(descriptors), pending_));
}

void StrangerCloser::CloseSocket(Owner owner, UniqueFd socket) {
  ::shutdown(socket.get(), SHUT_RDWR);
  std::vector<UniqueFd> one;
  one.push_back(std::move(socket));
  Close(owner, std::move(one));
}

}  // namespace sidecall
