// SPDX-License-Identifier: MIT
// Memory that this process and a trusted peer both write. A peer that shortens such a file ends
// each process that touches the lost part by SIGBUS; IsWhole() finds a file that was shortened
// before.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "os/shared_memory.h"

#if defined(__linux__)
namespace sidecall {

struct MemoryFile {
  UniqueFd fd;
  Mapping memory;

  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {memory.data(), memory.size()};
  }
  // Makes sure that each page exists, so that a full file system is an error here and no fault
  // later. NOTE: may take long.
  Result<Done> Allocate() noexcept;
  // False: the file has fewer pages than the mapping. Waits for no lock where the system has
  // FIOQSIZE.
  [[nodiscard]] bool IsWhole() const noexcept;
};

// A new file in memory, filled with zeros; its size is fixed by seals.
Result<MemoryFile> CreateMemory(const char* name, std::uint64_t bytes);

// Maps a peer's file whole; its pages may not exist yet. EFBIG: it is larger than `bytes_max`.
// NOTE: may take long.
Result<MemoryFile> MapMemory(UniqueFd fd, std::uint64_t bytes_max);

// Maps memory of exactly `bytes` that CreateMemory() of our parent process has made; the descriptor
// stays open. EINVAL: it is another file, or its size is not fixed.
Result<Mapping> MapSealed(int fd, std::uint64_t bytes);

// Copies the begin of a file that fills `target`. EINVAL: it is shorter.
Result<Done> ReadWhole(int fd, std::span<std::uint8_t> target);

// A file that a peer names. Only what a Go program has made for its peers is opened: an ordinary
// file of the user `uid`, without other links, directly in `directory`. EACCES: it is none.
Result<UniqueFd> OpenNamed(const std::string& path, const std::string& directory,
                           std::uint32_t uid);

// Removes a file of OpenNamed(), unless its name belongs to another file now.
void RemoveNamed(const std::string& path, int fd) noexcept;

}  // namespace sidecall
#endif
