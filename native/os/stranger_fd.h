// SPDX-License-Identifier: MIT
// Closing a descriptor that a peer sent us. The last close of a stranger's file can block (a FUSE
// file asks its daemon, a lingering socket waits for its peer), and freeing large memory takes
// long, so it happens on a thread of its own.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "os/workers.h"

namespace sidecall {

// Memory that is sealed, which no daemon stands behind. The first question that may be asked about
// a stranger's descriptor: only memory files answer it, and they need no lock for it.
[[nodiscard]] bool IsSealedMemory(int fd) noexcept;

class StrangerCloser {
 public:
  static constexpr Workers::Bounds kBounds = {.threads = 8, .threads_per_owner = 2};
  // Descriptors that may wait to be closed.
  static constexpr int kDescriptorsMax = 512;

  // False: a close of this owner's hangs, every thread does, or too many descriptors wait. Nothing
  // more should be taken from it then.
  [[nodiscard]] bool HasRoomFor(Owner owner) const noexcept;
  // Descriptors that are not closed yet.
  [[nodiscard]] int pending() const noexcept { return *pending_; }

  void Close(Owner owner, std::vector<UniqueFd> descriptors);
  // A socket on which a peer may have queued descriptors. Its peer sees the end at once.
  void CloseSocket(Owner owner, UniqueFd socket);

 private:
  Workers workers_{kBounds};
  std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace sidecall
