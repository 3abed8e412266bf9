// SPDX-License-Identifier: MIT
#include "os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <mach/vm_inherit.h>
#endif

#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "os/retry.h"
#include "ring/words.h"

namespace sidecall {
namespace {

#if defined(__linux__)
// SEAL, SHRINK, GROW, FUTURE_WRITE. Numbers, because older headers lack the last: Linux 5.1.
constexpr int kRequiredSeals = 0x1 | 0x2 | 0x4 | 0x10;
constexpr int kSealWrite = 0x8;
constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, Linux 6.3
#endif

// The one number that is the process's and no environment's: threads share the machine's memory.
std::atomic<std::uint64_t>& Reserved() noexcept {
  static std::atomic<std::uint64_t> bytes{0};
  return bytes;
}

#if defined(__linux__)
int SystemCreate(bool is_modern) {
  return ::memfd_create("sidecall", MFD_CLOEXEC | (is_modern ? kNoExecSeal : MFD_ALLOW_SEALING));
}
#endif

int SystemResize(int fd, std::uint64_t bytes) {
  return RetryOnInterrupt([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); });
}

int SystemAllocate([[maybe_unused]] int fd, [[maybe_unused]] std::uint64_t bytes) {
#if defined(__linux__)
  // In steps: before Linux 6.11 a signal undoes the whole call, and a profiler sends a thousand a
  // second.
  constexpr std::uint64_t kStep = 256 * 1024;
  for (std::uint64_t at = 0; at < bytes; at += kStep) {
    const std::uint64_t count = bytes - at < kStep ? bytes - at : kStep;
    const int done = RetryOnInterrupt(
        [&] { return ::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(count)); });
    if (done == -1) return -1;
  }
  return 0;
#else
  return 0;  // pages come on first touch
#endif
}

void* SystemMap(int fd, std::uint64_t bytes, bool is_writable) {
  const int protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  return ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
}

int SystemSeal([[maybe_unused]] int fd) {
#if defined(__linux__)
  return ::fcntl(fd, F_ADD_SEALS, kRequiredSeals);
#else
  return 0;
#endif
}

int SystemSeals([[maybe_unused]] int fd) {
#if defined(__linux__)
  return ::fcntl(fd, F_GET_SEALS);
#else
  return 0;
#endif
}

Mapping Map(int fd, std::uint64_t bytes, bool is_writable, const MemoryCalls& calls) noexcept {
  void* const place = calls.map(fd, bytes, is_writable);
  if (place == MAP_FAILED) return {};
#if defined(__APPLE__)
  ::minherit(place, bytes, VM_INHERIT_NONE);
#else
  ::madvise(place, bytes, MADV_DONTFORK);
  ::madvise(place, bytes, MADV_DONTDUMP);
#endif
  return {static_cast<std::byte*>(place), static_cast<std::size_t>(bytes)};
}

void WriteHeader(std::byte* at, const OutboxShape& shape) noexcept {
  OutboxHeader header = {
      kOutboxMagic, kOutboxVersion, shape.capacity_bytes, shape.block_area_bytes, {}};
  std::memcpy(header.nonce, shape.nonce, kNonceBytes);
  std::memcpy(at, &header, sizeof header);
}

// A hole that was there before sealing stays, and reading it can fault for want of memory. Blocks
// may also lie beyond the end, and count: they are given back first. Then all is allocated once
// more: that fails with a number where the memory is not there, and keeps pages that were only ever
// read.
#if defined(__linux__)
OutboxRefusal CheckAllocated(int fd, const OutboxShape& shape, const MemoryCalls& calls) noexcept {
  const std::uint64_t total = shape.total_bytes();
  struct stat status = {};
  if (calls.resize(fd, total) == -1 || ::fstat(fd, &status) == -1) {
    return {true, "memory that cannot be looked at", errno};
  }
  if (static_cast<std::uint64_t>(status.st_blocks) * 512 < total) {
    return {true, "memory with holes", 0};
  }
  if (calls.allocate(fd, total) == -1) {
    const bool is_want = errno == ENOMEM || errno == ENOSPC || errno == EINTR;
    return {!is_want, "memory that could not be held", errno};
  }
  return {};
}
#endif

// What a stranger's object has to be before anything of it is mapped. No words: it is.
#if defined(__linux__)
OutboxRefusal CheckObject(int fd, const OutboxShape& shape, const MemoryCalls& calls) noexcept {
  const int seals = calls.seals(fd);
  if (seals == -1) return {true, "a descriptor that cannot be sealed", errno};
  if ((seals & kRequiredSeals) != kRequiredSeals || (seals & kSealWrite) != 0) {
    return {true, "memory without the seals that fix it", 0};
  }
  // Huge pages can be sealed, too, but reading one can fault for want of another.
  struct statfs system = {};
  if (::fstatfs(fd, &system) == -1) return {true, "memory of no known file system", errno};
  if (system.f_type != TMPFS_MAGIC) return {true, "memory that is not of ordinary pages", 0};
  struct stat status = {};
  if (::fstat(fd, &status) == -1) return {true, "memory without a status", errno};
  if (!S_ISREG(status.st_mode)) return {true, "a descriptor that is no memory", 0};
  if (static_cast<std::uint64_t>(status.st_size) != shape.total_bytes()) {
    return {true, "memory of another size than it announced", 0};
  }
  return CheckAllocated(fd, shape, calls);
}
#else
OutboxRefusal CheckObject(int fd, const OutboxShape& shape, const MemoryCalls&) noexcept {
  // A shared-memory object has no file type; a file has, and could be truncated.
  struct stat status = {};
  if (::fstat(fd, &status) == -1) return {true, "memory without a status", errno};
  if ((status.st_mode & S_IFMT) != 0) return {true, "a descriptor that is no memory", 0};
  if (static_cast<std::uint64_t>(status.st_size) != shape.total_bytes()) {
    return {true, "memory of another size than it announced", 0};
  }
  return {};
}
#endif

bool IsSame(const OutboxHeader& header, const OutboxShape& shape) noexcept {
  return header.magic == kOutboxMagic && header.version == kOutboxVersion &&
         header.capacity_bytes == shape.capacity_bytes &&
         header.block_area_bytes == shape.block_area_bytes &&
         std::memcmp(header.nonce, shape.nonce, kNonceBytes) == 0;
}

#if defined(__linux__)
Result<std::optional<Outbox>> Create(const OutboxShape& shape, MemoryShare share,
                                     const MemoryCalls& calls) {
  const std::uint64_t bytes = shape.total_bytes();
  UniqueFd fd(calls.create(true));
  if (!fd.is_open() && errno == EINVAL) fd = UniqueFd(calls.create(false));
  if (!fd.is_open()) return Error::FromErrno("memfd_create");
  if (calls.resize(fd.get(), bytes) == -1) return Error::FromErrno("ftruncate");
  if (calls.allocate(fd.get(), bytes) == -1) return Error::FromErrno("fallocate");
  Mapping memory = Map(fd.get(), bytes, true, calls);
  if (!memory.is_mapped()) return Error::FromErrno("mmap");
  WriteHeader(memory.data(), shape);
  if (calls.seal(fd.get()) == -1) return Error::FromErrno("fcntl");
  const int seals = calls.seals(fd.get());
  if (seals == -1) return Error::FromErrno("fcntl");
  // A kernel before 5.1 knows no FUTURE_WRITE and says so above; one that says nothing is not
  // trusted.
  if ((seals & kRequiredSeals) != kRequiredSeals) return Error{EPERM, "fcntl"};
  return std::optional<Outbox>(
      Outbox{.share = std::move(share), .memory = std::move(memory), .descriptor = std::move(fd)});
}
#else
// A second, read-only descriptor is what the peer gets: the kernel refuses a writable map of it.
Result<std::optional<Outbox>> Create(const OutboxShape& shape, MemoryShare share,
                                     const MemoryCalls& calls) {
  const std::uint64_t bytes = shape.total_bytes();
  std::random_device source;
  char name[31] = {};
  std::snprintf(name, sizeof name, "/scal%08x%08x%08x", source(), source(), source());
  UniqueFd writable(::shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600));
  if (!writable.is_open()) return Error::FromErrno("shm_open");
  UniqueFd readable(::shm_open(name, O_RDONLY, 0));
  const int opened = errno;
  ::shm_unlink(name);
  if (!readable.is_open()) return Error{opened, "shm_open"};
  for (const UniqueFd* fd : {&writable, &readable}) {
    if (::fcntl(fd->get(), F_SETFD, FD_CLOEXEC) == -1) return Error::FromErrno("fcntl");
  }
  // Succeeds once per object: nobody can change the size later.
  if (calls.resize(writable.get(), bytes) == -1) return Error::FromErrno("ftruncate");
  Mapping memory = Map(writable.get(), bytes, true, calls);
  if (!memory.is_mapped()) return Error::FromErrno("mmap");
  WriteHeader(memory.data(), shape);
  return std::optional<Outbox>(Outbox{
      .share = std::move(share), .memory = std::move(memory), .descriptor = std::move(readable)});
}
#endif

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Mapping::Reset() noexcept {
  if (data_ != nullptr) ::munmap(std::exchange(data_, nullptr), bytes_);
}

MemoryShare::MemoryShare(MemoryShare&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this != &other) {
    Reset();
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

std::optional<MemoryShare> MemoryShare::Reserve(std::uint64_t bytes,
                                                std::uint64_t max_bytes) noexcept {
  std::uint64_t before = Reserved().load(std::memory_order_relaxed);
  do {
    if (bytes > max_bytes || before > max_bytes - bytes) return std::nullopt;
  } while (!Reserved().compare_exchange_weak(before, before + bytes, std::memory_order_relaxed));
  return MemoryShare(bytes);
}

std::uint64_t MemoryShare::ReservedBytes() noexcept {
  return Reserved().load(std::memory_order_relaxed);
}

void MemoryShare::Reset() noexcept {
  if (bytes_ != 0) Reserved().fetch_sub(std::exchange(bytes_, 0), std::memory_order_relaxed);
}

MemoryCalls MemoryCalls::System() noexcept {
  return {
#if defined(__linux__)
    .create = SystemCreate,
#endif
    .resize = SystemResize, .allocate = SystemAllocate, .map = SystemMap, .seal = SystemSeal,
    .seals = SystemSeals
  };
}

Result<std::optional<Outbox>> CreateOutbox(const OutboxShape& shape, std::uint64_t share_max_bytes,
                                           const MemoryCalls& calls) {
  auto share = MemoryShare::Reserve(shape.total_bytes(), share_max_bytes);
  if (!share.has_value()) return std::optional<Outbox>();
  return Create(shape, std::move(*share), calls);
}

PeerOutbox AcceptOutbox(int fd, const OutboxShape& shape, const MemoryCalls& calls) noexcept {
  const OutboxRefusal refusal = CheckObject(fd, shape, calls);
  if (refusal.what[0] != '\0') return {.memory = {}, .refusal = refusal};
  Mapping memory = Map(fd, shape.total_bytes(), false, calls);
  if (!memory.is_mapped()) {
    const bool is_violation = errno == EACCES || errno == EPERM;
    return {.memory = {}, .refusal = {is_violation, "memory that could not be mapped", errno}};
  }
  OutboxHeader header = {};
  CopyPayload(&header, memory.data(), sizeof header);
  if (!IsSame(header, shape)) {
    return {.memory = {}, .refusal = {true, "memory whose header is not that of its hello", 0}};
  }
  return {.memory = std::move(memory), .refusal = {}};
}

}  // namespace sidecall
