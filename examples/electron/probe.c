/* SPDX-License-Identifier: MIT
 * A helper that is not Node: it speaks docs/protocol.md on the socket lane, in plain C, and serves one method,
 * Probe.read. Build it with: cc -O2 -Wall -o probe probe.c */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <fcntl.h>
#include <sys/prctl.h>
#endif

#define INLINE_NAME 0x80000000u
enum { MAGIC = 0x6c616373, REQUEST_MAX = 4096, FRAME_MAX = 65656, METHODS_MAX = 4096, NAME_MAX_BYTES = 256 };
enum { METHOD = 1, OPEN = 2, MESSAGE = 3, END = 6, CREDIT = 8, GOAWAY = 9, PING = 10, PONG = 11, CLOCK = 12 };
enum { UNARY = 1, NOTIFICATION = 2, UNIMPLEMENTED = 12, HALF_END = 2 };

static int channel;

/* Ends the process: the parent has ended (0), or has broken the protocol (1). */
static void leave(int code) { _exit(code); }

static void send_all(const void *bytes, size_t count) {
  const char *at = bytes;
  while (count > 0) {
    const ssize_t sent = send(channel, at, count, 0);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) leave(0);
    at += sent;
    count -= (size_t)sent;
  }
}

static void read_all(void *bytes, size_t count) {
  char *at = bytes;
  while (count > 0) {
    const ssize_t got = recv(channel, at, count, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) leave(0);
    at += got;
    count -= (size_t)got;
  }
}

/* The wire is little-endian, independent of the machine. */
static void put(uint8_t *at, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i += 1) at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i += 1) value |= (uint32_t)at[i] << (8 * i);
  return value;
}

/* A frame: its length, the 12 bytes that all headers begin with, and the rest. */
static void send_frame(int type, int flags, uint32_t aux, uint32_t slot, uint32_t generation,
                       const void *rest, uint32_t rest_bytes) {
  uint8_t head[16];
  put(head, 12 + rest_bytes, 4);
  head[4] = (uint8_t)type;
  head[5] = (uint8_t)flags;
  put(head + 6, aux, 2);
  put(head + 8, slot, 4);
  put(head + 12, generation, 4);
  send_all(head, sizeof head);
  send_all(rest, rest_bytes);
}

/* Section 1: each side sends a hello and an answer. We offer no memory: frames use the socket. */
static void say_hello(void) {
  uint8_t hello[64] = {0}, answer[8] = {0}, theirs[72];
  put(hello, MAGIC, 4);
  put(hello + 4, 1, 2); /* versions 1 to 1 */
  put(hello + 6, 1, 2);
  FILE *const random = fopen("/dev/urandom", "rb");
  if (random == NULL || fread(hello + 32, 1, 16, random) != 16) leave(1);
  fclose(random);
  put(hello + 48, REQUEST_MAX, 4);
  put(hello + 52, 64, 4);        /* calls at once */
  put(hello + 56, 1024, 4);      /* metadata */
  put(hello + 60, 16 * 1024, 4); /* window of a stream */
  send_all(hello, sizeof hello);
  read_all(theirs, sizeof theirs); /* its hello and its answer */
  if (get(theirs, 4) != MAGIC || get(theirs + 68, 2) > 1) leave(1);
  put(answer, MAGIC, 4);
  put(answer + 4, 1, 2); /* frames travel on this socket */
  put(answer + 6, 1, 2); /* version 1 */
  send_all(answer, sizeof answer);
  struct timespec now; /* the clock is the first frame of each side */
  uint8_t clock[4];
  clock_gettime(CLOCK_MONOTONIC, &now);
  put(clock, (uint32_t)(now.tv_sec * 1000 + now.tv_nsec / 1000000), 4);
  send_frame(CLOCK, 0, 0, 0, 0, clock, sizeof clock);
}

/* The answer of Probe.read, as JSON. */
static int describe(char *json, size_t size) {
  double uptime = 0, load = 0;
  FILE *file = fopen("/proc/uptime", "r");
  if (file != NULL) {
    if (fscanf(file, "%lf", &uptime) != 1) uptime = 0;
    fclose(file);
  }
  if (getloadavg(&load, 1) != 1) load = 0;
  return snprintf(json, size, "{\"pid\":%d,\"language\":\"C\",\"uptimeSeconds\":%.0f,\"load\":%.2f}",
                  (int)getpid(), uptime, load);
}

static void answer_call(const uint8_t *frame, uint32_t bytes, int is_known) {
  const uint32_t slot = get(frame + 4, 4), generation = get(frame + 8, 4), kind = get(frame + 2, 2);
  uint8_t rest[8 + 256];
  if (is_known && kind == UNARY) {
    const int length = describe((char *)rest + 4, sizeof rest - 4);
    put(rest, (uint32_t)length, 4);
    send_frame(MESSAGE, HALF_END, 0, slot, generation, rest, 4 + (uint32_t)length);
  } else {
    static const char words[] = "not served here";
    put(rest, 0, 4);
    put(rest + 4, sizeof words - 1, 4);
    memcpy(rest + 8, words, sizeof words - 1);
    send_frame(END, 0, UNIMPLEMENTED, slot, generation, rest, 8 + sizeof words - 1);
  }
  /* The request was taken: its bytes plus 64 go back as credit to their window (section 4); the
   * window of notifications is 3. */
  put(rest, bytes + 64, 4);
  send_frame(CREDIT, 0, 0, kind == NOTIFICATION ? 3 : 0, 0, rest, 4);
}

static void serve(void) {
  static uint8_t frame[FRAME_MAX];
  static uint8_t is_probe[METHODS_MAX];
  for (;;) {
    uint8_t length_bytes[4];
    read_all(length_bytes, sizeof length_bytes);
    const uint32_t length = get(length_bytes, 4);
    if (length < 12 || length > sizeof frame) leave(1);
    read_all(frame, length);
    const uint32_t slot = get(frame + 4, 4);
    if (frame[0] == METHOD && slot < METHODS_MAX) {
      is_probe[slot] = length == 12 + 10 && memcmp(frame + 12, "Probe.read", 10) == 0;
    } else if (frame[0] == OPEN) {
      if (length < 36) leave(1);
      const uint32_t method = get(frame + 12, 4), bytes = get(frame + 24, 4);
      const uint32_t name = method < INLINE_NAME ? 0 : method - INLINE_NAME; /* in front of the metadata */
      if (length != 36 + name + get(frame + 20, 4) + bytes) leave(1); /* longer ones would come in pieces */
      answer_call(frame, bytes, method < METHODS_MAX && is_probe[method]);
    } else if (frame[0] == PING) {
      send_frame(PONG, 0, 0, slot, 0, "", 0);
    } else if (frame[0] == GOAWAY && frame[1] == 0) {
      send_frame(GOAWAY, 2, 0, 0, 0, "", 0);
    } /* clocks, credit for answers, cancels of answered calls are ignored */
  }
}

int main(void) {
  const char *const fd = getenv("SIDECALL_FD");
  if (fd == NULL) {
    fputs("probe: this is a helper: it is started by spawnHelper('./probe')\n", stderr);
    return 2;
  }
  channel = atoi(fd);
  signal(SIGPIPE, SIG_IGN); /* a write to a closed peer only fails */
#ifdef __linux__
  const char *const parent = getenv("SIDECALL_PARENT");
  if (parent != NULL && getppid() == atoi(parent)) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != atoi(parent)) return 0; /* the parent ended before prctl() */
  }
  fcntl(channel, F_SETFD, FD_CLOEXEC);
#endif
  unsetenv("SIDECALL_FD");
  unsetenv("SIDECALL_PARENT");
  say_hello();
  serve();
}
