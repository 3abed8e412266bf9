// SPDX-License-Identifier: MIT
// The memory of shmipc-go between two ends of ours: its layout, its limits, and words that lie.
#include "shmipc_fixture.h"

#if SIDECALL_HAS_SHMIPC
#include <fcntl.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

namespace sidecall::shmipc_test {
namespace {

using namespace test;
using shmipc::Session;
using Message = std::vector<std::uint8_t>;

std::string Hex(const std::byte* at, std::size_t count) {
  std::string text;
  char pair[3] = {};
  for (std::size_t index = 0; index < count; index += 1) {
    (void)std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned>(at[index]));
    text += pair;
  }
  return text;
}

Message Pattern(std::size_t count, std::size_t seed = 1) {
  Message message(count);
  for (std::size_t at = 0; at < count; at += 1)
    message[at] = static_cast<std::uint8_t>(at * 7 + seed);
  return message;
}

// All of one message; empty where there is none.
Message ReceiveOne(Session& session, std::size_t bytes) {
  Message message;
  Session::Received received;
  while (message.size() < bytes) {
    if (session.Receive(1000, received) != Session::Next::kPart) return message;
    const std::size_t before = message.size();
    message.resize(before + received.bytes);
    if (!session.Take(std::span(message).subspan(before))) return {};
  }
  return message;
}

TEST_CASE("the memory that shmipc-go's defaults make") {
  ShmipcSides sides(8192, 33554432);
  CHECK_EQ(Hex(sides.pool_words, 8), "030000006c60ff01");
  CHECK_EQ(Hex(sides.pool_words + 8, 20), "ff070000ff0700000000000000c0ff00ec1f0000");
  CHECK_EQ(Hex(sides.pool_words + 16769068, 20), "33010000330100000000000000009900ec7f0000");
  CHECK_EQ(Hex(sides.pool_words + 26828880, 20), "33000000330000000000000000006400ecff0100");
  CHECK_EQ(Hex(sides.pool_words + 44, 20), "ec1f000000000000000000000020000001000000");
  CHECK_EQ(Hex(sides.queue_words, 4), "00200000");
  CHECK_EQ(Hex(sides.queue_words + 98328, 4), "00200000");

  const Message hello = {'h', 'e', 'l', 'l', 'o'};
  CHECK_EQ(sides.client->Send(2, hello), Session::Sent::kDoneAndWake);
  CHECK_EQ(Hex(sides.queue_words, 36),
           "0020000000000000000000000100000000000000"
           "01000000"
           "020000002c00000000000000");
  // The flags are those of shmipc-go: in use, and no next slice.
  CHECK_EQ(Hex(sides.pool_words + 44, 25),
           "ec1f000005000000000000000020000002000000"
           "68656c6c6f");
  CHECK_EQ(ReceiveOne(*sides.server, 5), hello);
  CHECK_EQ(Hex(sides.pool_words + 8, 20), "ff070000ff0700000020000000000000ec1f0000");

  const Message large = Pattern(200'000);
  CHECK_EQ(sides.client->Send(2, large), Session::Sent::kDone);
  CHECK_EQ(Hex(sides.pool_words + 26828916, 17), "ecff0100ecff01000000000074609b0103");
  CHECK_EQ(ReceiveOne(*sides.server, large.size()), large);
}

TEST_CASE("messages of all lengths, both ways") {
  ShmipcSides sides;
  for (const std::size_t bytes : {1UL, 8172UL, 8173UL, 131'052UL, 131'053UL, 500'000UL}) {
    CAPTURE(bytes);
    const Message message = Pattern(bytes, bytes);
    CHECK_LE(static_cast<int>(sides.client->Send(7, message)), 1);
    CHECK_EQ(ReceiveOne(*sides.server, bytes), message);
    CHECK_LE(static_cast<int>(sides.server->Send(7, message)), 1);
    CHECK_EQ(ReceiveOne(*sides.client, bytes), message);
  }
  Session::Progress progress;
  REQUIRE(sides.client->Look(progress));
  CHECK_EQ(progress.free_bytes, sides.client->capacity());
}

TEST_CASE("the peer is woken once per sleep") {
  ShmipcSides sides;
  const Message message = Pattern(10);
  CHECK_EQ(sides.client->Send(2, message), Session::Sent::kDoneAndWake);
  CHECK_EQ(sides.client->Send(2, message), Session::Sent::kDone);
  Session::Received received;
  for (int count = 0; count < 2; count += 1) CHECK_EQ(ReceiveOne(*sides.server, 10), message);
  CHECK_EQ(sides.client->Send(2, message), Session::Sent::kDone);
  CHECK_EQ(ReceiveOne(*sides.server, 10), message);
  CHECK_EQ(sides.server->Receive(10, received), Session::Next::kNone);
  CHECK_EQ(sides.client->SendClose(2), Session::Sent::kDoneAndWake);
  CHECK_EQ(sides.server->Receive(10, received), Session::Next::kStreamClosed);
  CHECK_EQ(received.stream, 2);
}

TEST_CASE("a full queue, and slices that are used up") {
  ShmipcSides sides(16);
  const Message message = Pattern(10);
  for (int count = 0; count < 16; count += 1) {
    CHECK_LE(static_cast<int>(sides.client->Send(2, message)), 1);
  }
  CHECK_EQ(sides.client->Send(2, message), Session::Sent::kFull);
  CHECK_EQ(sides.client->SendClose(2), Session::Sent::kFull);
  CHECK_EQ(ReceiveOne(*sides.server, 10), message);
  CHECK_EQ(sides.client->Send(2, message), Session::Sent::kDone);

  ShmipcSides small(64, 1024 * 1024);
  const std::uint64_t all = small.client->capacity();
  CHECK_EQ(small.client->Send(2, Pattern(all + 1)), Session::Sent::kNoMemory);
  Session::Progress progress;
  REQUIRE(small.client->Look(progress));
  CHECK_EQ(progress.free_bytes, all);
  CHECK_EQ(small.client->Send(2, Pattern(all)), Session::Sent::kDoneAndWake);
  CHECK_EQ(small.client->Send(2, message), Session::Sent::kNoMemory);
  CHECK_EQ(ReceiveOne(*small.server, all), Pattern(all));
}

TEST_CASE("words that lie end the session") {
  struct Lie {
    const char* name;
    bool is_queue;
    std::size_t at;
    std::uint32_t value;
  };
  // Stored while one message of the client waits, in the first slice of the first list.
  const Lie lies[] = {
      {"a tail beyond the queue", true, 12, 66},
      {"a tail before the head", true, 16, 0xffff'ffff},
      {"a head of ours that moved", true, 4, 1},
      {"an offset off the grid", true, 28, 45},
      {"an offset beyond the file", true, 28, 0xffff'ffec},
      {"the header of the file", true, 28, 0},
      {"a size beyond the slice", false, 48, 8173},
      {"a start beyond the slice", false, 52, 8173},
      {"a size that wraps", false, 48, 0xffff'ffff},
      {"another capacity", false, 44, 8176},
      {"a next slice off the grid", false, 60, 3},
      {"a next slice that is itself", false, 60, 3},
  };
  for (const Lie& lie : lies) {
    INFO(lie.name);
    ShmipcSides sides;
    REQUIRE_EQ(sides.client->Send(2, Pattern(10)), Session::Sent::kDoneAndWake);
    std::byte* const words = lie.is_queue ? sides.queue_words : sides.pool_words;
    shmipc::Store32(words + lie.at, lie.value);
    if (lie.at == 60) {
      shmipc::Store32(sides.pool_words + 56, std::string(lie.name).ends_with("itself") ? 44 : 45);
    }
    Session::Received received;
    auto next = Session::Next::kPart;
    std::size_t parts = 0;
    while (next == Session::Next::kPart && ++parts < 10'000) {
      next = sides.server->Receive(1'000'000, received);
      Message target(received.bytes);
      if (next == Session::Next::kPart && !sides.server->Take(target)) break;
    }
    CHECK_EQ(next, Session::Next::kCorrupt);
    CHECK_NE(sides.server->fault()[0], '\0');
  }
}

TEST_CASE("free lists that lie end the session") {
  for (const std::uint32_t head : {1U, 0xffff'fff0U, 8'191U}) {
    CAPTURE(head);
    ShmipcSides sides;
    shmipc::Store32(sides.pool_words + 16, head);
    CHECK_EQ(sides.client->Send(2, Pattern(10)), Session::Sent::kCorrupt);
    ShmipcSides other;
    REQUIRE_EQ(other.client->Send(2, Pattern(10)), Session::Sent::kDoneAndWake);
    shmipc::Store32(other.pool_words + 20, head);
    CHECK(ReceiveOne(*other.server, 10).empty());
  }
}

TEST_CASE("memory that was shortened is found before it is touched") {
  ShmipcSides sides;
  shmipc::Files files;
  UniqueFd queues(::memfd_create("queues", MFD_CLOEXEC));
  UniqueFd buffers(::memfd_create("buffers", MFD_CLOEXEC));
  const std::size_t queue_bytes = 2 * shmipc::HalfBytes(64);
  REQUIRE_EQ(::ftruncate(queues.get(), static_cast<off_t>(queue_bytes)), 0);
  REQUIRE_EQ(::ftruncate(buffers.get(), 2 * 1024 * 1024), 0);
  const int number = buffers.get();
  auto mapped = MapMemory(std::move(buffers), shmipc::kPoolMaxBytes);
  REQUIRE(mapped.value().Allocate().ok());
  files.queues = std::move(MapMemory(std::move(queues), shmipc::kPoolMaxBytes).value());
  REQUIRE(files.queues.Allocate().ok());
  std::memcpy(files.queues.memory.data(), sides.queue_words, queue_bytes);
  files.buffers = std::move(mapped.value());
  std::memcpy(files.buffers.memory.data(), sides.pool_words, 2 * 1024 * 1024);
  const char* fault = "";
  const auto session = Session::Open(std::move(files), fault);
  REQUIRE(session != nullptr);
  REQUIRE_EQ(::ftruncate(number, 4096), 0);
  Session::Received received;
  Session::Progress progress;
  CHECK_EQ(session->Send(2, Pattern(10)), Session::Sent::kCorrupt);
  CHECK_EQ(session->SendClose(2), Session::Sent::kCorrupt);
  CHECK_EQ(session->Receive(10, received), Session::Next::kCorrupt);
  CHECK_FALSE(session->Look(progress));
  CHECK_EQ(std::string(session->fault()), "memory that was shortened");
}

TEST_CASE("files that are no session of shmipc-go") {
  std::vector<std::byte> file(64 * 1024);
  const char* fault = "";
  CHECK_FALSE(shmipc::BufferPool::Read(file, fault).has_value());
  WritePool(file, 16);
  CHECK(shmipc::BufferPool::Read(file, fault).has_value());
  struct Lie {
    std::size_t at;
    std::uint32_t value;
  };
  for (const Lie lie : {Lie{0, 65}, Lie{12, 0}, Lie{12, 0xffff'ffff}, Lie{24, 0}, Lie{24, 66},
                        Lie{24, 0xffff'fffc}, Lie{24, 260}}) {
    CAPTURE(lie.at);
    CAPTURE(lie.value);
    WritePool(file, 16);
    shmipc::Store32(file.data() + lie.at, lie.value);
    CHECK_FALSE(shmipc::BufferPool::Read(file, fault).has_value());
  }
  for (std::size_t bytes = 0; bytes < 8 + 2 * 36 + 16 * (84 + 276); bytes += 3) {
    WritePool(file, 16);
    CHECK_FALSE(shmipc::BufferPool::Read(std::span(file).first(bytes), fault).has_value());
  }
}

TEST_CASE("a file that a peer names") {
  const DescriptorsUnchanged unchanged;
  const ScratchDirectory scratch;
  const auto uid = static_cast<std::uint32_t>(::geteuid());
  const std::string& folder = scratch.path();
  const std::string path = scratch.file("memory");
  UniqueFd made(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  CHECK(OpenNamed(path, folder, uid).ok());
  CHECK_FALSE(OpenNamed(path, folder, uid + 1).ok());
  CHECK_FALSE(OpenNamed(path, "/dev/shm", uid).ok());
  CHECK_FALSE(OpenNamed(folder + "/../" + folder.substr(5) + "/memory", folder, uid).ok());
  CHECK_FALSE(OpenNamed(folder + "/..", folder, uid).ok());
  REQUIRE_EQ(::symlink(path.c_str(), scratch.file("link").c_str()), 0);
  CHECK_FALSE(OpenNamed(scratch.file("link"), folder, uid).ok());
  REQUIRE_EQ(::link(path.c_str(), scratch.file("second").c_str()), 0);
  CHECK_FALSE(OpenNamed(path, folder, uid).ok());
  REQUIRE_EQ(::unlink(scratch.file("second").c_str()), 0);
  REQUIRE_EQ(::mkfifo(scratch.file("pipe").c_str(), 0600), 0);
  CHECK_FALSE(OpenNamed(scratch.file("pipe"), folder, uid).ok());
  RemoveNamed(scratch.file("pipe"), made.get());
  CHECK(std::filesystem::exists(scratch.file("pipe")));
  RemoveNamed(path, made.get());
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("two threads send a hundred thousand messages each") {
  ShmipcSides sides(64, 1024 * 1024);
  constexpr std::uint32_t kMessages = 100'000;
  const auto run = [](Session& session, std::atomic<int>& faults) {
    std::uint32_t sent = 0;
    std::uint32_t got = 0;
    Session::Received received;
    std::array<std::uint8_t, 512> bytes = {};
    while (sent < kMessages || got < kMessages) {
      if (sent < kMessages) {
        std::memcpy(bytes.data(), &sent, sizeof sent);
        const auto put = session.Send(2, std::span(bytes).first(4 + sent % 500));
        if (put == Session::Sent::kCorrupt) faults += 1;
        if (put == Session::Sent::kDone || put == Session::Sent::kDoneAndWake) sent += 1;
      }
      const auto next = session.Receive(1024, received);
      if (next == Session::Next::kCorrupt) faults += 1;
      if (next == Session::Next::kPart) {
        std::array<std::uint8_t, 512> target = {};
        if (received.bytes != 4 + got % 500 ||
            !session.Take(std::span(target).first(received.bytes))) {
          faults += 1;
        }
        std::uint32_t number = 0;
        std::memcpy(&number, target.data(), sizeof number);
        if (number != got) faults += 1;
        got += 1;
      }
      if (faults > 0) return;
    }
  };
  std::atomic<int> faults = 0;
  std::thread other([&] { run(*sides.server, faults); });
  run(*sides.client, faults);
  other.join();
  CHECK_EQ(faults.load(), 0);
}

TEST_CASE("random stores of a peer never lead outside the memory") {
  std::mt19937 engine(42);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int round = 0; round < 300; round += 1) {
    ShmipcSides sides(16, 1024 * 1024);
    Session::Received received;
    for (int step = 0; step < 60; step += 1) {
      const std::uint32_t value = random() % 3 == 0 ? random() : random() % 70'000;
      switch (random() % 5) {
        case 0: shmipc::Store32(sides.queue_words + random() % 100 * 4, value); break;
        case 1: shmipc::Store32(sides.pool_words + random() % 20'000 * 4, value); break;
        case 2: (void)sides.client->Send(value, Pattern(1 + random() % 20'000)); break;
        case 3: (void)sides.server->Send(value, Pattern(1 + random() % 20'000)); break;
        default:
          if (sides.server->Receive(5'000, received) == Session::Next::kPart) {
            Message target(received.bytes);
            (void)sides.server->Take(target);
          }
      }
    }
  }
}

}  // namespace
}  // namespace sidecall::shmipc_test
#endif
