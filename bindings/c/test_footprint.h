// Footprint: what this process holds of the operating system's goods. For tests that nothing is left behind.
#pragma once

#include <cstddef>
#include <string>

namespace banyan::c {

struct Footprint {
  size_t resident = 0;  // bytes, after what malloc keeps for later has been given back
  size_t mappings = 0;  // lines of /proc/self/maps
  size_t descriptors = 0;
  size_t threads = 0;

  static Footprint now();
};

// How much more is allowed. The defaults are what the heap and the stacks of ended threads scatter, and what is open
// for a moment only, such as connections of peers that are a step ahead.
struct Slack {
  size_t resident = 4 << 20, mappings = 12, descriptors = 6, threads = 0;
};

// In words, what `after` holds beyond `before` and the slack; nothing when it is within. Under a sanitizer memory is
// not compared.
std::string growth(const Footprint& before, const Footprint& after, const Slack& slack = {});

}  // namespace banyan::c
