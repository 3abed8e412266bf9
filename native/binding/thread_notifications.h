// SPDX-License-Identifier: MIT
// Notifications from threads to JavaScript: each is one number. Copies of the package that share
// the addon in one environment have a listener each.
#pragma once

#include <node_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sidecall {

// Listeners of one kind of notification, shared with the threads that notify. A listener is removed
// before its environment frees it; later notifications do not reach it.
class Listeners {
 public:
  void Add(napi_threadsafe_function listener) {
    const std::lock_guard lock(mutex_);
    all_.push_back(listener);
  }
  void Remove(napi_threadsafe_function listener) {
    const std::lock_guard lock(mutex_);
    std::erase(all_, listener);
  }
  void Tell(std::uint32_t what) {
    // The number itself travels in place of a pointer: nothing has to be allocated and freed.
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    auto* const number = reinterpret_cast<void*>(static_cast<std::uintptr_t>(what));
    const std::lock_guard lock(mutex_);
    for (napi_threadsafe_function listener : all_) {
      napi_call_threadsafe_function(listener, number, napi_tsfn_nonblocking);
    }
  }

 private:
  std::mutex mutex_;
  std::vector<napi_threadsafe_function> all_;
};

// Adds `name(function)`: the function is called with each number that is told. It does not keep the
// process alive. NOTE: `listeners` lives as long as the environment.
void ExportListen(napi_env env, napi_value exports, const char* name,
                  std::shared_ptr<Listeners>& listeners);

}  // namespace sidecall
