// A value that the processes of a test share.
#pragma once

#include <sys/mman.h>

#include <new>

#include "banyan/base/check.h"

namespace banyan::testing {

// In memory that forked processes have in common with the one that made it.
template <typename Value>
class SharedAmongProcesses {
 public:
  SharedAmongProcesses() {
    void* const memory = mmap(nullptr, sizeof(Value), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED) << "no memory";
    value_ = new (memory) Value();
  }
  ~SharedAmongProcesses() { munmap(value_, sizeof(Value)); }
  SharedAmongProcesses(const SharedAmongProcesses&) = delete;
  SharedAmongProcesses& operator=(const SharedAmongProcesses&) = delete;

  Value& operator*() const { return *value_; }
  Value* operator->() const { return value_; }

 private:
  Value* value_;
};

}  // namespace banyan::testing
