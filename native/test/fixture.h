// SPDX-License-Identifier: MIT
// Helpers of the tests: a scratch directory, bytes, and a count of open descriptors.
#pragma once

#include <dirent.h>
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace sidecall::test {

inline int CountDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/dev/fd")) ++count;
  return count;
}

// A scope that fails its test where the number of descriptors differs at its end.
class DescriptorsUnchanged {
 public:
  DescriptorsUnchanged() : before_(CountDescriptors()) {}
  DescriptorsUnchanged(const DescriptorsUnchanged&) = delete;
  DescriptorsUnchanged& operator=(const DescriptorsUnchanged&) = delete;
  ~DescriptorsUnchanged() { CHECK_EQ(CountDescriptors(), before_); }

 private:
  int before_;
};

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern = "/tmp/sidecall-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline std::vector<std::uint8_t> Bytes(std::size_t count, std::uint8_t value = 7) {
  return std::vector<std::uint8_t>(count, value);
}

inline unsigned ModeOf(const std::string& path) {
  struct stat status = {};
  REQUIRE_EQ(::lstat(path.c_str(), &status), 0);
  return status.st_mode & 07777u;
}

}  // namespace sidecall::test
