// SPDX-License-Identifier: MIT
// The memory of one session of shmipc-go, after its handshake: messages out, messages in. Each call
// copies: no slice is held from one call to the next.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shmipc/buffer_pool.h"
#include "os/writable_memory.h"
#include "shmipc/queue.h"

#if SIDECALL_HAS_SHMIPC
namespace sidecall::shmipc {

// The files of a session. `*_path` is empty for memory without a name.
struct Files {
  MemoryFile queues;
  MemoryFile buffers;
  std::string queue_path;
  std::string buffer_path;
};

enum class Side { kClient, kServer };

class Session {
 public:
  // Makes the queues in `files`, whose memory is zero, and the lists of buffers.
  [[nodiscard]] static std::unique_ptr<Session> Create(Files files, std::uint32_t queue_capacity);
  // Takes a client's memory. nullptr: `fault` says why not.
  [[nodiscard]] static std::unique_ptr<Session> Open(Files files, const char*& fault);

  // Makes the pages of the memory. NOTE: may take long.
  Result<Done> Allocate() noexcept {
    const auto queues = files_.queues.Allocate();
    return queues.ok() ? files_.buffers.Allocate() : queues;
  }

  enum class Sent { kDone, kDoneAndWake, kFull, kNoMemory, kCorrupt };
  // NOTE: the message is not empty. kDoneAndWake: an event must follow.
  [[nodiscard]] Sent Send(std::uint32_t stream, std::span<const std::uint8_t> message);
  [[nodiscard]] Sent SendClose(std::uint32_t stream);
  struct Progress {
    std::int64_t consumed = 0;  // elements that the peer has taken, as of the last send
    bool is_consumed = false;   // it has taken all
    std::uint64_t free_bytes = 0;
  };
  // False: the memory was shortened.
  [[nodiscard]] bool Look(Progress& progress) noexcept;

  enum class Next { kPart, kStreamClosed, kNone, kCorrupt };
  // A part of a message, or a stream's close.
  struct Received {
    std::uint32_t stream = 0;
    std::uint32_t status = 0;
    std::size_t bytes = 0;   // of a part; Take() has them
    std::size_t pieces = 0;  // of the part, which may be empty
  };
  // The next part has `bytes_max` bytes at most. kNone: nothing is left, and the peer wakes us.
  [[nodiscard]] Next Receive(std::size_t bytes_max, Received& received);
  // Elements that the peer has put, ever. False: the memory is corrupt.
  [[nodiscard]] bool CountPut(std::int64_t& put) noexcept;
  // Elements that were received whole, ever.
  [[nodiscard]] std::int64_t received() const noexcept {
    return receive_.taken() - (has_more_ ? 1 : 0);
  }
  // Copies the part of the last Receive() to `target`, which has its size, and returns its slices.
  // False: the memory is corrupt.
  [[nodiscard]] bool Take(std::span<std::uint8_t> target);

  // Bytes that all slices hold.
  [[nodiscard]] std::uint64_t capacity() const noexcept { return pool_.capacity(); }
  [[nodiscard]] const Files& files() const noexcept { return files_; }
  // Why the last call found the memory corrupt.
  [[nodiscard]] const char* fault() const noexcept { return fault_; }

 private:
  Session(Files files, BufferPool pool, Side side, std::uint32_t capacity) noexcept;
  [[nodiscard]] bool IsWhole() noexcept;
  [[nodiscard]] Sent Put(const Element& element) noexcept;
  template <typename T>
  [[nodiscard]] T Corrupt(T result, const char* fault) noexcept {
    fault_ = fault;
    return result;
  }

  Files files_;
  BufferPool pool_;
  SendQueue send_;
  ReceiveQueue receive_;
  const char* fault_ = "";
  // Of the message that is being received.
  Element element_;
  Cursor cursor_;
  bool has_more_ = false;
  std::uint64_t read_slices_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace sidecall::shmipc
#endif
