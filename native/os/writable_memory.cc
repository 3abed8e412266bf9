// SPDX-License-Identifier: MIT
#include "os/writable_memory.h"

#if defined(__linux__)
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <utility>

#include "os/retry.h"

namespace sidecall {
namespace {

constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;

// No part of a core dump, and not inherited by a forked child.
Result<Mapping> MapFile(int fd, std::uint64_t bytes) {
  void* const place = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (place == MAP_FAILED) return Error::FromErrno("mmap");
  ::madvise(place, bytes, MADV_DONTFORK);
  ::madvise(place, bytes, MADV_DONTDUMP);
  return Mapping(static_cast<std::byte*>(place), static_cast<std::size_t>(bytes));
}

Result<MemoryFile> Map(UniqueFd fd, std::uint64_t bytes) {
  auto mapped = MapFile(fd.get(), bytes);
  if (!mapped.ok()) return mapped.error();
  return MemoryFile{.fd = std::move(fd), .memory = std::move(mapped.value())};
}

}  // namespace

Result<Done> MemoryFile::Allocate() noexcept {
  // Before Linux 6.11 a signal undoes the whole call, hence steps.
  constexpr std::uint64_t kStep = std::uint64_t{256} * 1024;
  const std::uint64_t bytes = memory.size();
  for (std::uint64_t at = 0; at < bytes; at += kStep) {
    const auto count = static_cast<off_t>(bytes - at < kStep ? bytes - at : kStep);
    const int done =
        RetryOnInterrupt([&] { return ::fallocate(fd.get(), 0, static_cast<off_t>(at), count); });
    if (done == -1) return Error::FromErrno("fallocate");
  }
  return Done{};
}

bool MemoryFile::IsWhole() const noexcept {
  std::uint64_t allocated = 0;
  return AllocatedBytes(fd.get(), allocated) == 0 && allocated >= memory.size();
}

Result<MemoryFile> CreateMemory(const char* name, std::uint64_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) return Error::FromErrno("memfd_create");
  const int resized =
      RetryOnInterrupt([&] { return ::ftruncate(fd.get(), static_cast<off_t>(bytes)); });
  if (resized == -1) return Error::FromErrno("ftruncate");
  if (::fcntl(fd.get(), F_ADD_SEALS, kFixedSize | F_SEAL_SEAL) == -1) {
    return Error::FromErrno("fcntl");
  }
  auto mapped = Map(std::move(fd), bytes);
  if (!mapped.ok()) return mapped;
  if (const auto allocated = mapped.value().Allocate(); !allocated.ok()) return allocated.error();
  return mapped;
}

Result<MemoryFile> MapMemory(UniqueFd fd, std::uint64_t bytes_max) {
  struct statfs system = {};
  // A file of another system can make each access wait, for a daemon or a network.
  if (::fstatfs(fd.get(), &system) == -1) return Error::FromErrno("fstatfs");
  if (system.f_type != TMPFS_MAGIC) return Error{EMEDIUMTYPE, "fstatfs"};
  struct stat status = {};
  if (::fstat(fd.get(), &status) == -1) return Error::FromErrno("fstat");
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return Error{EINVAL, "fstat"};
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (bytes > bytes_max) return Error{EFBIG, "fstat"};
  return Map(std::move(fd), bytes);
}

Result<Mapping> MapSealed(int fd, std::uint64_t bytes) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals == -1) return Error::FromErrno("fcntl");
  struct stat status = {};
  if (::fstat(fd, &status) == -1) return Error::FromErrno("fstat");
  const bool is_exact = static_cast<std::uint64_t>(status.st_size) == bytes;
  if ((seals & kFixedSize) != kFixedSize || !is_exact) return Error{EINVAL, "fcntl"};
  return MapFile(fd, bytes);
}

Result<Done> ReadWhole(int fd, std::span<std::uint8_t> target) {
  std::size_t at = 0;
  while (at < target.size()) {
    const ssize_t taken = RetryOnInterrupt([&] {
      return ::pread(fd, target.data() + at, target.size() - at, static_cast<off_t>(at));
    });
    if (taken == -1) return Error::FromErrno("pread");
    if (taken == 0) return Error{EINVAL, "pread"};
    at += static_cast<std::size_t>(taken);
  }
  return Done{};
}

Result<UniqueFd> OpenNamed(const std::string& path, const std::string& directory,
                           std::uint32_t uid) {
  const std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.empty() || name == "." || name == ".." || path != directory + '/' + name) {
    return Error{EACCES, "open"};
  }
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.is_open()) return Error::FromErrno("open");
  struct stat status = {};
  if (::fstat(fd.get(), &status) == -1) return Error::FromErrno("fstat");
  if (!S_ISREG(status.st_mode) || status.st_uid != uid || status.st_nlink != 1) {
    return Error{EACCES, "fstat"};
  }
  return fd;
}

void RemoveNamed(const std::string& path, int fd) noexcept {
  struct stat named = {};
  struct stat ours = {};
  if (::lstat(path.c_str(), &named) == -1 || ::fstat(fd, &ours) == -1) return;
  if (named.st_dev == ours.st_dev && named.st_ino == ours.st_ino) ::unlink(path.c_str());
}

}  // namespace sidecall
#endif
