#include "banyan/service/protocol/region.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

// With these its pages stay, and no other daemon can map it.
constexpr int kFinal = F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

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
  if ((seals & kFinal) != 0) refuse(bytes, "it can have no more seals, as what was offered to a daemon before");
}

// Huge pages come out of a pool. When that is empty, who touches one is ended by a signal.
void expect_ordinary_pages(int fd, uint64_t bytes) {
  struct statfs status {};
  if (fstatfs(fd, &status) != 0) throw run::system_error(purpose(bytes));
  if (status.f_type != TMPFS_MAGIC) refuse(bytes, "it does not consist of ordinary pages (MFD_HUGETLB)");
}

struct stat status_of(int fd, uint64_t bytes) {
  struct stat status {};
  if (fstat(fd, &status) != 0) throw run::system_error(purpose(bytes));
  return status;
}

uint64_t held_bytes(const struct stat& status) {
  constexpr uint64_t kBlock = 512;
  return static_cast<uint64_t>(status.st_blocks) * kBlock;
}

// Returns the length of the file, which may end where its last page does.
off_t expect_length(int fd, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (bytes == 0) refuse(bytes, "there is nothing to map");
  const struct stat status = status_of(fd, bytes);
  const auto length = static_cast<uint64_t>(status.st_size);
  if (length < bytes) refuse(bytes, "it is only " + std::to_string(length) + " bytes long");
  if ((length - 1) / page != (bytes - 1) / page) {
    refuse(bytes, "it is " + std::to_string(length) + " bytes long, and has to be offered whole");
  }
  constexpr uint64_t kHugePage = 2 << 20;
  const uint64_t held = held_bytes(status);
  if (held < bytes || held - bytes <= kHugePage) return status.st_size;
  refuse(bytes, "it has pages behind its end, " + std::to_string(held) + " bytes in all");
}

void expect_all_pages(int fd, uint64_t bytes) {
  if (held_bytes(status_of(fd, bytes)) < bytes) refuse(bytes, "not all of its pages are there; touch them first");
}

}  // namespace

Region::Region(const run::FileDescriptor& fd, uint64_t bytes) : size_(bytes) {
  expect_sealed(fd.get(), bytes);
  expect_ordinary_pages(fd.get(), bytes);
  const off_t length = expect_length(fd.get(), bytes);
  int rc;
  do {
    rc = ftruncate(fd.get(), length);
  } while (rc != 0 && errno == EINTR);
  if (rc != 0 && (errno == EINVAL || errno == EPERM)) refuse(bytes, "it cannot be written to");
  if (rc != 0) throw run::system_error(purpose(bytes));
  // Without MAP_POPULATE: pages that the client has not touched would be charged to this process.
  void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapping == MAP_FAILED && (errno == EACCES || errno == EPERM)) refuse(bytes, "it cannot be written to");
  if (mapping == MAP_FAILED) throw run::system_error(purpose(bytes));
  data_ = static_cast<std::byte*>(mapping);
  try {
    if (fcntl(fd.get(), F_ADD_SEALS, kFinal) != 0) throw run::system_error(purpose(bytes));
    expect_all_pages(fd.get(), bytes);  // none goes from now on
  } catch (const Error&) {
    munmap(data_, size_);
    throw;
  }
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, size_);
}

Region::Region(Region&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

}  // namespace banyan::service
