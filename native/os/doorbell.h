// SPDX-License-Identifier: MIT
// One byte to a sleeper, over the connection's own socket.
#pragma once

namespace sidecall {

// False: the kernel had no memory for it, so the byte is owed. A full queue counts as rung: the
// bytes that fill it are unread, and wake the sleeper, too. A peer that is gone counts as rung as
// well: its end of the socket tells.
[[nodiscard]] bool RingDoorbell(int fd) noexcept;

}  // namespace sidecall
