// SPDX-License-Identifier: MIT
// The handshake of shmipc-go v0.2, protocol versions 2 and 3: the client's memory reaches the
// server, by name or by descriptors. Bytes are read exactly, since descriptors come with one of
// them, and an event may follow at once. NOTE: waits for the peer; not on an event loop.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "shmipc/session.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {

struct Met {
  enum class Outcome { kMet, kViolation, kVersion, kSystem, kTimeout, kGone };

  Outcome outcome = Outcome::kMet;
  std::unique_ptr<Session> session;
  std::uint8_t version = 0;  // of the events that follow
  std::string what;          // what is wrong
  int number = 0;            // an errno, where the system said so
};

struct AcceptSettings {
  std::string directory;  // of the files that a client may name
  std::uint32_t uid = 0;  // of the client
  std::uint64_t memory_max_bytes = 0;
  std::chrono::milliseconds timeout{};
};

struct ConnectSettings {
  std::uint32_t queue_capacity = 0;
  std::uint64_t buffer_bytes = 0;
  std::chrono::milliseconds timeout{};
};

// The server's half.
[[nodiscard]] Met Accept(int fd, const AcceptSettings& settings);
// The client's half, with memory that has no name.
[[nodiscard]] Met Connect(int fd, const ConnectSettings& settings);

}  // namespace sidecall::shmipc
#endif
