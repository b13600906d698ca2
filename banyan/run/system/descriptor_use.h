// The number of descriptors that this process has open, and the number it may have.
#pragma once

#include <cstdint>

namespace banyan::run {

struct DescriptorUse {
  uint64_t used = 0;     // 0 where /proc does not say
  uint64_t allowed = 0;  // RLIMIT_NOFILE; 0: not known
};

// A system call from Linux 6.2 on; before it O(used), some 0.3 us each. Any thread.
DescriptorUse descriptor_use();
// The second number alone, at once.
uint64_t allowed_descriptors();

// The number that this process may open besides those that it has. If these are fewer than `more`, its soft limit is
// raised to the hard one first, which holds for the programs that it starts, too. UINT64_MAX where the limit is not
// known.
uint64_t make_room_for_descriptors(uint64_t more);

}  // namespace banyan::run
