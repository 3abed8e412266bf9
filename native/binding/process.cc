// SPDX-License-Identifier: MIT
// Functions over our own process.
#include "os/process.h"

#include "binding/convert.h"
#include "binding/exports.h"

namespace sidecall {
namespace {

Napi::Value FromGroups(Napi::Env env, const std::vector<std::uint32_t>& groups) {
  Napi::Array array = Napi::Array::New(env, groups.size());
  for (std::uint32_t index = 0; index < groups.size(); ++index) array.Set(index, groups[index]);
  return array;
}

Napi::Value Own(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto own = ReadOwnCredentials();
  if (!own.ok()) return Throw(env, own.error());
  Napi::Object object = Napi::Object::New(env);
  object.Set("pid", static_cast<double>(own.value().pid));
  object.Set("uid", own.value().uid);
  object.Set("gid", own.value().gid);
  object.Set("groups", FromGroups(env, own.value().groups));
  return object;
}

const char* NameOf(ParentWatch watch) noexcept {
  switch (watch) {
    case ParentWatch::kArmed: return "armed";
    case ParentWatch::kNotChild: return "not-child";
    case ParentWatch::kOrphaned: return "orphaned";
    case ParentWatch::kUnsupported: break;
  }
  return "unsupported";
}

Napi::Value WatchParent(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::int64_t parent = arguments.Integer(0, 1, 0x7fffffff);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto watch = DieWithParent(parent);
  if (!watch.ok()) return Throw(info.Env(), watch.error());
  return Napi::String::New(info.Env(), NameOf(watch.value()));
}

Napi::Value Outlive(const Napi::CallbackInfo& info) {
  OutliveParent();
  return info.Env().Undefined();
}

// (wanted)
Napi::Value KillForks(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const bool is_wanted = arguments.Integer(0, 0, 1) == 1;
  if (arguments.ok()) KillForksWithUs(is_wanted);
  return info.Env().Undefined();
}

// (times): puts milliseconds of running and of waiting there.
Napi::Value ThreadTimesInto(const Napi::CallbackInfo& info) {
  auto times = info[0].As<Napi::Float64Array>();
  const ThreadTimes now = ReadThreadTimes();
  times[0] = static_cast<double>(now.run_ns) / 1e6;
  times[1] = static_cast<double>(now.waited_ns) / 1e6;
  return info.Env().Undefined();
}

}  // namespace

void ExportProcess(Napi::Env env, Napi::Object exports) {
  exports.Set("ownCredentials", Napi::Function::New<Own>(env));
  exports.Set("dieWithParent", Napi::Function::New<WatchParent>(env));
  exports.Set("outliveParent", Napi::Function::New<Outlive>(env));
  exports.Set("threadTimes", Napi::Function::New<ThreadTimesInto>(env));
  exports.Set("killForksWithUs", Napi::Function::New<KillForks>(env));
}

}  // namespace sidecall
