// SPDX-License-Identifier: MIT
// A socket of which exactly so many bytes are read, until a deadline.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "base/unique_fd.h"

#if defined(__linux__)
namespace sidecall {

class ExactSocket {
 public:
  enum class Outcome { kDone, kTimeout, kGone, kSystem };

  // NOTE: the descriptor belongs to the caller, and does not block.
  ExactSocket(int fd, std::chrono::milliseconds timeout) noexcept
      : fd_(fd), deadline_(std::chrono::steady_clock::now() + timeout) {}

  [[nodiscard]] Outcome Read(std::span<std::uint8_t> target);
  // Reads one byte, with the descriptors that came with it.
  [[nodiscard]] Outcome ReadDescriptors(std::vector<UniqueFd>& descriptors);
  [[nodiscard]] Outcome Write(std::span<const std::uint8_t> bytes);
  // Writes one byte of zero, with two descriptors.
  [[nodiscard]] Outcome WriteDescriptors(int first, int second);
  // The errno of kSystem.
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  [[nodiscard]] Outcome Wait(short events);
  [[nodiscard]] Outcome Failed(int number) noexcept;

  int fd_;
  std::chrono::steady_clock::time_point deadline_;
  int number_ = 0;
};

}  // namespace sidecall
#endif
