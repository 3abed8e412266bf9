// SPDX-License-Identifier: MIT
#include "os/exact_socket.h"

#if defined(__linux__)
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "os/retry.h"
#include "os/unix_socket.h"

namespace sidecall {

ExactSocket::Outcome ExactSocket::Failed(int number) noexcept {
  number_ = number;
  return number == ECONNRESET || number == EPIPE ? Outcome::kGone : Outcome::kSystem;
}

ExactSocket::Outcome ExactSocket::Wait(short events) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline_ - std::chrono::steady_clock::now());
  if (left.count() <= 0) return Outcome::kTimeout;
  pollfd one = {fd_, events, 0};
  const int ready = ::poll(&one, 1, static_cast<int>(left.count()) + 1);
  if (ready == -1 && errno != EINTR) return Failed(errno);
  return Outcome::kDone;
}

ExactSocket::Outcome ExactSocket::Read(std::span<std::uint8_t> target) {
  while (!target.empty()) {
    const auto got =
        RetryOnInterrupt([&] { return ::recv(fd_, target.data(), target.size(), MSG_DONTWAIT); });
    if (got == 0) return Outcome::kGone;
    if (got > 0) {
      target = target.subspan(static_cast<std::size_t>(got));
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Failed(errno);
    const Outcome waited = Wait(POLLIN);
    if (waited != Outcome::kDone) return waited;
  }
  return Outcome::kDone;
}

ExactSocket::Outcome ExactSocket::ReadDescriptors(std::vector<UniqueFd>& descriptors) {
  for (;;) {
    std::uint8_t byte = 0;
    auto received = ReceiveBytes(fd_, std::span(&byte, 1), true);
    if (!received.ok()) return Failed(received.error().number);
    if (!received.value().has_value()) {
      const Outcome waited = Wait(POLLIN);
      if (waited != Outcome::kDone) return waited;
      continue;
    }
    if (received.value()->bytes == 0) return Outcome::kGone;
    descriptors = std::move(received.value()->descriptors);
    return Outcome::kDone;
  }
}

ExactSocket::Outcome ExactSocket::Write(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const auto sent = SendBytes(fd_, bytes, -1);
    if (!sent.ok()) return Failed(sent.error().number);
    if (sent.value().has_value()) {
      bytes = bytes.subspan(*sent.value());
      continue;
    }
    const Outcome waited = Wait(POLLOUT);
    if (waited != Outcome::kDone) return waited;
  }
  return Outcome::kDone;
}

ExactSocket::Outcome ExactSocket::WriteDescriptors(int first, int second) {
  const int descriptors[2] = {first, second};
  std::uint8_t byte = 0;
  iovec part = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors, sizeof descriptors);
  for (;;) {
    const auto sent =
        RetryOnInterrupt([&] { return ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL); });
    if (sent == 1) return Outcome::kDone;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return Failed(errno);
    const Outcome waited = Wait(POLLOUT);
    if (waited != Outcome::kDone) return waited;
  }
}

}  // namespace sidecall
#endif
