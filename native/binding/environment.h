// SPDX-License-Identifier: MIT
// The state of one Node environment (main thread or worker). Environments share the library, so the
// only mutable global is the account of ring memory (os/memory_share.cc).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/unique_fd.h"
#include "binding/convert.h"
#include "binding/ring_table.h"
#include "binding/shmipc_table.h"
#include "binding/thread_notifications.h"
#include "os/descriptor.h"
#include "os/files.h"
#include "os/peer_exit_watch.h"
#include "os/process.h"
#include "os/received_fd.h"
#include "os/workers.h"

namespace sidecall {

struct Environment {
  Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  // Received descriptors and sockets are closed on threads, since a peer can make such a close
  // block. The other descriptors, locks among them, are closed on this thread.
  ~Environment() {
    for (const auto& [directory, name, status] : removed_at_end) RemoveAt(directory, name, status);
    for (auto& [number, fd] : received) CloseReceived(0, std::move(fd));
    for (auto& [number, fd] : owned) {
      if (IsSocket(fd.get())) received_closer.CloseSocket(0, std::move(fd));
    }
    if (!IsMainThread()) ReapOwnForks();
  }

  // Descriptors whose numbers JavaScript holds. An environment that is torn down in the middle of
  // anything closes them here: locks are released, half-made connections end.
  std::unordered_map<int, UniqueFd> owned;
  // Descriptors that a peer sent and that were not looked
  // at yet: nothing may close them on this thread.
  std::unordered_map<int, UniqueFd> received;
  ReceivedCloser received_closer;
  // Files that must not stay behind; a directory comes behind those in it.
  struct RemovedAtEnd {
    int directory = -1;
    std::string name;
    FileStatus status;
  };
  std::vector<RemovedAtEnd> removed_at_end;
  // Threads that check the memory of peers, and make ours where that takes long.
  Workers memory{{.threads = 4, .threads_per_owner = 2}};
  RingTable rings;
  ShmipcTable shmipc;
  // Listeners for memory that a thread has made or checked (`listeners`), and for peers whose
  // process has ended (`ends`).
  std::shared_ptr<Listeners> listeners = std::make_shared<Listeners>();
  std::shared_ptr<Listeners> ends = std::make_shared<Listeners>();
  std::uint32_t last_watch = 0;
  PeerExitWatch end_watch{[told = ends](std::uint32_t number) { told->Tell(number); }};

  [[nodiscard]] int Own(UniqueFd fd) { return Keep(owned, std::move(fd)); }
  [[nodiscard]] int Receive(UniqueFd fd) { return Keep(received, std::move(fd)); }

  void CloseReceived(Owner owner, UniqueFd fd) {
    std::vector<UniqueFd> one;
    one.push_back(std::move(fd));
    received_closer.Close(owner, std::move(one));
  }

 private:
  [[nodiscard]] static bool IsSocket(int fd) noexcept {
    const auto kind = DescribeDescriptor(fd);
    return kind.ok() && kind.value().type == DescriptorType::kSocket;
  }
  [[nodiscard]] static int Keep(std::unordered_map<int, UniqueFd>& where, UniqueFd fd) {
    const int number = fd.get();
    where.insert_or_assign(number, std::move(fd));
    return number;
  }
};

// The state of the environment that calls.
inline Environment& State(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

// The process that an argument stands for, by its number.
inline Owner OwnerAt(Arguments& arguments, std::size_t index) {
  return arguments.Integer(index, kOwnerMin, kOwnerMax);
}

}  // namespace sidecall
