// SPDX-License-Identifier: MIT
// Blocks of ours that JavaScript fills, and blocks of the peer's that it reads in place. The only
// file that makes external buffers: hosts that refuse them get undefined, and copy.
#undef NODE_API_NO_EXTERNAL_BUFFERS_ALLOWED
#include <node_api.h>

#include <memory>

#include "binding/exports.h"
#include "binding/memory_buffer.h"
#include "binding/ring_call.h"

namespace sidecall {
namespace {

void LetGo(napi_env, void*, void* hint) {
  const std::unique_ptr<Hold> hold(static_cast<Hold*>(hint));
  if (hold->memory.use_count() == 1) DropOnThread(*hold->reclaimers, 0, std::move(hold->memory));
}

}  // namespace

napi_value ExternalBuffer(napi_env env, const std::byte* data, std::size_t bytes, Hold hold) {
  auto owned = std::make_unique<Hold>(std::move(hold));
  napi_value buffer = nullptr;
  const napi_status status = napi_create_external_buffer(env, bytes, const_cast<std::byte*>(data),
                                                         LetGo, owned.get(), &buffer);
  if (status != napi_ok) return nullptr;
  (void)owned.release();
  return buffer;
}

namespace {

// (ring, bytes) => a Buffer over a block of ours, its offset in a register; undefined: no block is
// available, and the caller uses ordinary memory.
napi_value Allocate(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  if (call.ring() == nullptr) return nullptr;
  const std::uint32_t bytes = call.Number(1);
  const auto block = call.ring()->AllocateBlock(bytes);
  if (!block.has_value()) return nullptr;
  napi_value buffer =
      ExternalBuffer(env, block->data, bytes, {call.entry()->mine, call.reclaimers()});
  if (buffer == nullptr) {
    (void)call.ring()->FreeBlock(block->offset);
    return nullptr;
  }
  call.entry()->my_objects += 1;
  call.Set(Register::kBlock, block->offset);
  return buffer;
}

// (ring, bytes): takes a block of ours, its offset in a register; refused: none is available.
napi_value TakePlace(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const auto block = call.ring()->AllocateBlock(call.Number(1));
  if (!block.has_value()) return call.Return(kRefused);
  call.Set(Register::kBlock, block->offset);
  return call.Return(kWritten);
}

// (ring, 1: ours, 0: the peer's, which is mapped read-only) => a Buffer over the whole block area;
// undefined: there is none, or the host wants no external buffers.
napi_value Area(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  if (call.ring() == nullptr) return nullptr;
  RingEntry& entry = *call.entry();
  const bool is_mine = call.Number(1) == 1;
  const OutboxShape& shape = is_mine ? entry.my_shape : entry.peer_shape;
  const Mapping& mapping = is_mine ? entry.mine->memory : entry.peer->memory;
  // The areas are mapped only where blocks were agreed on.
  if (shape.block_area_bytes == 0 || mapping.size() < shape.total_bytes()) return nullptr;
  Hold hold = {.memory = entry.peer, .reclaimers = call.reclaimers()};
  if (is_mine) hold.memory = entry.mine;
  const std::byte* const area = mapping.data() + kControlPageBytes + shape.capacity_bytes;
  napi_value buffer = ExternalBuffer(env, area, shape.block_area_bytes, std::move(hold));
  if (buffer != nullptr) (is_mine ? entry.my_objects : entry.peer_objects) += 1;
  return buffer;
}

// (ring, offset): frees a block that is not sent.
napi_value Free(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  if (call.ring() == nullptr || !call.ring()->FreeBlock(call.Number(1))) {
    return call.Return(kRefused);
  }
  return call.Return(kWritten);
}

// (ring, staged bytes, offset, message bytes): a frame
// lies in the staging memory, its message in a block.
napi_value WriteBlock(napi_env env, napi_callback_info info) {
  const RingCall<4> call(env, info);
  const std::uint32_t staged = call.Number(1);
  if (call.ring() == nullptr || staged > call.exchange().staged.size()) {
    return call.Return(kRefused);
  }
  const auto frame = call.exchange().staged.first(staged);
  return call.ReturnWritten(call.ring()->WriteBlock(frame, call.Number(2), call.Number(3)));
}

// (ring): takes the block frame that is next; copies its reference and its frame into the slab.
napi_value TakeBlock(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const auto taken = call.ring()->TakeBlock(call.exchange().slab);
  if (!taken.has_value()) return call.Return(call.ring()->is_corrupt() ? kCorrupt : kRefused);
  call.Set(Register::kFilled, taken->record_bytes);
  call.Set(Register::kBlock, taken->reference.lease_id);
  call.Set(Register::kBlockBytes, taken->reference.payload_bytes);
  call.Set(Register::kBlockOffset, taken->reference.offset);
  return call.Return(kWritten);
}

// (ring, lease, target): copies all bytes of the lease.
napi_value CopyLease(napi_env env, napi_callback_info info) {
  const RingCall<3> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  const bool is_copied = call.ring()->CopyLease(call.LongNumber(1), call.Bytes(2));
  return call.Return(is_copied ? kWritten : kRefused);
}

// (ring, lease): releases the lease; the peer learns of it with the next publication.
napi_value ReleaseLease(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  const bool is_held = call.ring() != nullptr && call.ring()->ReleaseLease(call.LongNumber(1));
  return call.Return(is_held ? kWritten : kRefused);
}

// (array buffer): detaches it, so that later use fails in JavaScript.
napi_value Detach(napi_env env, napi_callback_info info) {
  std::size_t count = 1;
  napi_value buffer = nullptr;
  napi_get_cb_info(env, info, &count, &buffer, nullptr, nullptr);
  if (count == 1) napi_detach_arraybuffer(env, buffer);
  return nullptr;
}

// (ring, 1: of ours, 0: of the peer's): an array buffer over a block was collected.
napi_value DropObject(napi_env env, napi_callback_info info) {
  const RingCall<2> call(env, info);
  call.DropObject(call.Number(1) == 1);
  return nullptr;
}

// (ring): how many blocks are in use, and how many leases are held, in registers.
napi_value CountBlocks(napi_env env, napi_callback_info info) {
  const RingCall<1> call(env, info);
  if (call.ring() == nullptr) return call.Return(kRefused);
  call.Set(Register::kBlock, std::uint64_t{call.ring()->blocks().in_use()});
  call.Set(Register::kBlockBytes, std::uint64_t{call.ring()->leases().held()});
  return call.Return(kWritten);
}

}  // namespace

void ExportRingBlocks(napi_env env, napi_value exports) {
  const Exporter add(env, exports);
  add("ringAllocate", Allocate);
  add("ringTakePlace", TakePlace);
  add("ringArea", Area);
  add("ringFreeBlock", Free);
  add("ringWriteBlock", WriteBlock);
  add("ringTakeBlock", TakeBlock);
  add("ringCopyLease", CopyLease);
  add("ringReleaseLease", ReleaseLease);
  add("ringDropObject", DropObject);
  add("ringCountBlocks", CountBlocks);
  add("detach", Detach);
}

}  // namespace sidecall
