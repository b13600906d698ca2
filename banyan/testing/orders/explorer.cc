#include "banyan/testing/orders/explorer.h"

#include <cxxabi.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/testing/orders/hooks.h"
#include "banyan/testing/orders/source_places.h"

namespace banyan::testing::orders {
namespace {

constexpr uint64_t kMostSteps = 5000;
constexpr size_t kMostTold = 100;
constexpr size_t kStackBytes = size_t{256} << 10;

// What the runtime of exceptions keeps of a thread (Itanium C++ ABI): it goes with the fiber.
struct Exceptions {
  void* caught = nullptr;
  unsigned uncaught = 0;
};

// While it lives, what is done belongs to the explorer: memory is that of the process.
class Inside {
 public:
  Inside() : part_(set_part(kNoPart)) {}
  ~Inside() { set_part(part_); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  const uint32_t part_;
};

struct WrongAtTheEnd {};

enum class Status : uint8_t { ready, waits, sleeps, locked_out, over };

struct Fiber {
  std::string name;
  std::function<void()> body;
  std::vector<std::byte> stack;
  ucontext_t context{};
  Exceptions exceptions;
  Status status = Status::ready;
  const void* sleeps_on = nullptr;
  uint64_t stores_seen = 0;  // of others, when it looked last
  bool sees_newest = false, has_seen_newest = false;
  uint64_t observed = 0;  // of all that it was told: its state follows from that
};

class Explorer final : public Trial, public Machine {
 public:
  Explorer(const Scenario& scenario, const ExploreOptions& options)
      : scenario_(scenario), options_(options), memory_([this](uint32_t count) { return choose(count); }) {
    memory_.cover(arena().begin(), Arena::kBytes);
  }

  Outcome explore();

  // Trial
  void thread(std::string name, std::function<void()> body) override;
  void name(const void* memory, std::string name) override {
    const Inside inside;
    memory_.name(memory, std::move(name));
  }
  void at_end(std::function<void()> check) override { check_ = std::move(check); }
  void expect(bool is_so, const std::string& text) override {
    if (!is_so) fail(text.c_str());
  }
  void await(const std::function<bool()>& is_there) override;

  // Machine
  uint64_t load(void* memory, size_t size, Order order, uintptr_t call) override;
  void store(void* memory, size_t size, uint64_t value, Order order, uintptr_t call) override;
  uint64_t modify(void* memory, size_t size, const std::function<uint64_t(uint64_t)>& change, Order order,
                  uintptr_t call) override;
  bool compare_exchange(void* memory, size_t size, uint64_t& expected, uint64_t desired, Order order, Order otherwise,
                        uintptr_t call) override;
  void fence(Order order, uintptr_t call) override;
  void fence_all() override;
  void access(const void* memory, size_t size, bool is_write) override;
  bool covers(const void* memory) const override { return memory_.covers(memory); }
  void futex_wait(void* memory, uint32_t expected) override;
  void futex_wake(void* memory) override;
  void lock(void* mutex) override;
  void unlock(void* mutex) override;
  void give_way() override;
  [[noreturn]] void fail(const char* text) override;

  bool is_running() const { return current_ != nullptr; }

 private:
  struct Decision {
    uint32_t taken = 0, of = 1;
  };

  void run_once();
  static void enter(unsigned high, unsigned low);
  void body_of(Fiber& fiber);
  uint32_t choose(uint32_t count);
  uint32_t self() const { return static_cast<uint32_t>(current_ - fibers_.data()); }
  bool can_go_on(uint32_t thread) const;
  bool are_over() const {
    return std::all_of(fibers_.begin(), fibers_.begin() + count_,
                       [](const Fiber& fiber) { return fiber.status == Status::over; });
  }
  // Decides who goes on; comes back when this thread does.
  void yield();
  void block(Status status);
  void switch_to(Fiber* next);
  [[noreturn]] void end_run();
  bool is_new_state();
  std::optional<uint32_t> next_thread(bool prefers_self);
  void observe(uint64_t number) { current_->observed = mix(current_->observed, number); }
  Order effective(Kind kind, Order order, uintptr_t call);
  void tell(const char* what, const void* memory, uint64_t value, Order order, uintptr_t call);
  void expect_no_race();
  void note_store(const void* memory) { has_new_words_ |= stored_to_.insert(memory).second; }

  const Scenario& scenario_;
  const ExploreOptions options_;
  Memory memory_;
  std::array<Fiber, kThreads> fibers_;
  size_t count_ = 0;
  Fiber* current_ = nullptr;
  ucontext_t main_{};
  std::function<void()> check_;
  std::vector<Decision> decisions_;
  size_t decided_ = 0;
  uint64_t steps_ = 0;
  bool has_acted_ = false;        // the current thread, since it was decided that it goes on
  bool decides_nothing_ = false;  // 0 is taken
  bool tells_ = false;
  std::vector<std::string> told_;
  std::string wrong_;
  std::set<const void*> locked_;
  std::set<std::array<uint64_t, 2>> states_;
  // Words that threads have stored to. Loads of others are no reason to try who goes first; when there is a new one,
  // all begins anew.
  std::set<const void*> stored_to_;
  bool has_new_words_ = false;
  struct Met {
    Kind kind = Kind::load;
    Order order = Order::relaxed;
  };
  std::map<uintptr_t, Met> met_;
};

Explorer* g_explorer = nullptr;

// ---- Runs ----

void Explorer::enter(unsigned high, unsigned low) {
  auto* const explorer = reinterpret_cast<Explorer*>(uintptr_t{high} << 32 | low);
  Fiber& fiber = *explorer->current_;
  set_part(explorer->self());
  explorer->body_of(fiber);
  set_part(kNoPart);
  fiber.status = Status::over;
  explorer->block(Status::over);
}

void Explorer::body_of(Fiber& fiber) {
  try {
    fiber.body();
  } catch (const std::exception& error) {
    const std::string text = std::string("an exception: ") + error.what();
    fail(text.c_str());
  }
}

void Explorer::thread(std::string name, std::function<void()> body) {
  CHECK(count_ < kThreads) << "more threads than " << kThreads;
  Fiber& fiber = fibers_[count_++];
  {
    const Inside inside;
    fiber.name = std::move(name);
    fiber.stack.resize(kStackBytes);
  }
  fiber.body = std::move(body);
}

void Explorer::run_once() {
  arena().clear();
  memory_.begin_run();
  count_ = decided_ = 0;
  steps_ = 0;
  has_acted_ = false;
  locked_.clear();
  wrong_.clear();
  for (Fiber& fiber : fibers_) {
    std::vector<std::byte> stack = std::move(fiber.stack);
    fiber = {};
    fiber.stack = std::move(stack);
  }
  set_part(kThreads);
  scenario_(*this);
  set_part(kNoPart);
  for (size_t i = 0; i < count_; ++i) {
    Fiber& fiber = fibers_[i];
    CHECK(getcontext(&fiber.context) == 0);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = nullptr;
    const auto address = reinterpret_cast<uintptr_t>(this);
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Explorer::enter), 2, static_cast<unsigned>(address >> 32),
                static_cast<unsigned>(address));
  }
  auto* const exceptions = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  const Exceptions own = *exceptions;
  current_ = &fibers_[*next_thread(false)];
  *exceptions = current_->exceptions;
  CHECK(swapcontext(&main_, &current_->context) == 0);
  *exceptions = own;
  set_part(kNoPart);
  current_ = nullptr;
  if (are_over() && wrong_.empty() && check_) {
    set_part(kThreads);
    try {
      check_();
    } catch (const WrongAtTheEnd&) {
    }
    set_part(kNoPart);
  }
  // What a scenario and its threads have made lies in the arena, and goes with it.
  for (Fiber& fiber : fibers_) new (&fiber.body) std::function<void()>;
  new (&check_) std::function<void()>;
}

Outcome Explorer::explore() {
  Outcome outcome;
  for (bool is_over = false; !is_over;) {
    run_once();
    if (std::exchange(has_new_words_, false)) {
      decisions_.clear();
      states_.clear();
      continue;
    }
    CHECK(++outcome.runs <= options_.most_runs) << "the scenario has more runs than " << options_.most_runs;
    if (!wrong_.empty()) {
      outcome.wrong = wrong_;
      tells_ = true;  // the same once more
      run_once();
      const size_t first = told_.size() - std::min(told_.size(), kMostTold);
      for (size_t i = first; i < told_.size(); ++i) outcome.wrong += "\n  " + told_[i];
      break;
    }
    while (!decisions_.empty() && decisions_.back().taken + 1 == decisions_.back().of) decisions_.pop_back();
    is_over = decisions_.empty();
    if (!is_over) ++decisions_.back().taken;
  }
  outcome.states = states_.size();
  std::map<std::string, OrderSite> sites;
  std::vector<uintptr_t> calls;
  for (const auto& [call, met] : met_) calls.push_back(call);
  const std::vector<std::string> places = source_places(calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Met& met = met_.at(calls[i]);
    OrderSite site{.place = places[i], .kind = met.kind, .order = met.order, .calls = {}};
    sites.try_emplace(site.words(), site).first->second.calls.push_back(calls[i]);
  }
  for (auto& [words, site] : sites) outcome.sites.push_back(std::move(site));
  return outcome;
}

uint32_t Explorer::choose(uint32_t count) {
  if (count == 1 || decides_nothing_) return 0;
  if (decided_ == decisions_.size()) decisions_.push_back({.taken = 0, .of = count});
  const Decision& decision = decisions_[decided_++];
  CHECK(decision.of == count) << "a run is not repeated as it was: " << decision.of << " possibilities, now " << count;
  return decision.taken;
}

// ---- Turns ----

bool Explorer::can_go_on(uint32_t thread) const {
  const Fiber& fiber = fibers_[thread];
  return fiber.status == Status::ready ||
         (fiber.status == Status::waits &&
          (fiber.sees_newest || memory_.stores_of_others(thread) != fiber.stores_seen));
}

// None: nobody can go on any more, or need not.
std::optional<uint32_t> Explorer::next_thread(bool prefers_self) {
  std::array<uint32_t, kThreads> able{};
  uint32_t ables = 0;
  if (prefers_self && can_go_on(self())) able[ables++] = self();
  for (uint32_t thread = 0; thread < count_; ++thread) {
    if ((!prefers_self || thread != self()) && can_go_on(thread)) able[ables++] = thread;
  }
  if (ables > 0) return able[choose(ables)];
  for (uint32_t thread = 0; thread < count_; ++thread) {
    Fiber& fiber = fibers_[thread];
    if (fiber.status != Status::waits || fiber.has_seen_newest) continue;
    fiber.sees_newest = true;
    return thread;
  }
  return std::nullopt;
}

bool Explorer::is_new_state() {
  if (decided_ < decisions_.size() || tells_) return true;  // still on the way that was taken before
  std::array<uint64_t, 2> state = memory_.state();
  for (uint32_t thread = 0; thread < count_; ++thread) {
    const Fiber& fiber = fibers_[thread];
    const uint64_t flags = static_cast<uint64_t>(fiber.status) | (can_go_on(thread) ? 16 : 0) |
                           (fiber.sees_newest ? 32 : 0) | (fiber.has_seen_newest ? 64 : 0);
    for (uint64_t& sum : state) sum = mix(mix(sum, flags), fiber.observed);
  }
  return states_.insert(state).second;
}

void Explorer::switch_to(Fiber* next) {
  Fiber* const before = current_;
  if (next == before) return;
  auto* const exceptions = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
  before->exceptions = *exceptions;
  current_ = next;
  *exceptions = next->exceptions;
  CHECK(swapcontext(&before->context, &next->context) == 0);
}

// Its fiber never runs again, nor do the others.
void Explorer::end_run() {
  setcontext(&main_);
  std::abort();
}

void Explorer::fail(const char* text) {
  const Inside inside;
  if (wrong_.empty()) wrong_ = (is_running() ? current_->name + ": " : "at the end: ") + text;
  if (!is_running()) throw WrongAtTheEnd();
  end_run();
}

void Explorer::expect_no_race() {
  if (!memory_.race().empty()) fail(memory_.race().c_str());
}

void Explorer::yield() {
  expect_no_race();
  if (std::exchange(has_acted_, false)) {
    if (++steps_ > kMostSteps) fail("it does not end");
    if (!is_new_state()) end_run();
    switch_to(&fibers_[*next_thread(true)]);
  }
  has_acted_ = true;
}

// Until somebody has it go on.
void Explorer::block(Status status) {
  const Inside inside;
  expect_no_race();
  current_->status = status;
  has_acted_ = false;
  if (++steps_ > kMostSteps) fail("it does not end");
  if (!is_new_state()) end_run();
  const std::optional<uint32_t> next = next_thread(false);
  if (next) return switch_to(&fibers_[*next]);
  if (are_over()) end_run();
  std::string text = "nobody can go on:";
  for (size_t i = 0; i < count_; ++i) {
    if (fibers_[i].status != Status::over) text += " " + fibers_[i].name;
    if (fibers_[i].status == Status::sleeps) text += " (asleep)";
  }
  fail(text.c_str());
}

void Explorer::await(const std::function<bool()>& is_there) {
  for (;;) {
    const uint32_t thread = self();
    current_->stores_seen = memory_.stores_of_others(thread);
    const uint64_t observed = current_->observed, own = memory_.stores_of(thread);
    if (is_there()) break;
    if (memory_.stores_of(thread) == own) current_->observed = observed;
    if (current_->sees_newest) current_->has_seen_newest = true;
    current_->sees_newest = false;
    if (memory_.stores_of_others(thread) != current_->stores_seen) {
      current_->has_seen_newest = false;
      continue;
    }
    block(Status::waits);
    current_->status = Status::ready;
    if (!current_->sees_newest) current_->has_seen_newest = false;
  }
  current_->sees_newest = current_->has_seen_newest = false;
}

// std::this_thread::yield(): until others have stored something, or nobody else can go on, after which this thread sees
// what is newest until it stores something itself.
void Explorer::give_way() {
  const Inside inside;
  const uint64_t stores = memory_.stores_of_others(self());
  current_->has_seen_newest = current_->sees_newest && stores == current_->stores_seen;
  current_->sees_newest = false;
  current_->stores_seen = stores;
  block(Status::waits);
  current_->status = Status::ready;
}

// ---- Accesses ----

Order Explorer::effective(Kind kind, Order order, uintptr_t call) {
  if (options_.weakened == nullptr) {
    met_.try_emplace(call, Met{kind, order});
    return order;
  }
  const std::vector<uintptr_t>& calls = options_.weakened->site.calls;
  return std::find(calls.begin(), calls.end(), call) == calls.end() ? order : options_.weakened->order;
}

void Explorer::tell(const char* what, const void* memory, uint64_t value, Order order, uintptr_t call) {
  if (!tells_) return;
  told_.push_back(current_->name + ": " + what + (memory != nullptr ? " " + memory_.name_of(memory) : "") + " = " +
                  std::to_string(value) + " " + name_of(order) + " at " + source_places({call}).front());
}

uint64_t Explorer::load(void* memory, size_t size, Order order, uintptr_t call) {
  const Inside inside;
  if (stored_to_.contains(memory)) yield();
  const Order taken = effective(Kind::load, order, call);
  const uint64_t value = memory_.load(self(), memory, size, taken, current_->sees_newest);
  observe(memory_.last_read());
  tell("loads", memory, value, taken, call);
  return value;
}

void Explorer::store(void* memory, size_t size, uint64_t value, Order order, uintptr_t call) {
  const Inside inside;
  note_store(memory);
  yield();
  const Order taken = effective(Kind::store, order, call);
  memory_.store(self(), memory, size, value, taken);
  observe(1);
  tell("stores", memory, value, taken, call);
}

uint64_t Explorer::modify(void* memory, size_t size, const std::function<uint64_t(uint64_t)>& change, Order order,
                          uintptr_t call) {
  const Inside inside;
  note_store(memory);
  yield();
  const Order taken = effective(Kind::modify, order, call);
  const uint64_t before = memory_.modify(self(), memory, size, change, taken);
  observe(memory_.last_read());
  tell("changes", memory, before, taken, call);
  return before;
}

bool Explorer::compare_exchange(void* memory, size_t size, uint64_t& expected, uint64_t desired, Order order,
                                Order otherwise, uintptr_t call) {
  const Inside inside;
  note_store(memory);
  yield();
  const Order taken = effective(Kind::modify, order, call);
  // A weakened success weakens the failure, too.
  if (taken != order) otherwise = acquires(taken) ? std::min(otherwise, Order::acquire) : Order::relaxed;
  decides_nothing_ = current_->sees_newest;
  const bool succeeds = memory_.compare_exchange(self(), memory, size, expected, desired, taken, otherwise);
  decides_nothing_ = false;
  if (succeeds) current_->sees_newest = current_->has_seen_newest = false;
  observe(memory_.last_read());
  tell(succeeds ? "exchanges" : "does not exchange", memory, expected, taken, call);
  return succeeds;
}

void Explorer::fence(Order order, uintptr_t call) {
  const Inside inside;
  yield();
  const Order taken = effective(Kind::fence, order, call);
  memory_.fence(self(), taken);
  tell("fence", nullptr, 0, taken, call);
}

void Explorer::fence_all() {
  const Inside inside;
  yield();
  memory_.fence_all();
  tell("membarrier", nullptr, 0, Order::seq_cst, 0);
}

void Explorer::access(const void* memory, size_t size, bool is_write) {
  const Inside inside;
  memory_.access(self(), memory, size, is_write);
}

// ---- Sleeping ----

// As the kernel does it: it looks at the word and joins the queue of sleepers under the lock that a waker takes, behind
// a full barrier.
void Explorer::futex_wait(void* memory, uint32_t expected) {
  const Inside inside;
  yield();
  memory_.fence(self(), Order::seq_cst);
  const uint64_t value = memory_.load(self(), memory, sizeof expected, Order::relaxed, current_->sees_newest);
  observe(memory_.last_read());
  tell(value == expected ? "falls asleep on" : "does not sleep on", memory, value, Order::relaxed, 0);
  if (value != expected) return;
  current_->sleeps_on = memory;
  block(Status::sleeps);
}

void Explorer::futex_wake(void* memory) {
  const Inside inside;
  yield();
  memory_.fence(self(), Order::seq_cst);
  for (Fiber& fiber : fibers_) {
    if (fiber.status == Status::sleeps && fiber.sleeps_on == memory) fiber.status = Status::ready;
  }
  tell("wakes who sleeps on", memory, 0, Order::relaxed, 0);
}

// Its first bytes stand for the word in which it says that somebody has it.
void Explorer::lock(void* mutex) {
  const Inside inside;
  yield();
  while (!locked_.insert(mutex).second) {
    current_->sleeps_on = mutex;
    block(Status::locked_out);
  }
  decides_nothing_ = true;
  memory_.modify(
      self(), mutex, sizeof(uint32_t), [](uint64_t) { return 1; }, Order::acquire);
  decides_nothing_ = false;
  tell("locks", mutex, 0, Order::acquire, 0);
}

void Explorer::unlock(void* mutex) {
  const Inside inside;
  yield();
  decides_nothing_ = true;
  memory_.store(self(), mutex, sizeof(uint32_t), 0, Order::release);
  decides_nothing_ = false;
  locked_.erase(mutex);
  for (Fiber& fiber : fibers_) {
    if (fiber.status == Status::locked_out && fiber.sleeps_on == mutex) fiber.status = Status::ready;
  }
  tell("unlocks", mutex, 0, Order::release, 0);
}

}  // namespace

Machine* machine() { return g_explorer != nullptr && g_explorer->is_running() ? g_explorer : nullptr; }

// ---- Orders ----

const char* name_of(Order order) {
  constexpr const char* kNames[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
  return kNames[static_cast<size_t>(order)];
}

std::string OrderSite::words() const {
  constexpr const char* kKinds[] = {"load", "store", "modify", "fence"};
  return place + " " + kKinds[static_cast<size_t>(kind)] + " " + name_of(order);
}

std::vector<Order> weaker(Kind kind, Order order) {
  switch (order) {
    case Order::seq_cst:
      if (kind == Kind::load) return {Order::acquire, Order::relaxed};
      if (kind == Kind::store) return {Order::release, Order::relaxed};
      return {Order::acq_rel, Order::relaxed};
    case Order::acq_rel:
      return {Order::acquire, Order::release, Order::relaxed};
    case Order::acquire:
    case Order::release:
    case Order::consume:
      return {Order::relaxed};
    case Order::relaxed:
      break;
  }
  return {};
}

Outcome explore(const Scenario& scenario, const ExploreOptions& options) {
  Explorer explorer(scenario, options);
  g_explorer = &explorer;
  Outcome outcome = explorer.explore();
  g_explorer = nullptr;
  return outcome;
}

namespace {

// What is spared, if this step is: a place in the list.
std::optional<size_t> spare_of(const OrderSite& site, Order weakened, const std::vector<Spare>& spared) {
  const std::string words = site.words() + " -> " + name_of(weakened);
  const std::string without_line = site.place.substr(0, site.place.find(':')) + words.substr(site.place.size());
  const auto found = std::find_if(spared.begin(), spared.end(),
                                  [&](const Spare& spare) { return without_line.starts_with(spare.words); });
  return found == spared.end() ? std::nullopt : std::optional<size_t>(found - spared.begin());
}

}  // namespace

std::string every_order_counts(const std::vector<std::string>& files, const std::vector<Scenario>& scenarios,
                               const std::vector<Spare>& spared) {
  std::string wrong;
  std::map<std::string, OrderSite> sites;
  std::map<std::string, std::vector<size_t>> met_by;
  for (size_t i = 0; i < scenarios.size(); ++i) {
    const Outcome outcome = explore(scenarios[i]);
    std::printf("scenario %zu: %llu runs, %llu states\n", i, static_cast<unsigned long long>(outcome.runs),
                static_cast<unsigned long long>(outcome.states));
    std::fflush(stdout);
    if (!outcome.wrong.empty()) wrong += "scenario " + std::to_string(i) + " is wrong: " + outcome.wrong + "\n";
    for (const OrderSite& site : outcome.sites) {
      met_by[site.words()].push_back(i);
      OrderSite& all = sites.try_emplace(site.words(), site).first->second;
      for (const uintptr_t call : site.calls) {
        if (std::find(all.calls.begin(), all.calls.end(), call) == all.calls.end()) all.calls.push_back(call);
      }
    }
  }
  if (!wrong.empty()) return wrong;
  std::set<std::string> files_met;
  std::set<size_t> spares_met;
  for (const auto& [words, site] : sites) {
    const std::string file = site.place.substr(0, site.place.find(':'));
    if (std::find(files.begin(), files.end(), file) == files.end()) continue;
    files_met.insert(file);
    for (const Order order : weaker(site.kind, site.order)) {
      const Weakened weakened{.site = site, .order = order};
      std::string found;
      for (const size_t i : met_by.at(words)) {
        found = explore(scenarios[i], {.weakened = &weakened}).wrong;
        if (!found.empty()) break;
      }
      const std::string step = words + " -> " + name_of(order);
      std::printf("%s: %s\n", step.c_str(), found.empty() ? "nothing" : found.substr(0, found.find('\n')).c_str());
      if (!found.empty()) continue;
      const std::optional<size_t> spare = spare_of(site, order, spared);
      if (spare) spares_met.insert(*spare);
      if (!spare) wrong += step + " is found by no scenario\n";
    }
  }
  for (const std::string& file : files) {
    if (!files_met.contains(file)) wrong += "no order of " + file + " was met\n";
  }
  for (size_t i = 0; i < spared.size(); ++i) {
    if (!spares_met.contains(i)) wrong += spared[i].words + " is spared, and found all the same\n";
  }
  return wrong;
}

}  // namespace banyan::testing::orders
