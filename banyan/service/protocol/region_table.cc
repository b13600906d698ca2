#include "banyan/service/protocol/region_table.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

std::string purpose(uint64_t bytes) { return "cannot map " + std::to_string(bytes) + " bytes of a client"; }

[[noreturn]] void refuse(uint64_t bytes, const std::string& why) { throw invalid(purpose(bytes) + ": " + why); }

// The first question to a descriptor of a stranger: the kernel answers it for memory only, and asks no file system,
// which may be the stranger's own and never answer.
void expect_sealed(int fd, uint64_t bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 && errno == EINVAL)
    refuse(bytes, "it is no memory of memfd_create, so it could vanish under the reader");
  if (seals < 0) throw run::system_error(purpose(bytes));
  if ((seals & F_SEAL_SHRINK) == 0) refuse(bytes, "it is not sealed against being made shorter (F_SEAL_SHRINK)");
  if ((seals & F_SEAL_GROW) == 0) refuse(bytes, "it is not sealed against being made longer (F_SEAL_GROW)");
  if ((seals & F_SEAL_SEAL) == 0) refuse(bytes, "its seals are not final (F_SEAL_SEAL)");
}

// Huge pages come out of a pool. When that is empty, who touches one is ended by a signal.
void expect_ordinary_pages(int fd, uint64_t bytes) {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) throw run::system_error(purpose(bytes));
  if (status.f_type != TMPFS_MAGIC) refuse(bytes, "it does not consist of ordinary pages (MFD_HUGETLB)");
}

// Returns the length of the file, which may end where its last page does.
off_t expect_length(int fd, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0) refuse(bytes, "there is nothing to map");
  struct stat status {};
  if (fstat(fd, &status) != 0) throw run::system_error(purpose(bytes));
  const auto length = static_cast<uint64_t>(status.st_size);
  if (length < bytes) refuse(bytes, "it is only " + std::to_string(length) + " bytes long");
  if ((length - 1) / page != (bytes - 1) / page) {
    refuse(bytes, "it is " + std::to_string(length) + " bytes long, and has to be offered whole");
  }
  constexpr uint64_t kBlock = 512, kHugePage = 2 << 20;
  const uint64_t held = static_cast<uint64_t>(status.st_blocks) * kBlock;
  if (held < bytes || held - bytes <= kHugePage) return status.st_size;
  refuse(bytes, "it has pages behind its end, " + std::to_string(held) + " bytes in all");
}

}  // namespace

void drop_pages_behind(const run::FileDescriptor& fd, uint64_t bytes) {
  expect_sealed(fd.get(), bytes);
  expect_ordinary_pages(fd.get(), bytes);
  const off_t length = expect_length(fd.get(), bytes);
  int rc;
  do {
    rc = ftruncate(fd.get(), length);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0 && (errno == EINVAL || errno == EPERM)) refuse(bytes, "it cannot be written to");
  if (rc != 0) throw run::system_error(purpose(bytes));
}

Region::Region(const run::FileDescriptor& fd, uint64_t bytes) : size_(bytes) {
  drop_pages_behind(fd, bytes);
  // Without MAP_POPULATE: pages that the client has not touched would be charged to this process.
  void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED && (errno == EACCES || errno == EPERM)) refuse(bytes, "it cannot be written to");
  if (mapping == MAP_FAILED) throw run::system_error(purpose(bytes));
  data_ = static_cast<std::byte*>(mapping);
  file_ = run::FileDescriptor(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (file_.is_open()) return;
  const Error error = run::system_error(purpose(bytes));
  munmap(data_, size_);
  throw Error(error);
}

bool Region::is_whole() const {
  constexpr uint64_t kBlock = 512;
  struct stat status {};
  return fstat(file_.get(), &status) == 0 && static_cast<uint64_t>(status.st_blocks) >= (size_ + kBlock - 1) / kBlock;
}

Region::~Region() { munmap(data_, size_); }

std::shared_ptr<const Region> RegionTable::map(const run::FileDescriptor& fd, uint64_t bytes) const {
  std::shared_ptr<void> charge = hooks_.charge ? hooks_.charge(bytes) : nullptr;
  auto region = std::make_unique<const Region>(fd, bytes);
  if (hooks_.wants_pages && !region->is_whole()) refuse(bytes, "not all of its pages are there; touch them first");
  // What is let go of here is let go of now: the table may remember for long that there was such a region.
  if (!hooks_.later) {
    return {region.release(), [charge = std::move(charge)](const Region* mapped) mutable {
              delete mapped;
              charge.reset();
            }};
  }
  return {region.release(), [charge = std::move(charge), later = hooks_.later](const Region* mapped) mutable {
            later([charge = std::move(charge), held = std::shared_ptr<const Region>(mapped)] {});
          }};
}

RegionTable::Place RegionTable::offer(const run::FileDescriptor& fd, uint64_t bytes) {
  std::erase_if(withdrawn_, [](const auto& region) { return region.expired(); });
  const Usage used = usage();
  if (used.regions >= quota_.regions) {
    throw Error(ErrorCode::unsupported, purpose(bytes) + ": it has " + std::to_string(used.regions) +
                                            " regions, as many as one may have; it has to withdraw some");
  }
  if (used.bytes > quota_.bytes || bytes > quota_.bytes - used.bytes) {
    throw Error(ErrorCode::unsupported, purpose(bytes) + ": it has " + std::to_string(used.bytes) +
                                            " bytes in regions, and may have " + std::to_string(quota_.bytes) +
                                            "; it has to withdraw some");
  }
  std::shared_ptr<const Region> region = map(fd, bytes);
  if (free_.empty()) {
    entries_.emplace_back();
    free_.reserve(entries_.capacity());
    free_.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  entries_[index].region = std::move(region);
  return {.index = index, .generation = entries_[index].generation};
}

void RegionTable::withdraw(Place place) {
  if (place.index >= entries_.size() || !entries_[place.index].region ||
      entries_[place.index].generation != place.generation) {
    throw invalid("region " + std::to_string(place.index) + " of generation " + std::to_string(place.generation) +
                  " is not offered");
  }
  Entry& entry = entries_[place.index];
  withdrawn_.push_back(entry.region);
  free_.push_back(place.index);  // there is memory for it
  entry.region.reset();
  ++entry.generation;
}

std::shared_ptr<const Region> RegionTable::find(const BufferName& name, uint64_t bytes) const {
  if (name.region >= entries_.size()) return nullptr;
  const Entry& entry = entries_[name.region];
  if (!entry.region || entry.generation != name.generation) return nullptr;
  const uint64_t size = entry.region->size();
  if (name.offset > size || bytes > size - name.offset) return nullptr;
  return entry.region;
}

RegionTable::Usage RegionTable::usage() const {
  Usage used;
  const auto count = [&](const Region& region) {
    ++used.regions;
    used.bytes += region.size();
  };
  for (const Entry& entry : entries_) {
    if (entry.region) count(*entry.region);
  }
  for (const std::weak_ptr<const Region>& withdrawn : withdrawn_) {
    if (const auto held = withdrawn.lock()) count(*held);
  }
  return used;
}

}  // namespace banyan::service
