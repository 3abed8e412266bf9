// SPDX-License-Identifier: MIT
#include "shmipc/handshake.h"

#if SIDECALL_HAS_SHMIPC
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "os/exact_socket.h"
#include "os/unix_socket.h"

namespace sidecall::shmipc {
namespace {

constexpr std::size_t kHeaderBytes = 8;
constexpr std::uint32_t kMagic = 0x7758;
constexpr std::uint8_t kMetadataByPath = 0;
constexpr std::uint8_t kExchangeVersion = 4;
constexpr std::uint8_t kMetadataByDescriptor = 5;
constexpr std::uint8_t kMemoryAccepted = 6;
constexpr std::uint8_t kReadyForDescriptors = 7;
constexpr std::uint8_t kByPathVersion = 2;
constexpr std::uint8_t kNewestVersion = 3;
constexpr std::size_t kMetadataMaxBytes = 4 + 2 * 4096;

using Bytes = std::vector<std::uint8_t>;

struct Event {
  std::uint8_t version = 0;
  std::uint8_t type = 0;
  std::size_t body_bytes = 0;
};

Met Fault(Met::Outcome outcome, std::string what, int number = 0) {
  return {.outcome = outcome,
          .session = nullptr,
          .version = 0,
          .what = std::move(what),
          .number = number};
}

Met Violation(std::string what) { return Fault(Met::Outcome::kViolation, std::move(what)); }

Met SystemFault(const Error& error) {
  return Fault(Met::Outcome::kSystem,
               std::string(error.syscall) + ": " + std::generic_category().message(error.number),
               error.number);
}

// The steps of a handshake; the first that fails leaves `fault`.
class Steps {
 public:
  Steps(int fd, std::chrono::milliseconds timeout) : wire_(fd, timeout) {}

  bool Send(std::uint8_t version, std::uint8_t type, const Bytes& body = {}) {
    const std::size_t length = kHeaderBytes + body.size();
    Bytes event = {static_cast<std::uint8_t>(length >> 24), static_cast<std::uint8_t>(length >> 16),
                   static_cast<std::uint8_t>(length >> 8),  static_cast<std::uint8_t>(length),
                   kMagic >> 8,                             kMagic & 0xff,
                   version,                                 type};
    event.insert(event.end(), body.begin(), body.end());
    return IsDone(wire_.Write(event));
  }

  bool Expect(Event& event) {
    std::array<std::uint8_t, kHeaderBytes> header = {};
    if (!IsDone(wire_.Read(header))) return false;
    const std::size_t length = std::size_t{header[0]} << 24 | std::size_t{header[1]} << 16 |
                               std::size_t{header[2]} << 8 | std::size_t{header[3]};
    if ((std::uint32_t{header[4]} << 8 | header[5]) != kMagic || length < kHeaderBytes) {
      return Refuse("bytes that are no event of shmipc-go");
    }
    event = {.version = header[6], .type = header[7], .body_bytes = length - kHeaderBytes};
    return true;
  }

  // An event of this type, without a body.
  bool Expect(std::uint8_t type, Event& event) {
    if (!Expect(event)) return false;
    if (event.type == type && event.body_bytes == 0) return true;
    return Refuse("event " + std::to_string(event.type) + " instead of event " +
                  std::to_string(type));
  }

  bool ReadBody(const Event& event, Bytes& body) {
    if (event.body_bytes > kMetadataMaxBytes) return Refuse("names of files that are too long");
    body.resize(event.body_bytes);
    return IsDone(wire_.Read(body));
  }

  bool ReadDescriptors(std::vector<UniqueFd>& descriptors) {
    if (!IsDone(wire_.ReadDescriptors(descriptors))) return false;
    if (descriptors.size() == 2) return true;
    return Refuse(std::to_string(descriptors.size()) + " descriptors instead of 2");
  }

  bool SendDescriptors(int first, int second) {
    return IsDone(wire_.WriteDescriptors(first, second));
  }

  bool Refuse(std::string what) {
    fault = Violation(std::move(what));
    return false;
  }

  Met fault;

 private:
  bool IsDone(ExactSocket::Outcome outcome) {
    switch (outcome) {
      case ExactSocket::Outcome::kDone: return true;
      case ExactSocket::Outcome::kTimeout:
        fault = Fault(Met::Outcome::kTimeout, "the handshake did not end in time");
        break;
      case ExactSocket::Outcome::kGone:
        fault = Fault(Met::Outcome::kGone, "the peer ended during the handshake");
        break;
      case ExactSocket::Outcome::kSystem:
        fault = SystemFault({wire_.number(), "handshake"});
        break;
    }
    return false;
  }

  ExactSocket wire_;
};

void Append(Bytes& body, const std::string& path) {
  body.push_back(static_cast<std::uint8_t>(path.size() >> 8));
  body.push_back(static_cast<std::uint8_t>(path.size()));
  body.insert(body.end(), path.begin(), path.end());
}

// The names in a body: of the queue file, then of the buffer file.
bool ParsePaths(const Bytes& body, std::string& queue, std::string& buffer) {
  std::size_t at = 0;
  for (std::string* path : {&queue, &buffer}) {
    if (body.size() - at < 2) return false;
    const std::size_t length = std::size_t{body[at]} << 8 | body[at + 1];
    at += 2;
    if (length == 0 || body.size() - at < length) return false;
    const auto* const text = reinterpret_cast<const char*>(body.data()) + at;
    path->assign(text, length);
    if (path->find('\0') != std::string::npos) return false;
    at += length;
  }
  return at == body.size();
}

Met MapError(const Error& error, const char* which) {
  switch (error.number) {
    case EFBIG: return Violation(std::string(which) + " exceeds memoryMaxBytes");
    case EACCES: return Violation(std::string(which) + " is no file of the peer in the directory");
    case EMEDIUMTYPE:
    case EINVAL: return Violation(std::string(which) + " is no memory");
    default: return SystemFault(error);
  }
}

Met UnknownVersion(std::uint8_t version, const char* known) {
  return Fault(Met::Outcome::kVersion,
               "protocol version " + std::to_string(version) + "; " + known);
}

bool IsNewest(Steps& steps, std::uint8_t version) {
  if (version == kNewestVersion) return true;
  steps.fault = UnknownVersion(version, "memory without a name needs 3");
  return false;
}

std::string UniquePath(const char* kind) {
  std::random_device random;
  char path[96] = {};
  (void)std::snprintf(path, sizeof path, "/dev/shm/sidecall_%ld_%08x%08x_%s",
                static_cast<long>(::getpid()), random(), random(), kind);
  return path;
}

}  // namespace

Met Accept(int fd, const AcceptSettings& settings) {
  Steps steps(fd, settings.timeout);
  Event event;
  if (!steps.Expect(event)) return std::move(steps.fault);
  const std::uint8_t version = event.version;
  if (version == kNewestVersion) {
    if (event.type != kExchangeVersion || event.body_bytes != 0) {
      return Violation("a first event that does not exchange versions");
    }
    if (!steps.Send(kNewestVersion, kExchangeVersion)) return std::move(steps.fault);
    if (!steps.Expect(event)) return std::move(steps.fault);
  } else if (version != kByPathVersion) {
    return UnknownVersion(version, "2 and 3 are known");
  }
  const bool has_descriptors = version == kNewestVersion && event.type == kMetadataByDescriptor;
  if (event.version != version || (event.type != kMetadataByPath && !has_descriptors)) {
    return Violation("event " + std::to_string(event.type) + " instead of the names of memory");
  }
  Bytes body;
  if (!steps.ReadBody(event, body)) return std::move(steps.fault);
  Files files;
  if (!ParsePaths(body, files.queue_path, files.buffer_path)) {
    return Violation("names of files that do not fill their event");
  }
  std::vector<UniqueFd> descriptors;
  if (has_descriptors) {
    files.queue_path.clear();  // labels only
    files.buffer_path.clear();
    // At no other time does the socket take descriptors, where the kernel can refuse them.
    if (const auto admitted = AdmitDescriptors(fd); !admitted.ok()) {
      return SystemFault(admitted.error());
    }
    if (!steps.Send(version, kReadyForDescriptors)) return std::move(steps.fault);
    if (!steps.ReadDescriptors(descriptors)) return std::move(steps.fault);
    if (const auto refused = RefuseDescriptors(fd); !refused.ok()) {
      return SystemFault(refused.error());
    }
  } else {
    for (const std::string* path : {&files.buffer_path, &files.queue_path}) {
      auto opened = OpenNamed(*path, settings.directory, settings.uid);
      if (!opened.ok()) return MapError(opened.error(), "a file of the memory");
      descriptors.push_back(std::move(opened.value()));
    }
  }
  // The shape comes first: pages are made for memory that is accepted only, since they count as
  // ours.
  auto queues = MapMemory(std::move(descriptors[1]), 2 * HalfBytes(kQueueCapacityMax));
  if (!queues.ok()) return MapError(queues.error(), "the queue file");
  auto buffers = MapMemory(std::move(descriptors[0]), settings.memory_max_bytes);
  if (!buffers.ok()) return MapError(buffers.error(), "the buffer file");
  files.buffers = std::move(buffers.value());
  files.queues = std::move(queues.value());
  const char* fault = "";
  auto session = Session::Open(std::move(files), fault);
  if (session == nullptr) return Violation(fault);
  if (const auto made = session->Allocate(); !made.ok()) return SystemFault(made.error());
  if (version == kNewestVersion && !steps.Send(version, kMemoryAccepted)) {
    return std::move(steps.fault);
  }
  return {.outcome = Met::Outcome::kMet,
          .session = std::move(session),
          .version = version,
          .what = {},
          .number = 0};
}

Met Connect(int fd, const ConnectSettings& settings) {
  Files files;
  auto queues = CreateMemory("shmipc_queue", 2 * HalfBytes(settings.queue_capacity));
  if (!queues.ok()) return SystemFault(queues.error());
  auto buffers = CreateMemory("shmipc_buffer", settings.buffer_bytes);
  if (!buffers.ok()) return SystemFault(buffers.error());
  files.queues = std::move(queues.value());
  files.buffers = std::move(buffers.value());
  auto session = Session::Create(std::move(files), settings.queue_capacity);

  Steps steps(fd, settings.timeout);
  Event event;
  Bytes names;
  // shmipc-go takes a known name for the memory that it has already: the names are unique.
  Append(names, UniquePath("queue"));
  Append(names, UniquePath("buffer"));
  const auto& made = session->files();
  const bool is_met = steps.Send(kNewestVersion, kExchangeVersion) &&
                      steps.Expect(kExchangeVersion, event) &&
                      IsNewest(steps, event.version) &&
                      steps.Send(kNewestVersion, kMetadataByDescriptor, names) &&
                      steps.Expect(kReadyForDescriptors, event) &&
                      steps.SendDescriptors(made.buffers.fd.get(), made.queues.fd.get()) &&
                      steps.Expect(kMemoryAccepted, event);
  if (!is_met) return std::move(steps.fault);
  return {.outcome = Met::Outcome::kMet,
          .session = std::move(session),
          .version = kNewestVersion,
          .what = {},
          .number = 0};
}

}  // namespace sidecall::shmipc
#endif
