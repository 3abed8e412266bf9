// SPDX-License-Identifier: MIT
// Making, accepting and joining outboxes: the functions that are called once per connection.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <system_error>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "os/allocator.h"
#include "os/descriptor.h"
#include "ring/shared_words.h"

namespace sidecall {
namespace {

constexpr double kShareMaxBytes = 64.0 * 1024 * 1024 * 1024;

RingEntry* Entry(const Napi::CallbackInfo& info, Arguments& arguments) {
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  if (!arguments.ok()) return nullptr;
  RingEntry* const entry = State(info.Env()).rings.Find(handle);
  if (entry == nullptr) {
    Napi::TypeError::New(info.Env(), "no such ring").ThrowAsJavaScriptException();
  }
  return entry;
}

// (…, capacity, block area, nonce) from argument `first` on.
OutboxShape Shape(Arguments& arguments, std::size_t first) {
  OutboxShape shape;
  shape.capacity_bytes = static_cast<std::uint64_t>(
      arguments.Integer(first, 0, static_cast<std::int64_t>(kCapacityMax)));
  shape.block_area_bytes = static_cast<std::uint64_t>(
      arguments.Integer(first + 1, 0, static_cast<std::int64_t>(kBlockAreaMax)));
  const std::span<std::uint8_t> nonce = arguments.Bytes(first + 2);
  if (arguments.ok() && nonce.size() == kNonceBytes) {
    std::memcpy(shape.nonce, nonce.data(), kNonceBytes);
  }
  return shape;
}

bool IsShape(const OutboxShape& shape) {
  return IsCapacity(shape.capacity_bytes) && IsBlockArea(shape.block_area_bytes);
}

// The memory that per-frame calls go through, made once per environment and held to its end.
Napi::Value GetExchange(const Napi::CallbackInfo& info) {
  constexpr std::size_t kSlabBytes = std::size_t{128} * 1024;
  constexpr std::size_t kStagedBytes = std::size_t{72} * 1024;
  static_assert(kSlabBytes >= Consumer::kSlabMinBytes && kStagedBytes >= kRecordMaxBytes);
  const Napi::Env env = info.Env();
  RingTable& rings = State(env).rings;
  if (rings.exchange_object.IsEmpty()) {
    auto slab = Napi::Uint8Array::New(env, kSlabBytes);
    auto staged = Napi::Uint8Array::New(env, kStagedBytes);
    auto registers = Napi::Float64Array::New(env, static_cast<std::size_t>(Register::kCount));
    Napi::Object object = Napi::Object::New(env);
    object.Set("slab", slab);
    object.Set("staged", staged);
    object.Set("registers", registers);
    rings.exchange = {{slab.Data(), slab.ByteLength()},
                      {staged.Data(), staged.ByteLength()},
                      {registers.Data(), registers.ElementLength()}};
    rings.exchange_object = Napi::Persistent(object);
  }
  return rings.exchange_object.Value();
}

Napi::Value Open(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), State(info.Env()).rings.Open());
}

// (ring): releases all parts of the connection that were made; a second call does nothing. Memory
// below array buffers of blocks or leases stays mapped until V8 has collected them.
Napi::Value Close(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto handle = static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
  if (arguments.ok()) State(info.Env()).rings.Close(info.Env(), handle);
  return info.Env().Undefined();
}

std::uint32_t HandleAt(Arguments& arguments) {
  return static_cast<std::uint32_t>(arguments.Integer(0, 0, 0xffff'ffff));
}

constexpr int kUsedUp = -1;
constexpr int kUnderWay = -2;

Napi::Value KeepMade(Napi::Env env, RingEntry& entry, Result<Outbox> made) {
  if (!made.ok()) return Throw(env, made.error());
  *entry.mine = std::move(made.value());
  return Napi::Number::New(env, State(env).Own(std::move(entry.mine->descriptor)));
}

// (ring, capacity, block area, nonce, most bytes of all rings, owner) => descriptor to send, or a
// number from above. Memory that takes long to make is made on a thread: takeOutbox() has it.
Napi::Value Create(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const OutboxShape shape = Shape(arguments, 1);
  const auto max_bytes = static_cast<std::uint64_t>(
      arguments.Integer(4, 0, static_cast<std::int64_t>(kShareMaxBytes)));
  const Owner owner = OwnerAt(arguments, 5);
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  if (!IsShape(shape) || entry->mine->memory.is_mapped() || entry->making != nullptr) {
    return Throw(env, Error{EINVAL, "createOutbox"});
  }
  Environment& state = State(env);
  MemoryShare share;
  if (!share.Reserve(owner, shape.total_bytes(), max_bytes)) {
    return Napi::Number::New(env, kUsedUp);
  }
  entry->my_shape = shape;
  if (shape.total_bytes() <= kAtOnceMaxBytes) {
    return KeepMade(env, *entry, CreateOutbox(shape, std::move(share)));
  }
  if (!state.memory.HasThread()) return Throw(env, Error{EAGAIN, "pthread_create"});
  // Owner 0: the work counts as our own, since the peer does not control its duration.
  entry->making = MakeOnThread<Result<Outbox>>(
      state.memory, 0,
      [shape, kept = std::move(share)]() mutable { return CreateOutbox(shape, std::move(kept)); },
      [listeners = state.listeners, number = HandleAt(arguments)] { listeners->Tell(number); });
  return Napi::Number::New(env, kUnderWay);
}

// (ring) => the memory that createOutbox() left to a thread: its descriptor, or kUnderWay.
Napi::Value TakeMade(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  if (entry->making == nullptr) return Throw(env, Error{EINVAL, "takeOutbox"});
  auto made = entry->making->Take();
  if (!made.has_value()) return Napi::Number::New(env, kUnderWay);
  entry->making.reset();
  return KeepMade(env, *entry, std::move(*made));
}

// (ring, descriptor received, capacity, block area, nonce, wants blocks, owner) => true: its check
// has begun, on a thread; false: the system has no thread left.
Napi::Value AcceptMemory(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const int number = arguments.Descriptor(1);
  const OutboxShape shape = Shape(arguments, 2);
  const bool wants_blocks = info[5].IsBoolean() && info[5].As<Napi::Boolean>().Value();
  const Owner owner = OwnerAt(arguments, 6);
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  auto node = State(env).received.extract(number);
  const bool is_taken = entry->peer->ok() || entry->checking != nullptr;
  if (node.empty() || !IsShape(shape) || is_taken) {
    return Throw(env, Error{EINVAL, "acceptOutbox"});
  }
  if (!State(env).memory.HasThread()) {
    State(env).CloseReceived(owner, std::move(node.mapped()));
    return Napi::Boolean::New(env, false);
  }
  entry->peer_shape = shape;
  const MappedPart part = wants_blocks ? MappedPart::kRingAndBlocks : MappedPart::kRing;
  // The descriptor goes with the task: it is closed on its thread.
  entry->checking = MakeOnThread<PeerOutbox>(
      State(env).memory, owner,
      [descriptor = std::move(node.mapped()), shape, part]() mutable {
        PeerOutbox outbox = AcceptOutbox(descriptor.get(), shape, part);
        descriptor.Reset();
        return outbox;
      },
      [listeners = State(env).listeners, number = HandleAt(arguments)] {
        listeners->Tell(number);
      });
  return Napi::Boolean::New(env, true);
}

// (ring) => true: mapped; false: the check is under way; or { isViolation, what }.
Napi::Value TakeAccepted(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  if (entry->checking == nullptr) return Throw(env, Error{EINVAL, "takeAccepted"});
  auto checked = entry->checking->Take();
  if (!checked.has_value()) return Napi::Boolean::New(env, false);
  entry->checking.reset();
  *entry->peer = std::move(*checked);
  if (entry->peer->ok()) return Napi::Boolean::New(env, true);
  const OutboxRefusal& refusal = entry->peer->refusal;
  Napi::Object object = Napi::Object::New(env);
  object.Set("isViolation", refusal.is_violation);
  std::string what = refusal.what;
  if (refusal.number != 0)
    what.append(": ").append(std::generic_category().message(refusal.number));
  object.Set("what", what);
  return object;
}

// (owner) => 0: a descriptor of this owner may be received; 1: descriptors cannot be closed at
// present; 2: a check of memory hangs.
Napi::Value WhyNoMemory(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const Owner owner = OwnerAt(arguments, 0);
  if (!arguments.ok()) return info.Env().Undefined();
  Environment& state = State(info.Env());
  int why = 0;
  if (!state.received_closer.HasRoomFor(owner))
    why = 1;
  else if (!state.memory.IsFreeFor(owner))
    why = 2;
  return Napi::Number::New(info.Env(), why);
}

// (ring, socket, may lend, may borrow): joins both outboxes, which must be made and accepted;
// frames can be sent from now on. `may lend`, `may borrow`: the hello agreed on messages in our
// block area, and in the peer's.
Napi::Value Join(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  RingEntry* const entry = Entry(info, arguments);
  const int socket = arguments.Descriptor(1);
  const bool may_lend = info[2].IsBoolean() && info[2].As<Napi::Boolean>().Value();
  const bool may_borrow = info[3].IsBoolean() && info[3].As<Napi::Boolean>().Value();
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  const bool is_ready = entry->mine->memory.is_mapped() && entry->peer->ok() && !entry->ring;
  if (!is_ready || State(env).rings.exchange.slab.empty()) {
    return Throw(env, Error{EINVAL, "joinRing"});
  }
  auto duplicate = DuplicateDescriptor(socket);
  if (!duplicate.ok()) return Throw(env, duplicate.error());
  entry->bell = std::make_unique<SocketDoorbell>(std::move(duplicate.value()));
  entry->ring.emplace(
      Ring::Memory{.mine = entry->mine->control(),
                   .my_data = entry->mine->data(),
                   .my_capacity = entry->my_shape.capacity_bytes,
                   .peer = entry->peer->control(),
                   .peer_data = entry->peer->data(),
                   .peer_capacity = entry->peer_shape.capacity_bytes,
                   .my_block_area = may_lend ? entry->my_shape.block_area_bytes : 0,
                   .peer_block_area = may_borrow ? entry->peer_shape.block_area_bytes : 0},
      *entry->bell);
  return env.Undefined();
}

// The unread part of a data area: where it begins, and its two pieces, since it may go round the
// end.
struct Unread {
  std::uint64_t begin = 0;
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  // Cursors that no correct process has leave nothing: the report names that fault.
  Unread(std::uint64_t capacity, std::uint64_t published, std::uint64_t consumed,
         std::uint64_t bytes_max) {
    const std::uint64_t bytes = published - consumed;
    if (consumed > published || bytes > capacity) return;
    begin = consumed & (capacity - 1);
    first = std::min({bytes, capacity - begin, bytes_max});
    second = std::min(bytes, bytes_max) - first;
  }
  [[nodiscard]] std::uint64_t end() const { return first == 0 ? 0 : begin + first; }
};

// (ring, ours, bytes at most) => a copy of that memory: its control page, of which nothing but the
// control is used, and its data up to the end of the unread part, with zeros where nothing is
// unread; undefined: none can be made. The
// other process may write meanwhile, so the copy is of no single moment.
Napi::Value CopyMemory(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const RingEntry* const entry = Entry(info, arguments);
  const bool is_mine = info[1].IsBoolean() && info[1].As<Napi::Boolean>().Value();
  const auto bytes_max =
      static_cast<std::uint64_t>(arguments.Integer(2, 0, static_cast<std::int64_t>(kCapacityMax)));
  if (!arguments.ok() || entry == nullptr) return env.Undefined();
  if (!entry->ring.has_value()) return Throw(env, Error{EINVAL, "copyRingMemory"});
  const std::byte* const memory = is_mine ? entry->mine->memory.data() : entry->peer->memory.data();
  const Control& owner = *reinterpret_cast<const Control*>(memory);
  const Control& reader = is_mine ? entry->peer->control() : entry->mine->control();
  const std::uint64_t capacity = (is_mine ? entry->my_shape : entry->peer_shape).capacity_bytes;
  // Acquire: the bytes below the cursor are visible.
  const std::uint64_t consumed = LoadWord(reader.consumer_cursor, std::memory_order_acquire);
  const std::uint64_t published = LoadWord(owner.producer_cursor, std::memory_order_acquire);
  const Unread unread(capacity, published, consumed, bytes_max);
  const std::uint64_t size = unread.end() == 0 ? sizeof(Control) : kControlPageBytes + unread.end();
  auto copy = Napi::Uint8Array::New(env, static_cast<std::size_t>(size));
  // A worker thread that is being ended gets no memory.
  if (env.IsExceptionPending() || copy.Data() == nullptr) return env.Undefined();
  auto* const bytes = reinterpret_cast<std::byte*>(copy.Data());
  CopyPayload(bytes, memory, sizeof(Control));
  // The cursor that the unread part was found by: it may have moved.
  std::memcpy(bytes + offsetof(Control, producer_cursor), &published, sizeof(published));
  if (unread.end() == 0) return copy;
  const std::byte* const data = memory + kControlPageBytes;
  CopyPayload(bytes + kControlPageBytes + unread.begin, data + unread.begin, unread.first);
  CopyPayload(bytes + kControlPageBytes, data, unread.second);
  return copy;
}

Napi::Value KeepFreed(const Napi::CallbackInfo& info) {
  KeepFreedBlocks();
  return info.Env().Undefined();
}

// (bytes): returns freed heap memory beyond `bytes` to the kernel, on a thread.
Napi::Value ReturnFreed(const Napi::CallbackInfo& info) {
  struct Returning final : Task {
    explicit Returning(std::size_t given) : above_bytes(given) {}
    void Run() noexcept override { ReturnFreedBlocks(above_bytes); }
    std::size_t above_bytes;
  };
  Arguments arguments(info);
  const auto above = static_cast<std::size_t>(arguments.Integer(0, 0, 0x7fff'ffff));
  if (arguments.ok())
    State(info.Env()).rings.reclaimers->Submit(0, std::make_unique<Returning>(above));
  return info.Env().Undefined();
}

// () => is memory of closed rings being unmapped?
Napi::Value IsReclaiming(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), State(info.Env()).rings.reclaimers->pending() > 0);
}

Napi::Value ReservedBytes(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), static_cast<double>(MemoryShare::ReservedBytes()));
}

}  // namespace

void ExportRing(Napi::Env env, Napi::Object exports) {
  exports.Set("ringExchange", Napi::Function::New<GetExchange>(env));
  exports.Set("openRing", Napi::Function::New<Open>(env));
  exports.Set("closeRing", Napi::Function::New<Close>(env));
  exports.Set("createOutbox", Napi::Function::New<Create>(env));
  exports.Set("takeOutbox", Napi::Function::New<TakeMade>(env));
  exports.Set("acceptOutbox", Napi::Function::New<AcceptMemory>(env));
  exports.Set("takeAccepted", Napi::Function::New<TakeAccepted>(env));
  ExportListen(env, exports, "listenForNotifications", State(env).listeners);
  exports.Set("whyNoMemory", Napi::Function::New<WhyNoMemory>(env));
  exports.Set("joinRing", Napi::Function::New<Join>(env));
  exports.Set("copyRingMemory", Napi::Function::New<CopyMemory>(env));
  exports.Set("keepFreedBlocks", Napi::Function::New<KeepFreed>(env));
  exports.Set("returnFreedBlocks", Napi::Function::New<ReturnFreed>(env));
  exports.Set("isReclaiming", Napi::Function::New<IsReclaiming>(env));
  exports.Set("ringMemoryBytes", Napi::Function::New<ReservedBytes>(env));
}

}  // namespace sidecall
