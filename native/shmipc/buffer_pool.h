// SPDX-License-Identifier: MIT
// The buffer file of shmipc-go: lists of slices of fixed sizes, from which both processes take, and
// to which the receiver of a message returns. The geometry is copied and checked once; each offset
// that is read later must lie on it, so that no access leaves the file.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "shmipc/words.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {

inline constexpr std::uint32_t kPoolMinBytes = 1U << 20;
inline constexpr std::uint64_t kPoolMaxBytes = 0xffff'f000;

// A part of a received message, in the buffer file.
struct Piece {
  std::uint32_t slice = 0;  // offset of its header
  std::uint32_t start = 0;  // offset of the bytes, in the file
  std::uint32_t bytes = 0;
  bool is_last = false;  // of its slice, which is returned then
};

// The place in a message up to which it was read.
struct Cursor {
  std::uint32_t slice = 0;
  std::uint32_t skip = 0;  // bytes of the slice that were read
};

class BufferPool {
 public:
  // The side counts what it takes in a word of its own.
  enum class Side { kCreator, kMapper };

  // Makes the lists in a file of zeros, with the sizes and shares that are shmipc-go's defaults.
  // NOTE: at least kPoolMinBytes.
  [[nodiscard]] static BufferPool Create(std::span<std::byte> file);
  // The pool of a peer's file. No value: `fault` says why.
  [[nodiscard]] static std::optional<BufferPool> Read(std::span<std::byte> file,
                                                      const char*& fault);

  enum class Filled { kDone, kNoMemory, kCorrupt };
  // Copies a message into slices; `first` is the offset of the first one. All or nothing is taken.
  [[nodiscard]] Filled Fill(std::span<const std::uint8_t> message, std::uint32_t& first);

  // Most pieces that one Follow() gives, since a slice may be empty.
  static constexpr std::size_t kPiecesMax = 1024;
  // Reads the chain from `cursor` on, and moves it behind the pieces, which have `bytes_max` bytes
  // at most. `has_more`: the message goes on there. False: it is corrupt.
  [[nodiscard]] bool Follow(Cursor& cursor, bool& has_more, std::size_t bytes_max,
                            std::vector<Piece>& pieces) const;
  void Copy(const Piece& piece, std::uint8_t* target) const noexcept;
  // False: the list is corrupt.
  [[nodiscard]] bool Return(std::uint32_t slice) noexcept;

  // Slices of all lists.
  [[nodiscard]] std::uint64_t slices() const noexcept { return slices_; }
  // Bytes that all slices hold.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  // Free bytes as the shared counts have them, which may be wrong for a moment.
  [[nodiscard]] std::uint64_t FreeBytes() const noexcept;

 private:
  struct List {
    std::uint32_t at = 0;        // offset of its header
    std::uint32_t region = 0;    // offset of its first slice
    std::uint32_t count = 0;     // slices
    std::uint32_t capacity = 0;  // bytes of a slice, without its header
    std::uint32_t stride = 0;
  };
  enum class Taken { kSlice, kNone, kCorrupt };

  BufferPool(std::span<std::byte> file, Side side) noexcept : file_(file), side_(side) {}
  void Add(const List& list);
  [[nodiscard]] std::byte* At(std::uint32_t offset) const noexcept { return file_.data() + offset; }
  [[nodiscard]] static bool IsOnGrid(const List& list, std::uint32_t relative) noexcept;
  [[nodiscard]] const List* ListOf(std::uint32_t slice) const noexcept;
  [[nodiscard]] Taken Take(const List& list, std::uint32_t& slice) noexcept;
  [[nodiscard]] Filled TakeFor(std::size_t bytes);
  void Count(const List& list, std::int32_t by) const noexcept;

  std::span<std::byte> file_;
  Side side_;
  std::vector<List> lists_;  // ascending by capacity
  std::uint64_t slices_ = 0;
  std::uint64_t capacity_ = 0;
  std::vector<std::uint32_t> taken_;  // slices of the message that is being filled
};

}  // namespace sidecall::shmipc
#endif
