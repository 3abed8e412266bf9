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

// Memory that is sealed, which no daemon stands behind. The first question that may be asked about
// a stranger's descriptor: only memory files answer it, and they need no lock for it.
[[nodiscard]] bool IsSealedMemory(int fd) noexcept;

class ReceivedCloser {
 public:
  explicit ReceivedCloser(Workers::Starter start = Workers::Start);

  static constexpr Workers::Bounds kBounds = {.threads = 8, .threads_per_owner = 2};
  // Descriptors that may wait to be closed: of one owner;
  // of all, for an owner that has some; and of all.
  static constexpr int kOwnerMax = 64;
  static constexpr int kSharedMax = 512;
  static constexpr int kDescriptorsMax = 1024;

  // False: too many descriptors wait. Nothing that could carry more is read of this owner then.
  [[nodiscard]] bool HasPlaceFor(Owner owner) const;
  // False: besides, a close of this owner's hangs, or every thread does. Nothing more should be
  // asked of it then.
  [[nodiscard]] bool HasRoomFor(Owner owner);
  // Descriptors that are not closed yet.
  [[nodiscard]] int pending() const;

  void Close(Owner owner, std::vector<UniqueFd> descriptors);
  // A socket on which a peer may have queued descriptors. Its peer sees the end at once.
  void CloseSocket(Owner owner, UniqueFd socket);

 private:
  struct Counts;

  Workers workers_;
  std::shared_ptr<Counts> counts_;
};

}  // namespace sidecall
