// SPDX-License-Identifier: MIT
#include "os/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fixture.h"

namespace sidecall::files_test {
namespace {

using test::DescriptorsUnchanged;
using test::ScratchDirectory;

TEST_CASE("OpenDirectory follows no link and opens nothing but directories") {
  const DescriptorsUnchanged unchanged;
  const ScratchDirectory scratch;
  REQUIRE(OpenDirectory(scratch.path()).ok());
  REQUIRE_EQ(::symlink(scratch.path().c_str(), scratch.file("link").c_str()), 0);
  const auto link = OpenDirectory(scratch.file("link"));
  REQUIRE_FALSE(link.ok());
  const bool is_refused = link.error().number == ELOOP || link.error().number == ENOTDIR;
  CHECK(is_refused);
  CHECK_EQ(OpenDirectory(scratch.file("none")).error().number, ENOENT);
}

TEST_CASE("StatAt sees the link and not what it points to") {
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  REQUIRE(directory.ok());
  REQUIRE_EQ(::symlink("/etc/passwd", scratch.file("link").c_str()), 0);
  CHECK_EQ(StatAt(directory.value().get(), "link").value().type, FileType::kLink);
  CHECK_EQ(StatAt(directory.value().get(), "none").error().number, ENOENT);
}

TEST_CASE("UnlinkAt removes the entry of that directory only") {
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  REQUIRE(OpenLockFile(directory.value().get(), "file").ok());
  REQUIRE(UnlinkAt(directory.value().get(), "file").ok());
  CHECK_EQ(StatAt(directory.value().get(), "file").error().number, ENOENT);
  CHECK_EQ(UnlinkAt(directory.value().get(), "file").error().number, ENOENT);
}

TEST_CASE("RemoveAt removes a file or an empty directory that is still the same") {
  const ScratchDirectory scratch;
  const auto opened = OpenDirectory(scratch.path());
  REQUIRE(opened.ok());
  const int directory = opened.value().get();
  REQUIRE(OpenLockFile(directory, "file").ok());
  REQUIRE_EQ(::mkdir(scratch.file("folder").c_str(), 0700), 0);
  const auto file = StatAt(directory, "file").value();
  const auto folder = StatAt(directory, "folder").value();
  RemoveAt(directory, "folder", file);  // another one is there
  CHECK(StatAt(directory, "folder").ok());
  RemoveAt(directory, "file", file);
  RemoveAt(directory, "folder", folder);
  CHECK_FALSE(StatAt(directory, "file").ok());
  CHECK_FALSE(StatAt(directory, "folder").ok());
  RemoveAt(directory, "file", file);  // none is there
}

TEST_CASE("ChangeModeAt sets all twelve bits, whatever the umask") {
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  REQUIRE(OpenLockFile(directory.value().get(), "file").ok());
  auto entry = OpenEntry(directory.value().get(), "file");
  REQUIRE(entry.ok());
  const int held = entry.value().has_value() ? entry.value()->get() : -1;
  REQUIRE(ChangeModeAt(directory.value().get(), "file", held, 0666).ok());
  CHECK_EQ(test::ModeOf(scratch.file("file")), 0666u);
  REQUIRE(ChangeOwnerAt(directory.value().get(), "file", held, kSameId, ::getegid()).ok());
  CHECK_EQ(StatAt(directory.value().get(), "file").value().gid, ::getegid());
}

TEST_CASE("what is put in the place of an entry that is held is left alone") {
  const DescriptorsUnchanged unchanged;
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  const int at = directory.value().get();
  REQUIRE(OpenLockFile(at, "private").ok());
  REQUIRE(OpenLockFile(at, "file").ok());
  auto entry = OpenEntry(at, "file");
  REQUIRE(entry.ok());
  if (!entry.value().has_value()) return;
  REQUIRE(UnlinkAt(at, "file").ok());
  REQUIRE_EQ(::symlink("private", scratch.file("file").c_str()), 0);
  CHECK(ChangeModeAt(at, "file", entry.value()->get(), 0666).ok());
  CHECK_EQ(test::ModeOf(scratch.file("private")), 0600u);
  // A change by name does not follow a link either.
  const auto by_name = ChangeModeAt(at, "file", -1, 0666);
  CHECK_EQ(test::ModeOf(scratch.file("private")), 0600u);
  CHECK_FALSE(by_name.ok());
  CHECK_EQ(OpenEntry(at, "none").error().number, ENOENT);
}

TEST_CASE("a lock is one holder's until its descriptor closes") {
  const DescriptorsUnchanged unchanged;
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  auto first = OpenLockFile(directory.value().get(), "lock");
  auto second = OpenLockFile(directory.value().get(), "lock");
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK_EQ(test::ModeOf(scratch.file("lock")), 0600u);
  CHECK(TryLock(first.value().get()).value());
  CHECK_FALSE(TryLock(second.value().get()).value());
  first.value().Reset();
  CHECK(TryLock(second.value().get()).value());
}

TEST_CASE("a lock file that is a link is refused") {
  const ScratchDirectory scratch;
  const auto directory = OpenDirectory(scratch.path());
  REQUIRE_EQ(::symlink("/etc/passwd", scratch.file("lock").c_str()), 0);
  CHECK_EQ(OpenLockFile(directory.value().get(), "lock").error().number, ELOOP);
}

}  // namespace
}  // namespace sidecall::files_test
