#include "banyan/testing/orders/memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"

namespace banyan::testing::orders {
namespace {

uint64_t value_in(const void* memory, size_t size) {
  uint64_t value = 0;
  __builtin_memcpy(&value, memory, size);
  return value;
}

}  // namespace

// ---- Views ----

void View::raise(size_t word, uint32_t place) {
  if (place == 0) return;
  if (word >= seen.size()) seen.resize(word + 1);
  seen[word] = std::max(seen[word], place);
}

void View::join_seen(const View& other) {
  for (size_t word = 0; word < other.seen.size(); ++word) raise(word, other.seen[word]);
}

void View::join(const View& other) {
  join_seen(other);
  for (size_t thread = 0; thread < kThreads; ++thread) clock[thread] = std::max(clock[thread], other.clock[thread]);
}

// ---- Runs ----

void Memory::begin_run() {
  for (Word& word : words_) word.history.clear();
  threads_ = {};
  for (uint32_t thread = 0; thread < kThreads; ++thread) step(thread);  // 0 is before everything
  sequential_ = {};
  late_.clear();
  race_.clear();
  names_.clear();
  stores_ = 0;
  own_stores_ = {};
  ++run_;
}

void Memory::cover(const std::byte* begin, size_t bytes) {
  begin_ = begin;
  bytes_ = bytes;
  shadow_.resize(bytes);
}

std::string Memory::name_of(const void* memory) const {
  const auto found = names_.find(memory);
  if (found != names_.end()) return found->second;
  return "memory + " + std::to_string(static_cast<const std::byte*>(memory) - begin_);
}

size_t Memory::word_at(void* memory, size_t size) {
  const auto [entry, is_new] = numbers_.try_emplace(memory, words_.size());
  if (is_new) words_.push_back({.memory = memory, .size = size, .history = {}});
  Word& word = words_[entry->second];
  CHECK(word.size == size) << "a word of " << word.size << " bytes is accessed as one of " << size;
  if (word.history.empty()) word.history.push_back({.value = value_in(memory, size), .view = {}});
  return entry->second;
}

std::array<uint64_t, 2> Memory::state() const {
  std::array<uint64_t, 2> sums{1, 2};
  const auto add = [&](uint64_t number) {
    sums[0] = mix(sums[0], number);
    sums[1] = mix(number + 0x9e3779b97f4a7c15, sums[1]);
  };
  // Words that this run has not come to count as those that nobody knows anything of.
  const auto add_view = [&](const View& view) {
    for (size_t word = 0; word < view.seen.size(); ++word) {
      if (view.seen[word] != 0) add(word << 32 | view.seen[word]);
    }
    for (const uint32_t time : view.clock) add(time);
  };
  for (const Thread& thread : threads_) {
    add_view(thread.current);
    add_view(thread.acquired);
    add_view(thread.released);
  }
  add_view(sequential_);
  for (const Late& late : late_) add(mix(mix(late.thread, late.time), mix(late.word, late.place)));
  for (size_t word = 0; word < words_.size(); ++word) {
    if (words_[word].history.size() < 2) continue;
    add(word);
    for (const Value& value : words_[word].history) {
      add(value.is_change);
      add_view(value.view);
    }
  }
  return sums;
}

// ---- Words ----

// Before `thread` carries out what is sequentially consistent.
void Memory::place_late(const Thread& thread) {
  std::erase_if(late_, [&](const Late& late) {
    if (late.time > thread.current.clock[late.thread]) return false;
    sequential_.raise(late.word, late.place);
    return true;
  });
}

uint32_t Memory::oldest(const Thread& thread, size_t word, Order order) const {
  const uint32_t known = thread.current.at(word);
  return order == Order::seq_cst ? std::max(known, sequential_.at(word)) : known;
}

void Memory::read(Thread& thread, size_t word, uint32_t place, Order order) {
  last_read_ = place;
  thread.current.raise(word, place);
  const View& brought = words_[word].history[place].view;
  (acquires(order) ? thread.current : thread.acquired).join(brought);
  if (order == Order::seq_cst) sequential_.raise(word, place);
}

// At `place` in the history; later values move on.
void Memory::write(uint32_t thread, size_t word, uint32_t place, Value value, Order order) {
  std::vector<Value>& history = words_[word].history;
  if (place < history.size()) {
    const auto move_on = [&](View& view) {
      if (view.at(word) >= place) ++view.seen[word];
    };
    for (Thread& each : threads_) {
      move_on(each.current);
      move_on(each.acquired);
      move_on(each.released);
    }
    move_on(sequential_);
    for (Late& late : late_) late.place += late.word == word && late.place >= place ? 1 : 0;
    for (Word& each : words_) {
      for (Value& of_each : each.history) move_on(of_each.view);
    }
    move_on(value.view);
  }
  Thread& self = threads_[thread];
  self.current.raise(word, place);
  value.view.join(releases(order) ? self.current : self.released);
  value.view.raise(word, place);
  if (order == Order::seq_cst) late_.push_back({thread, self.current.clock[thread], place, word});
  __builtin_memcpy(words_[word].memory, place == history.size() ? &value.value : &history.back().value,
                   words_[word].size);
  history.insert(history.begin() + place, std::move(value));
  ++stores_;
  ++own_stores_[thread];
}

uint64_t Memory::load(uint32_t thread, void* memory, size_t size, Order order, bool newest) {
  const size_t word = word_at(memory, size);
  if (order == Order::seq_cst) place_late(threads_[thread]);
  note(thread, memory, size, atomic_read);
  const auto last = static_cast<uint32_t>(words_[word].history.size() - 1);
  const uint32_t place = newest ? last : last - choose_(last - oldest(threads_[thread], word, order) + 1);
  read(threads_[thread], word, place, order);
  return words_[word].history[place].value;
}

void Memory::store(uint32_t thread, void* memory, size_t size, uint64_t value, Order order) {
  const size_t word = word_at(memory, size);
  if (order == Order::seq_cst) place_late(threads_[thread]);
  note(thread, memory, size, atomic_write);
  const std::vector<Value>& history = words_[word].history;
  std::vector<uint32_t> places;
  for (auto place = static_cast<uint32_t>(history.size()); place > oldest(threads_[thread], word, order); --place) {
    if (place == history.size() || !history[place].is_change) places.push_back(place);
  }
  write(thread, word, places[choose_(static_cast<uint32_t>(places.size()))], {.value = value, .view = {}}, order);
  step(thread);
}

uint64_t Memory::modify(uint32_t thread, void* memory, size_t size, const std::function<uint64_t(uint64_t)>& change,
                        Order order) {
  const size_t word = word_at(memory, size);
  if (order == Order::seq_cst) place_late(threads_[thread]);
  note(thread, memory, size, atomic_write);
  const std::vector<Value>& history = words_[word].history;
  std::vector<uint32_t> places;
  for (auto place = static_cast<uint32_t>(history.size()); place > oldest(threads_[thread], word, order); --place) {
    if (place == history.size() || !history[place].is_change) places.push_back(place);
  }
  const uint32_t place = places[choose_(static_cast<uint32_t>(places.size()))];
  const uint64_t before = history[place - 1].value;
  read(threads_[thread], word, place - 1, order);
  // Who acquires it acquires what the value before it was released with.
  write(thread, word, place, {.value = change(before), .view = history[place - 1].view, .is_change = true}, order);
  step(thread);
  return before;
}

bool Memory::compare_exchange(uint32_t thread, void* memory, size_t size, uint64_t& expected, uint64_t desired,
                              Order order, Order otherwise) {
  const size_t word = word_at(memory, size);
  if (order == Order::seq_cst || otherwise == Order::seq_cst) place_late(threads_[thread]);
  const std::vector<Value>& history = words_[word].history;
  std::vector<uint32_t> places;
  const uint32_t known = std::min(oldest(threads_[thread], word, order), oldest(threads_[thread], word, otherwise));
  for (auto place = static_cast<uint32_t>(history.size()); place-- > known;) {
    const bool succeeds = history[place].value == expected;
    if (place < oldest(threads_[thread], word, succeeds ? order : otherwise)) continue;
    if (!succeeds || place + 1 == history.size() || !history[place + 1].is_change) places.push_back(place);
  }
  const uint32_t place = places[choose_(static_cast<uint32_t>(places.size()))];
  const bool succeeds = history[place].value == expected;
  note(thread, memory, size, succeeds ? atomic_write : atomic_read);
  expected = history[place].value;
  read(threads_[thread], word, place, succeeds ? order : otherwise);
  if (succeeds) {
    write(thread, word, place + 1, {.value = desired, .view = history[place].view, .is_change = true}, order);
    step(thread);
  }
  return succeeds;
}

void Memory::fence(uint32_t thread, Order order) {
  Thread& self = threads_[thread];
  if (acquires(order)) self.current.join(self.acquired);
  if (order == Order::seq_cst) {
    place_late(self);
    sequential_.join_seen(self.current);
    self.current.join_seen(sequential_);
  }
  if (releases(order)) self.released = self.current;
  step(thread);
}

void Memory::fence_all() {
  for (int round = 0; round < 2; ++round) {  // so that each knows of all
    for (uint32_t thread = 0; thread < kThreads; ++thread) fence(thread, Order::seq_cst);
  }
}

// ---- Races ----

void Memory::access(uint32_t thread, const void* memory, size_t size, bool is_write) {
  note(thread, memory, size, is_write ? plain_write : plain_read);
}

void Memory::note(uint32_t thread, const void* memory, size_t size, Access access) {
  const View& known = threads_[thread].current;
  const auto time = static_cast<uint16_t>(known.clock[thread]);
  const bool writes = access == plain_write || access == atomic_write;
  const bool is_plain = access == plain_read || access == plain_write;
  const auto first = static_cast<size_t>(static_cast<const std::byte*>(memory) - begin_);
  for (size_t i = first; i < first + size; ++i) {
    Byte& byte = shadow_[i];
    if (byte.run != run_) byte = {.run = run_};
    byte.times[access][thread] = time;
    for (uint32_t other = 0; other < kThreads; ++other) {
      if (other == thread) continue;
      const uint32_t ordered = known.clock[other];
      const bool races = byte.times[plain_write][other] > ordered ||
                         (writes && byte.times[plain_read][other] > ordered) ||
                         (is_plain && byte.times[atomic_write][other] > ordered) ||
                         (access == plain_write && byte.times[atomic_read][other] > ordered);
      if (races && race_.empty()) {
        race_ = "a race on " + name_of(memory) + (i > first ? " + " + std::to_string(i - first) : "");
      }
    }
  }
}

}  // namespace banyan::testing::orders
