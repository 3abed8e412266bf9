// SPDX-License-Identifier: MIT
#include "os/memory_share.h"

#include <map>
#include <mutex>
#include <utility>

namespace sidecall {
namespace {

// The account of ring memory of the whole process. All environments share it, since they share
// the memory of the machine.
struct Book {
  std::mutex mutex;
  std::uint64_t bytes = 0;
  std::map<Owner, std::uint64_t> owners;  // those with some
};

// Never destroyed: threads may still give back while the process ends.
Book& TheBook() {
  static Book& book = *new Book;
  return book;
}

}  // namespace

MemoryShare::MemoryShare(MemoryShare&& other) noexcept
    : owner_(other.owner_), bytes_(std::exchange(other.bytes_, 0)) {}

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this != &other) {
    Reset();
    owner_ = other.owner_;
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

bool MemoryShare::Reserve(Owner owner, std::uint64_t bytes, std::uint64_t max_bytes) {
  Reset();
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  const auto own = book.owners.find(owner);
  const std::uint64_t own_bytes = own == book.owners.end() ? 0 : own->second;
  const bool has_little = owner != 0 && own_bytes + bytes <= max_bytes / kLittleParts;
  const std::uint64_t bound = max_bytes + (has_little ? max_bytes / kReserveParts : 0);
  if (bytes > bound || book.bytes > bound - bytes) return false;
  book.owners[owner] += bytes;
  book.bytes += bytes;
  owner_ = owner;
  bytes_ = bytes;
  return true;
}

std::uint64_t MemoryShare::ReservedBytes() {
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  return book.bytes;
}

void MemoryShare::Reset() noexcept {
  if (bytes_ == 0) return;
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  const std::uint64_t bytes = std::exchange(bytes_, 0);
  book.bytes -= bytes;
  const auto own = book.owners.find(owner_);
  own->second -= bytes;
  if (own->second == 0) book.owners.erase(own);
}

}  // namespace sidecall
