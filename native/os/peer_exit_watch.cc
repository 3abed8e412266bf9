// SPDX-License-Identifier: MIT
#include "os/peer_exit_watch.h"

#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#endif

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "os/peer_credentials.h"
#include "os/retry.h"

namespace sidecall {

#if defined(__linux__)
namespace {

constexpr std::uint64_t kWake = ~std::uint64_t{0};
// A thread that has nothing to watch waits a little: connections come one after the other.
constexpr int kIdleMaxMs = 200;

bool AddTo(int epoll, int fd, std::uint64_t data) noexcept {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = data;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

// Shared with the thread, which may outlive the environment.
struct PeerExitWatch::State {
  Tell tell;
  std::mutex mutex;
  UniqueFd epoll;
  UniqueFd wake;  // an eventfd that wakes the thread
  std::map<std::uint32_t, UniqueFd> pidfds;
  bool is_running = false;
  bool is_ending = false;

  void Wake() const noexcept {
    const std::uint64_t one = 1;
    if (wake.is_open()) [[maybe_unused]]
      const auto written = ::write(wake.get(), &one, sizeof one);
  }

  // The time-out of the next wait in milliseconds (-1: none). No value: the thread ends,
  // and closes its descriptors.
  std::optional<int> Look(bool is_idle) {
    const std::lock_guard lock(mutex);
    if (is_ending || (is_idle && pidfds.empty())) {
      epoll.Reset();
      wake.Reset();
      is_running = false;
      return std::nullopt;
    }
    return pidfds.empty() ? kIdleMaxMs : -1;
  }

  void OnEvent(std::uint64_t data) {
    const std::lock_guard lock(mutex);
    if (data == kWake) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake.get(), &count, sizeof count);
      return;
    }
    const auto number = static_cast<std::uint32_t>(data);
    // Closing a pidfd removes it from the epoll set. A watch that was removed
    // meanwhile is not reported.
    if (pidfds.erase(number) > 0) tell(number);
  }

  static void* Run(void* argument) noexcept {
    const std::unique_ptr<std::shared_ptr<State>> shared(
        static_cast<std::shared_ptr<State>*>(argument));
    State& state = **shared;
    const int epoll = state.epoll.get();  // this thread alone closes it
    std::array<epoll_event, 64> events = {};
    int count = 1;
    for (auto wait = state.Look(false); wait.has_value(); wait = state.Look(count == 0)) {
      count = RetryOnInterrupt([&] {
        return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), *wait);
      });
      for (int at = 0; at < count; ++at) {
        state.OnEvent(events[static_cast<std::size_t>(at)].data.u64);
      }
    }
    return nullptr;
  }
};

PeerExitWatch::PeerExitWatch(Tell tell, Workers::Starter start)
    : state_(std::make_shared<State>()), start_(start) {
  state_->tell = std::move(tell);
}

PeerExitWatch::~PeerExitWatch() {
  const std::lock_guard lock(state_->mutex);
  state_->pidfds.clear();
  state_->is_ending = true;
  state_->Wake();
}

Result<bool> PeerExitWatch::Add(int socket, std::uint32_t number) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (::getsockopt(socket, SOL_SOCKET, kPeerPidfd, &fd, &size) == -1) {
    if (errno == ENOPROTOOPT || errno == ESRCH) return false;
    return Error::FromErrno("getsockopt");
  }
  UniqueFd pidfd(fd);
  const std::lock_guard lock(state_->mutex);
  if (!state_->is_running) {
    state_->epoll = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
    state_->wake = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const bool is_made = state_->epoll.is_open() && state_->wake.is_open() &&
                         AddTo(state_->epoll.get(), state_->wake.get(), kWake);
    if (!is_made) return Error::FromErrno("epoll_create1");
    auto shared = std::make_unique<std::shared_ptr<State>>(state_);
    if (!start_(&State::Run, shared.get())) return Error{EAGAIN, "pthread_create"};
    [[maybe_unused]] const auto* const given_away = shared.release();
    state_->is_running = true;
  }
  if (!AddTo(state_->epoll.get(), pidfd.get(), number)) return Error::FromErrno("epoll_ctl");
  state_->pidfds.insert_or_assign(number, std::move(pidfd));
  return true;
}

void PeerExitWatch::Remove(std::uint32_t number) {
  const std::lock_guard lock(state_->mutex);
  if (state_->pidfds.erase(number) > 0 && state_->pidfds.empty()) state_->Wake();
}

#else

struct PeerExitWatch::State {};
PeerExitWatch::PeerExitWatch(Tell, Workers::Starter start) : start_(start) {}
PeerExitWatch::~PeerExitWatch() = default;
Result<bool> PeerExitWatch::Add(int, std::uint32_t) { return false; }
void PeerExitWatch::Remove(std::uint32_t) {}

#endif

}  // namespace sidecall
