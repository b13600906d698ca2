// Memory for benchmarks: page-aligned, with all pages present, in large pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "banyan/base/check.h"

namespace banyan::element {

template <typename T>
class LargeMemory {
 public:
  explicit LargeMemory(size_t count) : bytes_(count * sizeof(T) + 4096) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED) << bytes_;
    madvise(memory, bytes_, MADV_HUGEPAGE);
    data_ = static_cast<T*>(memory);
    std::memset(memory, 0, bytes_);
  }
  ~LargeMemory() { munmap(data_, bytes_); }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  size_t bytes_;
  T* data_;
};

}  // namespace banyan::element
