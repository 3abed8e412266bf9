// SPDX-License-Identifier: MIT
#include "os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#elif defined(__APPLE__)
#include <mach/vm_inherit.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

#include "os/retry.h"
#include "ring/shared_words.h"

namespace sidecall {
namespace {

#if defined(__linux__)
// SEAL, SHRINK, GROW, FUTURE_WRITE. Numbers, because older headers lack the last: Linux 5.1.
constexpr int kRequiredSeals = 0x1 | 0x2 | 0x4 | 0x10;
constexpr int kSealWrite = 0x8;
constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, Linux 6.3
constexpr int kPopulateRead = 22;      // MADV_POPULATE_READ, Linux 5.14
// Allocated bytes beyond the announced size that are accepted: huge pages round the allocation up.
constexpr std::uint64_t kExcessMaxBytes = std::uint64_t{2} * 1024 * 1024;
// Step of fallocate(): before Linux 6.11 a signal undoes the whole call, and a profiler sends a
// thousand signals a second.
constexpr std::uint64_t kAllocateStep = std::uint64_t{256} * 1024;
constexpr std::uint64_t kPopulateStep = std::uint64_t{1024} * 1024;
#endif

#if defined(__linux__)
int SystemCreate(bool is_modern) {
  return ::memfd_create("sidecall", MFD_CLOEXEC | (is_modern ? kNoExecSeal : MFD_ALLOW_SEALING));
}
#endif

int SystemResize(int fd, std::uint64_t bytes) {
  return RetryOnInterrupt([&] { return ::ftruncate(fd, static_cast<off_t>(bytes)); });
}

int SystemAllocate([[maybe_unused]] int fd, [[maybe_unused]] std::uint64_t bytes,
                   [[maybe_unused]] std::uint64_t step) {
#if defined(__linux__)
  for (std::uint64_t at = 0; at < bytes; at += step) {
    const std::uint64_t count = bytes - at < step ? bytes - at : step;
    const int done = RetryOnInterrupt(
        [&] { return ::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(count)); });
    if (done == -1) return -1;
  }
  return 0;
#else
  return 0;  // pages come on first touch
#endif
}

#if defined(__linux__)
// Pages of the first `bytes` that are in memory or in swap. Linux 6.5; takes no lock.
int SystemPresent(int fd, std::uint64_t bytes, std::uint64_t& pages) {
  constexpr long kCacheStat = 451;
  struct {
    std::uint64_t offset;
    std::uint64_t length;
  } const range = {0, bytes};
  struct {
    std::uint64_t cached;
    std::uint64_t dirty;
    std::uint64_t writeback;
    std::uint64_t evicted;
    std::uint64_t recently_evicted;
  } counts = {};
  if (::syscall(kCacheStat, fd, &range, &counts, 0) == -1) return -1;
  pages = counts.cached + counts.evicted;
  return 0;
}

// Populates the pages in steps, since each step holds a lock of our whole address space.
int SystemPopulate(void* data, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += kPopulateStep) {
    const std::uint64_t count = std::min(bytes - at, kPopulateStep);
    auto* const from = static_cast<std::byte*>(data) + at;
    const int done = RetryOnInterrupt([&] { return ::madvise(from, count, kPopulateRead); });
    if (done == -1) return -1;
  }
  return 0;
}
#endif

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

#if defined(__linux__)
// Checks an object of a peer before any of it is mapped. `what` is empty
// where the object is accepted.
OutboxRefusal CheckObject(int fd, const OutboxShape& shape, const MemoryCalls& calls,
                          std::uint64_t& allocated) noexcept {
  const int seals = calls.seals(fd);
  if (seals == -1) return {true, "a descriptor that cannot be sealed", errno};
  if ((seals & kRequiredSeals) != kRequiredSeals || (seals & kSealWrite) != 0) {
    return {true, "memory without the seals that fix it", 0};
  }
  // Only tmpfs is accepted: huge pages can be sealed, too, but a read can fault where none is left.
  struct statfs system = {};
  if (::fstatfs(fd, &system) == -1) return {true, "memory of no known file system", errno};
  if (system.f_type != TMPFS_MAGIC) return {true, "memory that is not of ordinary pages", 0};
  if (calls.allocated(fd, allocated) == -1) return {true, "memory of no known size", errno};
  if (allocated < shape.total_bytes()) return {true, "memory with holes", 0};
  if (allocated - shape.total_bytes() > kExcessMaxBytes) {
    return {false, "memory with more blocks than it announced", 0};
  }
  return {};
}

std::uint64_t PageBytes() noexcept {
  static const auto bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

// True: the system counts memory strictly. It may drop pages that were only read, and make them
// again at the next read, which can fail and kill the reader.
bool CountsStrictly() noexcept {
  const UniqueFd file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
  char digit = '0';
  return file.is_open() && ::read(file.get(), &digit, 1) == 1 && digit == '2';
}

// Refuses memory with holes: a hole from before the sealing stays, and a read of it can fault where
// memory is short. Where the kernel does not count pages, each page is populated once here: that
// fails with an errno instead of a fault, and a filled hole shows as an additional block.
OutboxRefusal CheckPages(int fd, const OutboxShape& shape, const Mapping& memory,
                         const MemoryCalls& calls, std::uint64_t allocated) noexcept {
  const std::uint64_t total = shape.total_bytes();
  const std::uint64_t page = PageBytes();
  std::uint64_t pages = 0;
  const bool is_counted = calls.present(fd, total, pages) == 0;
  if (is_counted && pages < (total + page - 1) / page) return {true, "memory with holes", 0};
  // Blocks may lie beyond the end of the object, where a read faults: populating
  // the last page shows that.
  const std::uint64_t first = is_counted ? (memory.size() - 1) / page * page : 0;
  bool is_held = calls.populate(memory.data() + first, memory.size() - first) == 0;
  if (!is_held && errno == EFAULT) return {true, "memory that ends before it should", 0};
  if (!is_held && errno != EINVAL) return {false, "memory that could not be read", errno};
  if (!is_held || CountsStrictly()) is_held = calls.allocate(fd, total, total) == 0;
  if (!is_held) {
    const bool is_want = errno == ENOMEM || errno == ENOSPC || errno == EINTR;
    return {!is_want, "memory that could not be held", errno};
  }
  std::uint64_t now = 0;
  if (calls.allocated(fd, now) == -1) return {true, "memory of no known size", errno};
  if (now > allocated) return {true, "memory with holes", 0};
  return {};
}
#else
OutboxRefusal CheckObject(int fd, const OutboxShape& shape, const MemoryCalls&,
                          std::uint64_t&) noexcept {
  // A shared-memory object has no file type; a file has, and could be truncated.
  struct stat status = {};
  if (::fstat(fd, &status) == -1) return {true, "memory without a status", errno};
  if ((status.st_mode & S_IFMT) != 0) return {true, "a descriptor that is no memory", 0};
  if (static_cast<std::uint64_t>(status.st_size) != shape.total_bytes()) {
    return {true, "memory of another size than it announced", 0};
  }
  return {};
}

OutboxRefusal CheckPages(int, const OutboxShape&, const Mapping&, const MemoryCalls&,
                         std::uint64_t) noexcept {
  return {};
}
#endif

bool IsSame(const OutboxHeader& header, const OutboxShape& shape) noexcept {
  return header.magic == kOutboxMagic && header.version == kOutboxVersion &&
         header.capacity_bytes == shape.capacity_bytes &&
         header.block_area_bytes == shape.block_area_bytes &&
         std::memcmp(header.nonce, shape.nonce, kNonceBytes) == 0;
}

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

#if defined(__linux__)
int AllocatedBytes(int fd, std::uint64_t& bytes) noexcept {
  std::int64_t size = 0;
  if (::ioctl(fd, FIOQSIZE, &size) == 0) {
    bytes = static_cast<std::uint64_t>(size);
    return 0;
  }
  struct stat status = {};
  if (::fstat(fd, &status) == -1) return -1;
  bytes = static_cast<std::uint64_t>(status.st_blocks) * 512;
  return 0;
}
#endif

MemoryCalls MemoryCalls::System() noexcept {
  return {
#if defined(__linux__)
    .create = SystemCreate,
#endif
    .resize = SystemResize, .allocate = SystemAllocate, .map = SystemMap, .seal = SystemSeal,
    .seals = SystemSeals,
#if defined(__linux__)
    .allocated = AllocatedBytes, .present = SystemPresent, .populate = SystemPopulate,
#endif
  };
}

#if defined(__linux__)
Result<Outbox> CreateOutbox(const OutboxShape& shape, MemoryShare share, const MemoryCalls& calls) {
  const std::uint64_t bytes = shape.total_bytes();
  UniqueFd fd(calls.create(true));
  if (!fd.is_open() && errno == EINVAL) fd = UniqueFd(calls.create(false));
  if (!fd.is_open()) return Error::FromErrno("memfd_create");
  if (calls.resize(fd.get(), bytes) == -1) return Error::FromErrno("ftruncate");
  if (calls.allocate(fd.get(), bytes, kAllocateStep) == -1) {
    return Error::FromErrno("fallocate");
  }
  Mapping memory = Map(fd.get(), bytes, true, calls);
  if (!memory.is_mapped()) return Error::FromErrno("mmap");
  WriteHeader(memory.data(), shape);
  if (calls.seal(fd.get()) == -1) return Error::FromErrno("fcntl");
  const int seals = calls.seals(fd.get());
  if (seals == -1) return Error::FromErrno("fcntl");
  // A kernel before 5.1 has no FUTURE_WRITE, and sealing fails above. A kernel that reports success
  // without the seal is not trusted.
  if ((seals & kRequiredSeals) != kRequiredSeals) return Error{EPERM, "fcntl"};
  return Outbox{
      .share = std::move(share), .memory = std::move(memory), .descriptor = std::move(fd)};
}
#else
// A second, read-only descriptor is what the peer gets: the kernel refuses a writable map of it.
Result<Outbox> CreateOutbox(const OutboxShape& shape, MemoryShare share, const MemoryCalls& calls) {
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
  // ftruncate() succeeds once per object, so the size cannot change later.
  if (calls.resize(writable.get(), bytes) == -1) return Error::FromErrno("ftruncate");
  Mapping memory = Map(writable.get(), bytes, true, calls);
  if (!memory.is_mapped()) return Error::FromErrno("mmap");
  WriteHeader(memory.data(), shape);
  return Outbox{
      .share = std::move(share), .memory = std::move(memory), .descriptor = std::move(readable)};
}
#endif

PeerOutbox AcceptOutbox(int fd, const OutboxShape& shape, MappedPart part,
                        const MemoryCalls& calls) noexcept {
  std::uint64_t allocated = 0;
  OutboxRefusal refusal = CheckObject(fd, shape, calls, allocated);
  if (refusal.what[0] != '\0') return {.memory = {}, .refusal = refusal};
  const std::uint64_t blocks = part == MappedPart::kRingAndBlocks ? shape.block_area_bytes : 0;
  Mapping memory = Map(fd, kControlPageBytes + shape.capacity_bytes + blocks, false, calls);
  if (!memory.is_mapped()) {
    const bool is_violation = errno == EACCES || errno == EPERM;
    return {.memory = {}, .refusal = {is_violation, "memory that could not be mapped", errno}};
  }
  refusal = CheckPages(fd, shape, memory, calls, allocated);
  if (refusal.what[0] != '\0') return {.memory = {}, .refusal = refusal};
  OutboxHeader header = {};
  CopyPayload(&header, memory.data(), sizeof header);
  if (!IsSame(header, shape)) {
    return {.memory = {}, .refusal = {true, "memory whose header is not that of its hello", 0}};
  }
  return {.memory = std::move(memory), .refusal = {}};
}

PeerOutbox MapOwnOutbox(const Outbox& own, const MemoryCalls& calls) noexcept {
  Mapping memory = Map(own.descriptor.get(), own.memory.size(), false, calls);
  if (!memory.is_mapped()) {
    return {.memory = {}, .refusal = {false, "memory that could not be mapped", errno}};
  }
  return {.memory = std::move(memory), .refusal = {}};
}

}  // namespace sidecall
