// SPDX-License-Identifier: MIT
// Makes and seals an outbox; checks a peer's and maps it read-only. On
// Linux memory that could not be sealed is never offered, and memory
// that is not sealed never mapped; macOS has other means (below).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/memory_share.h"
#include "ring/layout.h"

namespace sidecall {

// The sole owner of one mapping. Not inherited by a
// forked child, and on Linux no part of a core dump.
class [[nodiscard]] Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { Reset(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] bool is_mapped() const noexcept { return data_ != nullptr; }
  void Reset() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// The shape of an outbox: the hello announces it, and the header of the outbox must repeat it.
struct OutboxShape {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t block_area_bytes = 0;
  std::uint8_t nonce[kNonceBytes] = {};

  // NOTE: both sizes were checked by IsCapacity() and IsBlockArea().
  [[nodiscard]] std::uint64_t total_bytes() const noexcept {
    return kControlPageBytes + capacity_bytes + block_area_bytes;
  }
};

// Our own memory for one connection.
struct Outbox {
  MemoryShare share;    // outlives the memory
  Mapping memory;       // writable; ours is the only such mapping there can ever be
  UniqueFd descriptor;  // to send; read-only in effect

  [[nodiscard]] Control& control() const noexcept {
    return *reinterpret_cast<Control*>(memory.data());
  }
  [[nodiscard]] std::byte* data() const noexcept { return memory.data() + kControlPageBytes; }
};

#if defined(__linux__)
// Allocated bytes of a file in memory, at any offset; -1: errno says why not. FIOQSIZE takes no
// lock; fstat() waits for a lock that writers of the file hold, and serves kernels without FIOQSIZE
// (gVisor, QEMU).
int AllocatedBytes(int fd, std::uint64_t& bytes) noexcept;
#endif

// The calls that can fail, so that a test can make each of them fail with each errno.
struct MemoryCalls {
  int (*create)(bool is_modern) = nullptr;  // `is_modern`: with what only newer kernels know
  int (*resize)(int fd, std::uint64_t bytes) = nullptr;
  int (*allocate)(int fd, std::uint64_t bytes, std::uint64_t step) = nullptr;
  void* (*map)(int fd, std::uint64_t bytes, bool is_writable) = nullptr;
  int (*seal)(int fd) = nullptr;
  int (*seals)(int fd) = nullptr;
  int (*allocated)(int fd, std::uint64_t& bytes) = nullptr;
  int (*present)(int fd, std::uint64_t bytes, std::uint64_t& pages) = nullptr;
  int (*populate)(void* data, std::uint64_t bytes) = nullptr;

  static MemoryCalls System() noexcept;
};

// ENOMEM and ENOSPC are errors here and no fault later.
Result<Outbox> CreateOutbox(const OutboxShape& shape, MemoryShare share,
                            const MemoryCalls& calls = MemoryCalls::System());

// Why a peer's descriptor was not mapped.
struct OutboxRefusal {
  bool is_violation = false;  // true: no correct peer sends it; false: a shortage here
  const char* what = "";      // a literal
  int number = 0;             // an errno, where the system said so
};

struct PeerOutbox {
  Mapping memory;  // read-only
  OutboxRefusal refusal;

  [[nodiscard]] bool ok() const noexcept { return memory.is_mapped(); }
  [[nodiscard]] const Control& control() const noexcept {
    return *reinterpret_cast<const Control*>(memory.data());
  }
  [[nodiscard]] const std::byte* data() const noexcept { return memory.data() + kControlPageBytes; }
};

// The part of a peer's outbox that is mapped.
enum class MappedPart { kRing, kRingAndBlocks };

// Checks an outbox of a peer and maps it. The seals are checked first: without them any other
// answer about a file may change, or wait for a daemon of the peer. Later checks take no lock that
// a thread of the peer could hold (Linux 5.14; before, one lock for one step), but may take long.
// NOTE: not on an event loop.
PeerOutbox AcceptOutbox(int fd, const OutboxShape& shape, MappedPart part,
                        const MemoryCalls& calls = MemoryCalls::System()) noexcept;

// An outbox of this process, mapped as its peer maps it, for a simulation whose two ends are in one
// process. Without the checks, since the memory is our own.
PeerOutbox MapOwnOutbox(const Outbox& own,
                        const MemoryCalls& calls = MemoryCalls::System()) noexcept;

}  // namespace sidecall
