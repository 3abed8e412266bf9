// SPDX-License-Identifier: MIT
// Socket calls that Node's `net` lacks: a pair, a socket that is never open to others while it is
// bound, the hello and its descriptor by non-blocking recvmsg.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace sidecall {

// Bytes of a path that fit into a socket address, terminator not counted.
std::size_t SocketPathMaxBytes() noexcept;

struct SocketPair {
  UniqueFd near;  // does not block
  UniqueFd far;   // blocks: it is for a program that may not expect otherwise
};
Result<SocketPair> MakeSocketPair() noexcept;

// A socket that is bound and does not listen. On Linux only its owner can use the file,
// from the moment it exists.
Result<UniqueFd> BindUnixSocket(const std::string& path) noexcept;
Result<Done> ListenOn(int fd, int backlog) noexcept;
// Accepts on a listener that does not block. No value: no connection waits.
Result<std::optional<UniqueFd>> AcceptConnection(int listener) noexcept;

// False: no process holds the socket at the path any more. A listener with a full backlog counts as
// held, and so does a socket that does not listen yet. The probe does not disturb a listener.
Result<bool> IsSocketHeld(const std::string& path) noexcept;
// The same from the errno with which a datagram socket could not connect there.
Result<bool> IsHeldBy(int number) noexcept;

// No value: the listener's backlog is full, try again. No descriptor can be sent to the socket.
Result<std::optional<UniqueFd>> ConnectUnixSocket(const std::string& path) noexcept;

// Bytes taken by the kernel; no value: it has no room now. `descriptor` (or -1)
// goes with the first byte.
Result<std::optional<std::size_t>> SendBytes(int fd, std::span<const std::uint8_t> bytes,
                                             int descriptor) noexcept;

struct Received {
  std::size_t bytes = 0;  // 0: the peer ended
  std::vector<UniqueFd> descriptors;
  bool is_truncated = false;  // the kernel dropped control data: our limit, or no room was given
  bool has_other_control = false;
  int sender_pid = 0;  // the process that sent these bytes, where AskForSender() was called
};

// Has the kernel name the process that sends, with each message that it sends from now on. False:
// it does not.
bool AskForSender(int fd, bool is_wanted) noexcept;

// No value: no bytes yet. Every descriptor that arrived is owned by the result.
// `take_descriptors` false: no control buffer is offered, so the kernel drops them.
Result<std::optional<Received>> ReceiveBytes(int fd, std::span<std::uint8_t> target,
                                             bool take_descriptors);

// True: a Unix stream socket that listens. Asks the kernel alone, never the daemon of a file.
bool IsListening(int fd) noexcept;

// Replaces each descriptor by 1 where a receive would not wait (bytes, an end or an error), else by
// 0. Does not wait itself. `may_yield`: where none is readable, gives the processor to a process
// that waits for it, such as the peer.
Result<Done> MarkReadable(std::span<std::int32_t> descriptors, bool may_yield);

// Bytes that the kernel holds for us at this moment.
Result<std::size_t> QueuedBytes(int fd) noexcept;

// True: the peer has closed its end, and the kernel holds no byte of it for us.
Result<bool> IsPeerClosed(int fd) noexcept;

// RefuseDescriptors(): a peer that sends descriptors gets EPERM from now on.
// AdmitDescriptors(): no longer. False: the kernel has no such option (before Linux 6.16), and
// descriptors can always arrive.
Result<bool> RefuseDescriptors(int fd) noexcept;
Result<bool> AdmitDescriptors(int fd) noexcept;

// The buffers of a socket as the kernel counts them: on Linux twice what was asked for, and no more
// than its limits (net.core.wmem_max, rmem_max) allow.
struct SocketBuffers {
  std::uint32_t send = 0;
  std::uint32_t receive = 0;
};
Result<SocketBuffers> ReadSocketBuffers(int fd) noexcept;
// Asks for `bytes` in both directions.
Result<Done> SetSocketBuffers(int fd, std::uint32_t bytes) noexcept;

}  // namespace sidecall
