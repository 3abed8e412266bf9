// SPDX-License-Identifier: MIT
// The doorbell: one byte over the socket of a connection, which wakes a peer that sleeps.
#pragma once

namespace sidecall {

// False: the kernel had no memory for the byte, so it is owed. A full queue counts as rung,
// since its unread bytes wake the peer, too. A peer that is gone counts as rung, since the end
// of the socket reports that.
[[nodiscard]] bool RingDoorbell(int fd) noexcept;

}  // namespace sidecall
