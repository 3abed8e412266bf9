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
  RingEntry* const entry = Find(handle);
  if (entry == nullptr || entry->is_closed) return;
  entry->is_closed = true;
  entry->ring.reset();
  entry->bell.reset();
  GiveBack(handle);
}

void RingTable::DropObject(std::uint32_t handle, bool is_mine) noexcept {
  RingEntry* const entry = Find(handle);
  if (entry == nullptr) return;
  std::uint32_t& objects = is_mine ? entry->my_objects : entry->peer_objects;
  if (objects == 0) return;
  objects -= 1;
  if (entry->is_closed) GiveBack(handle);
}

void RingTable::GiveBack(std::uint32_t handle) noexcept {
  RingEntry& entry = *entries_[handle];
  if (entry.my_objects == 0) entry.mine.reset();
  if (entry.peer_objects == 0) entry.peer.reset();
  if (entry.my_objects != 0 || entry.peer_objects != 0) return;
  entries_[handle].reset();
  free_.push_back(handle);
}

}  // namespace sidecall
