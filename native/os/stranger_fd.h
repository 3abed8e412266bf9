// SPDX-License-Identifier: MIT
// Closing a descriptor that a peer sent us. The last close of a stranger's file can block (a FUSE
// file asks its daemon, a lingering socket waits for its peer), so it happens on a thread of its
// own.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace sidecall {

class StrangerCloser {
 public:
  static constexpr int kThreadsMax = 4;

  // False: as many closes hang as we allow. The caller then receives without room for descriptors,
  // and the kernel drops them itself.
  [[nodiscard]] bool has_room() const noexcept { return pending_->load() < kThreadsMax; }
  [[nodiscard]] int pending() const noexcept { return pending_->load(); }

  // Memory that is sealed cannot block and is closed at once; anything else on a detached thread.
  // NOTE: only after has_room() said yes.
  void Close(std::vector<UniqueFd> descriptors);

 private:
  // Shared with the threads, which may outlive the environment; they touch nothing else.
  std::shared_ptr<std::atomic<int>> pending_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace sidecall
