// SPDX-License-Identifier: MIT
#include "os/descriptor.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "os/retry.h"

namespace sidecall {
namespace {

DescriptorType TypeOf(mode_t mode) noexcept {
  if (S_ISSOCK(mode)) return DescriptorType::kSocket;
  if (S_ISREG(mode)) return DescriptorType::kRegularFile;
  if (S_ISFIFO(mode)) return DescriptorType::kPipe;
  if (S_ISDIR(mode)) return DescriptorType::kDirectory;
  return DescriptorType::kOther;
}

Result<int> IntOption(int fd, int option) noexcept {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) == -1) {
    return Error::FromErrno("getsockopt");
  }
  return value;
}

}  // namespace

Result<DescriptorKind> DescribeDescriptor(int fd) noexcept {
  struct stat status = {};
  if (RetryOnInterrupt([&] { return ::fstat(fd, &status); }) == -1)
    return Error::FromErrno("fstat");
  DescriptorKind kind{.type = TypeOf(status.st_mode)};
  if (kind.type != DescriptorType::kSocket) return kind;

  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == -1) {
    return Error::FromErrno("getsockname");
  }
  const Result<int> type = IntOption(fd, SO_TYPE);
  if (!type.ok()) return type.error();
  kind.is_unix_stream = address.ss_family == AF_UNIX && type.value() == SOCK_STREAM;
  const Result<int> listening = IntOption(fd, SO_ACCEPTCONN);
  // macOS knows no SO_ACCEPTCONN on Unix sockets in every release: there "no" is the honest guess,
  // because a listening socket then fails at the first send.
  kind.is_listening = listening.ok() && listening.value() != 0;
  return kind;
}

Result<UniqueFd> DuplicateDescriptor(int fd) noexcept {
  UniqueFd copy(RetryOnInterrupt([&] { return ::fcntl(fd, F_DUPFD_CLOEXEC, 0); }));
  if (!copy.is_open()) return Error::FromErrno("fcntl");
  return copy;
}

Result<Done> SetCloseOnExec(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFD);
  if (flags == -1) return Error::FromErrno("fcntl");
  if (::fcntl(fd, F_SETFD, flags | FD_CLOEXEC) == -1) return Error::FromErrno("fcntl");
  return Done{};
}

}  // namespace sidecall
