// SPDX-License-Identifier: MIT
// A peer that is not Node, for the tests: a helper after docs/protocol.md, and several incorrect
// peers. Plain POSIX without code of the core, so that it tests the document.
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Bytes = std::string;

constexpr std::uint32_t kMagic = 0x6c616373;

template <typename Number>
void Put(Bytes& bytes, Number value) {  // this program runs on little-endian machines only
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

Bytes Hello() {
  Bytes bytes;
  Put(bytes, kMagic);
  Put<std::uint16_t>(bytes, 1);
  Put<std::uint16_t>(bytes, 1);
  bytes.append(24, '\0');  // features, flags, capacity, block area
  bytes.append(16, 'n');   // a nonce; random in a real peer
  Put<std::uint32_t>(bytes, 4u << 20);
  Put<std::uint32_t>(bytes, 4096);
  Put<std::uint32_t>(bytes, 8192);
  Put<std::uint32_t>(bytes, 256u << 10);
  return bytes;
}

Bytes Answer() {
  Bytes bytes;
  Put(bytes, kMagic);
  Put<std::uint16_t>(bytes, 1);
  Put<std::uint16_t>(bytes, 1);
  return bytes;
}

Bytes Frame(int type, int flags, int aux, std::uint32_t slot, std::uint32_t generation,
            const Bytes& rest = {}) {
  Bytes bytes;
  Put<std::uint32_t>(bytes, static_cast<std::uint32_t>(12 + rest.size()));
  Put<std::uint8_t>(bytes, static_cast<std::uint8_t>(type));
  Put<std::uint8_t>(bytes, static_cast<std::uint8_t>(flags));
  Put<std::uint16_t>(bytes, static_cast<std::uint16_t>(aux));
  Put(bytes, slot);
  Put(bytes, generation);
  return bytes + rest;
}

void SendAll(int fd, const Bytes& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(fd, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) ::_exit(0);
    at += static_cast<std::size_t>(sent);
  }
}

Bytes Exactly(int fd, std::size_t count) {
  Bytes bytes(count, '\0');
  for (std::size_t at = 0; at < count;) {
    const ssize_t got = ::recv(fd, bytes.data() + at, count - at, 0);
    if (got <= 0) ::_exit(0);
    at += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::uint32_t U32(const Bytes& bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

sockaddr_un AddressOf(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return address;
}

int Connect(const char* path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const sockaddr_un address = AddressOf(path);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(4);
  return fd;
}

int Meet(int fd) {
  SendAll(fd, Hello());
  Exactly(fd, 72);  // its hello and its answer
  SendAll(fd, Answer());
  SendAll(fd, Frame(12, 0, 0, 0, 0, Bytes(4, '\0')));  // the clock is the first frame of each side
  return fd;
}

bool SendDescriptor(int fd) {
  char byte = 0;
  iovec piece = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int offered = 0;
  std::memcpy(CMSG_DATA(header), &offered, sizeof offered);
  return ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

template <typename... Values>
void Say(const char* format, Values... values) {
  if constexpr (sizeof...(values) == 0)
    std::fputs(format, stdout);
  else
    std::printf(format, values...);
  std::fflush(stdout);
}

void Become(unsigned uid, unsigned gid) {
  if (::setgroups(0, nullptr) != 0 || ::setgid(gid) != 0 || ::setuid(uid) != 0) ::_exit(5);
}

// The helper of docs/protocol.md, section 5: answers calls with their method, request and pids.
[[noreturn]] void Help(bool with_grandchild) {
  const char* const parent = std::getenv("SIDECALL_PARENT");
  const Bytes told = parent == nullptr ? "null" : "\"" + Bytes(parent) + "\"";
  const int fd = std::atoi(std::getenv("SIDECALL_FD"));
  ::unsetenv("SIDECALL_FD");
  ::unsetenv("SIDECALL_PARENT");
  Meet(fd);
  pid_t grandchild = 0;
  if (with_grandchild) {  // the grandchild keeps our end of the pair open
    grandchild = ::fork();
    if (grandchild == 0) {
      ::sleep(60);
      ::_exit(0);
    }
  }
  std::vector<Bytes> names;
  for (;;) {
    const Bytes frame = Exactly(fd, U32(Exactly(fd, 4), 0));
    const int type = frame[0];
    if (type == 1) names.push_back(frame.substr(12));
    if (type == 2) {
      const Bytes body = "{\"method\":\"" + names.at(U32(frame, 12)) +
                         "\",\"request\":" + frame.substr(36) + ",\"parent\":" + told +
                         ",\"pid\":" + std::to_string(::getpid()) +
                         ",\"grandchild\":" + std::to_string(grandchild) + "}";
      Bytes rest;
      Put<std::uint32_t>(rest, static_cast<std::uint32_t>(body.size()));
      SendAll(fd, Frame(3, 2, 0, U32(frame, 4), U32(frame, 8), rest + body));
    }
    if (type == 9 && frame[1] == 0) SendAll(fd, Frame(9, 2, 0, 0, 0));
  }
}

void OfferDescriptors(const char* path) {
  const int fd = Meet(Connect(path));
  int refused = 0;
  for (int round = 0; round < 100'000; ++round) refused += SendDescriptor(fd) ? 0 : 1;
  Say("{\"refused\":%d}\n", refused);
}

void OfferEarly(const char* path) {
  Say(SendDescriptor(Connect(path)) ? "{\"sent\":true}\n" : "{\"refused\":true}\n");
}

void ShutWriting(const char* path) {
  const int fd = Meet(Connect(path));
  ::shutdown(fd, SHUT_WR);
  char bytes[4096];
  while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
  }
  Say("{\"ended\":true}\n");
}

void WriteForEver(const char* path) {
  const int fd = Meet(Connect(path));
  ::shutdown(fd, SHUT_RD);
  const auto until = steady_clock::now() + milliseconds(2000);
  const Bytes ping = Frame(10, 0, 0, 1, 0);
  while (steady_clock::now() < until) {
    if (::send(fd, ping.data(), ping.size(), MSG_NOSIGNAL) <= 0) break;
  }
  Say("{\"done\":true}\n");
}

// Requests up to 4,096 large answers in 3 s and reads none of them.
void Stall(const char* path) {
  const int fd = Meet(Connect(path));
  SendAll(fd, Frame(1, 0, 0, 0, 0, "Demo.same"));
  const Bytes request = "\"" + Bytes(10'000, 'x') + "\"";
  const auto until = steady_clock::now() + milliseconds(3000);
  for (std::uint32_t slot = 0; slot < 4096 && steady_clock::now() < until; ++slot) {
    Bytes rest;
    for (const std::uint32_t field :
         {0u, 0xffffffffu, 0u, static_cast<std::uint32_t>(request.size()), 0u, 0u}) {
      Put(rest, field);
    }
    const Bytes frame = Frame(2, 3, 1, slot, 1, rest + request);
    for (std::size_t at = 0; at < frame.size() && steady_clock::now() < until;) {
      const ssize_t sent =
          ::send(fd, frame.data() + at, frame.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0)
        at += static_cast<std::size_t>(sent);
      else if (errno == EAGAIN)
        ::usleep(5000);
      else
        slot = 4096, at = frame.size();
    }
  }
  Say("{\"done\":true}\n");
  ::usleep(500'000);
}

// A thousand processes that connect and are killed at once.
void ConnectAndDie(const char* path) {
  for (int round = 0; round < 1000; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      Connect(path);
      ::kill(::getpid(), SIGKILL);
    }
    ::waitpid(child, nullptr, 0);
  }
}

// Connects with real ids of one user and effective ids of another, like a setuid program.
void ConnectAsEffective(const char* path, unsigned real, unsigned uid, unsigned gid) {
  if (::setgroups(0, nullptr) != 0 || ::setresgid(real, gid, gid) != 0 ||
      ::setresuid(real, uid, uid) != 0) {
    ::_exit(5);
  }
  const int fd = Connect(path);
  SendAll(fd, "x");
  Exactly(fd, 1);
}

// Makes a listening socket; its child accepts, as another user.
void Supervise(const char* path, unsigned uid) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ::fchmod(fd, 0600);
  const sockaddr_un address = AddressOf(path);
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(6);
  ::listen(fd, 4);
  const pid_t child = ::fork();
  if (child == 0) {
    Become(uid, uid);
    const int accepted = ::accept(fd, nullptr, nullptr);
    char byte = 0;
    [[maybe_unused]] const ssize_t ended = ::recv(accepted, &byte, 1, 0);
    ::_exit(0);
  }
  Say("{\"pid\":%d}\n", ::getpid());
  ::waitpid(child, nullptr, 0);
}

// Connects and ends; its child makes the call afterwards, as another user.
void HandOn(const char* path, unsigned uid) {
  const int fd = Meet(Connect(path));
  const pid_t first = ::getpid();
  if (::fork() > 0) ::_exit(0);
  while (::getppid() == first) ::usleep(10'000);
  Become(uid, uid);
  SendAll(fd, Frame(1, 0, 0, 0, 0, "Demo.whoami"));
  Bytes rest;
  for (const std::uint32_t field : {0u, 0xffffffffu, 0u, 0u, 0u, 0u}) Put(rest, field);
  SendAll(fd, Frame(2, 3, 1, 0, 1, rest));
  for (;;) {
    const Bytes frame = Exactly(fd, U32(Exactly(fd, 4), 0));
    if (frame[0] != 3) continue;
    Say("{\"first\":%d,\"said\":%s}\n", first, frame.substr(16).c_str());
    ::_exit(0);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string what = count > 1 ? arguments[1] : "";
  const char* const path = count > 2 ? arguments[2] : "";
  const auto id = [&](int at) {
    return static_cast<unsigned>(std::strtoul(at < count ? arguments[at] : "", nullptr, 10));
  };
  if (what == "helper") Help(false);
  if (what == "helper-with-grandchild") Help(true);
  if (what == "descriptors") OfferDescriptors(path);
  if (what == "early-descriptors") OfferEarly(path);
  if (what == "half") ShutWriting(path);
  if (what == "write-for-ever") WriteForEver(path);
  if (what == "stall") Stall(path);
  if (what == "connect-and-die") ConnectAndDie(path);
  if (what == "as-effective") ConnectAsEffective(path, id(3), id(4), id(5));
  if (what == "supervise") Supervise(path, id(3));
  if (what == "hand-on") HandOn(path, id(3));
  return 0;
}
