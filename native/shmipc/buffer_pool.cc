// SPDX-License-Identifier: MIT
#include "shmipc/buffer_pool.h"

#if SIDECALL_HAS_SHMIPC
#include <algorithm>
#include <array>
#include <cstring>

#include "ring/shared_words.h"

namespace sidecall::shmipc {
namespace {

// Of the file.
constexpr std::uint32_t kFileHeaderBytes = 8;
constexpr std::uint32_t kUsedAt = 4;
constexpr std::uint32_t kListsMax = 64;

// Of a list.
constexpr std::uint32_t kListHeaderBytes = 36;
constexpr std::uint32_t kListFreeAt = 0;
constexpr std::uint32_t kListCountAt = 4;
constexpr std::uint32_t kListHeadAt = 8;   // the first free slice, from the region on
constexpr std::uint32_t kListTailAt = 12;  // the last one
constexpr std::uint32_t kListCapacityAt = 16;
constexpr std::uint32_t kListCreatorCountAt = 20;
constexpr std::uint32_t kListMapperCountAt = 24;

// Of a slice.
constexpr std::uint32_t kSliceHeaderBytes = 20;
constexpr std::uint32_t kSliceCapacityAt = 0;
constexpr std::uint32_t kSliceSizeAt = 4;
constexpr std::uint32_t kSliceStartAt = 8;
constexpr std::uint32_t kSliceNextAt = 12;
constexpr std::uint32_t kSliceFlagsAt = 16;
constexpr std::uint8_t kHasNext = 1;
constexpr std::uint8_t kInUse = 2;

// shmipc-go's own bound: a list that others change all the time counts as empty.
constexpr int kTakeTriesMax = 200;

struct Share {
  std::uint32_t capacity;
  std::uint32_t percent;
};
// The defaults of shmipc-go v0.2 (config.go).
constexpr std::array<Share, 3> kShares = {{{8172, 50}, {32748, 30}, {131052, 20}}};

void SetFlags(std::byte* slice, std::uint8_t flags) noexcept {
  Store8(slice + kSliceFlagsAt, flags);
}

}  // namespace

BufferPool BufferPool::Create(std::span<std::byte> file) {
  BufferPool pool(file, Side::kCreator);
  const auto bytes = static_cast<std::uint64_t>(file.size());
  const std::uint64_t room = bytes - kFileHeaderBytes - kShares.size() * kListHeaderBytes;
  std::uint32_t at = kFileHeaderBytes;
  for (const Share& share : kShares) {
    const std::uint32_t stride = share.capacity + kSliceHeaderBytes;
    const auto count = static_cast<std::uint32_t>(room * share.percent / 100 / stride);
    const List list = {.at = at,
                       .region = at + kListHeaderBytes,
                       .count = count,
                       .capacity = share.capacity,
                       .stride = stride};
    std::byte* const header = pool.At(at);
    Store32(header + kListFreeAt, count);
    Store32(header + kListCountAt, count);
    Store32(header + kListTailAt, (count - 1) * stride);
    Store32(header + kListCapacityAt, share.capacity);
    for (std::uint32_t index = 0; index < count; index += 1) {
      std::byte* const slice = pool.At(list.region + index * stride);
      Store32(slice + kSliceCapacityAt, share.capacity);
      if (index + 1 == count) break;
      Store32(slice + kSliceNextAt, (index + 1) * stride);
      SetFlags(slice, kHasNext);
    }
    pool.Add(list);
    at += kListHeaderBytes + count * stride;
  }
  const auto lists = static_cast<std::uint16_t>(kShares.size());
  std::memcpy(pool.At(0), &lists, sizeof lists);
  Store32(pool.At(kUsedAt), at - kFileHeaderBytes);
  return pool;
}

std::optional<BufferPool> BufferPool::Read(std::span<std::byte> file, const char*& fault) {
  const auto bytes = static_cast<std::uint64_t>(file.size());
  if (bytes < kFileHeaderBytes || bytes > kPoolMaxBytes) {
    fault = "a buffer file of an impossible size";
    return std::nullopt;
  }
  BufferPool pool(file, Side::kMapper);
  std::uint16_t lists = 0;
  CopyPayload(&lists, pool.At(0), sizeof lists);
  if (lists == 0 || lists > kListsMax) {
    fault = "a buffer file without lists, or with more than 64";
    return std::nullopt;
  }
  std::uint64_t at = kFileHeaderBytes;
  std::uint32_t above = 0;
  for (int index = 0; index < lists; index += 1) {
    if (at + kListHeaderBytes > bytes) {
      fault = "a buffer file that ends before its lists do";
      return std::nullopt;
    }
    const std::byte* const header = pool.At(static_cast<std::uint32_t>(at));
    const std::uint32_t count = Load32(header + kListCountAt);
    const std::uint32_t capacity = Load32(header + kListCapacityAt);
    if (count == 0 || capacity <= above || capacity % 4 != 0) {
      fault = "slices whose size is no multiple of 4, or not above that of the list before";
      return std::nullopt;
    }
    const std::uint64_t stride = std::uint64_t{capacity} + kSliceHeaderBytes;
    const std::uint64_t end = at + kListHeaderBytes + count * stride;
    if (end > bytes) {
      fault = "a buffer file that is shorter than its lists";
      return std::nullopt;
    }
    pool.Add({.at = static_cast<std::uint32_t>(at),
              .region = static_cast<std::uint32_t>(at) + kListHeaderBytes,
              .count = count,
              .capacity = capacity,
              .stride = static_cast<std::uint32_t>(stride)});
    above = capacity;
    at = end;
  }
  return pool;
}

void BufferPool::Add(const List& list) {
  lists_.push_back(list);
  slices_ += list.count;
  // The last slice of each list is never given out.
  capacity_ += std::uint64_t{list.count - 1} * list.capacity;
}

bool BufferPool::IsOnGrid(const List& list, std::uint32_t relative) noexcept {
  return relative % list.stride == 0 && relative / list.stride < list.count;
}

const BufferPool::List* BufferPool::ListOf(std::uint32_t slice) const noexcept {
  for (const List& list : lists_) {
    if (slice >= list.region && IsOnGrid(list, slice - list.region)) return &list;
  }
  return nullptr;
}

// The count of a process, which shmipc-go's own processes wait for at their end.
void BufferPool::Count(const List& list, std::int32_t by) const noexcept {
  const std::uint32_t where = side_ == Side::kCreator ? kListCreatorCountAt : kListMapperCountAt;
  Add32(At(list.at + where), static_cast<std::uint32_t>(by));
}

BufferPool::Taken BufferPool::Take(const List& list, std::uint32_t& slice) noexcept {
  std::byte* const header = At(list.at);
  // The last slice stays, so that the tail always is a slice of the list.
  if (static_cast<std::int32_t>(Add32(header + kListFreeAt, 0xffff'ffff)) <= 0) {
    Add32(header + kListFreeAt, 1);
    return Taken::kNone;
  }
  for (int tries = 0; tries < kTakeTriesMax; tries += 1) {
    const std::uint32_t head = Load32(header + kListHeadAt);
    if (!IsOnGrid(list, head)) return Taken::kCorrupt;
    std::byte* const at = At(list.region + head);
    if ((Load8(at + kSliceFlagsAt) & kHasNext) != 0) {
      const std::uint32_t next = Load32(at + kSliceNextAt);
      // Another process may have taken the slice meanwhile, and `next` be anything: the exchange
      // fails then.
      if (Load32(header + kListHeadAt) != head) continue;
      if (!IsOnGrid(list, next)) return Taken::kCorrupt;
      if (CompareExchange32(header + kListHeadAt, head, next)) {
        if (Load32(at + kSliceCapacityAt) != list.capacity) return Taken::kCorrupt;
        Store32(at + kSliceSizeAt, 0);
        Store32(at + kSliceStartAt, 0);
        SetFlags(at, kInUse);
        Count(list, 1);
        slice = list.region + head;
        return Taken::kSlice;
      }
    } else if (static_cast<std::int32_t>(Load32(header + kListFreeAt)) <= 1) {
      break;
    }
    Relax();
  }
  Add32(header + kListFreeAt, 1);
  return Taken::kNone;
}

bool BufferPool::Return(std::uint32_t slice) noexcept {
  const List* const list = ListOf(slice);
  if (list == nullptr) return false;
  std::byte* const at = At(slice);
  Store32(at + kSliceSizeAt, 0);
  Store32(at + kSliceStartAt, 0);
  SetFlags(at, 0);
  std::byte* const header = At(list->at);
  const std::uint32_t own = slice - list->region;
  const std::uint32_t before = Exchange32(header + kListTailAt, own);
  if (!IsOnGrid(*list, before)) return false;
  std::byte* const last = At(list->region + before);
  Store32(last + kSliceNextAt, own);
  __atomic_or_fetch(reinterpret_cast<std::uint8_t*>(last + kSliceFlagsAt), kHasNext,
                    __ATOMIC_SEQ_CST);
  Add32(header + kListFreeAt, 1);
  Count(*list, -1);
  return true;
}

// Takes slices for a message: one that is large enough, else several, the largest first.
BufferPool::Filled BufferPool::TakeFor(std::size_t bytes) {
  std::uint32_t slice = 0;
  for (const List& list : lists_) {
    if (list.capacity < bytes) continue;
    const Taken taken = Take(list, slice);
    if (taken == Taken::kCorrupt) return Filled::kCorrupt;
    if (taken == Taken::kNone) continue;
    taken_.push_back(slice);
    return Filled::kDone;
  }
  std::uint64_t room = 0;
  for (auto list = lists_.rbegin(); list != lists_.rend();) {
    const Taken taken = Take(*list, slice);
    if (taken == Taken::kCorrupt) return Filled::kCorrupt;
    if (taken == Taken::kNone) {
      ++list;
      continue;
    }
    taken_.push_back(slice);
    room += list->capacity;
    if (room >= bytes) return Filled::kDone;
  }
  return Filled::kNoMemory;
}

BufferPool::Filled BufferPool::Fill(std::span<const std::uint8_t> message, std::uint32_t& first) {
  taken_.clear();
  const Filled filled = TakeFor(message.size());
  if (filled == Filled::kCorrupt) return filled;
  if (filled == Filled::kNoMemory) {
    for (const std::uint32_t slice : taken_) {
      if (!Return(slice)) return Filled::kCorrupt;
    }
    return filled;
  }
  for (std::size_t index = 0; index < taken_.size(); index += 1) {
    std::byte* const at = At(taken_[index]);
    const auto bytes = std::min<std::size_t>(message.size(), ListOf(taken_[index])->capacity);
    CopyPayload(at + kSliceHeaderBytes, message.data(), bytes);
    message = message.subspan(bytes);
    Store32(at + kSliceSizeAt, static_cast<std::uint32_t>(bytes));
    if (index + 1 == taken_.size()) break;
    Store32(at + kSliceNextAt, taken_[index + 1]);
    SetFlags(at, kInUse | kHasNext);
  }
  first = taken_.front();
  return Filled::kDone;
}

bool BufferPool::Follow(Cursor& cursor, bool& has_more, std::size_t bytes_max,
                        std::vector<Piece>& pieces) const {
  do {
    const List* const list = ListOf(cursor.slice);
    if (list == nullptr) return false;
    const std::byte* const at = At(cursor.slice);
    const std::uint32_t size = Load32(at + kSliceSizeAt);
    const std::uint32_t start = Load32(at + kSliceStartAt);
    const bool is_inside = std::uint64_t{size} + start <= list->capacity && cursor.skip <= size;
    if (!is_inside || Load32(at + kSliceCapacityAt) != list->capacity) return false;
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>(size - cursor.skip, bytes_max));
    const bool is_last = bytes == size - cursor.skip;
    pieces.push_back({.slice = cursor.slice,
                      .start = cursor.slice + kSliceHeaderBytes + start + cursor.skip,
                      .bytes = bytes,
                      .is_last = is_last});
    bytes_max -= bytes;
    if (!is_last) {
      cursor.skip += bytes;
      has_more = true;
      return true;
    }
    has_more = (Load8(at + kSliceFlagsAt) & kHasNext) != 0;
    if (has_more) cursor = {.slice = Load32(at + kSliceNextAt), .skip = 0};
  } while (has_more && bytes_max > 0 && pieces.size() < kPiecesMax);
  return true;
}

void BufferPool::Copy(const Piece& piece, std::uint8_t* target) const noexcept {
  CopyPayload(target, At(piece.start), piece.bytes);
}

std::uint64_t BufferPool::FreeBytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const List& list : lists_) {
    const auto free = static_cast<std::int32_t>(Load32(At(list.at + kListFreeAt)));
    if (free > 1) bytes += std::uint64_t{static_cast<std::uint32_t>(free) - 1} * list.capacity;
  }
  return bytes;
}

}  // namespace sidecall::shmipc
#endif
