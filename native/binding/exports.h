// SPDX-License-Identifier: MIT
// The exports of each binding file.
#pragma once

#include <napi.h>

namespace sidecall {

void ExportFiles(Napi::Env env, Napi::Object exports);
void ExportProcess(Napi::Env env, Napi::Object exports);
void ExportReceived(Napi::Env env, Napi::Object exports);
void ExportRecorder(Napi::Env env, Napi::Object exports);
void ExportRing(Napi::Env env, Napi::Object exports);
void ExportRingBlocks(napi_env env, napi_value exports);
void ExportRingFrames(napi_env env, napi_value exports);
void ExportShmipc(Napi::Env env, Napi::Object exports);
void ExportSimulation(Napi::Env env, Napi::Object exports);
void ExportSocket(Napi::Env env, Napi::Object exports);

}  // namespace sidecall
