// Memory as C++20 allows it to behave, for code whose orders are to be checked (explorer.h).
//
// Every word that is accessed as an atomic has a history of values in its modification order. A load may return any
// value that is not older than what its thread must know; what a thread must know is a View: for each word, the oldest
// value that may still be read. A release store hands the view of its thread on with its value, an acquire load takes
// it. (Kang, Hur, Lahav, Vafeiadis, Dreyer, "A promising semantics for relaxed-memory concurrency", POPL 2017, without
// its promises.) Sequentially consistent accesses and fences share one more view, as C++20 [atomics.order] 4 has it: a
// load that is not sequentially consistent itself may miss a value that was stored so. A store takes its place in their
// order as late as it may: before the next access or fence of them that it happens before.
//
// A store, or a read-modify-write, may also take its place in the modification order before values of other threads
// that its own does not know.
//
// Plain bytes have no history. Clocks tell whether two accesses of different threads, one of them a write, are ordered;
// if not, that is a race, whichever came first. A plain and an atomic access of one byte are held to the same.
//
// What it does not model: a load that happens after a later store of its thread (load buffering), as C11 models of
// others leave it out (RC11). Words that overlap with others. More threads than kThreads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace banyan::testing::orders {

constexpr size_t kThreads = 3;

// As __ATOMIC_RELAXED etc. have it.
enum class Order : uint8_t { relaxed, consume, acquire, release, acq_rel, seq_cst };
constexpr bool acquires(Order order) {
  return order == Order::consume || order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}
constexpr bool releases(Order order) {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

// What a thread, or who reads a value, must know.
struct View {
  std::vector<uint32_t> seen;              // by word: a place in its history; beyond its end: 0
  std::array<uint32_t, kThreads> clock{};  // what happened before

  uint32_t at(size_t word) const { return word < seen.size() ? seen[word] : 0; }
  void raise(size_t word, uint32_t place);
  void join_seen(const View& other);
  void join(const View& other);
};

class Memory {
 public:
  // `choose(n)` decides between n possibilities; 0 is the one that no weak order is needed for.
  using Choose = std::function<uint32_t(uint32_t)>;
  explicit Memory(Choose choose) : choose_(std::move(choose)) {}

  // A word keeps its number from run to run, so that states of different runs can be compared.
  void begin_run();

  // By `thread`; `memory` holds the newest value, in `size` bytes. `newest`: what is read is not old.
  uint64_t load(uint32_t thread, void* memory, size_t size, Order order, bool newest = false);
  void store(uint32_t thread, void* memory, size_t size, uint64_t value, Order order);
  uint64_t modify(uint32_t thread, void* memory, size_t size, const std::function<uint64_t(uint64_t)>& change,
                  Order order);
  // Whether it was `expected`, which gets what was read.
  bool compare_exchange(uint32_t thread, void* memory, size_t size, uint64_t& expected, uint64_t desired, Order order,
                        Order otherwise);
  void fence(uint32_t thread, Order order);
  void fence_all();  // a full one in every thread, as membarrier(2) makes it

  // Plain bytes. An empty text, or what races.
  void access(uint32_t thread, const void* memory, size_t size, bool is_write);
  // The first race, if there was one.
  const std::string& race() const { return race_; }

  // How many values a thread has stored so far, and how many the others.
  uint64_t stores_of(uint32_t thread) const { return own_stores_[thread]; }
  uint64_t stores_of_others(uint32_t thread) const { return stores_ - own_stores_[thread]; }
  // Where in its history the value is that was read last.
  uint32_t last_read() const { return last_read_; }
  // Two numbers that tell the state of all words and threads from others, given what each thread has read. Values do
  // not count: they follow from that, and some differ from run to run.
  std::array<uint64_t, 2> state() const;

  // Where in memory runs keep what their threads share: pieces of memory that lie at the same addresses in all runs.
  void cover(const std::byte* begin, size_t bytes);
  bool covers(const void* memory) const {
    return static_cast<size_t>(static_cast<const std::byte*>(memory) - begin_) < bytes_;
  }
  void name(const void* memory, std::string name) { names_[memory] = std::move(name); }
  std::string name_of(const void* memory) const;

 private:
  struct Value {
    uint64_t value = 0;
    View view;               // of who acquires it
    bool is_change = false;  // of the value before it, by a read-modify-write: nothing comes between
  };
  struct Word {
    void* memory = nullptr;
    size_t size = 0;
    std::vector<Value> history;  // empty: not accessed in this run
  };
  struct Thread {
    View current, acquired, released;  // acquired: what an acquire fence would bring; released: since a release fence
  };
  enum Access : uint8_t { plain_read, plain_write, atomic_read, atomic_write, kAccesses };
  struct Byte {
    uint32_t run = 0;
    std::array<std::array<uint16_t, kThreads>, kAccesses> times{};
  };

  // A store that has not come to its place in the order of what is sequentially consistent.
  struct Late {
    uint32_t thread = 0, time = 0, place = 0;
    size_t word = 0;
  };

  void place_late(const Thread& thread);
  size_t word_at(void* memory, size_t size);
  uint32_t oldest(const Thread& thread, size_t word, Order order) const;
  void read(Thread& thread, size_t word, uint32_t place, Order order);
  void write(uint32_t thread, size_t word, uint32_t place, Value value, Order order);
  void note(uint32_t thread, const void* memory, size_t size, Access access);
  // After a store or a fence, with which a thread may hand on what it has done until then.
  void step(uint32_t thread) { ++threads_[thread].current.clock[thread]; }

  Choose choose_;
  const std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
  std::vector<Byte> shadow_;
  std::unordered_map<const void*, size_t> numbers_;  // of words
  std::unordered_map<const void*, std::string> names_;
  std::vector<Word> words_;
  std::array<Thread, kThreads> threads_;
  View sequential_;  // its clock is not used
  std::vector<Late> late_;
  uint32_t last_read_ = 0;
  std::string race_;
  uint32_t run_ = 0;
  uint64_t stores_ = 0;
  std::array<uint64_t, kThreads> own_stores_{};
};

}  // namespace banyan::testing::orders
