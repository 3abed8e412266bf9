// A reimplementation of the NUMA benchmark's ping-pong: `pingpong server|client PATH SIZE SECONDS`.
// Blocking calls on one stream socket; the server sends first. An operation is one message there
// and one back, filled with its number and compared. The client prints the operations of each
// second, and quantiles, as JSON.
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { kSamplesMax = 4000000, kSecondsMax = 600 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int all(int fd, uint8_t *bytes, size_t count, int sends) {
  for (size_t at = 0; at < count;) {
    const ssize_t moved = sends ? send(fd, bytes + at, count - at, MSG_NOSIGNAL) : recv(fd, bytes + at, count - at, 0);
    if (moved == -1 && errno == EINTR) continue;
    if (moved <= 0) return 0;
    at += (size_t)moved;
  }
  return 1;
}

static int by_number(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static int die(const char *what) { return perror(what), 1; }

int main(int argc, char **argv) {
  if (argc != 5) return fprintf(stderr, "usage: pingpong server|client PATH SIZE SECONDS\n"), 2;
  const int is_server = strcmp(argv[1], "server") == 0;
  const size_t size = strtoul(argv[3], NULL, 10);
  const int seconds = atoi(argv[4]);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  uint8_t *own = malloc(size), *there = malloc(size);
  if (size == 0 || seconds < 1 || seconds > kSecondsMax || own == NULL || there == NULL) return die("pingpong");
  strncpy(address.sun_path, argv[2], sizeof address.sun_path - 1);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  uint64_t operations = 0, wrong = 0;
  if (is_server) {
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1) != 0) return die("listen");
    puts("ready");
    fflush(stdout);
    fd = accept(fd, NULL, NULL);
    for (;; ++operations) {
      memset(own, (int)(operations & 0xff), size);
      if (!all(fd, own, size, 1) || !all(fd, there, size, 0)) break;
      if (memcmp(own, there, size) != 0) return fprintf(stderr, "pingpong: a wrong answer\n"), 1;
    }
    return 0;
  }
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) return die("connect");
  float *latencies = malloc(kSamplesMax * sizeof *latencies);
  uint64_t windows[kSecondsMax] = {0};
  if (latencies == NULL) return die("malloc");
  // The first second is not counted, because it has the page faults of both sides.
  double begun = now() + 1;
  struct rusage before = {0};
  uint64_t counted = 0;
  for (double then = now(); then < begun + seconds; ++operations) {
    memset(own, (int)(operations & 0xff), size);
    if (!all(fd, there, size, 0)) return fprintf(stderr, "pingpong: the server ended\n"), 1;
    if (memcmp(own, there, size) != 0) ++wrong;
    if (!all(fd, there, size, 1)) return 1;
    const double after = now();
    if (then >= begun) {
      if (counted == 0) getrusage(RUSAGE_SELF, &before);
      const int window = (int)(then - begun);
      if (window < seconds) windows[window] += 1;
      if (counted < kSamplesMax) latencies[counted] = (float)((after - then) * 1e6);
      ++counted;
    }
    then = after;
  }
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
#define CPU(u) ((double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6)
  const size_t samples = counted < kSamplesMax ? (size_t)counted : kSamplesMax;
  qsort(latencies, samples, sizeof *latencies, by_number);
#define PART(part) ((double)(used.part.tv_sec - before.part.tv_sec) + (double)(used.part.tv_usec - before.part.tv_usec) / 1e6)
#define AT(share) (double)latencies[(size_t)((share) * (double)(samples - 1))]
  printf("{\"codec\":\"bytes\",\"size\":%zu,\"inFlight\":1,\"callsPerSecond\":%.1f,\"bytesPerSecond\":%.0f,"
         "\"p50Us\":%.2f,\"p90Us\":%.2f,\"p99Us\":%.2f,\"p999Us\":%.2f,\"maxUs\":%.1f,"
         "\"cpuClientSeconds\":%.3f,\"cpuUserSeconds\":%.3f,\"cpuSystemSeconds\":%.3f,\"rssClientBytes\":0,\"rssServerBytes\":0,"
         "\"calls\":%llu,\"errors\":%llu,\"touched\":true,\"messageLimitBytes\":null,\"windows\":[",
         size, (double)counted / seconds, 2.0 * (double)size * (double)counted / seconds, AT(0.5), AT(0.9), AT(0.99),
         AT(0.999), AT(1.0), CPU(used) - CPU(before), PART(ru_utime), PART(ru_stime), (unsigned long long)counted, (unsigned long long)wrong);
  for (int at = 0; at < seconds; ++at) printf("%s%llu", at == 0 ? "" : ",", (unsigned long long)windows[at]);
  puts("]}");
  return 0;
}
