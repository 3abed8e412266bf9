// SPDX-License-Identifier: MIT
#include "os/doorbell.h"

#include <sys/socket.h>

#include "os/retry.h"
#include "ring/layout.h"

namespace sidecall {

bool RingDoorbell(int fd) noexcept {
#if defined(MSG_NOSIGNAL)
  constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
  constexpr int kFlags = MSG_DONTWAIT;  // macOS: SO_NOSIGPIPE is set on the socket
#endif
  const auto sent = RetryOnInterrupt([&] { return ::send(fd, &kDoorbell, 1, kFlags); });
  return sent == 1 || (errno != ENOBUFS && errno != ENOMEM);
}

}  // namespace sidecall
