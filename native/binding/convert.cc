// SPDX-License-Identifier: MIT
#include "binding/convert.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>

#include "binding/errno_names.h"

namespace sidecall {
namespace {

const char* TypeName(FileType type) noexcept {
  switch (type) {
    case FileType::kRegular: return "file";
    case FileType::kDirectory: return "directory";
    case FileType::kLink: return "link";
    case FileType::kSocket: return "socket";
    case FileType::kOther: break;
  }
  return "other";
}

}  // namespace

void Arguments::Refuse(std::size_t index, const char* expected) {
  if (!ok_) return;
  ok_ = false;
  std::string words = "argument ";
  words.append(std::to_string(index)).append(" must be ").append(expected);
  Napi::TypeError::New(info_.Env(), words).ThrowAsJavaScriptException();
}

std::int64_t Arguments::Integer(std::size_t index, std::int64_t min, std::int64_t max) {
  if (info_[index].IsNumber()) {
    const double number = info_[index].As<Napi::Number>().DoubleValue();
    const bool is_in_range =
        number >= static_cast<double>(min) && number <= static_cast<double>(max);
    if (is_in_range && std::trunc(number) == number) return static_cast<std::int64_t>(number);
  }
  Refuse(index, "an integer in range");
  return min;
}

int Arguments::Descriptor(std::size_t index) {
  return static_cast<int>(Integer(index, 0, std::numeric_limits<int>::max()));
}

std::string Arguments::Text(std::size_t index) {
  if (info_[index].IsString()) {
    std::string text = info_[index].As<Napi::String>().Utf8Value();
    if (text.find('\0') == std::string::npos) return text;
  }
  Refuse(index, "a string without NUL");
  return {};
}

std::span<std::uint8_t> Arguments::Bytes(std::size_t index) {
  if (info_[index].IsTypedArray() &&
      info_[index].As<Napi::TypedArray>().TypedArrayType() == napi_uint8_array) {
    auto array = info_[index].As<Napi::Uint8Array>();
    return {array.Data(), array.ByteLength()};
  }
  Refuse(index, "a Uint8Array");
  return {};
}

std::span<std::int32_t> Arguments::Integers(std::size_t index) {
  if (info_[index].IsTypedArray() &&
      info_[index].As<Napi::TypedArray>().TypedArrayType() == napi_int32_array) {
    auto array = info_[index].As<Napi::Int32Array>();
    return {array.Data(), array.ElementLength()};
  }
  Refuse(index, "an Int32Array");
  return {};
}

Napi::Value Throw(Napi::Env env, const Error& error) {
  std::string words = error.syscall;
  words.append(": ").append(std::generic_category().message(error.number));
  const Napi::Error thrown = Napi::Error::New(env, words);
  thrown.Set("code", Napi::String::New(env, ErrnoNameOf(error.number)));
  thrown.Set("errno", Napi::Number::New(env, -error.number));
  thrown.Set("syscall", Napi::String::New(env, error.syscall));
  thrown.ThrowAsJavaScriptException();
  return env.Undefined();
}

Napi::Value FromStatus(Napi::Env env, const FileStatus& status) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", TypeName(status.type));
  object.Set("mode", status.mode);
  object.Set("uid", status.uid);
  object.Set("gid", status.gid);
  // 64-bit numbers that are only ever compared: one string, exact.
  object.Set("identity", std::to_string(status.device) + ":" + std::to_string(status.inode));
  return object;
}

}  // namespace sidecall
