// In a file of its own: a compiler that sees through these functions takes free() after new for a mistake.
#include "banyan/run/host/test_allocations.h"

#include <cstdlib>
#include <new>

namespace banyan::run {
namespace {

thread_local uint64_t count = 0;

}  // namespace

uint64_t allocations() { return count; }

}  // namespace banyan::run

void* operator new(size_t bytes) {
  ++banyan::run::count;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// Sanitizers have one of their own that free() does not suit.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++banyan::run::count;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
