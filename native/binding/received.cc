// SPDX-License-Identifier: MIT
// Descriptors that a peer sent, and sockets whose close a peer can block: threads close them.
#include "binding/convert.h"
#include "binding/environment.h"
#include "binding/exports.h"

namespace sidecall {
namespace {

// (received descriptor, owner): closes a descriptor that is not used.
Napi::Value Drop(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int number = arguments.Descriptor(0);
  const Owner owner = OwnerAt(arguments, 1);
  if (!arguments.ok()) return info.Env().Undefined();
  auto node = State(info.Env()).received.extract(number);
  if (!node.empty()) State(info.Env()).CloseReceived(owner, std::move(node.mapped()));
  return info.Env().Undefined();
}

// (descriptor, owner): a socket on which a peer may have queued descriptors whose close blocks.
Napi::Value CloseReceived(const Napi::CallbackInfo& info) {
  Arguments arguments(info);
  const int number = arguments.Descriptor(0);
  const Owner owner = OwnerAt(arguments, 1);
  if (!arguments.ok()) return info.Env().Undefined();
  auto node = State(info.Env()).owned.extract(number);
  if (!node.empty()) State(info.Env()).received_closer.CloseSocket(owner, std::move(node.mapped()));
  return info.Env().Undefined();
}

}  // namespace

void ExportReceived(Napi::Env env, Napi::Object exports) {
  exports.Set("dropReceived", Napi::Function::New<Drop>(env));
  exports.Set("closeReceived", Napi::Function::New<CloseReceived>(env));
}

}  // namespace sidecall
