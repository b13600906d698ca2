// An enumerator of orders: what production code that shares memory between threads or processes may do on a processor,
// or after a compiler, that keeps no more order than C++20 promises. x86 keeps more, so no test there can show it.
//
// The code under test is compiled as it is, with the calls that a compiler inserts for its race detector
// (-fsanitize=thread): one at each access to memory. Behind these calls stands not that detector but Memory, a model
// of weak memory, and the explorer, which runs the threads as fibers of one thread and decides who goes on before each
// atomic access, and which of the values that a load may return it does return. It tries all: each run is repeated from
// its beginning with the next decision taken otherwise; a run that comes to a state which was there before ends. So
// bugs are found that no machine at hand shows, and what is not found is not there within these scenarios.
//
// Sleeping on a futex, membarrier(2), mutexes, std::this_thread::yield() and operator new are replaced as well
// (hooks.cc). No sleep ends by its time: a wake-up that is lost is a deadlock, and so an error. Errors are also: what a
// scenario expects and does not find, a race on plain bytes, an exception, a CHECK that fails.
//
// Orders. Each atomic access in the source has one. The explorer lists those that it has met, and can weaken one of
// them: a scenario that covers a header's argument turns wrong for each. EveryOrderCounts does that for all of them.
//
// Scenarios are small: two or three threads and a few operations each. They keep all that threads share in objects
// that they make by `new`. (As C11Tester, Luo and Demsky, ASPLOS 2021, takes hold of programs; states are remembered
// since the scenarios are small enough to be explored whole.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/testing/orders/memory.h"

namespace banyan::testing::orders {

// What a scenario calls. All but thread(), name() and at_end() by its threads.
class Trial {
 public:
  virtual ~Trial() = default;
  // At most kThreads. They start when the scenario returns.
  virtual void thread(std::string name, std::function<void()> body) = 0;
  // Of a word or an array, for messages.
  virtual void name(const void* memory, std::string name) = 0;
  // When all threads are over.
  virtual void at_end(std::function<void()> check) = 0;

  virtual void expect(bool is_so, const std::string& text) = 0;
  // Goes on once it is there; looks again after others have stored something. At last it sees what is newest: stores
  // become visible in the end. A look in vain that has stored nothing leaves nothing behind but what it has seen.
  virtual void await(const std::function<bool()>& is_there) = 0;
};

using Scenario = std::function<void(Trial& trial)>;

enum class Kind : uint8_t { load, store, modify, fence };

// An order in the source.
struct OrderSite {
  std::string place;  // "byte_ring.cc:62"
  Kind kind = Kind::load;
  Order order = Order::relaxed;
  std::vector<uintptr_t> calls;  // where the compiler has put it, which may be several times

  std::string words() const;  // "byte_ring.cc:62 load seq_cst"
};
// What is weaker than an order by one step, and relaxed.
std::vector<Order> weaker(Kind kind, Order order);
const char* name_of(Order order);

struct Weakened {
  OrderSite site;
  Order order = Order::relaxed;
};

struct Outcome {
  std::string wrong;  // empty: all runs are right. Else what is wrong in one of them, and how it came to that
  uint64_t runs = 0, states = 0;
  std::vector<OrderSite> sites;  // that were met, by place
};

struct ExploreOptions {
  const Weakened* weakened = nullptr;
  uint64_t most_runs = 2'000'000;  // more are an error
};
Outcome explore(const Scenario& scenario, const ExploreOptions& options = {});

// An order that no scenario finds weakened, and why it stays. It is an error to spare what is found.
struct Spare {
  std::string words;  // how OrderSite::words() begins, without the line: "byte_ring.cc load seq_cst"
  std::string why;
};

// Explores the scenarios, all of which must be right; then weakens each order in these files that they meet, step by
// step, where at least one of them must be wrong, but for those that are spared. What is not so, line by line; empty:
// all is so. Orders in other files are for other tests. Prints what it finds.
std::string every_order_counts(const std::vector<std::string>& files, const std::vector<Scenario>& scenarios,
                               const std::vector<Spare>& spared = {});

}  // namespace banyan::testing::orders
