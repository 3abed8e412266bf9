// SPDX-License-Identifier: MIT
#include "os/memory_share.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace sidecall {
namespace {

struct Kept {
  Owner owner;
  std::uint64_t bytes;
  UniqueFd witness;
};

struct Use {
  std::uint64_t bytes = 0;
  std::size_t kept = 0;
};

// The one thing that is the process's and no environment's: threads share the machine's memory.
struct Book {
  std::mutex mutex;
  std::uint64_t bytes = 0;
  std::map<Owner, Use> owners;  // those with some
  std::deque<Kept> kept;

  void GiveBack(Owner owner, std::uint64_t returned, std::size_t was_kept) {
    bytes -= returned;
    Use& use = owners[owner];
    use.bytes -= returned;
    use.kept -= was_kept;
    if (use.bytes == 0 && use.kept == 0) owners.erase(owner);
  }
};

// Never destroyed: threads may still give back while the process ends.
Book& TheBook() {
  static Book& book = *new Book;
  return book;
}

// A lease for writing is given only where no other open file of the object exists, mapped or not.
// It goes with the descriptor. A system without leases cannot tell.
bool IsGone([[maybe_unused]] int witness) noexcept {
#if defined(__linux__)
  return ::fcntl(witness, F_SETLEASE, F_WRLCK) == 0 || errno != EAGAIN;
#else
  return true;
#endif
}

}  // namespace

MemoryShare::MemoryShare(MemoryShare&& other) noexcept
    : owner_(other.owner_),
      bytes_(std::exchange(other.bytes_, 0)),
      witness_(std::move(other.witness_)) {}

MemoryShare& MemoryShare::operator=(MemoryShare&& other) noexcept {
  if (this != &other) {
    Reset();
    owner_ = other.owner_;
    bytes_ = std::exchange(other.bytes_, 0);
    witness_ = std::move(other.witness_);
  }
  return *this;
}

std::optional<MemoryShare> MemoryShare::Reserve(Owner owner, std::uint64_t bytes,
                                                std::uint64_t max_bytes) {
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  if (bytes > max_bytes || book.bytes > max_bytes - bytes) return std::nullopt;
  if (book.kept.size() >= kKeptMax) return std::nullopt;
  Use& use = book.owners[owner];
  const std::uint64_t owner_max_bytes = max_bytes - max_bytes / kReservedPart;
  const bool is_beyond = use.bytes > 0 && use.bytes + bytes > owner_max_bytes;
  const bool is_bound = owner != 0;  // both ends may be ours
  if (is_bound && (is_beyond || use.kept >= kKeptPerOwnerMax)) return std::nullopt;
  use.bytes += bytes;
  book.bytes += bytes;
  return MemoryShare(owner, bytes);
}

std::uint64_t MemoryShare::ReservedBytes() {
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  return book.bytes;
}

void MemoryShare::Reset() noexcept {
  if (bytes_ == 0) return;
  Book& book = TheBook();
  const std::uint64_t bytes = std::exchange(bytes_, 0);
  UniqueFd witness = std::move(witness_);
  const bool is_gone = !witness.is_open() || IsGone(witness.get());
  const std::lock_guard lock(book.mutex);
  if (is_gone) return book.GiveBack(owner_, bytes, 0);
  book.owners[owner_].kept += 1;
  book.kept.push_back({owner_, bytes, std::move(witness)});
}

std::vector<UniqueFd> MemoryShare::Sweep() {
  Book& book = TheBook();
  std::vector<UniqueFd> gone;
  const std::lock_guard lock(book.mutex);
  for (std::size_t looks = std::min(book.kept.size(), kLooksMax); looks > 0; --looks) {
    Kept one = std::move(book.kept.front());
    book.kept.pop_front();
    if (IsGone(one.witness.get())) {
      book.GiveBack(one.owner, one.bytes, 1);
      gone.push_back(std::move(one.witness));
    } else {
      book.kept.push_back(std::move(one));
    }
  }
  return gone;
}

std::size_t MemoryShare::KeptCount() {
  Book& book = TheBook();
  const std::lock_guard lock(book.mutex);
  return book.kept.size();
}

}  // namespace sidecall
