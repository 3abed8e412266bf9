// SPDX-License-Identifier: MIT
// Directory-relative look-ups that follow no link, and a lock that dies with its holder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sidecall {

enum class FileType { kRegular, kDirectory, kLink, kSocket, kOther };

struct FileStatus {
  FileType type = FileType::kOther;
  std::uint32_t mode = 0;  // the twelve permission bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// O_DIRECTORY and O_NOFOLLOW: a link as the last component fails with ELOOP or ENOTDIR.
Result<UniqueFd> OpenDirectory(const std::string& path) noexcept;

Result<FileStatus> StatDescriptor(int fd) noexcept;
Result<FileStatus> StatAt(int directory, const std::string& name) noexcept;
Result<Done> UnlinkAt(int directory, const std::string& name) noexcept;
// Removes a file or an empty directory, if the entry is still the one that `status` describes.
void RemoveAt(int directory, const std::string& name, const FileStatus& status) noexcept;

// A descriptor of the entry itself (a link is not followed), so that no other entry can take its
// place. It serves StatDescriptor() and the calls below. No value: this system has none.
Result<std::optional<UniqueFd>> OpenEntry(int directory, const std::string& name) noexcept;

// Changes the entry behind the descriptor `held`; with -1, the entry of this
// name, unless it is a link.
Result<Done> ChangeModeAt(int directory, const std::string& name, int held,
                          std::uint32_t mode) noexcept;
// `kSameId` leaves the user or the group as it is.
inline constexpr auto kSameId = static_cast<std::uint32_t>(-1);
Result<Done> ChangeOwnerAt(int directory, const std::string& name, int held, std::uint32_t uid,
                           std::uint32_t gid) noexcept;

// Opens or creates `name` (0600, never a link) without locking it.
Result<UniqueFd> OpenLockFile(int directory, const std::string& name) noexcept;

// True: ours until the descriptor closes or the process dies. False: another holds it. Never waits.
Result<bool> TryLock(int fd) noexcept;

}  // namespace sidecall
