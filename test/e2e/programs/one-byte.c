// Connects to a path, sends one byte, and prints the byte that comes back, or the error.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc != 2) return fprintf(stderr, "usage: one-byte PATH\n"), 2;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) return perror("connect"), 1;
  char byte = 'x';
  if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1) return perror("send"), 1;
  fprintf(stderr, "sent\n");
  byte = 0;
  const ssize_t got = recv(fd, &byte, 1, 0);
  // The kernel resets a connection whose other end is closed with unread bytes; an end by
  // shutdown() may come first.
  int error = got < 0 ? errno : 0;
  for (int tries = 0; got == 0 && error == 0 && tries < 2000; ++tries) {
    socklen_t length = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return perror("getsockopt"), 1;
    usleep(1000);
  }
  if (error != 0) return printf("\"%s\"\n", error == ECONNRESET ? "ECONNRESET" : strerror(error)), 0;
  printf("\"%.*s\"\n", (int)got, &byte);
  return close(fd);
}
