// SPDX-License-Identifier: MIT
// Tells JavaScript that a thread has made something. Copies of the package that share the addon in
// one environment have a listener each.
#pragma once

#include <node_api.h>

#include <utility>
#include <vector>

namespace sidecall {

// One thread's right to tell all listeners, once; the environment may end before. Made on the event
// loop.
class [[nodiscard]] Teller {
 public:
  explicit Teller(const std::vector<napi_threadsafe_function>& listeners) {
    for (const napi_threadsafe_function listener : listeners) {
      if (napi_acquire_threadsafe_function(listener) == napi_ok) listeners_.push_back(listener);
    }
  }
  Teller(Teller&& other) noexcept : listeners_(std::exchange(other.listeners_, {})) {}
  Teller& operator=(Teller&&) = delete;
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;
  ~Teller() {
    for (const napi_threadsafe_function listener : listeners_) Release(listener);
  }

  void operator()() noexcept {
    for (const napi_threadsafe_function listener : std::exchange(listeners_, {})) {
      const auto status = napi_call_threadsafe_function(listener, nullptr, napi_tsfn_nonblocking);
      // Where it is closing, that has given it back.
      if (status != napi_closing) Release(listener);
    }
  }

 private:
  static void Release(napi_threadsafe_function listener) noexcept {
    napi_release_threadsafe_function(listener, napi_tsfn_release);
  }

  std::vector<napi_threadsafe_function> listeners_;
};

// (function): called without arguments whenever a thread has made something. It does not keep the
// process alive.
napi_value ListenForNews(napi_env env, napi_callback_info info);

}  // namespace sidecall
