// SPDX-License-Identifier: MIT
#include "shmipc/session.h"

#if SIDECALL_HAS_SHMIPC
#include <utility>

namespace sidecall::shmipc {
namespace {

constexpr const char* kShortened = "memory that was shortened";
constexpr const char* kBrokenQueue = "a queue whose counters are impossible";
constexpr const char* kBrokenList = "a list of free slices that leads outside itself";
constexpr const char* kNoRoom = "a message for which this process has no memory";
constexpr const char* kBrokenMessage = "a message whose slices do not exist";

}  // namespace

Session::Session(Files files, BufferPool pool, Side side, std::uint32_t capacity) noexcept
    : files_(std::move(files)),
      pool_(std::move(pool)),
      send_(files_.queues.memory.data() + (side == Side::kClient ? 0 : HalfBytes(capacity)),
            capacity),
      receive_(files_.queues.memory.data() + (side == Side::kClient ? HalfBytes(capacity) : 0),
               capacity) {}

std::unique_ptr<Session> Session::Create(Files files, std::uint32_t queue_capacity) {
  InitializeHalf(files.queues.memory.data(), queue_capacity);
  InitializeHalf(files.queues.memory.data() + HalfBytes(queue_capacity), queue_capacity);
  BufferPool pool = BufferPool::Create(files.buffers.bytes());
  return std::unique_ptr<Session>(
      new Session(std::move(files), std::move(pool), Side::kClient, queue_capacity));
}

std::unique_ptr<Session> Session::Open(Files files, const char*& fault) {
  const std::size_t bytes = files.queues.memory.size();
  const std::byte* const queues = files.queues.memory.data();
  const std::uint32_t capacity = bytes < 2 * kQueueHeaderBytes ? 0 : CapacityOf(queues);
  const bool is_capacity = capacity != 0 && capacity <= kQueueCapacityMax;
  if (!is_capacity || bytes != 2 * HalfBytes(capacity) ||
      CapacityOf(queues + HalfBytes(capacity)) != capacity) {
    fault = "a queue file whose size is not that of its queues";
    return nullptr;
  }
  auto pool = BufferPool::Read(files.buffers.bytes(), fault);
  if (!pool.has_value()) return nullptr;
  return std::unique_ptr<Session>(
      new Session(std::move(files), std::move(*pool), Side::kServer, capacity));
}

bool Session::IsWhole() noexcept { return files_.queues.IsWhole() && files_.buffers.IsWhole(); }

Session::Sent Session::Put(const Element& element) noexcept {
  return send_.Push(element) == SendQueue::Put::kDoneAndWake ? Sent::kDoneAndWake : Sent::kDone;
}

Session::Sent Session::Send(std::uint32_t stream, std::span<const std::uint8_t> message) {
  if (!IsWhole()) return Corrupt(Sent::kCorrupt, kShortened);
  switch (send_.HasRoom()) {
    case SendQueue::Room::kCorrupt: return Corrupt(Sent::kCorrupt, kBrokenQueue);
    case SendQueue::Room::kNone: return Sent::kFull;
    case SendQueue::Room::kSome: break;
  }
  std::uint32_t first = 0;
  switch (pool_.Fill(message, first)) {
    case BufferPool::Filled::kCorrupt: return Corrupt(Sent::kCorrupt, kBrokenList);
    case BufferPool::Filled::kNoMemory: return Sent::kNoMemory;
    case BufferPool::Filled::kDone: break;
  }
  return Put({.stream = stream, .offset = first, .status = kData});
}

Session::Sent Session::SendClose(std::uint32_t stream) {
  if (!IsWhole()) return Corrupt(Sent::kCorrupt, kShortened);
  switch (send_.HasRoom()) {
    case SendQueue::Room::kCorrupt: return Corrupt(Sent::kCorrupt, kBrokenQueue);
    case SendQueue::Room::kNone: return Sent::kFull;
    case SendQueue::Room::kSome: break;
  }
  return Put({.stream = stream, .offset = 0, .status = kClosed});
}

bool Session::Look(Progress& progress) noexcept {
  if (!IsWhole()) return Corrupt(false, kShortened);
  progress = {.consumed = send_.consumed(),
              .is_consumed = send_.IsConsumed(),
              .free_bytes = pool_.FreeBytes()};
  return true;
}

Session::Next Session::Receive(std::size_t bytes_max, Received& received) {
  pieces_.clear();
  if (!IsWhole()) return Corrupt(Next::kCorrupt, kShortened);
  if (!has_more_) {
    for (;;) {
      const auto popped = receive_.Pop(element_);
      if (popped == ReceiveQueue::Popped::kElement) break;
      if (popped == ReceiveQueue::Popped::kCorrupt) return Corrupt(Next::kCorrupt, kBrokenQueue);
      if (receive_.Rest()) return Next::kNone;
    }
    read_slices_ = 0;
    cursor_ = {.slice = element_.offset, .skip = 0};
  }
  received = {.stream = element_.stream, .status = element_.status, .bytes = 0, .pieces = 0};
  if (element_.status == kClosed) return Next::kStreamClosed;
  if (!pool_.Follow(cursor_, has_more_, bytes_max, pieces_)) {
    return Corrupt(Next::kCorrupt, kBrokenMessage);
  }
  for (const Piece& piece : pieces_) {
    received.bytes += piece.bytes;
    read_slices_ += piece.is_last ? 1 : 0;
  }
  received.pieces = pieces_.size();
  // A message that leads through one slice twice would have no end.
  if (read_slices_ > pool_.slices()) return Corrupt(Next::kCorrupt, kBrokenMessage);
  return Next::kPart;
}

bool Session::CountPut(std::int64_t& put) noexcept {
  if (!IsWhole()) return Corrupt(false, kShortened);
  return receive_.CountPut(put) || Corrupt(false, kBrokenQueue);
}

bool Session::Take(std::span<std::uint8_t> target) {
  for (const Piece& piece : pieces_) {
    if (target.size() < piece.bytes) return Corrupt(false, kNoRoom);
    pool_.Copy(piece, target.data());
    target = target.subspan(piece.bytes);
    if (piece.is_last && !pool_.Return(piece.slice)) return Corrupt(false, kBrokenList);
  }
  return true;
}

}  // namespace sidecall::shmipc
#endif
