// Counts what is allocated, for tests that promise that nothing is.
#pragma once

#include <cstdint>

namespace banyan::run {

// By operator new in this thread, in a program that test_allocations.cc is linked into.
uint64_t allocations();

}  // namespace banyan::run
