// SPDX-License-Identifier: MIT
// libFuzzer over the buffers and the queue of shmipc-go: the input is a script of a peer's stores
// and of our operations. The memory is of the heap, so that a sanitizer sees its ends.
#include <cstdlib>
#include <vector>

#include "../small_pool.h"
#include "shmipc/buffer_pool.h"
#include "shmipc/queue.h"

namespace {

using namespace sidecall;

class Script {
 public:
  Script(const std::uint8_t* bytes, std::size_t count) : at_(bytes), end_(bytes + count) {}
  [[nodiscard]] bool is_over() const { return at_ == end_; }
  std::uint32_t Number(int bytes) {
    std::uint32_t number = 0;
    for (int at = 0; at < bytes && !is_over(); ++at) number |= std::uint32_t{*at_++} << (8 * at);
    return number;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  constexpr std::uint32_t kSlices = 8;
  constexpr std::uint32_t kCapacity = 8;
  const std::size_t pool_bytes = 8 + 2 * 36 + kSlices * (84 + 276);
  std::vector<std::byte> file(pool_bytes);
  std::vector<std::byte> half(shmipc::HalfBytes(kCapacity));
  test::WritePool(file, kSlices);
  Script script(bytes, count);
  // Lies of the header, before it is read.
  for (std::uint32_t lies = script.Number(1) % 3; lies > 0; lies -= 1) {
    const std::uint32_t at = script.Number(1) % (pool_bytes / 4) * 4;
    shmipc::Store32(file.data() + at, script.Number(4));
  }
  const char* fault = "";
  auto pool = shmipc::BufferPool::Read(file, fault);
  if (!pool.has_value()) return 0;
  shmipc::SendQueue sending(half.data(), kCapacity);
  shmipc::ReceiveQueue receiving(half.data(), kCapacity);
  std::vector<shmipc::Piece> pieces;
  while (!script.is_over()) {
    switch (script.Number(1) % 5) {
      case 0: {
        const std::uint32_t at = script.Number(2) % (pool_bytes / 4) * 4;
        shmipc::Store32(file.data() + at, script.Number(4));
        break;
      }
      case 1: {
        const std::uint32_t at = script.Number(1) % (half.size() / 4) * 4;
        shmipc::Store32(half.data() + at, script.Number(4));
        break;
      }
      case 2: {
        const std::vector<std::uint8_t> message(1 + script.Number(2) % 3000);
        std::uint32_t first = 0;
        if (sending.HasRoom() != shmipc::SendQueue::Room::kSome) break;
        if (pool->Fill(message, first) != shmipc::BufferPool::Filled::kDone) break;
        (void)sending.Push({.stream = 2, .offset = first, .status = 0});
        break;
      }
      case 3: (void)receiving.Rest(); break;
      default: {
        shmipc::Element element;
        if (receiving.Pop(element) != shmipc::ReceiveQueue::Popped::kElement) break;
        bool has_more = true;
        shmipc::Cursor cursor = {.slice = element.offset, .skip = 0};
        for (std::uint64_t read = 0; has_more && read <= 4 * pool->slices();
             read += pieces.size()) {
          pieces.clear();
          if (!pool->Follow(cursor, has_more, 100, pieces)) break;
          for (const shmipc::Piece& piece : pieces) {
            std::vector<std::uint8_t> target(piece.bytes);
            pool->Copy(piece, target.data());
            if (piece.is_last && !pool->Return(piece.slice)) break;
          }
        }
      }
    }
  }
  return 0;
}
