// SPDX-License-Identifier: MIT
#include "os/received_fd.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <map>
#include <mutex>
#include <utility>

namespace sidecall {
namespace {

// Turns lingering off, so that the close of a socket does not wait for a peer that reads nothing.
// The error for a descriptor that is no socket is ignored.
void DoNotLinger(int fd) noexcept {
  const linger none = {0, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

}  // namespace

// Shared with the threads, which may outlive the closer.
struct ReceivedCloser::Counts {
  void Add(Owner owner, int count) {
    const std::lock_guard lock(mutex);
    all += count;
    int& of_owner = owners[owner];
    of_owner += count;
    if (of_owner == 0) owners.erase(owner);
  }

  std::mutex mutex;
  int all = 0;
  std::map<Owner, int> owners;  // only owners with descriptors
};

ReceivedCloser::ReceivedCloser(Workers::Starter start)
    : workers_(kBounds, start), counts_(std::make_shared<Counts>()) {}

bool IsSealedMemory([[maybe_unused]] int fd) noexcept {
#if defined(__linux__) && defined(F_GET_SEALS)
  constexpr int kMemorySealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals != -1 && (seals & kMemorySealed) == kMemorySealed;
#else
  // macOS has no seals, and no descriptor whose close is known to block. AcceptOutbox() checks the
  // kind of the object later.
  return true;
#endif
}

int ReceivedCloser::pending() const {
  const std::lock_guard lock(counts_->mutex);
  return counts_->all;
}

bool ReceivedCloser::HasPlaceFor(Owner owner) const {
  const std::lock_guard lock(counts_->mutex);
  const auto own = counts_->owners.find(owner);
  if (own == counts_->owners.end()) return counts_->all < kDescriptorsMax;
  return own->second < kOwnerMax && counts_->all < kSharedMax;
}

bool ReceivedCloser::HasRoomFor(Owner owner) {
  // IsFreeFor() comes first, since it starts the threads that free the places.
  const bool is_free = workers_.IsFreeFor(owner);
  return is_free && HasPlaceFor(owner);
}

void ReceivedCloser::Close(Owner owner, std::vector<UniqueFd> descriptors) {
  struct Closing final : Task {
    void Run() noexcept override {
      for (UniqueFd& descriptor : descriptors) {
        DoNotLinger(descriptor.get());
        descriptor.Reset();  // may block for as long as its sender wants
        counts->Add(owner, -1);
      }
    }
    std::vector<UniqueFd> descriptors;
    std::shared_ptr<Counts> counts;
    Owner owner = 0;
  };
  if (descriptors.empty()) return;
  counts_->Add(owner, static_cast<int>(descriptors.size()));
  auto task = std::make_unique<Closing>();
  task->descriptors = std::move(descriptors);
  task->counts = counts_;
  task->owner = owner;
  workers_.Submit(owner, std::move(task));
}

void ReceivedCloser::CloseSocket(Owner owner, UniqueFd socket) {
  ::shutdown(socket.get(), SHUT_RDWR);
  std::vector<UniqueFd> one;
  one.push_back(std::move(socket));
  Close(owner, std::move(one));
}

}  // namespace sidecall
