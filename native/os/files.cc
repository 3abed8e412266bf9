// SPDX-License-Identifier: MIT
#include "os/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/retry.h"

namespace sidecall {
namespace {

constexpr std::uint32_t kPermissionBits = 07777;

FileStatus FromStat(const struct stat& status) noexcept {
  FileStatus result;
  if (S_ISREG(status.st_mode)) result.type = FileType::kRegular;
  if (S_ISDIR(status.st_mode)) result.type = FileType::kDirectory;
  if (S_ISLNK(status.st_mode)) result.type = FileType::kLink;
  if (S_ISSOCK(status.st_mode)) result.type = FileType::kSocket;
  result.mode = static_cast<std::uint32_t>(status.st_mode) & kPermissionBits;
  result.uid = status.st_uid;
  result.gid = status.st_gid;
  result.device = static_cast<std::uint64_t>(status.st_dev);
  result.inode = static_cast<std::uint64_t>(status.st_ino);
  return result;
}

}  // namespace

Result<UniqueFd> OpenDirectory(const std::string& path) noexcept {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(RetryOnInterrupt([&] { return ::open(path.c_str(), kFlags); }));
  if (!fd.is_open()) return Error::FromErrno("open");
  return fd;
}

Result<FileStatus> StatDescriptor(int fd) noexcept {
  struct stat status = {};
  if (RetryOnInterrupt([&] { return ::fstat(fd, &status); }) == -1)
    return Error::FromErrno("fstat");
  return FromStat(status);
}

Result<FileStatus> StatAt(int directory, const std::string& name) noexcept {
  struct stat status = {};
  const auto look = [&] {
    return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW);
  };
  if (RetryOnInterrupt(look) == -1) return Error::FromErrno("fstatat");
  return FromStat(status);
}

Result<Done> UnlinkAt(int directory, const std::string& name) noexcept {
  if (RetryOnInterrupt([&] { return ::unlinkat(directory, name.c_str(), 0); }) == -1) {
    return Error::FromErrno("unlinkat");
  }
  return Done{};
}

void RemoveAt(int directory, const std::string& name, const FileStatus& status) noexcept {
  const auto found = StatAt(directory, name);
  if (!found.ok() || found.value().device != status.device || found.value().inode != status.inode)
    return;
  ::unlinkat(directory, name.c_str(), status.type == FileType::kDirectory ? AT_REMOVEDIR : 0);
}

Result<std::optional<UniqueFd>> OpenEntry([[maybe_unused]] int directory,
                                          [[maybe_unused]] const std::string& name) noexcept {
#if defined(__linux__)
  constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(RetryOnInterrupt([&] { return ::openat(directory, name.c_str(), kFlags); }));
  if (!fd.is_open()) return Error::FromErrno("openat");
  return std::optional(std::move(fd));
#else
  return std::optional<UniqueFd>();
#endif
}

Result<Done> ChangeModeAt(int directory, const std::string& name, int held,
                          std::uint32_t mode) noexcept {
  const auto bits = static_cast<mode_t>(mode & kPermissionBits);
  const std::string link = "/proc/self/fd/" + std::to_string(held);
  const auto change = [&] {
    // fchmod() refuses an O_PATH descriptor; chmod() of its link in /proc does not.
    if (held >= 0) return ::chmod(link.c_str(), bits);
    return ::fchmodat(directory, name.c_str(), bits, AT_SYMLINK_NOFOLLOW);
  };
  if (RetryOnInterrupt(change) == -1) return Error::FromErrno("fchmodat");
  return Done{};
}

Result<Done> ChangeOwnerAt(int directory, const std::string& name, [[maybe_unused]] int held,
                           std::uint32_t uid, std::uint32_t gid) noexcept {
  const auto change = [&] {
#if defined(__linux__)
    if (held >= 0) return ::fchownat(held, "", uid, gid, AT_EMPTY_PATH);
#endif
    return ::fchownat(directory, name.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW);
  };
  if (RetryOnInterrupt(change) == -1) return Error::FromErrno("fchownat");
  return Done{};
}

Result<UniqueFd> OpenLockFile(int directory, const std::string& name) noexcept {
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  UniqueFd fd(RetryOnInterrupt([&] { return ::openat(directory, name.c_str(), kFlags, 0600); }));
  if (!fd.is_open()) return Error::FromErrno("openat");
  // A umask may have taken away the bits with which the next process opens it.
  struct stat status = {};
  const bool is_known = ::fstat(fd.get(), &status) == 0 && status.st_uid == ::geteuid();
  if (is_known && (status.st_mode & 0600U) != 0600U && ::fchmod(fd.get(), 0600) == -1) {
    return Error::FromErrno("fchmod");
  }
  return fd;
}

Result<bool> TryLock(int fd) noexcept {
  if (RetryOnInterrupt([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return Error::FromErrno("flock");
}

}  // namespace sidecall
