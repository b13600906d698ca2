// What the code under test calls: the functions that a compiler inserts for -fsanitize=thread, in place of those of its
// runtime; and operator new, memcpy, mutexes, futexes, membarrier(2) and sched_yield(2). Outside of runs they do what
// they usually do.
#include "banyan/testing/orders/hooks.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "banyan/run/system/futex.h"
#include "banyan/run/system/memory_barrier.h"

namespace banyan::testing::orders {
namespace {

alignas(4096) std::byte g_memory[Arena::kBytes];
size_t g_taken[kThreads + 1];
uint32_t g_part = kNoPart;
bool g_has_barriers = true;

// Of accesses to what is shared, by a thread of a scenario.
Machine* machine_for(const volatile void* memory) {
  if (g_part >= kThreads || !arena().has(const_cast<const void*>(memory))) return nullptr;
  return machine();
}

Order order_of(int order) { return static_cast<Order>(order); }

}  // namespace

Arena& arena() {
  static Arena the_arena;
  return the_arena;
}

std::byte* Arena::begin() { return g_memory; }

bool Arena::has(const void* memory) {
  return static_cast<size_t>(static_cast<const std::byte*>(memory) - g_memory) < kBytes;
}

void Arena::clear() {
  for (size_t part = 0; part <= kThreads; ++part) {
    std::memset(g_memory + part * kPart, 0, g_taken[part]);
    g_taken[part] = 0;
  }
}

void* Arena::take(size_t bytes, size_t alignment) {
  if (g_part > kThreads) return nullptr;
  const size_t begin = (g_taken[g_part] + alignment - 1) / alignment * alignment;
  if (begin + bytes > (g_part == kThreads ? kLastPart : kPart)) std::abort();
  g_taken[g_part] = begin + bytes;
  return g_memory + g_part * kPart + begin;
}

uint32_t set_part(uint32_t part) {
  const uint32_t before = g_part;
  g_part = part;
  return before;
}

bool has_barriers() { return g_has_barriers; }
void set_barriers(bool are_there) { g_has_barriers = are_there; }

namespace {

void* allocate(size_t bytes, size_t alignment) {
  void* memory = arena().take(bytes, std::max(alignment, size_t{16}));
  if (memory == nullptr) memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory) {
  if (!arena().has(memory)) std::free(memory);
}

}  // namespace

void access(const void* memory, size_t bytes, bool is_write) {
  if (Machine* const machine = machine_for(memory)) machine->access(memory, bytes, is_write);
}

}  // namespace banyan::testing::orders

using namespace banyan::testing::orders;

// ---- Memory that is new ----

void* operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { release(memory); }

// ---- The system ----

namespace banyan::run {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds) {
  if (Machine* const machine = machine_for(&word)) machine->futex_wait(&word, expected);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  if (Machine* const machine = machine_for(&word)) machine->futex_wake(&word);
}

namespace {

bool barrier() {
  Machine* const machine = ::machine();
  if (machine != nullptr && has_barriers()) machine->fence_all();
  return has_barriers();
}

}  // namespace

bool register_for_barriers() { return has_barriers(); }
bool barrier_everywhere() { return barrier(); }
bool register_for_own_barriers() { return has_barriers(); }
bool barrier_in_process() { return barrier(); }

}  // namespace banyan::run

extern "C" {

// By the linker's --wrap.
void* __real_memcpy(void* to, const void* from, size_t bytes);
void* __real_memmove(void* to, const void* from, size_t bytes);
void* __real_memset(void* to, int value, size_t bytes);
int __real_memcmp(const void* left, const void* right, size_t bytes);
int __real_pthread_mutex_lock(pthread_mutex_t* mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t* mutex);
int __real_pthread_rwlock_rdlock(pthread_rwlock_t* lock);
int __real_pthread_rwlock_wrlock(pthread_rwlock_t* lock);
int __real_pthread_rwlock_unlock(pthread_rwlock_t* lock);
int __real_sched_yield();
[[noreturn]] void __real_abort();

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  access(from, bytes, false);
  access(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  access(from, bytes, false);
  access(to, bytes, true);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, size_t bytes) {
  access(to, bytes, true);
  return __real_memset(to, value, bytes);
}
int __wrap_memcmp(const void* left, const void* right, size_t bytes) {
  access(left, bytes, false);
  access(right, bytes, false);
  return __real_memcmp(left, right, bytes);
}
// A lock of readers and writers lets one in at a time.
#define BANYAN_LOCK(function, type, what)                   \
  int __wrap_##function(type* lock) {                       \
    Machine* const machine = machine_for(lock);             \
    if (machine == nullptr) return __real_##function(lock); \
    machine->what(lock);                                    \
    return 0;                                               \
  }
BANYAN_LOCK(pthread_mutex_lock, pthread_mutex_t, lock)
BANYAN_LOCK(pthread_mutex_unlock, pthread_mutex_t, unlock)
BANYAN_LOCK(pthread_rwlock_rdlock, pthread_rwlock_t, lock)
BANYAN_LOCK(pthread_rwlock_wrlock, pthread_rwlock_t, lock)
BANYAN_LOCK(pthread_rwlock_unlock, pthread_rwlock_t, unlock)
#undef BANYAN_LOCK
int __wrap_sched_yield() {
  Machine* const machine = ::machine();
  if (machine == nullptr) return __real_sched_yield();
  machine->give_way();
  return 0;
}
void __wrap_abort() {
  if (Machine* const machine = ::machine()) machine->fail("a CHECK fails");
  __real_abort();
}

// ---- What the compiler inserts ----

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void** place, void*) { access(place, sizeof(void*), true); }
void __tsan_vptr_read(void** place) { access(place, sizeof(void*), false); }
void __tsan_read_range(const void* memory, size_t bytes) { access(memory, bytes, false); }
void __tsan_write_range(void* memory, size_t bytes) { access(memory, bytes, true); }

#define BANYAN_PLAIN(bytes)                                                               \
  void __tsan_read##bytes(const void* memory) { access(memory, bytes, false); }           \
  void __tsan_write##bytes(void* memory) { access(memory, bytes, true); }                 \
  void __tsan_unaligned_read##bytes(const void* memory) { access(memory, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* memory) { access(memory, bytes, true); }
BANYAN_PLAIN(1)
BANYAN_PLAIN(2)
BANYAN_PLAIN(4)
BANYAN_PLAIN(8)
BANYAN_PLAIN(16)
#undef BANYAN_PLAIN

void __tsan_atomic_thread_fence(int order) {
  const auto call = reinterpret_cast<uintptr_t>(__builtin_return_address(0));
  if (Machine* const machine = ::machine()) machine->fence(order_of(order), call);
}
void __tsan_atomic_signal_fence(int) {}

#define BANYAN_CALL reinterpret_cast<uintptr_t>(__builtin_return_address(0))
#define BANYAN_CHANGE(bits, name, expression)                                                                     \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t* word, uint##bits##_t operand, int order) { \
    Machine* const machine = machine_for(word);                                                                   \
    const auto change = [operand](uint64_t wide) -> uint64_t {                                                    \
      const auto value = static_cast<uint##bits##_t>(wide);                                                       \
      return static_cast<uint##bits##_t>(expression);                                                             \
    };                                                                                                            \
    if (machine == nullptr) {                                                                                     \
      const uint##bits##_t value = *word;                                                                         \
      *word = static_cast<uint##bits##_t>(change(value));                                                         \
      return value;                                                                                               \
    }                                                                                                             \
    return static_cast<uint##bits##_t>(                                                                           \
        machine->modify(const_cast<uint##bits##_t*>(word), bits / 8, change, order_of(order), BANYAN_CALL));      \
  }
#define BANYAN_COMPARE(bits, name)                                                                              \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t* word, uint##bits##_t* expected,    \
                                                    uint##bits##_t desired, int order, int otherwise) {         \
    Machine* const machine = machine_for(word);                                                                 \
    if (machine == nullptr) {                                                                                   \
      const uint##bits##_t value = *word;                                                                       \
      if (value == *expected) {                                                                                 \
        *word = desired;                                                                                        \
        return 1;                                                                                               \
      }                                                                                                         \
      *expected = value;                                                                                        \
      return 0;                                                                                                 \
    }                                                                                                           \
    uint64_t read = *expected;                                                                                  \
    const bool succeeds = machine->compare_exchange(const_cast<uint##bits##_t*>(word), bits / 8, read, desired, \
                                                    order_of(order), order_of(otherwise), BANYAN_CALL);         \
    *expected = static_cast<uint##bits##_t>(read);                                                              \
    return succeeds ? 1 : 0;                                                                                    \
  }
// Outside of runs there is one thread.
#define BANYAN_ATOMIC(bits)                                                                           \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* word, int order) {         \
    Machine* const machine = machine_for(word);                                                       \
    if (machine == nullptr) return *word;                                                             \
    return static_cast<uint##bits##_t>(                                                               \
        machine->load(const_cast<uint##bits##_t*>(word), bits / 8, order_of(order), BANYAN_CALL));    \
  }                                                                                                   \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* word, uint##bits##_t value, int order) {  \
    Machine* const machine = machine_for(word);                                                       \
    if (machine == nullptr) {                                                                         \
      *word = value;                                                                                  \
      return;                                                                                         \
    }                                                                                                 \
    machine->store(const_cast<uint##bits##_t*>(word), bits / 8, value, order_of(order), BANYAN_CALL); \
  }                                                                                                   \
  BANYAN_CHANGE(bits, exchange, (static_cast<void>(value), operand))                                  \
  BANYAN_CHANGE(bits, fetch_add, value + operand)                                                     \
  BANYAN_CHANGE(bits, fetch_sub, value - operand)                                                     \
  BANYAN_CHANGE(bits, fetch_and, value& operand)                                                      \
  BANYAN_CHANGE(bits, fetch_or, value | operand)                                                      \
  BANYAN_CHANGE(bits, fetch_xor, value ^ operand)                                                     \
  BANYAN_COMPARE(bits, strong)                                                                        \
  BANYAN_COMPARE(bits, weak)
BANYAN_ATOMIC(8)
BANYAN_ATOMIC(16)
BANYAN_ATOMIC(32)
BANYAN_ATOMIC(64)

}  // extern "C"
