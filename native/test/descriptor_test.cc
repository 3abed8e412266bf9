// SPDX-License-Identifier: MIT
#include "os/descriptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "fixture.h"
#include "os/unix_socket.h"

namespace sidecall::descriptor_test {
namespace {

using test::DescriptorsUnchanged;

bool ClosesOnExec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

TEST_CASE("DescribeDescriptor tells a connected Unix stream from everything else") {
  const DescriptorsUnchanged unchanged;
  const auto pair = MakeSocketPair();
  REQUIRE(pair.ok());
  CHECK(DescribeDescriptor(pair.value().near.get()).value().is_unix_stream);

  const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM, 0));
  CHECK_EQ(DescribeDescriptor(tcp.get()).value().type, DescriptorType::kSocket);
  CHECK_FALSE(DescribeDescriptor(tcp.get()).value().is_unix_stream);

  const UniqueFd datagrams(::socket(AF_UNIX, SOCK_DGRAM, 0));
  CHECK_FALSE(DescribeDescriptor(datagrams.get()).value().is_unix_stream);

  const UniqueFd directory(::open("/", O_RDONLY));
  CHECK_EQ(DescribeDescriptor(directory.get()).value().type, DescriptorType::kDirectory);

  int pipe_ends[2];
  REQUIRE_EQ(::pipe(pipe_ends), 0);
  const UniqueFd read_end(pipe_ends[0]);
  const UniqueFd write_end(pipe_ends[1]);
  CHECK_EQ(DescribeDescriptor(read_end.get()).value().type, DescriptorType::kPipe);
}

TEST_CASE("DescribeDescriptor sees that a socket listens") {
  const test::ScratchDirectory scratch;
  const auto bound = BindUnixSocket(scratch.file("s"));
  REQUIRE(bound.ok());
  CHECK_FALSE(DescribeDescriptor(bound.value().get()).value().is_listening);
  REQUIRE(ListenOn(bound.value().get(), 1).ok());
  CHECK(DescribeDescriptor(bound.value().get()).value().is_listening);
}

TEST_CASE("a number that names nothing is an error") {
  CHECK_EQ(DescribeDescriptor(9999).error().number, EBADF);
  CHECK_EQ(DuplicateDescriptor(9999).error().number, EBADF);
  CHECK_EQ(SetCloseOnExec(9999).error().number, EBADF);
}

TEST_CASE("a duplicate closes on exec from birth") {
  const DescriptorsUnchanged unchanged;
  const UniqueFd original(::open("/", O_RDONLY));
  CHECK_FALSE(ClosesOnExec(original.get()));
  const auto copy = DuplicateDescriptor(original.get());
  REQUIRE(copy.ok());
  CHECK(ClosesOnExec(copy.value().get()));
  REQUIRE(SetCloseOnExec(original.get()).ok());
  CHECK(ClosesOnExec(original.get()));
}

TEST_CASE("UniqueFd gives back exactly what it owns") {
  const DescriptorsUnchanged unchanged;
  UniqueFd first(::open("/", O_RDONLY));
  UniqueFd second(::open("/", O_RDONLY));
  const int kept = second.get();
  first = std::move(second);
  CHECK_EQ(first.get(), kept);
  CHECK_FALSE(second.is_open());
  const int released = first.Release();
  first.Reset();
  CHECK_NE(::fcntl(released, F_GETFD), -1);
  ::close(released);
}

}  // namespace
}  // namespace sidecall::descriptor_test
