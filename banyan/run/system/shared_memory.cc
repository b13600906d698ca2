#include "banyan/run/system/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "banyan/base/file_size_signal.h"
#include "banyan/run/system/available_memory.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr int kReadAndWrite = PROT_READ | PROT_WRITE;

std::string purpose(size_t size) {
  return "cannot share " + std::to_string(size) + " bytes of memory between processes";
}

Error refused(size_t size) {
  const int error = errno;
  const char* const limit = error == EFBIG  // files in memory count, too
                                ? " (see 'ulimit -f')"
                                : " (the limit is this machine's memory, or that of the container or control group)";
  return Error(ErrorCode::io, system_error(purpose(size), error).message() + limit);
}

FileDescriptor make_file(size_t size) {
  const FileSizeSignalHeld held;
  FileDescriptor fd(memfd_create("banyan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) throw system_error(purpose(size));
  if (ftruncate(fd.get(), static_cast<off_t>(size)) != 0) throw refused(size);
  return fd;
}

#ifndef MADV_POPULATE_WRITE
constexpr int MADV_POPULATE_WRITE = 23;
#endif

// The pages of a file in memory are given until some process is killed for want of memory, so who asks for too much
// must refuse itself.
void expect_available(size_t size) {
  constexpr uint64_t kWorthALook = 16 << 20, kForOthers = 64 << 20;
  if (size < kWorthALook) return;
  const uint64_t available = available_memory();
  if (size < available && available - size >= kForOthers) return;
  throw Error(ErrorCode::io, purpose(size) + ": " + std::to_string(available) +
                                 " bytes are available on this machine, or in its container or control group, and " +
                                 std::to_string(std::min(kForOthers, available)) + " of them are left to others");
}

void take_pages(const FileDescriptor& fd, size_t size) {
  const FileSizeSignalHeld held;
  int rc;
  do {
    rc = fallocate(fd.get(), 0, 0, static_cast<off_t>(size));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) throw refused(size);
}

void keep_size(const FileDescriptor& fd, size_t size) {
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) throw system_error(purpose(size));
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor fd, size_t size, bool populate, int protection)
    : size_(size), fd_(std::move(fd)) {
  const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
  void* mapping = mmap(nullptr, size, protection, flags, fd_.get(), 0);
  if (mapping == MAP_FAILED) throw system_error(purpose(size));
  data_ = static_cast<std::byte*>(mapping);
}

SharedMemory::SharedMemory(size_t size) : SharedMemory(make_file(size), size, false, kReadAndWrite) { fd_.reset(); }

SharedMemory SharedMemory::with_pages(size_t size) {
  expect_available(size);
  FileDescriptor fd = make_file(size);
  take_pages(fd, size);
  keep_size(fd, size);
  return {std::move(fd), size, true, kReadAndWrite};
}

SharedMemory SharedMemory::with_some_pages(size_t size, size_t ready) {
  expect_available(size);
  FileDescriptor fd = make_file(size);
  take_pages(fd, ready);
  return {std::move(fd), size, false, kReadAndWrite};
}

void SharedMemory::provide(const std::byte* begin, size_t bytes) const {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));  // on Arm 64 KiB, maybe
  const uintptr_t first = reinterpret_cast<uintptr_t>(begin) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + bytes + page - 1) / page * page;
  int rc;
  do {
    rc = madvise(reinterpret_cast<void*>(first), end - first, MADV_POPULATE_WRITE);
  } while (rc != 0 && (errno == EINTR || errno == EAGAIN));
  if (rc != 0 && errno != EINVAL) throw refused(bytes);  // EINVAL: an older kernel
}

SharedMemory SharedMemory::attach(pid_t owner, int fd, size_t size) {
  return attach(owner, fd, size, true, kReadAndWrite);
}

SharedMemory SharedMemory::attach_lazily(pid_t owner, int fd, size_t size) {
  return attach(owner, fd, size, false, kReadAndWrite);
}

SharedMemory SharedMemory::attach_to_read(pid_t owner, int fd, size_t size) {
  return attach(owner, fd, size, true, PROT_READ);
}

SharedMemory SharedMemory::attach(pid_t owner, int fd, size_t size, bool populate, int protection) {
  const std::string path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(fd);
  FileDescriptor file(protection == PROT_READ ? open(path.c_str(), O_RDONLY | O_CLOEXEC)
                                              : open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file.is_open()) {
    const Error error = system_error("cannot open memory of process " + std::to_string(owner) + " (" + path + ")");
    throw errno == ENOENT ? Error(ErrorCode::peer_lost, error.message()) : error;
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || status.st_size < static_cast<off_t>(size)) {
    throw Error(ErrorCode::io, "process " + std::to_string(owner) + " offers memory that is shorter than it says");
  }
  SharedMemory memory(std::move(file), size, populate, protection);
  memory.fd_.reset();
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), fd_(std::move(other.fd_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace banyan::run
