// SPDX-License-Identifier: MIT
// A peer with rings that performs one act, valid or not: ring_peer PATH ACT. It connects to a
// listener, whose tests observe the outcome. Its half of the ring is the core's code, so that only
// the intended words are invalid.
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "os/doorbell.h"
#include "os/shared_memory.h"
#include "os/unix_socket.h"
#include "ring/ring.h"
#include "ring/shared_words.h"

namespace {

using namespace sidecall;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::uint8_t>;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "ring_peer: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void PutU32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, 4);
}

void PutU64(Bytes& bytes, std::size_t at, std::uint64_t value) {
  std::memcpy(bytes.data() + at, &value, 8);
}

void SendAll(int fd, const Bytes& bytes, const std::vector<int>& descriptors) {
  iovec piece = {const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  std::vector<std::byte> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size() * sizeof(int));
  }
  if (::sendmsg(fd, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size())) Fail("send");
}

// Receives `count` bytes, and at most one descriptor.
Bytes ReceiveExactly(int fd, std::size_t count, UniqueFd& descriptor) {
  Bytes bytes(count);
  for (std::size_t at = 0; at < count;) {
    pollfd waited = {fd, POLLIN, 0};
    ::poll(&waited, 1, -1);
    auto got = ReceiveBytes(fd, std::span(bytes).subspan(at), true);
    if (!got.ok()) Fail("receive");
    if (!got.value().has_value()) continue;
    if (got.value()->bytes == 0) {
      std::puts("{\"end\":\"in the hello\"}");
      std::exit(0);
    }
    at += got.value()->bytes;
    if (!got.value()->descriptors.empty()) descriptor = std::move(got.value()->descriptors[0]);
  }
  return bytes;
}

constexpr std::uint64_t kBlockBytes = 256 * 1024;

class FdBell final : public Doorbell {
 public:
  explicit FdBell(int fd) : fd_(fd) {}
  [[nodiscard]] bool Ring() noexcept override { return RingDoorbell(fd_); }

 private:
  int fd_;
};

OutboxShape ShapeOf(std::uint64_t capacity) {
  OutboxShape shape;
  shape.capacity_bytes = capacity;
  std::memset(shape.nonce, 0x42, kNonceBytes);
  return shape;
}

Bytes HelloOf(const OutboxShape& shape, std::uint32_t flags) {
  Bytes hello(64);
  PutU32(hello, 0, kOutboxMagic);
  hello[4] = 1;
  hello[6] = 1;
  PutU32(hello, 12, flags);
  PutU64(hello, 16, shape.capacity_bytes);
  PutU64(hello, 24, shape.block_area_bytes);
  std::memcpy(hello.data() + 32, shape.nonce, kNonceBytes);
  PutU32(hello, 48, 4 * 1024 * 1024);
  PutU32(hello, 52, 4096);
  PutU32(hello, 56, 8192);
  PutU32(hello, 60, 256 * 1024);
  return hello;
}

Bytes AnswerOf(std::uint16_t verdict) {
  Bytes answer(8);
  PutU32(answer, 0, kOutboxMagic);
  answer[4] = static_cast<std::uint8_t>(verdict);
  answer[6] = 1;
  return answer;
}

// The connection after its hello.
struct Connection {
  UniqueFd socket;
  Outbox mine;
  PeerOutbox peer;
  OutboxShape my_shape;
  OutboxShape peer_shape;
  bool is_ring = false;
};

UniqueFd Connect(const std::string& path) {
  auto connected = ConnectUnixSocket(path);
  if (!connected.ok() || !connected.value().has_value()) Fail("connect");
  return std::move(*connected.value());
}

// Makes the hello, as `act` requires. Exits where the other side closes during it.
Connection Meet(const std::string& path, const std::string& act) {
  Connection connection;
  connection.socket = Connect(path);
  const int fd = connection.socket.get();
  (void)AdmitDescriptors(fd);
  connection.my_shape = ShapeOf(kCapacityMin * 4);
  if (act.starts_with("block-")) connection.my_shape.block_area_bytes = kBlockBytes;
  SendAll(fd, HelloOf(connection.my_shape, 2), {});
  UniqueFd descriptor;
  const Bytes hello = ReceiveExactly(fd, 64, descriptor);
  std::memcpy(&connection.peer_shape.capacity_bytes, hello.data() + 16, 8);
  std::memcpy(&connection.peer_shape.block_area_bytes, hello.data() + 24, 8);
  std::memcpy(connection.peer_shape.nonce, hello.data() + 32, kNonceBytes);
  connection.peer =
      AcceptOutbox(descriptor.get(), connection.peer_shape, MappedPart::kRingAndBlocks);
  if (!connection.peer.ok()) Fail("accept");
  auto outbox = CreateOutbox(connection.my_shape, MemoryShare());
  if (!outbox.ok()) Fail("create");
  connection.mine = std::move(outbox.value());
  const int own = connection.mine.descriptor.get();
  if (act == "hello-no-descriptor") {
    SendAll(fd, AnswerOf(0), {});
  } else if (act == "hello-two-descriptors") {
    SendAll(fd, AnswerOf(0), {own, own});
  } else if (act == "hello-declines-with-descriptor") {
    SendAll(fd, AnswerOf(1), {own});
  } else if (act == "hello-declines") {
    SendAll(fd, AnswerOf(1), {});
  } else if (act == "hello-late-descriptor") {
    const Bytes answer = AnswerOf(0);
    SendAll(fd, Bytes(answer.begin(), answer.begin() + 4), {});
    // Waits until it was read: otherwise one read may return both
    // parts, and the descriptor's position would be unknown.
    for (int unread = 1; unread > 0;) {
      if (::ioctl(fd, SIOCOUTQ, &unread) != 0) Fail("ioctl");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    SendAll(fd, Bytes(answer.begin() + 4, answer.end()), {own});
  } else if (act == "hello-descriptor-behind") {
    Bytes both = AnswerOf(0);
    SendAll(fd, both, {own});
    SendAll(fd, {1}, {own});
  } else if (act == "hello-unsealed") {
    const int fake = ::memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (::ftruncate(fake, static_cast<off_t>(connection.my_shape.total_bytes())) != 0) Fail("size");
    SendAll(fd, AnswerOf(0), {fake});
  } else if (act == "hello-pipe") {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) Fail("pipe");
    SendAll(fd, AnswerOf(0), {ends[0]});
  } else {
    SendAll(fd, AnswerOf(0), {own});
  }
  const Bytes answer = ReceiveExactly(fd, 8, descriptor);
  std::printf("{\"verdict\":%d}\n", answer[4]);
  std::fflush(stdout);
  connection.is_ring = answer[4] == 0;
  return connection;
}

Bytes Frame(std::uint8_t type, std::size_t header_bytes, const std::string& payload) {
  Bytes frame(header_bytes);
  frame[0] = type;
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

// The first frame of each side.
Bytes ClockFrame() { return Frame(12, 16, ""); }

Bytes MethodFrame(const std::string& name) { return Frame(1, 12, name); }

// A notification in slot `slot`, generation 1, of the first method announced.
Bytes NotificationFrame(std::uint32_t slot, const std::string& payload) {
  Bytes frame = Frame(2, 36, payload);
  frame[1] = 3;
  frame[2] = 2;
  PutU32(frame, 4, slot);
  PutU32(frame, 8, 1);
  PutU32(frame, 16, 0xffff'ffff);
  PutU32(frame, 24, static_cast<std::uint32_t>(payload.size()));
  return frame;
}

// A call in slot 0, generation 1, of the first method announced; its request is in a block.
Bytes CallFrame(std::uint32_t message_bytes) {
  Bytes frame = Frame(2, 36, "");
  frame[1] = 3;
  frame[2] = 1;
  PutU32(frame, 8, 1);
  PutU32(frame, 16, 0xffff'ffff);
  PutU32(frame, 24, message_bytes);
  return frame;
}

// Credit of 0 bytes: valid, without any effect.
Bytes IdleFrame() { return Frame(8, 16, ""); }

// Waits for the end of the connection, and prints the number of bytes before it.
void WaitForEnd(int fd) {
  long bytes = 0;
  for (;;) {
    pollfd waited = {fd, POLLIN, 0};
    ::poll(&waited, 1, -1);
    std::uint8_t heard[256];
    const ssize_t got = ::recv(fd, heard, sizeof heard, MSG_DONTWAIT);
    if (got > 0) bytes += got;
    if (got == 0 || (got == -1 && errno != EAGAIN && errno != EINTR)) break;
  }
  std::printf("{\"end\":\"closed\",\"bytes\":%ld}\n", bytes);
}

/** Has the test written a line? */
bool IsTold() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

bool HasEnded(int fd) {
  std::uint8_t heard[256];
  for (;;) {
    const ssize_t got = ::recv(fd, heard, sizeof heard, MSG_DONTWAIT);
    if (got > 0) continue;
    return got == 0 || (errno != EAGAIN && errno != EINTR);
  }
}

// Stores the invalid words of `act`, and wakes the reader so that it reads them.
void Lie(Connection& connection, const std::string& act) {
  Control& control = connection.mine.control();
  const std::uint64_t capacity = connection.my_shape.capacity_bytes;
  if (act == "cursor-unaligned") StoreWord(control.producer_cursor, 13, std::memory_order_seq_cst);
  if (act == "cursor-ahead")
    StoreWord(control.producer_cursor, capacity + 8, std::memory_order_seq_cst);
  if (act == "cursor-huge")
    StoreWord(control.producer_cursor, ~std::uint64_t{7}, std::memory_order_seq_cst);
  if (act == "record-nothing") StoreWord(control.producer_cursor, 64, std::memory_order_seq_cst);
  if (act == "record-kind" || act == "record-length" || act == "record-zero") {
    const std::uint64_t header = act == "record-kind" ? RecordHeader::Join(16, RecordKind{9})
                                 : act == "record-length"
                                     ? RecordHeader::Join(0xffff'fff0, RecordKind::kFrame)
                                     : RecordHeader::Join(0, RecordKind::kFrame);
    StoreHeader(connection.mine.data(), header);
    StoreWord(control.producer_cursor, capacity, std::memory_order_seq_cst);
  }
  if (act.starts_with("block-")) {
    // References in consecutive records: offset, bytes, id.
    std::vector<BlockReference> references = {{0, 100, 1}};
    if (act == "block-outside") references = {{kBlockBytes - kBlockAlign, kBlockAlign + 1, 1}};
    if (act == "block-misaligned") references = {{8, 100, 1}};
    if (act == "block-id") references = {{0, 100, 7}};
    if (act == "block-twice") references.push_back({0, 100, 2});
    std::uint64_t at = 0;
    const auto word = [&](std::uint64_t value) {
      StoreHeader(connection.mine.data() + at, value);
      at += 8;
    };
    word(RecordHeader::Join(16, RecordKind::kFrame));  // the clock
    word(12);
    word(0);
    word(RecordHeader::Join(8 + 12, RecordKind::kFrame));  // names method 0, "Flow.put"
    word(1);
    word(0);
    std::memcpy(connection.mine.data() + at - 4, "Flow.put", 8);
    at += 8;
    for (std::uint32_t slot = 0; slot < references.size(); ++slot) {
      const auto& [offset, bytes, id] = references[slot];
      word(RecordHeader::Join(24 + 36, RecordKind::kBlockFrame));
      word(offset);
      word(bytes);
      word(id);
      Bytes frame = CallFrame(static_cast<std::uint32_t>(bytes));
      PutU32(frame, 4, slot);
      std::memcpy(connection.mine.data() + at, frame.data(), frame.size());
      at += (frame.size() + 7) / 8 * 8;
    }
    if (act == "block-release") {
      word(RecordHeader::Join(8, RecordKind::kBlockRelease));
      word(1);
    }
    StoreWord(control.producer_cursor, at, std::memory_order_seq_cst);
  }
  if (act == "consumer-ahead")
    StoreWord(control.consumer_cursor, 1 << 20, std::memory_order_seq_cst);
  for (int look = 0; look < 1000 && !HasEnded(connection.socket.get()); ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    // A valid doorbell is sent where the reader sleeps, so that it reads the invalid words.
    if (look == 5 &&
        LoadWord(connection.peer.control().data_sleep_epoch, std::memory_order_seq_cst) % 2 == 1) {
      (void)RingDoorbell(connection.socket.get());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fputs("usage: ring_peer PATH ACT\n", stderr), 2;
  const std::string act = argv[2];
  Connection connection = Meet(argv[1], act);
  const int fd = connection.socket.get();
  if (!connection.is_ring) {
    WaitForEnd(fd);
    return 0;
  }
  FdBell bell(fd);
  Ring ring({.mine = connection.mine.control(),
             .my_data = connection.mine.data(),
             .my_capacity = connection.my_shape.capacity_bytes,
             .peer = connection.peer.control(),
             .peer_data = connection.peer.data(),
             .peer_capacity = connection.peer_shape.capacity_bytes,
             .my_block_area = connection.my_shape.block_area_bytes},
            bell);
  const auto put = [&](const Bytes& frame) {
    return ring.Write(frame, {}) == Ring::Written::kWritten;
  };
  const auto until = [](int milliseconds) {
    return Clock::now() + std::chrono::milliseconds(milliseconds);
  };

  if (act == "wrong-byte") {
    SendAll(fd, {0x02}, {});
  } else if (act == "doorbell-flood") {
    for (int count = 0; count < 10'000 && RingDoorbell(fd); ++count) {
    }
  } else if (act == "frame-unknown") {
    put(Frame(77, 12, ""));
    ring.Publish();
  } else if (act == "frame-short") {
    put({2, 3});
    ring.Publish();
  } else if (act == "second-hello") {
    SendAll(fd, HelloOf(connection.my_shape, 0), {});
  } else if (act == "endless") {
    // Valid records at full speed until it is told to stop.
    long written = 0;
    put(ClockFrame());
    while (!IsTold() && !HasEnded(fd)) {
      while (put(IdleFrame())) written += 1;
      ring.Publish();
    }
    std::printf("{\"written\":%ld}\n", written);
    return 0;
  } else if (act == "trickle") {
    put(ClockFrame());
    for (const auto end = until(1000); Clock::now() < end;) {
      put(IdleFrame());
      ring.Publish();
      const auto next = Clock::now() + std::chrono::microseconds(30);
      while (Clock::now() < next) {
      }
    }
    std::puts("{\"stopped\":true}");
    std::fflush(stdout);
  } else if (act == "flip-epochs") {
    while (!IsTold()) {
      static std::uint64_t epoch = 1;
      StoreWord(connection.mine.control().data_sleep_epoch, epoch, std::memory_order_seq_cst);
      StoreWord(connection.mine.control().space_sleep_epoch, epoch++, std::memory_order_seq_cst);
    }
    std::puts("{\"stopped\":true}");
    return 0;
  } else if (act == "publish-after-end") {
    put(ClockFrame());
    put(MethodFrame("Demo.log"));
    for (std::uint32_t slot = 0; slot < 10; ++slot) put(NotificationFrame(slot, "\"before\""));
    ring.Publish();
    // The half close ends this direction: records that follow are not part of it.
    ::shutdown(fd, SHUT_WR);
    // The other side says when it has seen the end, and waits until this process has stopped.
    std::getchar();
    for (std::uint32_t slot = 10; slot < 100; ++slot) put(NotificationFrame(slot, "\"after\""));
    ring.Publish();
    ::raise(SIGSTOP);
    return 0;
  } else if (act == "half-written") {
    put(ClockFrame());
    put(MethodFrame("Demo.log"));
    for (std::uint32_t slot = 0; slot < 10; ++slot) put(NotificationFrame(slot, "\"before\""));
    ring.Publish();
    put(NotificationFrame(10, "\"never published\""));
    ::kill(::getpid(), SIGKILL);
  } else if (act == "block-changes" || act == "block-dies" || act == "block-length" ||
             act == "block-frame") {
    put(ClockFrame());
    put(MethodFrame("Flow.put"));
    const auto block = ring.AllocateBlock(kBlockBytes / 2);
    if (!block.has_value()) Fail("allocate");
    std::memset(block->data, 7, kBlockBytes / 2);
    const std::uint32_t said = act == "block-length" ? 100 : kBlockBytes / 2;
    const Bytes frame = act == "block-frame" ? IdleFrame() : CallFrame(said);
    if (ring.WriteBlock(frame, block->offset, kBlockBytes / 2) != Ring::Written::kWritten) {
      Fail("write");
    }
    ring.Publish();
    if (act == "block-dies") {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      ::kill(::getpid(), SIGKILL);
    }
    std::uint8_t filling = 0;
    while (act == "block-changes" && !IsTold()) {
      std::memset(block->data, ++filling, kBlockBytes / 2);
    }
  } else if (act == "idle") {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  } else {
    Lie(connection, act);
  }
  WaitForEnd(fd);
  return 0;
}
