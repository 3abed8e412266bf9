// SPDX-License-Identifier: MIT
// Tells when the process at the other end of a socket has ended, also where another process still
// holds that end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/workers.h"

namespace sidecall {

class PeerExitWatch {
 public:
  // Called on a thread, with the number of the watch.
  using Tell = std::function<void(std::uint32_t)>;

  explicit PeerExitWatch(Tell tell, Workers::Starter start = Workers::Start);
  PeerExitWatch(const PeerExitWatch&) = delete;
  PeerExitWatch& operator=(const PeerExitWatch&) = delete;
  // `tell` is not called afterwards; a call that has begun goes on.
  ~PeerExitWatch();

  // False: this system cannot tell (before Linux 6.5, and macOS), or the process has ended already.
  Result<bool> Add(int socket, std::uint32_t number);
  // Removes the watch; a second call does nothing.
  void Remove(std::uint32_t number);

 private:
  struct State;
  std::shared_ptr<State> state_;
  [[maybe_unused]] Workers::Starter start_;  // macOS has no thread here
};

}  // namespace sidecall
