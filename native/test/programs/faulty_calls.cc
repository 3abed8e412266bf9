// SPDX-License-Identifier: MIT
// The definitions of system calls that this program uses in place of those of the C library. Each
// fails where it is its turn, and else calls the C library's. No header declares them here, since
// their types differ between systems; close() and munmap() are left alone, since no caller can do
// anything about their failure.
#include "programs/faulty_calls.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace sidecall::test {
namespace {

thread_local bool is_counting = false;
thread_local int calls = 0;
thread_local int failing_call = 0;
thread_local int failing_errno = 0;
thread_local const char* failed = "";

bool Fails(const char* name) noexcept {
  if (!is_counting) return false;
  calls += 1;
  if (calls != failing_call) return false;
  failed = name;
  errno = failing_errno;
  return true;
}

}  // namespace

void BeginCalls(int failing, int number) noexcept {
  calls = 0;
  failing_call = failing;
  failing_errno = number;
  failed = "";
  is_counting = true;
}

int EndCalls() noexcept {
  is_counting = false;
  return calls;
}

const char* FailedCall() noexcept { return failed; }

}  // namespace sidecall::test

namespace {

template <typename Function>
Function Real(const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

#define FAULTY(type, failure, name, parameters, arguments)    \
  extern "C" type name parameters {                           \
    if (sidecall::test::Fails(#name)) return failure;         \
    static const auto real = Real<type(*) parameters>(#name); \
    return real arguments;                                    \
  }

FAULTY(int, -1, socket, (int a, int b, int c), (a, b, c))
FAULTY(int, -1, socketpair, (int a, int b, int c, int* d), (a, b, c, d))
FAULTY(int, -1, bind, (int a, const void* b, unsigned c), (a, b, c))
FAULTY(int, -1, listen, (int a, int b), (a, b))
FAULTY(int, -1, connect, (int a, const void* b, unsigned c), (a, b, c))
FAULTY(int, -1, accept4, (int a, void* b, unsigned* c, int d), (a, b, c, d))
FAULTY(int, -1, shutdown, (int a, int b), (a, b))
FAULTY(int, -1, getsockname, (int a, void* b, unsigned* c), (a, b, c))
FAULTY(int, -1, getsockopt, (int a, int b, int c, void* d, unsigned* e), (a, b, c, d, e))
FAULTY(int, -1, setsockopt, (int a, int b, int c, const void* d, unsigned e), (a, b, c, d, e))
FAULTY(std::ptrdiff_t, -1, send, (int a, const void* b, std::size_t c, int d), (a, b, c, d))
FAULTY(std::ptrdiff_t, -1, sendmsg, (int a, const void* b, int c), (a, b, c))
FAULTY(std::ptrdiff_t, -1, recv, (int a, void* b, std::size_t c, int d), (a, b, c, d))
FAULTY(std::ptrdiff_t, -1, recvmsg, (int a, void* b, int c), (a, b, c))
FAULTY(int, -1, poll, (void* a, unsigned long b, int c), (a, b, c))
FAULTY(int, -1, fstat, (int a, void* b), (a, b))
FAULTY(int, -1, fstatat, (int a, const char* b, void* c, int d), (a, b, c, d))
FAULTY(int, -1, fstatfs, (int a, void* b), (a, b))
FAULTY(int, -1, unlinkat, (int a, const char* b, int c), (a, b, c))
FAULTY(int, -1, chmod, (const char* a, unsigned b), (a, b))
FAULTY(int, -1, fchmod, (int a, unsigned b), (a, b))
FAULTY(int, -1, fchmodat, (int a, const char* b, unsigned c, int d), (a, b, c, d))
FAULTY(int, -1, fchownat, (int a, const char* b, unsigned c, unsigned d, int e), (a, b, c, d, e))
FAULTY(int, -1, flock, (int a, int b), (a, b))
FAULTY(int, -1, memfd_create, (const char* a, unsigned b), (a, b))
FAULTY(int, -1, ftruncate, (int a, long b), (a, b))
FAULTY(int, -1, fallocate, (int a, int b, long c, long d), (a, b, c, d))
FAULTY(int, -1, madvise, (void* a, std::size_t b, int c), (a, b, c))
FAULTY(int, -1, getgroups, (int a, unsigned* b), (a, b))
FAULTY(int, -1, epoll_create1, (int a), (a))
FAULTY(int, -1, epoll_ctl, (int a, int b, int c, void* d), (a, b, c, d))
FAULTY(int, -1, eventfd, (unsigned a, int b), (a, b))
FAULTY(void*, reinterpret_cast<void*>(-1), mmap,
       (void* a, std::size_t b, int c, int d, int e, long f), (a, b, c, d, e, f))

// The optional third argument of open() and of fcntl().
#define FAULTY_VARIADIC(name, parameters, last, arguments)   \
  extern "C" int name parameters {                           \
    if (sidecall::test::Fails(#name)) return -1;             \
    std::va_list list;                                       \
    va_start(list, last);                                    \
    const long more = va_arg(list, long);                    \
    va_end(list);                                            \
    static const auto real = Real<int(*) parameters>(#name); \
    return real arguments;                                   \
  }

FAULTY_VARIADIC(fcntl, (int a, int b, ...), b, (a, b, more))
FAULTY_VARIADIC(ioctl, (int a, unsigned long b, ...), b, (a, b, more))
FAULTY_VARIADIC(open, (const char* a, int b, ...), b, (a, b, more))
FAULTY_VARIADIC(openat, (int a, const char* b, int c, ...), c, (a, b, c, more))
