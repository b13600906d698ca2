// Memory that several processes see as one.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <utility>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// The memory has no name in any file system, so no limit of /dev/shm applies to it, and goes with the last process that
// maps it. Owner of its mapping. Movable.
class SharedMemory {
 public:
  SharedMemory() = default;
  // Zeroed; seen by this process and by all that it forks afterwards. Pages come when they are touched. Throws
  // Error{io}.
  explicit SharedMemory(size_t size);
  // Zeroed, and every page is there on return, so that no first touch is paid for later and a lack of memory is an
  // Error{io} now, not a signal then. Other processes may attach while this object lives. Nobody can change its size,
  // so nobody who has it mapped can be ended by a signal for it.
  static SharedMemory with_pages(size_t size);
  // The same, but only the first `ready` bytes are there; provide() brings the others. Refused when not all of it would
  // be available.
  static SharedMemory with_some_pages(size_t size, size_t ready);
  // Maps what process `owner` of this host holds open as `fd`. Throws Error{io}, Error{peer_lost} when it is gone.
  static SharedMemory attach(pid_t owner, int fd, size_t size);
  // The same where not every page may be there: it comes when it is touched, or by provide().
  static SharedMemory attach_lazily(pid_t owner, int fd, size_t size);
  // The same to be read alone: also where a daemon has seen to it that nobody maps it for writing any more.
  static SharedMemory attach_to_read(pid_t owner, int fd, size_t size);

  // Makes the pages of [begin, begin + bytes) be there before they are written to. Throws Error{io} when there is no
  // memory for them. Before Linux 5.14 they come when they are touched, as if this had not been called.
  void provide(const std::byte* begin, size_t bytes) const;
  // Nobody can attach any more.
  void close_file() { fd_.reset(); }
  // The same, but for those who get it from the caller.
  FileDescriptor take_file() { return std::move(fd_); }

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  std::byte* data() const { return data_; }  // aligned to a page
  size_t size() const { return size_; }
  int fd() const { return fd_.get(); }  // of those made with pages; others have none

 private:
  SharedMemory(FileDescriptor fd, size_t size, bool populate, int protection);
  static SharedMemory attach(pid_t owner, int fd, size_t size, bool populate, int protection);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileDescriptor fd_;
};

}  // namespace banyan::run
