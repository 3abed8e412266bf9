// SPDX-License-Identifier: MIT
// The sessions of shmipc-go of one environment, by the numbers that JavaScript holds.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "binding/thread_notifications.h"
#include "os/pending.h"
#include "os/workers.h"
#include "shmipc/handshake.h"

namespace sidecall {

#if SIDECALL_HAS_SHMIPC
struct ShmipcEntry {
  std::shared_ptr<Pending<shmipc::Met>> meeting;  // until the handshake has ended
  std::unique_ptr<shmipc::Session> session;
};
#endif

class ShmipcTable {
 public:
  ShmipcTable() = default;
  ShmipcTable(const ShmipcTable&) = delete;
  ShmipcTable& operator=(const ShmipcTable&) = delete;

  // Threads for handshakes, and for memory that is unmapped: a peer controls how long either takes.
  // A thread that waits costs little, and one peer cannot keep those of others.
  Workers workers{{.threads = 32, .threads_per_owner = 8}};
  // Told the numbers of sessions whose handshake has ended.
  std::shared_ptr<Listeners> listeners = std::make_shared<Listeners>();

#if SIDECALL_HAS_SHMIPC
  ~ShmipcTable();

  [[nodiscard]] std::uint32_t Open();
  // nullptr: no such session.
  [[nodiscard]] ShmipcEntry* Find(std::uint32_t number) noexcept;
  // Gives the memory of a session back, on a thread. Files that its client has named are removed
  // as a server of shmipc-go does: the buffers with the last session that uses them.
  void Close(std::uint32_t number);

 private:
  void Drop(ShmipcEntry entry);

  std::unordered_map<std::uint32_t, ShmipcEntry> entries_;
  std::uint32_t last_ = 0;
#endif
};

}  // namespace sidecall
