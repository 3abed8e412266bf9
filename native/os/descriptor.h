// SPDX-License-Identifier: MIT
// The kind of a descriptor, and copies of it that no spawned program inherits.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace sidecall {

enum class DescriptorType { kSocket, kRegularFile, kPipe, kDirectory, kOther };

struct DescriptorKind {
  DescriptorType type = DescriptorType::kOther;
  bool is_unix_stream = false;  // a stream socket of the Unix family
  bool is_listening = false;
};

// Fails with EBADF where the number names nothing.
Result<DescriptorKind> DescribeDescriptor(int fd) noexcept;

// A second number for the same description, close-on-exec from birth.
Result<UniqueFd> DuplicateDescriptor(int fd) noexcept;

Result<Done> SetCloseOnExec(int fd) noexcept;

}  // namespace sidecall
