// A file descriptor that closes itself.
#pragma once

#include <unistd.h>

#include <utility>

namespace banyan::run {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  // For whoever closes it from now on.
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (is_open()) close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace banyan::run
