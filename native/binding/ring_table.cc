// SPDX-License-Identifier: MIT
#include "binding/ring_table.h"

namespace sidecall {

std::uint32_t RingTable::Open() {
  if (free_.empty()) {
    entries_.push_back(std::make_unique<RingEntry>());
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  const std::uint32_t handle = free_.back();
  free_.pop_back();
  entries_[handle] = std::make_unique<RingEntry>();
  return handle;
}

RingEntry* RingTable::Find(std::uint32_t handle) noexcept {
  return handle < entries_.size() ? entries_[handle].get() : nullptr;
}

void RingTable::Close(std::uint32_t handle) noexcept {
  if (Find(handle) == nullptr) return;
  entries_[handle].reset();
  free_.push_back(handle);
}

}  // namespace sidecall
