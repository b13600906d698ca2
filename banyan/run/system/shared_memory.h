// A zeroed piece of memory that this process and all that it forks afterwards see as one.
#pragma once

#include <cstddef>

namespace banyan {

// The memory has no name and goes with the last process that maps it. Owner of its mapping.
class SharedMemory {
 public:
  // Throws Error{io}.
  explicit SharedMemory(size_t size);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return data_; }  // aligned to a page
  size_t size() const { return size_; }

 private:
  std::byte* data_;
  size_t size_;
};

}  // namespace banyan
