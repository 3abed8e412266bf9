// SPDX-License-Identifier: MIT
#include "os/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <vector>

#include "os/descriptor.h"
#include "os/retry.h"

namespace sidecall {
namespace {

Result<Done> SetNonBlocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags == -1) return Error::FromErrno("fcntl");
  if (::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == -1) return Error::FromErrno("fcntl");
  return Done{};
}

#if defined(__APPLE__)
// macOS has neither SOCK_CLOEXEC nor MSG_NOSIGNAL: both are set right after the socket exists.
Result<Done> Harden(int fd) noexcept {
  const Result<Done> closes = SetCloseOnExec(fd);
  if (!closes.ok()) return closes;
  const int yes = 1;
  if (::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes) == -1) {
    return Error::FromErrno("setsockopt");
  }
  return Done{};
}
constexpr int kSocketType = SOCK_STREAM;
constexpr int kDatagramType = SOCK_DGRAM;
constexpr int kSendFlags = MSG_DONTWAIT;
constexpr int kReceiveFlags = MSG_DONTWAIT;
#else
Result<Done> Harden(int) noexcept { return Done{}; }
constexpr int kSocketType = SOCK_STREAM | SOCK_CLOEXEC;
constexpr int kDatagramType = SOCK_DGRAM | SOCK_CLOEXEC;
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
constexpr int kReceiveFlags = MSG_DONTWAIT | MSG_CMSG_CLOEXEC;
#endif

Result<UniqueFd> OpenSocket() noexcept {
  UniqueFd fd(::socket(AF_UNIX, kSocketType, 0));
  if (!fd.is_open()) return Error::FromErrno("socket");
  if (const auto hard = Harden(fd.get()); !hard.ok()) return hard.error();
  if (const auto calm = SetNonBlocking(fd.get()); !calm.ok()) return calm.error();
  return fd;
}

Result<sockaddr_un> AddressOf(const std::string& path) noexcept {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() > SocketPathMaxBytes()) return Error{ENAMETOOLONG, "bind"};
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// musl's CMSG_NXTHDR compares numbers of different signs.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-compare"
void TakeControl(const msghdr& message, Received& received) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(const_cast<msghdr*>(&message), header)) {
#if defined(__linux__)
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
      ucred sender = {};
      std::memcpy(&sender, CMSG_DATA(header), sizeof sender);
      received.sender_pid = sender.pid;
      continue;
    }
#endif
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      received.has_other_control = true;
      continue;
    }
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t index = 0; index < count; ++index) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + index * sizeof(int), sizeof number);
      received.descriptors.emplace_back(number);
    }
  }
}
#pragma GCC diagnostic pop

Result<bool> LetDescriptorsPass([[maybe_unused]] int fd, [[maybe_unused]] int value) noexcept {
#if defined(__linux__)
  constexpr int kPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16; missing from older headers
  if (::setsockopt(fd, SOL_SOCKET, kPassRights, &value, sizeof value) == 0) return true;
  if (errno == ENOPROTOOPT) return false;
  return Error::FromErrno("setsockopt");
#else
  return false;
#endif
}

#if defined(__linux__)
constexpr std::size_t kSenderBytes = CMSG_SPACE(sizeof(ucred));
#else
constexpr std::size_t kSenderBytes = 0;
#endif

// Does each message of the socket come with the name of its sender?
bool IsAskedForSender([[maybe_unused]] int fd) noexcept {
#if defined(__linux__)
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, &size) == 0 && value != 0;
#else
  return false;
#endif
}

}  // namespace

std::size_t SocketPathMaxBytes() noexcept { return sizeof(sockaddr_un::sun_path) - 1; }

Result<SocketPair> MakeSocketPair() noexcept {
  std::array<int, 2> numbers = {-1, -1};
  if (::socketpair(AF_UNIX, kSocketType, 0, numbers.data()) == -1) {
    return Error::FromErrno("socketpair");
  }
  SocketPair pair{.near = UniqueFd(numbers[0]), .far = UniqueFd(numbers[1])};
  for (const int fd : numbers) {
    if (const auto hard = Harden(fd); !hard.ok()) return hard.error();
  }
  if (const auto calm = SetNonBlocking(pair.near.get()); !calm.ok()) return calm.error();
  return pair;
}

Result<UniqueFd> BindUnixSocket(const std::string& path) noexcept {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return address.error();
  Result<UniqueFd> socket = OpenSocket();
  if (!socket.ok()) return socket;
  UniqueFd& fd = socket.value();
#if defined(__linux__)
  // bind() gives the file the mode of the descriptor, less the umask: the file is private from the
  // start, and the umask of the process stays as it is.
  if (::fchmod(fd.get(), 0600) == -1) return Error::FromErrno("fchmod");
#endif
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address.value());
  if (::bind(fd.get(), raw, sizeof(sockaddr_un)) == -1) return Error::FromErrno("bind");
  return socket;
}

Result<Done> ListenOn(int fd, int backlog) noexcept {
  if (::listen(fd, backlog) == -1) return Error::FromErrno("listen");
  return Done{};
}

Result<std::optional<UniqueFd>> AcceptConnection(int listener) noexcept {
  // As a rule there is none, and poll() says so at a sixth of the cost of accept().
  pollfd waiting = {.fd = listener, .events = POLLIN, .revents = 0};
  if (listener >= 0 && ::poll(&waiting, 1, 0) == 0) return std::optional<UniqueFd>();
#if defined(__linux__)
  UniqueFd fd(RetryOnInterrupt(
      [&] { return ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK); }));
#else
  UniqueFd fd(RetryOnInterrupt([&] { return ::accept(listener, nullptr, nullptr); }));
#endif
  if (!fd.is_open()) {
    const bool is_none = errno == EAGAIN || errno == EWOULDBLOCK || errno == ECONNABORTED;
    if (is_none) return std::optional<UniqueFd>();
    return Error::FromErrno("accept");
  }
  if (const auto hard = Harden(fd.get()); !hard.ok()) return hard.error();
  if (const auto calm = SetNonBlocking(fd.get()); !calm.ok()) return calm.error();
  return std::optional(std::move(fd));
}

Result<bool> IsHeldBy(int number) noexcept {
  if (number == ECONNREFUSED) return false;
  // EPROTOTYPE: a stream socket is bound there. The probe is a datagram socket: macOS refuses a
  // stream where the backlog is full, a datagram only where there is no socket.
  if (number == EPROTOTYPE) return true;
  return Error{number, "connect"};
}

Result<bool> IsSocketHeld(const std::string& path) noexcept {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return Error{address.error().number, "connect"};
  const UniqueFd fd(::socket(AF_UNIX, kDatagramType, 0));
  if (!fd.is_open()) return Error::FromErrno("socket");
  if (const auto hard = Harden(fd.get()); !hard.ok()) return hard.error();
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address.value());
  if (RetryOnInterrupt([&] { return ::connect(fd.get(), raw, sizeof(sockaddr_un)); }) == 0) {
    return true;
  }
  return IsHeldBy(errno);
}

Result<std::optional<UniqueFd>> ConnectUnixSocket(const std::string& path) noexcept {
  const Result<sockaddr_un> address = AddressOf(path);
  if (!address.ok()) return Error{address.error().number, "connect"};
  Result<UniqueFd> socket = OpenSocket();
  if (!socket.ok()) return socket.error();
  const auto* const raw = reinterpret_cast<const sockaddr*>(&address.value());
  const int fd = socket.value().get();
  // Descriptors are refused before the peer can send one, since closing the last reference to
  // a foreign file can block.
  if (const auto refused = RefuseDescriptors(fd); !refused.ok()) return refused.error();
  if (RetryOnInterrupt([&] { return ::connect(fd, raw, sizeof(sockaddr_un)); }) == 0) {
    return std::optional(std::move(socket.value()));
  }
  // Linux never leaves a Unix connect in progress: it is done, or the backlog is full.
  if (errno == EAGAIN) return std::optional<UniqueFd>();
  return Error::FromErrno("connect");
}

Result<std::optional<std::size_t>> SendBytes(int fd, std::span<const std::uint8_t> bytes,
                                             int descriptor) noexcept {
  iovec piece = {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  const ssize_t sent = RetryOnInterrupt([&] { return ::sendmsg(fd, &message, kSendFlags); });
  if (sent >= 0) return std::optional(static_cast<std::size_t>(sent));
  if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<std::size_t>();
  return Error::FromErrno("sendmsg");
}

Result<std::optional<Received>> ReceiveBytes(int fd, std::span<std::uint8_t> target,
                                             bool take_descriptors) {
  iovec piece = {target.data(), target.size()};
  // The buffer holds all descriptors that one message can carry. The kernel would close the rest on
  // this thread, and the last close of a foreign file can block.
  constexpr std::size_t kDescriptorsMax = 253;  // SCM_MAX_FD
  constexpr std::size_t kDescriptorsBytes = CMSG_SPACE(kDescriptorsMax * sizeof(int));
  // The kernel writes the name of the sender first, where it was asked for.
  alignas(cmsghdr) std::array<std::byte, kSenderBytes + kDescriptorsBytes> control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  // A name that has no room would look like a descriptor that the kernel dropped.
  const bool takes_control = take_descriptors || IsAskedForSender(fd);
  if (takes_control) {
    message.msg_control = control.data();
    message.msg_controllen = take_descriptors ? control.size() : kSenderBytes;
  }
  const ssize_t got = RetryOnInterrupt([&] { return ::recvmsg(fd, &message, kReceiveFlags); });
  if (got == -1) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::optional<Received>();
    return Error::FromErrno("recvmsg");
  }
  Received received;
  received.bytes = static_cast<std::size_t>(got);
  if (takes_control) TakeControl(message, received);
  received.is_truncated = (message.msg_flags & MSG_CTRUNC) != 0;
#if defined(__APPLE__)
  // No MSG_CMSG_CLOEXEC: only a spawn in another thread at this instant could inherit them.
  for (const UniqueFd& descriptor : received.descriptors) {
    if (const auto closes = SetCloseOnExec(descriptor.get()); !closes.ok()) return closes.error();
  }
#endif
  return std::optional(std::move(received));
}

bool IsListening(int fd) noexcept {
  // A descriptor that is no socket answers ENOTSOCK, without a word to what is behind it.
  const auto is = [fd](int option, int wanted) {
    int value = 0;
    socklen_t size = sizeof value;
    return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == wanted;
  };
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  return is(SO_TYPE, SOCK_STREAM) && is(SO_ACCEPTCONN, 1) &&
         ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
         address.ss_family == AF_UNIX;
}

Result<Done> MarkReadable(std::span<std::int32_t> descriptors, bool may_yield) {
  std::vector<pollfd> polls(descriptors.size());
  for (std::size_t index = 0; index < polls.size(); ++index) {
    polls[index] = {.fd = descriptors[index], .events = POLLIN, .revents = 0};
  }
  const auto count = static_cast<nfds_t>(polls.size());
  const int ready = RetryOnInterrupt([&] { return ::poll(polls.data(), count, 0); });
  if (ready == -1) return Error::FromErrno("poll");
  if (ready == 0 && may_yield) ::sched_yield();
  for (std::size_t index = 0; index < polls.size(); ++index) {
    descriptors[index] = polls[index].revents != 0 ? 1 : 0;
  }
  return Done{};
}

Result<std::size_t> QueuedBytes(int fd) noexcept {
  int queued = 0;
  if (::ioctl(fd, FIONREAD, &queued) != 0) return Error::FromErrno("ioctl");
  return static_cast<std::size_t>(queued);
}

Result<bool> IsPeerClosed(int fd) noexcept {
  char first = 0;
  const ssize_t got =
      RetryOnInterrupt([&] { return ::recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT); });
  if (got >= 0) return got == 0;
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (errno == ECONNRESET) return true;
  return Error::FromErrno("recv");
}

bool AskForSender([[maybe_unused]] int fd, [[maybe_unused]] bool is_wanted) noexcept {
#if defined(__linux__)
  const int value = is_wanted ? 1 : 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &value, sizeof value) == 0;
#else
  return false;
#endif
}

Result<bool> RefuseDescriptors(int fd) noexcept { return LetDescriptorsPass(fd, 0); }

Result<bool> AdmitDescriptors(int fd) noexcept { return LetDescriptorsPass(fd, 1); }

Result<SocketBuffers> ReadSocketBuffers(int fd) noexcept {
  SocketBuffers buffers;
  for (const auto& [option, target] :
       {std::pair{SO_SNDBUF, &buffers.send}, std::pair{SO_RCVBUF, &buffers.receive}}) {
    int value = 0;
    socklen_t size = sizeof value;
    if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) == -1) {
      return Error::FromErrno("getsockopt");
    }
    *target = static_cast<std::uint32_t>(value);
  }
  return buffers;
}

Result<Done> SetSocketBuffers(int fd, std::uint32_t bytes) noexcept {
  const auto value = static_cast<int>(bytes);
  for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
    if (::setsockopt(fd, SOL_SOCKET, option, &value, sizeof value) == -1) {
      return Error::FromErrno("setsockopt");
    }
  }
  return Done{};
}

}  // namespace sidecall
