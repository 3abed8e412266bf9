// The cost of connecting: `connect unix|tcp ADDRESS CLIENTS CONNECTIONS [kept]`. Each of CLIENTS
// processes loops CONNECTIONS times: socket, connect, 23 bytes of RESP (INCR foo), one read, close;
// with `kept`, all requests of a process share one connection. Prints the highest counter and the
// times as JSON. ADDRESS of tcp is a port on loopback.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char kIncrement[] = "*2\r\n$4\r\nincr\r\n$3\r\nfoo\r\n";
enum { kClientsMax = 64, kSamplesMax = 200000 };

struct result {
  long long last;  // highest counter seen
  long long errors;
  long long samples;
  float latencies[kSamplesMax];
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct sockaddr_un path;
static struct sockaddr_in port;
static int is_unix;

static int open_one(void) {
  const int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM, 0);
  if (fd == -1) return -1;
  const int one = 1;
  if (!is_unix) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  const struct sockaddr *to = is_unix ? (const struct sockaddr *)&path : (const struct sockaddr *)&port;
  if (connect(fd, to, is_unix ? sizeof path : sizeof port) == 0) return fd;
  close(fd);
  return -1;
}

// Sends one request and returns the counter; -1: the answer is no counter.
static long long increment(int fd) {
  char answer[255 + 1];
  if (send(fd, kIncrement, sizeof kIncrement - 1, MSG_NOSIGNAL) != sizeof kIncrement - 1) return -1;
  const ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
  if (got <= 1 || answer[0] != ':') return -1;
  answer[got] = '\0';
  return atoll(answer + 1);
}

static void run(struct result *result, long connections, int is_kept) {
  int kept = is_kept ? open_one() : -1;
  for (long at = 0; at < connections; ++at) {
    const double begun = now();
    const int fd = is_kept ? kept : open_one();
    const long long count = fd == -1 ? -1 : increment(fd);
    if (!is_kept && fd != -1) close(fd);
    if (count < 0) ++result->errors;
    if (count > result->last) result->last = count;
    if (result->samples < kSamplesMax) result->latencies[result->samples++] = (float)((now() - begun) * 1e6);
  }
  if (kept != -1) close(kept);
}

static int by_number(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc < 5) return fprintf(stderr, "usage: connect unix|tcp ADDRESS CLIENTS CONNECTIONS [kept]\n"), 2;
  is_unix = strcmp(argv[1], "unix") == 0;
  path.sun_family = AF_UNIX;
  strncpy(path.sun_path, argv[2], sizeof path.sun_path - 1);
  port.sin_family = AF_INET;
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!is_unix) port.sin_port = htons((uint16_t)atoi(argv[2]));
  const int clients = atoi(argv[3]);
  const long connections = atol(argv[4]);
  const int is_kept = argc > 5 && strcmp(argv[5], "kept") == 0;
  if (clients < 1 || clients > kClientsMax || connections < 1) return fprintf(stderr, "connect: out of range\n"), 2;
  struct result *results = mmap(NULL, sizeof *results * (size_t)clients, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (results == MAP_FAILED) return perror("connect"), 1;
  const double begun = now();
  for (int at = 0; at < clients; ++at) {
    if (fork() == 0) {
      run(&results[at], connections, is_kept);
      _exit(0);
    }
  }
  while (wait(NULL) > 0) continue;
  const double elapsed = now() - begun;
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  long long last = 0, errors = 0, samples = 0;
  float *latencies = malloc(sizeof *latencies * (size_t)clients * kSamplesMax);
  if (latencies == NULL) return perror("connect"), 1;
  for (int at = 0; at < clients; ++at) {
    if (results[at].last > last) last = results[at].last;
    errors += results[at].errors;
    memcpy(latencies + samples, results[at].latencies, sizeof *latencies * (size_t)results[at].samples);
    samples += results[at].samples;
  }
  qsort(latencies, (size_t)samples, sizeof *latencies, by_number);
#define AT(share) (double)latencies[(size_t)((share) * (double)(samples - 1))]
#define SECONDS(time) ((double)(time).tv_sec + (double)(time).tv_usec / 1e6)
  const double calls = (double)clients * (double)connections;
  printf("{\"callsPerSecond\":%.1f,\"p50Us\":%.2f,\"p90Us\":%.2f,\"p99Us\":%.2f,\"p999Us\":%.2f,\"maxUs\":%.1f,"
         "\"cpuClientSeconds\":%.3f,\"cpuUserSeconds\":%.3f,\"cpuSystemSeconds\":%.3f,\"calls\":%.0f,\"errors\":%lld,\"counter\":%lld}\n",
         calls / elapsed, AT(0.5), AT(0.9), AT(0.99), AT(0.999), AT(1.0),
         SECONDS(used.ru_utime) + SECONDS(used.ru_stime), SECONDS(used.ru_utime), SECONDS(used.ru_stime),
         calls, errors, last);
  return 0;
}
