// SPDX-License-Identifier: MIT
// Arguments in, results and errors out. Native code takes numbers, strings and typed arrays only,
// so that no getter of the program runs inside it.
#pragma once

#include <napi.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "os/files.h"

namespace sidecall {

// The arguments of one call. The first invalid one throws, and ok() is false from then on: a
// function reads all of its arguments, then checks ok().
class Arguments {
 public:
  explicit Arguments(const Napi::CallbackInfo& info) : info_(info) {}

  [[nodiscard]] std::int64_t Integer(std::size_t index, std::int64_t min, std::int64_t max);
  [[nodiscard]] int Descriptor(std::size_t index);
  [[nodiscard]] std::string Text(std::size_t index);  // no NUL inside: it would end a path early
  [[nodiscard]] std::span<std::uint8_t> Bytes(std::size_t index);
  [[nodiscard]] std::span<std::int32_t> Integers(std::size_t index);
  [[nodiscard]] bool ok() const noexcept { return ok_; }

 private:
  void Refuse(std::size_t index, const char* expected);

  const Napi::CallbackInfo& info_;
  bool ok_ = true;
};

// Throws an Error with code ("ECONNREFUSED"), errno (negative, as Node has it) and syscall.
Napi::Value Throw(Napi::Env env, const Error& error);

Napi::Value FromStatus(Napi::Env env, const FileStatus& status);

// undefined, or the error thrown.
inline Napi::Value FromDone(Napi::Env env, const Result<Done>& result) {
  return result.ok() ? env.Undefined() : Throw(env, result.error());
}

}  // namespace sidecall
