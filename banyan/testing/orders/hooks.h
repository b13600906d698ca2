// Between the calls that stand in the code under test (hooks.cc) and the explorer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "banyan/testing/orders/memory.h"

namespace banyan::testing::orders {

// What a thread of a scenario does. All come back when it is this thread's turn.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual uint64_t load(void* memory, size_t size, Order order, uintptr_t call) = 0;
  virtual void store(void* memory, size_t size, uint64_t value, Order order, uintptr_t call) = 0;
  virtual uint64_t modify(void* memory, size_t size, const std::function<uint64_t(uint64_t)>& change, Order order,
                          uintptr_t call) = 0;
  virtual bool compare_exchange(void* memory, size_t size, uint64_t& expected, uint64_t desired, Order order,
                                Order otherwise, uintptr_t call) = 0;
  virtual void fence(Order order, uintptr_t call) = 0;
  virtual void fence_all() = 0;
  virtual void access(const void* memory, size_t size, bool is_write) = 0;
  virtual bool covers(const void* memory) const = 0;

  virtual void futex_wait(void* memory, uint32_t expected) = 0;
  virtual void futex_wake(void* memory) = 0;
  virtual void lock(void* mutex) = 0;
  virtual void unlock(void* mutex) = 0;
  virtual void give_way() = 0;
  [[noreturn]] virtual void fail(const char* text) = 0;
};

// Of the thread that runs now: null outside of runs, in the preparation of one, and in what belongs to the explorer.
Machine* machine();

// Memory of runs: lies at the same addresses in all of them.
class Arena {
 public:
  // Of a thread, and of the scenario behind those.
  static constexpr size_t kPart = size_t{64} << 10, kLastPart = size_t{640} << 10;
  static constexpr size_t kBytes = kThreads * kPart + kLastPart;
  std::byte* begin();
  void clear();
  // For operator new: null where the memory of the process is to be used.
  void* take(size_t bytes, size_t alignment);
  bool has(const void* memory);
};
Arena& arena();

// Code that is not compiled with the compiler's calls says so what it reads or writes.
void access(const void* memory, size_t bytes, bool is_write);

// Whose part operator new takes from: kThreads is the scenario, kNoPart the process.
constexpr uint32_t kNoPart = UINT32_MAX;
uint32_t set_part(uint32_t part);  // returns the one before

// Whether membarrier(2) is there; otherwise the code under test makes barriers of its own.
bool has_barriers();
void set_barriers(bool are_there);

}  // namespace banyan::testing::orders
