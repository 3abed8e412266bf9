// SPDX-License-Identifier: MIT
// Making outboxes, and all defects of a peer's outbox. The kernel has to refuse the attacks, so
// they run against a real outbox.
#include "os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>

#include "fixture.h"

namespace sidecall::shared_memory_test {
namespace {

using test::DescriptorsUnchanged;
using test::ScratchDirectory;

constexpr int kAllSeals = 0x17;

OutboxShape ShapeOf(std::uint64_t capacity = kCapacityMin, std::uint8_t nonce = 7) {
  OutboxShape shape;
  shape.capacity_bytes = capacity;
  std::memset(shape.nonce, nonce, kNonceBytes);
  return shape;
}

Outbox Make(const OutboxShape& shape = ShapeOf()) {
  auto outbox = CreateOutbox(shape, MemoryShare());
  REQUIRE(outbox.ok());
  return std::move(outbox.value());
}

PeerOutbox Accept(int fd, const OutboxShape& shape,
                  const MemoryCalls& calls = MemoryCalls::System()) {
  return AcceptOutbox(fd, shape, MappedPart::kRingAndBlocks, calls);
}

// Makes memory as a peer would, with exactly the given seals.
UniqueFd Forge(std::uint64_t bytes, int seals, unsigned flags = MFD_ALLOW_SEALING,
               bool is_allocated = true) {
  UniqueFd fd(::memfd_create("forged", MFD_CLOEXEC | flags));
  REQUIRE(fd.is_open());
  REQUIRE_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (is_allocated) REQUIRE_EQ(::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)), 0);
  if (seals != 0) REQUIRE_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

void CheckViolation(int fd, const OutboxShape& shape) {
  const PeerOutbox accepted = Accept(fd, shape);
  CHECK_FALSE(accepted.ok());
  CHECK(accepted.refusal.is_violation);
}

TEST_CASE("an outbox is allocated, sealed, and accepted with the shape it was made with") {
  const DescriptorsUnchanged unchanged;
  for (const std::uint64_t capacity : {kCapacityMin, std::uint64_t{1} << 20}) {
    OutboxShape shape = ShapeOf(capacity);
    shape.block_area_bytes = 2 * kBlockAreaUnit;
    const Outbox outbox = Make(shape);
    CHECK_EQ(::fcntl(outbox.descriptor.get(), F_GET_SEALS) & kAllSeals, kAllSeals);
    CHECK_EQ(::fcntl(outbox.descriptor.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    struct stat status = {};
    REQUIRE_EQ(::fstat(outbox.descriptor.get(), &status), 0);
    CHECK_EQ(static_cast<std::uint64_t>(status.st_size), shape.total_bytes());
    const PeerOutbox peer = Accept(outbox.descriptor.get(), shape);
    REQUIRE(peer.ok());
    std::memcpy(outbox.data(), "seen by both", 12);
    CHECK_EQ(std::memcmp(peer.data(), "seen by both", 12), 0);
  }
}

// System calls of which one fails; the others are the system's.
int failing_errno = 0;
int FailCreate(bool) { return errno = failing_errno, -1; }
int FailSized(int, std::uint64_t) { return errno = failing_errno, -1; }
int FailAllocate(int, std::uint64_t, std::uint64_t) { return errno = failing_errno, -1; }
int FailPopulate(void*, std::uint64_t) { return errno = failing_errno, -1; }
int OldPopulate(void*, std::uint64_t) { return errno = EINVAL, -1; }  // before Linux 5.14
int OldPresent(int, std::uint64_t, std::uint64_t&) { return errno = ENOSYS, -1; }  // before 6.5
int FailFd(int) { return errno = failing_errno, -1; }
int FewSeals(int) { return 0x7; }
int NoModernCreate(bool is_modern) {
  if (is_modern) return errno = EINVAL, -1;
  return ::memfd_create("old", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}
void* FailMap(int, std::uint64_t, bool) { return errno = failing_errno, MAP_FAILED; }

TEST_CASE("every call that fails is an error, and leaves nothing") {
  const DescriptorsUnchanged unchanged;
  const std::uint64_t before = MemoryShare::ReservedBytes();
  const MemoryCalls system = MemoryCalls::System();
  for (const int number : {ENOMEM, ENOSPC, EMFILE, ENFILE, EPERM, ENOSYS, EINVAL, EBUSY}) {
    failing_errno = number;
    MemoryCalls calls[6] = {system, system, system, system, system, system};
    calls[0].create = FailCreate;
    calls[1].resize = FailSized;
    calls[2].allocate = FailAllocate;
    calls[3].map = FailMap;
    calls[4].seal = FailFd;
    calls[5].seals = FailFd;
    for (const MemoryCalls& failing : calls) {
      MemoryShare share;
      REQUIRE(share.Reserve(1, ShapeOf().total_bytes(), 1 << 30));
      const auto outbox = CreateOutbox(ShapeOf(), std::move(share), failing);
      REQUIRE_FALSE(outbox.ok());
      CHECK_EQ(outbox.error().number, number);
    }
  }
  MemoryCalls unsealed = system;
  unsealed.seals = FewSeals;  // the kernel accepted the seals, but reports fewer
  CHECK_FALSE(CreateOutbox(ShapeOf(), MemoryShare(), unsealed).ok());
  MemoryCalls old = system;
  old.create = NoModernCreate;
  CHECK(CreateOutbox(ShapeOf(), MemoryShare(), old).ok());
  CHECK_EQ(MemoryShare::ReservedBytes(), before);
}

TEST_CASE("no address space to map a peer's outbox is a want of ours, not its fault") {
  const Outbox outbox = Make();
  MemoryCalls calls = MemoryCalls::System();
  calls.map = FailMap;
  failing_errno = ENOMEM;
  const PeerOutbox declined = Accept(outbox.descriptor.get(), ShapeOf(), calls);
  CHECK_FALSE(declined.ok());
  CHECK_FALSE(declined.refusal.is_violation);
  CHECK_EQ(declined.refusal.number, ENOMEM);
  failing_errno = EACCES;
  CHECK(Accept(outbox.descriptor.get(), ShapeOf(), calls).refusal.is_violation);
}

TEST_CASE("memory of a peer's that cannot be read or held is a want of ours") {
  const Outbox outbox = Make();
  MemoryCalls calls = MemoryCalls::System();
  calls.populate = FailPopulate;
  failing_errno = ENOMEM;
  PeerOutbox declined = Accept(outbox.descriptor.get(), ShapeOf(), calls);
  CHECK_FALSE(declined.ok());
  CHECK_FALSE(declined.refusal.is_violation);
  calls.present = OldPresent;
  calls.populate = OldPopulate;
  CHECK(Accept(outbox.descriptor.get(), ShapeOf(), calls).ok());
  calls.allocate = FailAllocate;
  for (const int number : {ENOMEM, ENOSPC}) {
    failing_errno = number;
    declined = Accept(outbox.descriptor.get(), ShapeOf(), calls);
    CHECK_FALSE(declined.ok());
    CHECK_FALSE(declined.refusal.is_violation);
  }
  failing_errno = EBADF;  // a read-only descriptor
  CHECK(Accept(outbox.descriptor.get(), ShapeOf(), calls).refusal.is_violation);
}

TEST_CASE("a block area that is not wanted is neither mapped nor read") {
  OutboxShape shape = ShapeOf();
  shape.block_area_bytes = 64 * kBlockAreaUnit;
  const Outbox outbox = Make(shape);
  const PeerOutbox ring =
      AcceptOutbox(outbox.descriptor.get(), shape, MappedPart::kRing, MemoryCalls::System());
  REQUIRE(ring.ok());
  CHECK_EQ(ring.memory.size(), kControlPageBytes + shape.capacity_bytes);
  CHECK_EQ(Accept(outbox.descriptor.get(), shape).memory.size(), shape.total_bytes());
}

TEST_CASE("blocks beyond what was announced are refused, and not freed by us") {
  const std::uint64_t bytes = ShapeOf().total_bytes();
  const UniqueFd fd = Forge(bytes, 0);
  constexpr off_t kBeyond = 16 * 1024 * 1024;
  REQUIRE_EQ(::fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(bytes), kBeyond), 0);
  REQUIRE_EQ(::fcntl(fd.get(), F_ADD_SEALS, kAllSeals), 0);
  struct stat before = {};
  REQUIRE_EQ(::fstat(fd.get(), &before), 0);
  const PeerOutbox peer = Accept(fd.get(), ShapeOf());
  CHECK_FALSE(peer.ok());
  CHECK_EQ(std::string(peer.refusal.what), "memory with more blocks than it announced");
  struct stat after = {};
  REQUIRE_EQ(::fstat(fd.get(), &after), 0);
  CHECK_EQ(after.st_blocks, before.st_blocks);
}

TEST_CASE("a peer that holds the lock of its memory does not make the check wait") {
  const Outbox outbox = Make();
  const int fd = outbox.descriptor.get();
  MemoryCalls calls = MemoryCalls::System();
  calls.allocate = FailAllocate;  // calls that would take the lock fail
  calls.resize = FailSized;
  failing_errno = EDEADLK;
  CHECK(Accept(fd, ShapeOf(), calls).ok());
}

TEST_CASE("no attack of the seals' owner changes the memory under its reader") {
  const Outbox outbox = Make();
  const int fd = outbox.descriptor.get();
  const auto bytes = static_cast<off_t>(ShapeOf().total_bytes());
  const PeerOutbox peer = Accept(fd, ShapeOf());
  REQUIRE(peer.ok());
  std::memset(outbox.data(), 0x5a, kCapacityMin);

  CHECK_EQ(::ftruncate(fd, 0), -1);
  CHECK_EQ(::ftruncate(fd, bytes + 4096), -1);
  CHECK_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes), -1);
  CHECK_EQ(::fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, bytes), -1);
  CHECK_EQ(::fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -1);
  CHECK_EQ(::madvise(outbox.memory.data(), outbox.memory.size(), MADV_REMOVE), -1);
  CHECK_EQ(::pwrite(fd, "x", 1, 0), -1);
  CHECK_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  void* const again = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  REQUIRE_NE(again, MAP_FAILED);
  CHECK_EQ(::mprotect(again, 4096, PROT_READ | PROT_WRITE), -1);
  ::munmap(again, 4096);
  CHECK_EQ(::mprotect(peer.memory.data(), 4096, PROT_READ | PROT_WRITE), -1);
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const UniqueFd reopened(::open(link.c_str(), O_RDWR | O_CLOEXEC));
  if (reopened.is_open()) {
    CHECK_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened.get(), 0),
             MAP_FAILED);
    CHECK_EQ(::pwrite(reopened.get(), "x", 1, 0), -1);
    CHECK_EQ(::ftruncate(reopened.get(), 0), -1);
  }
  CHECK_EQ(::open(link.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), -1);
  CHECK_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);

  for (std::uint64_t at = 0; at < kCapacityMin; ++at) {
    REQUIRE_EQ(peer.data()[at], std::byte{0x5a});
  }
}

TEST_CASE("without FUTURE_WRITE a hole appears under the reader: the seal is needed") {
  const std::uint64_t bytes = ShapeOf().total_bytes();
  const UniqueFd fd = Forge(bytes, 0x7);
  auto* const mine = static_cast<std::byte*>(
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  REQUIRE_NE(static_cast<void*>(mine), MAP_FAILED);
  mine[kControlPageBytes] = std::byte{1};
  CHECK_EQ(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                       static_cast<off_t>(bytes)),
           0);
  CHECK_EQ(mine[kControlPageBytes], std::byte{0});
  ::munmap(mine, bytes);
}

TEST_CASE("every set of seals but the right one is refused") {
  const DescriptorsUnchanged unchanged;
  const int all[] = {0x1, 0x2, 0x4, 0x8, 0x10};
  int accepted = 0;
  for (int set = 0; set < 32; ++set) {
    int seals = 0;
    for (int bit = 0; bit < 5; ++bit) {
      if ((set & (1 << bit)) != 0) seals |= all[bit];
    }
    CAPTURE(seals);
    const OutboxShape shape = ShapeOf();
    UniqueFd fd(::memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE_EQ(::ftruncate(fd.get(), static_cast<off_t>(shape.total_bytes())), 0);
    REQUIRE_EQ(::fallocate(fd.get(), 0, 0, static_cast<off_t>(shape.total_bytes())), 0);
    const OutboxHeader header = {kOutboxMagic, kOutboxVersion, shape.capacity_bytes, 0, {}};
    REQUIRE_EQ(::pwrite(fd.get(), &header, sizeof header, 0), 40);
    REQUIRE_EQ(::pwrite(fd.get(), shape.nonce, kNonceBytes, 24), 16);
    REQUIRE_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    const PeerOutbox peer = Accept(fd.get(), shape);
    CHECK_EQ(peer.ok(), seals == kAllSeals);
    accepted += peer.ok();
    if (!peer.ok()) CHECK(peer.refusal.is_violation);
  }
  CHECK_EQ(accepted, 1);
}

TEST_CASE("the wrong size, holes, or another shape than the hello's") {
  const std::uint64_t bytes = ShapeOf().total_bytes();
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  CheckViolation(Forge(bytes - page, kAllSeals).get(), ShapeOf());
  CheckViolation(Forge(0, kAllSeals, MFD_ALLOW_SEALING, false).get(), ShapeOf());
  CheckViolation(Forge(bytes, kAllSeals, MFD_ALLOW_SEALING, false).get(), ShapeOf());
  CheckViolation(Forge(bytes, kAllSeals).get(), ShapeOf());  // its header is zeros
  // The right number of blocks, but beyond its end.
  UniqueFd beyond = Forge(bytes, 0, MFD_ALLOW_SEALING, false);
  const auto size = static_cast<off_t>(bytes);
  REQUIRE_EQ(::fallocate(beyond.get(), FALLOC_FL_KEEP_SIZE, size, size), 0);
  REQUIRE_EQ(::fcntl(beyond.get(), F_ADD_SEALS, kAllSeals), 0);
  MemoryCalls old = MemoryCalls::System();
  old.present = OldPresent;
  MemoryCalls older = old;
  older.populate = OldPopulate;
  for (const MemoryCalls& calls : {MemoryCalls::System(), old, older}) {
    const PeerOutbox hollow = Accept(beyond.get(), ShapeOf(), calls);
    CHECK_EQ(std::string(hollow.refusal.what), "memory with holes");
    beyond = Forge(bytes, 0, MFD_ALLOW_SEALING, false);  // a read has allocated a block
    REQUIRE_EQ(::fallocate(beyond.get(), FALLOC_FL_KEEP_SIZE, size, size), 0);
    REQUIRE_EQ(::fcntl(beyond.get(), F_ADD_SEALS, kAllSeals), 0);
  }
  // All of its blocks, and an end that comes too early.
  UniqueFd early = Forge(bytes / 2, 0);
  REQUIRE_EQ(::fallocate(early.get(), FALLOC_FL_KEEP_SIZE, 0, size), 0);
  REQUIRE_EQ(::fcntl(early.get(), F_ADD_SEALS, kAllSeals), 0);
  for (const MemoryCalls& calls : {MemoryCalls::System(), old, older}) {
    const PeerOutbox short_one = Accept(early.get(), ShapeOf(), calls);
    CHECK_FALSE(short_one.ok());
    CHECK(short_one.refusal.is_violation);
  }
  const Outbox outbox = Make();
  CheckViolation(outbox.descriptor.get(), ShapeOf(kCapacityMin, 8));
  CheckViolation(outbox.descriptor.get(), ShapeOf(2 * kCapacityMin));
}

TEST_CASE("descriptors that are no memory at all are refused unmapped") {
  const ScratchDirectory scratch;
  int ends[2] = {-1, -1};
  REQUIRE_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]);
  const UniqueFd writer(ends[1]);
  CheckViolation(reader.get(), ShapeOf());
  const UniqueFd directory(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CheckViolation(directory.get(), ShapeOf());
  const UniqueFd file(::open(scratch.file("file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE_EQ(::ftruncate(file.get(), static_cast<off_t>(ShapeOf().total_bytes())), 0);
  CheckViolation(file.get(), ShapeOf());
  const UniqueFd shm(::open("/dev/shm", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (shm.is_open()) CheckViolation(shm.get(), ShapeOf());  // it answers 1: SEAL alone
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CheckViolation(null.get(), ShapeOf());
  const UniqueFd secret(static_cast<int>(::syscall(SYS_memfd_secret, O_CLOEXEC)));
  if (secret.is_open()) CheckViolation(secret.get(), ShapeOf());
}

TEST_CASE("huge pages can be sealed, and are refused") {
  UniqueFd fd(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  REQUIRE(fd.is_open());
  REQUIRE_EQ(::ftruncate(fd.get(), 2 * 1024 * 1024), 0);
  REQUIRE_EQ(::fcntl(fd.get(), F_ADD_SEALS, kAllSeals), 0);
  const PeerOutbox peer = Accept(fd.get(), ShapeOf());
  CHECK_FALSE(peer.ok());
  CHECK_EQ(std::string(peer.refusal.what), "memory that is not of ordinary pages");
}

TEST_CASE("who writes to the other's outbox faults itself") {
  const Outbox outbox = Make();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none = {0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(SIGSEGV, SIG_DFL);
    const PeerOutbox peer = Accept(outbox.descriptor.get(), ShapeOf());
    if (peer.ok()) const_cast<std::byte*>(peer.data())[0] = std::byte{1};
    ::_exit(0);
  }
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFSIGNALED(status));
  CHECK_EQ(WTERMSIG(status), SIGSEGV);
}

TEST_CASE("a forked child has neither mapping") {
  const Outbox outbox = Make();
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident = 0;
    ::_exit(::mincore(outbox.memory.data(), 4096, &resident) == -1 && errno == ENOMEM ? 0 : 1);
  }
  int status = 0;
  REQUIRE_EQ(::waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST_CASE("no memory has to be locked") {
  rlimit before = {};
  REQUIRE_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  const rlimit none = {0, before.rlim_max};
  REQUIRE_EQ(::setrlimit(RLIMIT_MEMLOCK, &none), 0);
  const Outbox outbox = Make();
  CHECK(Accept(outbox.descriptor.get(), ShapeOf()).ok());
  REQUIRE_EQ(::setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

}  // namespace
}  // namespace sidecall::shared_memory_test
