// SPDX-License-Identifier: MIT
// The module's entry: per-environment state, then the exports.
#include <napi.h>

#include "binding/environment.h"
#include "binding/exports.h"

namespace {

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new sidecall::Environment());  // deleted with the environment
  exports.Set("version", SIDECALL_VERSION);
  sidecall::ExportFiles(env, exports);
  sidecall::ExportProcess(env, exports);
  sidecall::ExportReceived(env, exports);
  sidecall::ExportRecorder(env, exports);
  sidecall::ExportRing(env, exports);
  sidecall::ExportRingBlocks(env, exports);
  sidecall::ExportRingFrames(env, exports);
  sidecall::ExportShmipc(env, exports);
  sidecall::ExportSimulation(env, exports);
  sidecall::ExportSocket(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(sidecall, Init)
