// SPDX-License-Identifier: MIT
// Functions over descriptors of directories, locks and files.
#include "os/files.h"

#include <fcntl.h>

#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"
#include "os/descriptor.h"

namespace sidecall {
namespace {

Napi::Value FromOwned(Napi::Env env, Result<UniqueFd> result) {
  if (!result.ok()) return Throw(env, result.error());
  return Napi::Number::New(env, State(env).Own(std::move(result.value())));
}

const char* TypeName(const DescriptorKind& kind) noexcept {
  switch (kind.type) {
    case DescriptorType::kSocket: return kind.is_unix_stream ? "unix-stream" : "socket";
    case DescriptorType::kRegularFile: return "file";
    case DescriptorType::kPipe: return "pipe";
    case DescriptorType::kDirectory: return "directory";
    case DescriptorType::kOther: break;
  }
  return "other";
}

// (fd) => true: the descriptor was owned here and is closed now; false: it was not. A number that
// is closed twice may belong to other code the second time.
Napi::Value CloseDescriptor(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  return Napi::Boolean::New(info.Env(), State(info.Env()).owned.erase(fd) == 1);
}

// (fd) => true: the descriptor was owned here; from now on its new owner (a net.Socket,
// a net.Server) closes it.
Napi::Value DisownDescriptor(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  auto node = State(info.Env()).owned.extract(fd);
  if (node.empty()) return Napi::Boolean::New(info.Env(), false);
  [[maybe_unused]] const int given_away = node.mapped().Release();
  return Napi::Boolean::New(info.Env(), true);
}

Napi::Value Duplicate(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  return FromOwned(info.Env(), DuplicateDescriptor(fd));
}

// (fd) => a duplicate that is owned here; `fd` is closed. It was inherited, so nothing
// else of this process closes it.
Napi::Value MoveDescriptor(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  auto duplicate = DuplicateDescriptor(fd);
  if (duplicate.ok()) UniqueFd(fd).Reset();
  return FromOwned(info.Env(), std::move(duplicate));
}

Napi::Value CloseOnExec(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), SetCloseOnExec(fd));
}

Napi::Value Describe(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return env.Undefined();
  const auto kind = DescribeDescriptor(fd);
  if (!kind.ok()) return Throw(env, kind.error());
  Napi::Object object = Napi::Object::New(env);
  object.Set("type", TypeName(kind.value()));
  object.Set("isListening", kind.value().is_listening);
  return object;
}

Napi::Value OpenDirectoryAt(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const std::string path = arguments.Text(0);
  if (!arguments.ok()) return info.Env().Undefined();
  return FromOwned(info.Env(), OpenDirectory(path));
}

Napi::Value StatOpen(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto status = StatDescriptor(fd);
  return status.ok() ? FromStatus(info.Env(), status.value()) : Throw(info.Env(), status.error());
}

// (directory, name) => the status of the entry; undefined, and no error, where there is none.
Napi::Value StatEntry(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto status = StatAt(directory, name);
  if (status.ok()) return FromStatus(info.Env(), status.value());
  if (status.error().number == ENOENT) return info.Env().Undefined();
  return Throw(info.Env(), status.error());
}

Napi::Value UnlinkEntry(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), UnlinkAt(directory, name));
}

// (directory, or -1 for a path, name, whether the entry that is there now is removed where this
// environment ends before its program has removed it)
Napi::Value RemoveAtEnd(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const auto given = static_cast<int>(arguments.Integer(0, -1, 0x7fffffff));
  const int directory = given == -1 ? AT_FDCWD : given;
  const std::string name = arguments.Text(1);
  const bool is_wanted = arguments.Integer(2, 0, 1) == 1;
  if (!arguments.ok()) return info.Env().Undefined();
  auto& left = State(info.Env()).removed_at_end;
  std::erase_if(
      left, [&](const auto& entry) { return entry.directory == directory && entry.name == name; });
  const auto status = StatAt(directory, name);
  if (is_wanted && status.ok()) left.push_back({directory, name, status.value()});
  return info.Env().Undefined();
}

// (directory, name) => a descriptor of the entry itself, or -1: this system has none.
Napi::Value HoldEntry(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  if (!arguments.ok()) return info.Env().Undefined();
  auto entry = OpenEntry(directory, name);
  if (!entry.ok()) return Throw(info.Env(), entry.error());
  if (!entry.value().has_value()) return Napi::Number::New(info.Env(), -1);
  auto& state = *info.Env().GetInstanceData<Environment>();
  return Napi::Number::New(info.Env(), state.Own(std::move(*entry.value())));
}

// (directory, name, held or -1, mode)
Napi::Value ChangeMode(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  const auto held = static_cast<int>(arguments.Integer(2, -1, 0x7fffffff));
  const auto mode = static_cast<std::uint32_t>(arguments.Integer(3, 0, 07777));
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), ChangeModeAt(directory, name, held, mode));
}

// (directory, name, held or -1, uid or -1, gid or -1)
Napi::Value ChangeOwner(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  const auto held = static_cast<int>(arguments.Integer(2, -1, 0x7fffffff));
  const auto uid = static_cast<std::uint32_t>(arguments.Integer(3, -1, 0xfffffffe));
  const auto gid = static_cast<std::uint32_t>(arguments.Integer(4, -1, 0xfffffffe));
  if (!arguments.ok()) return info.Env().Undefined();
  return FromDone(info.Env(), ChangeOwnerAt(directory, name, held, uid, gid));
}

Napi::Value OpenLock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int directory = arguments.Descriptor(0);
  const std::string name = arguments.Text(1);
  if (!arguments.ok()) return info.Env().Undefined();
  return FromOwned(info.Env(), OpenLockFile(directory, name));
}

Napi::Value Lock(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int fd = arguments.Descriptor(0);
  if (!arguments.ok()) return info.Env().Undefined();
  const auto locked = TryLock(fd);
  if (!locked.ok()) return Throw(info.Env(), locked.error());
  return Napi::Boolean::New(info.Env(), locked.value());
}

}  // namespace

void ExportFiles(Napi::Env env, Napi::Object exports) {
  exports.Set("closeDescriptor", Napi::Function::New<CloseDescriptor>(env));
  exports.Set("disownDescriptor", Napi::Function::New<DisownDescriptor>(env));
  exports.Set("duplicate", Napi::Function::New<Duplicate>(env));
  exports.Set("moveDescriptor", Napi::Function::New<MoveDescriptor>(env));
  exports.Set("setCloseOnExec", Napi::Function::New<CloseOnExec>(env));
  exports.Set("describe", Napi::Function::New<Describe>(env));
  exports.Set("openDirectory", Napi::Function::New<OpenDirectoryAt>(env));
  exports.Set("statDescriptor", Napi::Function::New<StatOpen>(env));
  exports.Set("statAt", Napi::Function::New<StatEntry>(env));
  exports.Set("unlinkAt", Napi::Function::New<UnlinkEntry>(env));
  exports.Set("removeAtEnd", Napi::Function::New<RemoveAtEnd>(env));
  exports.Set("holdEntry", Napi::Function::New<HoldEntry>(env));
  exports.Set("changeModeAt", Napi::Function::New<ChangeMode>(env));
  exports.Set("changeOwnerAt", Napi::Function::New<ChangeOwner>(env));
  exports.Set("openLockFile", Napi::Function::New<OpenLock>(env));
  exports.Set("tryLock", Napi::Function::New<Lock>(env));
}

}  // namespace sidecall
