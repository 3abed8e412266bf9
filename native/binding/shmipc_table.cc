// SPDX-License-Identifier: MIT
#include "binding/shmipc_table.h"

#if SIDECALL_HAS_SHMIPC
#include <algorithm>
#include <utility>

namespace sidecall {

ShmipcTable::~ShmipcTable() {
  while (!entries_.empty()) Close(entries_.begin()->first);
}

std::uint32_t ShmipcTable::Open() {
  do last_ += 1;
  while (last_ == 0 || entries_.contains(last_));
  entries_.try_emplace(last_);
  return last_;
}

ShmipcEntry* ShmipcTable::Find(std::uint32_t number) noexcept {
  const auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : &found->second;
}

void ShmipcTable::Close(std::uint32_t number) {
  auto node = entries_.extract(number);
  if (!node.empty()) Drop(std::move(node.mapped()));
}

void ShmipcTable::Drop(ShmipcEntry entry) {
  if (entry.meeting != nullptr) DropOnThread(workers, 0, std::move(entry.meeting));
  if (entry.session == nullptr) return;
  struct Dropping final : Task {
    void Run() noexcept override {
      const shmipc::Files& files = session->files();
      if (!files.queue_path.empty()) {
        RemoveNamed(files.queue_path, files.queues.fd.get());
      }
      if (!files.buffer_path.empty() && is_last) {
        RemoveNamed(files.buffer_path, files.buffers.fd.get());
      }
      session.reset();
    }
    std::unique_ptr<shmipc::Session> session;
    bool is_last = false;
  };
  auto task = std::make_unique<Dropping>();
  const std::string& path = entry.session->files().buffer_path;
  task->is_last = std::none_of(entries_.begin(), entries_.end(), [&path](const auto& other) {
    const auto& session = other.second.session;
    return session != nullptr && session->files().buffer_path == path;
  });
  task->session = std::move(entry.session);
  workers.Submit(0, std::move(task));
}

}  // namespace sidecall
#endif
