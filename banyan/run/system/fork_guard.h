// ForkGuard: knows whether this process was forked after the guard was made. One load.
#pragma once

#include <cstdint>

namespace banyan::run {

class ForkGuard {
 public:
  ForkGuard();
  bool is_in_child() const { return forks_ != forks(); }

 private:
  static uint64_t forks();  // that lie between the first process of this program and this one
  uint64_t forks_;
};

}  // namespace banyan::run
