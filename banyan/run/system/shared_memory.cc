#include "banyan/run/system/shared_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "banyan/run/system/system_error.h"

namespace banyan {

SharedMemory::SharedMemory(size_t size) : data_(nullptr), size_(size) {
  const std::string what = "cannot share " + std::to_string(size) + " bytes of memory between processes";
  const int fd = memfd_create("banyan", MFD_CLOEXEC);
  if (fd < 0) throw system_error(what);
  void* mapping = MAP_FAILED;
  if (ftruncate(fd, static_cast<off_t>(size)) == 0) {
    mapping = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  const int error = errno;
  close(fd);  // the mapping keeps the memory
  if (mapping == MAP_FAILED) throw system_error(what, error);
  data_ = static_cast<std::byte*>(mapping);
}

SharedMemory::~SharedMemory() { munmap(data_, size_); }

}  // namespace banyan
