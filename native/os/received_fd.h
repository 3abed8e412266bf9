// SPDX-License-Identifier: MIT
// Closing a descriptor that a peer sent us. The last close of a stranger's file can block (a FUSE
// file asks its daemon, a lingering socket waits for its peer), and freeing large memory takes
// long, so it happens on a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "base/unique_fd.h"
#include "os/workers.h"

namespace sidecall {

// True: the descriptor is sealed memory, which no daemon serves. The check comes first for a
// descriptor of a peer, since only memory files answer it, and without a lock.
[[nodiscard]] bool IsSealedMemory(int fd) noexcept;

class ReceivedCloser {
 public:
  explicit ReceivedCloser(Workers::Starter start = Workers::Start);

  static constexpr Workers::Bounds kBounds = {.threads = 8, .threads_per_owner = 2};
  // Most descriptors that may wait to be closed: of one owner; of all owners, for an owner that has
  // some waiting; of all owners, for one that has none.
  static constexpr int kOwnerMax = 64;
  static constexpr int kSharedMax = 512;
  static constexpr int kDescriptorsMax = 1024;

  // False: too many descriptors wait to be closed, so no message that could carry one is
  // received from this owner.
  [[nodiscard]] bool HasPlaceFor(Owner owner) const;
  // False: as HasPlaceFor(), or a close for this owner hangs, or all threads hang. No descriptor
  // should be requested of the owner then.
  [[nodiscard]] bool HasRoomFor(Owner owner);
  // Descriptors that are not closed yet.
  [[nodiscard]] int pending() const;

  void Close(Owner owner, std::vector<UniqueFd> descriptors);
  // Shuts the socket down, so that its peer sees the end at once, and closes it on a thread, since
  // a peer may have queued descriptors on it.
  void CloseSocket(Owner owner, UniqueFd socket);

 private:
  struct Counts;

  Workers workers_;
  std::shared_ptr<Counts> counts_;
};

}  // namespace sidecall
