// SPDX-License-Identifier: MIT
// Closing a descriptor that a peer sent us. The last close of a stranger's file can block (a FUSE
// file asks its daemon, a lingering socket waits for its peer), so it happens on a thread of its
// own.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"

namespace sidecall {

// Memory that is sealed, which no daemon stands behind. The first question that may be asked about
// a stranger's descriptor: only memory files answer it.
[[nodiscard]] bool IsSealedMemory(int fd) noexcept;

class StrangerCloser {
 public:
  static constexpr int kThreadsMax = 4;

  // False: as many closes hang as there may be threads. What is given to Close() then waits.
  [[nodiscard]] bool has_room() const noexcept { return pending() < kThreadsMax; }
  [[nodiscard]] int pending() const noexcept;

  // A little sealed memory is closed at once; anything else on a detached thread.
  void Close(std::vector<UniqueFd> descriptors);

 private:
  // Shared with the threads, which may outlive the environment; they touch nothing else.
  struct Queue {
    std::mutex mutex;
    std::deque<std::vector<UniqueFd>> waiting;
    int threads = 0;
  };
  static void* Run(void* queue);

  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

}  // namespace sidecall
