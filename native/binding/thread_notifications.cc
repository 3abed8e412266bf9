// SPDX-License-Identifier: MIT
#include "binding/thread_notifications.h"

namespace sidecall {
namespace {

// Calls the listener with the number.
void CallListener(napi_env env, napi_value listener, void* /*context*/, void* number) {
  if (env == nullptr) return;
  napi_value undefined = nullptr;
  napi_value argument = nullptr;
  napi_get_undefined(env, &undefined);
  napi_create_uint32(env, static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(number)),
                     &argument);
  napi_call_function(env, undefined, listener, 1, &argument, nullptr);
}

// (function)
napi_value Listen(napi_env env, napi_callback_info info) {
  struct Listening {
    std::shared_ptr<Listeners> all;
    napi_threadsafe_function own;
  };
  std::size_t count = 1;
  napi_value function = nullptr;
  void* data = nullptr;
  napi_get_cb_info(env, info, &count, &function, nullptr, &data);
  napi_value name = nullptr;
  napi_create_string_utf8(env, "sidecall", NAPI_AUTO_LENGTH, &name);
  napi_threadsafe_function listener = nullptr;
  const auto created = napi_create_threadsafe_function(env, function, nullptr, name, 0, 1, nullptr,
                                                       nullptr, nullptr, CallListener, &listener);
  if (created != napi_ok) return nullptr;
  napi_unref_threadsafe_function(env, listener);
  const auto& listeners = *static_cast<std::shared_ptr<Listeners>*>(data);
  listeners->Add(listener);
  // Cleanup hooks run in the reverse order of registration: this one runs before the hook that
  // frees the listener, which does not check whether a thread still uses it.
  const auto leave = [](void* argument) {
    const std::unique_ptr<Listening> listening(static_cast<Listening*>(argument));
    listening->all->Remove(listening->own);
  };
  napi_add_env_cleanup_hook(env, leave, new Listening{listeners, listener});
  return nullptr;
}

}  // namespace

void ExportListen(napi_env env, napi_value exports, const char* name,
                  std::shared_ptr<Listeners>& listeners) {
  napi_value function = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, Listen, &listeners, &function);
  napi_set_named_property(env, exports, name, function);
}

}  // namespace sidecall
