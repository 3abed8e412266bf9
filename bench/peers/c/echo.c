// The references without Node: `echo uds|tcp|ring|ring-oneway SIZE SECONDS`. Two processes, one
// call in flight, all bytes copied in and out at both ends, compared on a sample. Prints a row.
//   uds:         blocking ping-pong over a socket pair
//   tcp:         the same over loopback TCP, without Nagle's delay
//   ring:        a byte ring of 1 MiB per direction in shared memory, both ends spin: a bound
//   ring-oneway: one such ring, messages without answers; `calls` counts messages
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRing = 1 << 20, kChunk = 1 << 16, kSamplesMax = 2000000, kSampleEvery = 100 };

struct ring {
  _Alignas(128) _Atomic uint64_t produced;
  _Alignas(128) _Atomic uint64_t consumed;
  _Alignas(128) uint8_t data[kRing];
};

struct shared {
  struct ring there, back;
  _Alignas(128) atomic_int is_over;
};

static struct shared *shared;
static int fds[2];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double cpu(int who) {
  struct rusage used;
  getrusage(who, &used);
  return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

// Returns 0 where the other side has ended.
static int put(struct ring *ring, const uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    const uint64_t produced = atomic_load_explicit(&ring->produced, memory_order_relaxed);
    uint64_t room;
    while ((room = kRing - (produced - atomic_load_explicit(&ring->consumed, memory_order_acquire))) == 0)
      if (atomic_load_explicit(&shared->is_over, memory_order_relaxed)) return 0;
    size_t piece = count - at < kChunk ? count - at : kChunk;
    const size_t offset = produced % kRing;
    if (piece > room) piece = room;
    if (piece > kRing - offset) piece = kRing - offset;
    memcpy(ring->data + offset, bytes + at, piece);
    atomic_store_explicit(&ring->produced, produced + piece, memory_order_release);
    at += piece;
  }
  return 1;
}

static int take(struct ring *ring, uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    const uint64_t consumed = atomic_load_explicit(&ring->consumed, memory_order_relaxed);
    uint64_t there;
    while ((there = atomic_load_explicit(&ring->produced, memory_order_acquire) - consumed) == 0)
      if (atomic_load_explicit(&shared->is_over, memory_order_relaxed)) return 0;
    size_t piece = count - at < kChunk ? count - at : kChunk;
    const size_t offset = consumed % kRing;
    if (piece > there) piece = there;
    if (piece > kRing - offset) piece = kRing - offset;
    memcpy(bytes + at, ring->data + offset, piece);
    atomic_store_explicit(&ring->consumed, consumed + piece, memory_order_release);
    at += piece;
  }
  return 1;
}

static int send_all(int fd, const uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    const ssize_t sent = send(fd, bytes + at, count - at, MSG_NOSIGNAL);
    if (sent == -1 && errno == EINTR) continue;
    if (sent <= 0) return 0;
    at += (size_t)sent;
  }
  return 1;
}

static int receive_all(int fd, uint8_t *bytes, size_t count) {
  for (size_t at = 0; at < count;) {
    const ssize_t got = recv(fd, bytes + at, count - at, 0);
    if (got == -1 && errno == EINTR) continue;
    if (got <= 0) return 0;
    at += (size_t)got;
  }
  return 1;
}

// Makes both ends of a loopback connection.
static int tcp_pair(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  const int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 1) != 0) return -1;
  if (getsockname(listener, (struct sockaddr *)&address, &length) != 0) return -1;
  fds[0] = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fds[0], (struct sockaddr *)&address, length) != 0) return -1;
  fds[1] = accept(listener, NULL, NULL);
  close(listener);
  for (int at = 0; at < 2; ++at) setsockopt(fds[at], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fds[1] == -1 ? -1 : 0;
}

static int by_number(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: echo uds|tcp|ring|ring-oneway SIZE SECONDS\n"), 2;
  const int is_tcp = strcmp(argv[1], "tcp") == 0;
  const int is_oneway = strcmp(argv[1], "ring-oneway") == 0;
  const int is_ring = is_oneway || strcmp(argv[1], "ring") == 0;
  const size_t size = strtoul(argv[2], NULL, 10);
  const double seconds = strtod(argv[3], NULL);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  uint8_t *out = malloc(size), *in = malloc(size);
  float *latencies = malloc(kSamplesMax * sizeof *latencies);
  if (shared == MAP_FAILED || (is_tcp ? tcp_pair() : socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) != 0 || !out || !in || !latencies)
    return perror("echo"), 1;
  for (size_t at = 0; at < size; ++at) out[at] = (uint8_t)(at * 31 % 251);
  const pid_t server = fork();
  if (server == 0) {
    close(fds[0]);
    if (is_oneway) {
      uint64_t messages = 0;
      while (take(&shared->there, in, size))
        if (++messages % kSampleEvery == 0 && memcmp(in, out, size) != 0) _exit(1);
    } else if (is_ring)
      while (take(&shared->there, in, size) && put(&shared->back, in, size)) continue;
    else
      while (receive_all(fds[1], in, size) && send_all(fds[1], in, size)) continue;
    _exit(0);
  }
  close(fds[1]);
  uint64_t calls = 0, errors = 0;
  double begun = now(), cpu_before = cpu(RUSAGE_SELF), until = begun + seconds / 2;
  int is_warm = 0;
  for (double then = begun; then < until || !is_warm;) {
    if (then >= until) {  // earlier calls are the warm-up
      is_warm = 1;
      calls = 0;
      begun = then;
      cpu_before = cpu(RUSAGE_SELF);
      until = then + seconds;
    }
    if (is_ring) {
      put(&shared->there, out, size);
      if (!is_oneway) take(&shared->back, in, size);
    } else {
      send_all(fds[0], out, size);
      receive_all(fds[0], in, size);
    }
    const double after = now();
    if (calls < kSamplesMax) latencies[calls] = (float)((after - then) * 1e6);
    if (++calls % kSampleEvery == 0 && !is_oneway && memcmp(in, out, size) != 0) ++errors;
    then = after;
  }
  const double elapsed = now() - begun, own_cpu = cpu(RUSAGE_SELF) - cpu_before;
  atomic_store(&shared->is_over, 1);
  close(fds[0]);
  int status = 0;
  waitpid(server, &status, 0);
  if (status != 0) ++errors;
  const size_t count = calls < kSamplesMax ? (size_t)calls : kSamplesMax;
  qsort(latencies, count, sizeof *latencies, by_number);
#define AT(share) (double)latencies[(size_t)((share) * (double)(count - 1))]
  printf("{\"codec\":\"bytes\",\"size\":%zu,\"inFlight\":1,\"callsPerSecond\":%.1f,\"bytesPerSecond\":%.0f,"
         "\"p50Us\":%.2f,\"p90Us\":%.2f,\"p99Us\":%.2f,\"p999Us\":%.2f,\"maxUs\":%.1f,"
         "\"cpuClientSeconds\":%.3f,\"cpuServerSeconds\":%.3f,\"rssClientBytes\":0,\"rssServerBytes\":0,"
         "\"calls\":%llu,\"errors\":%llu,\"touched\":true,\"messageLimitBytes\":null}\n",
         size, (double)calls / elapsed, (is_oneway ? 1.0 : 2.0) * (double)size * (double)calls / elapsed, AT(0.5), AT(0.9), AT(0.99),
         AT(0.999), AT(1.0), own_cpu, cpu(RUSAGE_CHILDREN) * seconds / (1.5 * seconds),
         (unsigned long long)calls, (unsigned long long)errors);
  return 0;
}
