// SPDX-License-Identifier: MIT
#include "binding/ring_table.h"

namespace sidecall {
namespace {

// Unmaps the memory of an outbox. Memory below an array buffer stays mapped until the last such
// buffer is collected. Up to `at_once_max_bytes` it is unmapped at once, since a thread costs more.
template <typename Box>
void Reclaim(Workers& workers, std::shared_ptr<Box>& box, std::size_t at_once_max_bytes) {
  if (box == nullptr) return;
  if (box->memory.size() > at_once_max_bytes) DropOnThread(workers, 0, std::move(box));
  box.reset();
}

// Results of unfinished tasks hold mappings, too, and are destroyed on a thread.
void ReclaimResults(Workers& workers, RingEntry& entry) {
  if (entry.making != nullptr) DropOnThread(workers, 0, std::move(entry.making));
  if (entry.checking != nullptr) DropOnThread(workers, 0, std::move(entry.checking));
}

}  // namespace

RingTable::~RingTable() {
  for (const std::unique_ptr<RingEntry>& entry : entries_) {
    if (entry == nullptr) continue;
    entry->ring.reset();
    ReclaimResults(*reclaimers, *entry);
    Reclaim(*reclaimers, entry->mine, kAtOnceMaxBytes);
    Reclaim(*reclaimers, entry->peer, 0);
  }
}

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

void RingTable::Close(napi_env env, std::uint32_t handle) noexcept {
  RingEntry* const entry = Find(handle);
  if (entry == nullptr || entry->is_closed) return;
  entry->is_closed = true;
  entry->ring.reset();
  entry->bell.reset();
  entry->counted_bell = nullptr;
  ReclaimResults(*reclaimers, *entry);
  // Our memory below an array buffer belongs to JavaScript from here on, so its share is released;
  // other memory counts until it is unmapped.
  if (entry->my_objects > 0) entry->mine->share.Reset();
  GiveBack(env, handle);
}

void RingTable::DropObject(napi_env env, std::uint32_t handle, bool is_mine) noexcept {
  RingEntry* const entry = Find(handle);
  if (entry == nullptr) return;
  std::uint32_t& objects = is_mine ? entry->my_objects : entry->peer_objects;
  if (objects == 0) return;
  objects -= 1;
  if (entry->is_closed) GiveBack(env, handle);
}

void RingTable::GiveBack(napi_env env, std::uint32_t handle) noexcept {
  RingEntry& entry = *entries_[handle];
  if (entry.my_objects == 0) Reclaim(*reclaimers, entry.mine, kAtOnceMaxBytes);
  if (entry.peer_objects == 0) Reclaim(*reclaimers, entry.peer, 0);
  std::int64_t kept = 0;
  if (entry.mine != nullptr) kept += static_cast<std::int64_t>(entry.mine->memory.size());
  if (entry.peer != nullptr) kept += static_cast<std::int64_t>(entry.peer->memory.size());
  if (kept != entry.external_bytes) {
    std::int64_t all = 0;
    napi_adjust_external_memory(env, kept - entry.external_bytes, &all);
    entry.external_bytes = kept;
  }
  if (kept != 0) return;
  entries_[handle].reset();
  free_.push_back(handle);
}

}  // namespace sidecall
