// SPDX-License-Identifier: MIT
// libFuzzer over the validation of the reader and the writer: the
// input is a script of a peer's stores and of our operations.
// Checked: no report of a sanitizer, no endless loop, all bounds.
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "../ring_fixture.h"

namespace {

using namespace sidecall;
using namespace sidecall::test;

class Script {
 public:
  Script(const std::uint8_t* bytes, std::size_t count) : at_(bytes), end_(bytes + count) {}
  [[nodiscard]] bool is_over() const { return at_ == end_; }
  std::uint8_t Byte() { return is_over() ? std::uint8_t{0} : *at_++; }
  std::uint64_t Number(int bytes) {
    std::uint64_t number = 0;
    for (int at = 0; at < bytes; ++at) number |= std::uint64_t{Byte()} << (8 * at);
    return number;
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

void Require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  Script script(bytes, count);
  const bool is_large = script.Byte() % 4 == 0;
  const std::uint64_t capacity = is_large ? 32 * 1024 : 256;
  // Made once per capacity, since fresh memory would take most of the time of a run.
  static PlainOutbox tiny[2] = {PlainOutbox(256), PlainOutbox(256)};
  constexpr std::uint64_t kArea = 16 * kBlockAlign;
  static PlainOutbox large[2] = {PlainOutbox(32 * 1024, kArea), PlainOutbox(32 * 1024, kArea)};
  static std::vector<std::uint8_t> slab(Consumer::kSlabMinBytes);
  PlainOutbox* const boxes = is_large ? large : tiny;
  PlainOutbox& liar = boxes[0];
  PlainOutbox& mine = boxes[1];
  liar.control().~Control();
  new (&liar.control()) Control();
  for (std::uint64_t at = 0; at < 256; at += 8) liar.SetHeader(at, 0);
  CountingBell bell;
  Ring ring({mine.control(), mine.data(), capacity, liar.control(), liar.data(), capacity,
             mine.block_area(), liar.block_area()},
            bell);
  std::uint64_t sum = 0;
  std::uint64_t cursor = 0;
  while (!script.is_over()) {
    const std::uint64_t consumed = ring.consumer().consumed();
    switch (script.Byte() % 15) {
      case 0:
        liar.SetHeader(script.Number(2) % capacity & ~std::uint64_t{7}, script.Number(8));
        break;
      case 1: {  // a possibly valid record at the reader's position
        const std::uint64_t at = cursor % capacity & ~std::uint64_t{7};
        const std::uint64_t payload = script.Number(2) % capacity;
        liar.SetHeader(at, payload | std::uint64_t{1u + script.Byte() % 4} << 32);
        cursor += RecordBytes(payload);
        liar.SetProducer(cursor);
        break;
      }
      case 2: {  // valid padding to the end
        const std::uint64_t rest = capacity - cursor % capacity;
        liar.SetHeader(cursor % capacity & ~std::uint64_t{7}, (rest - 8) | std::uint64_t{1} << 32);
        cursor += rest;
        liar.SetProducer(cursor);
        break;
      }
      case 3: liar.SetProducer(cursor = script.Number(8)); break;
      case 4: liar.SetConsumer(script.Number(3)); break;
      case 5: liar.SetConsumer(ring.producer().written()); break;
      case 6:
        StoreWord(liar.control().data_sleep_epoch, script.Number(1), std::memory_order_seq_cst);
        break;
      case 7:
        StoreWord(liar.control().space_sleep_epoch, script.Number(1), std::memory_order_seq_cst);
        break;
      case 8: {
        const std::uint32_t records_max = 1u + script.Byte();
        const Consumer::Drained drained = ring.Drain(slab, records_max);
        if (drained.state == Consumer::State::kCorrupt) break;
        Require(drained.records <= records_max && drained.filled <= slab.size());
        Require(ring.consumer().consumed() - consumed <= capacity);
        if (drained.state == Consumer::State::kBlock) {
          const auto taken = ring.TakeBlock(slab);
          if (!taken.has_value()) break;
          const auto lease = ring.Lease(taken->reference.lease_id);
          Require(lease.size() == taken->reference.payload_bytes && lease.size() <= kArea);
          // Read, so that the sanitizer checks the addresses.
          sum += std::to_integer<std::uint64_t>(lease.front() ^ lease.back());
          break;
        }
        if (drained.state != Consumer::State::kLarge) break;
        Require(drained.large_payload_bytes > Consumer::kSmallMaxBytes);
        const std::unique_ptr<std::uint8_t[]> exact(
            new std::uint8_t[drained.large_payload_bytes - 28]);
        ring.Take(28, {exact.get(), drained.large_payload_bytes - 28});
        break;
      }
      case 9: {
        const std::size_t size = 1 + script.Number(2) % capacity;
        (void)ring.Write({slab.data(), std::min<std::size_t>(size, slab.size())}, {},
                         static_cast<Ring::Queue>(script.Byte() % 3));
        ring.Publish();
        break;
      }
      case 10:
        (void)ring.HasRoom();
        (void)ring.PrepareToSleep();
        (void)ring.OnDoorbell(script.Byte() % 4);
        ring.Wake();
        break;
      case 11: {  // a possibly valid reference at the reader's position
        const std::uint64_t at = cursor % capacity & ~std::uint64_t{7};
        if (capacity - at < 48) break;
        liar.SetHeader(at, 36 | std::uint64_t{3} << 32);
        liar.SetHeader(at + 8, script.Number(3) % (2 * kArea));
        liar.SetHeader(at + 16, script.Number(3) % (2 * kArea));
        liar.SetHeader(at + 24, script.Byte() % 4);
        cursor += 48;
        liar.SetProducer(cursor);
        break;
      }
      case 12: {
        const auto block = ring.AllocateBlock(1 + script.Number(2));
        if (!block.has_value()) break;
        std::memset(block->data, 7, 1);
        (void)ring.WriteBlock({slab.data(), 12}, block->offset, 1 + script.Byte());
        (void)ring.FreeBlock(block->offset);
        break;
      }
      case 13: (void)ring.ReleaseLease(script.Byte() % 4); break;
      default:
        if (script.Byte() == 0) ring.Freeze();
    }
    Require(ring.producer().unread() <= capacity);
  }
  Require(sum != ~std::uint64_t{0});
  Require(ring.blocks().in_use() <= kLeasesMax && ring.leases().held() <= kLeasesMax);
  return 0;
}
