// SPDX-License-Identifier: MIT
// The memory of a flight recorder: a parent makes it for its helper, and the helper writes to it.
#include <cerrno>
#include <cstring>
#include <utility>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "binding/memory_buffer.h"
#include "os/writable_memory.h"

namespace sidecall {
namespace {

constexpr std::int64_t kRecorderBytesMax = std::int64_t{16} * 1024 * 1024;

#if defined(__linux__)
// (bytes, first bytes) => a descriptor of memory of a fixed size: the given bytes, then zeros.
Napi::Value CreateRecorder(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const auto bytes = static_cast<std::uint64_t>(arguments.Integer(0, 1, kRecorderBytesMax));
  const std::span<std::uint8_t> first = arguments.Bytes(1);
  if (!arguments.ok()) return env.Undefined();
  if (first.size() > bytes) return Throw(env, Error{EINVAL, "createRecorder"});
  auto made = CreateMemory("sidecall-recorder", bytes);
  if (!made.ok()) return Throw(env, made.error());
  std::memcpy(made.value().memory.data(), first.data(), first.size());
  return Napi::Number::New(env, State(env).Own(std::move(made.value().fd)));
}

// (descriptor, target): copies the memory, which has at least the length of the target.
Napi::Value ReadRecorder(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const std::span<std::uint8_t> target = arguments.Bytes(1);
  if (!arguments.ok()) return env.Undefined();
  const auto read = ReadWhole(fd, target);
  return read.ok() ? env.Undefined() : Throw(env, read.error());
}

// (descriptor, bytes) => a Buffer over the memory, which stays mapped until V8 has collected it;
// undefined: the host refuses external buffers.
Napi::Value MapRecorder(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  const auto bytes = static_cast<std::uint64_t>(arguments.Integer(1, 1, kRecorderBytesMax));
  if (!arguments.ok()) return env.Undefined();
  auto mapped = MapSealed(fd, bytes);
  if (!mapped.ok()) return Throw(env, mapped.error());
  const auto memory = std::make_shared<Mapping>(std::move(mapped.value()));
  Hold hold = {.memory = memory, .reclaimers = State(env).rings.reclaimers};
  napi_value buffer = ExternalBuffer(env, memory->data(), memory->size(), std::move(hold));
  return buffer == nullptr ? env.Undefined() : Napi::Value(env, buffer);
}
#endif

}  // namespace

void ExportRecorder(Napi::Env env, Napi::Object exports) {
#if defined(__linux__)
  exports.Set("createRecorder", Napi::Function::New<CreateRecorder>(env));
  exports.Set("readRecorder", Napi::Function::New<ReadRecorder>(env));
  exports.Set("mapRecorder", Napi::Function::New<MapRecorder>(env));
#else
  (void)env;
  (void)exports;
#endif
}

}  // namespace sidecall
