#include "banyan/testing/interleaving.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::testing {

void VectorClock::advance(uint32_t actor, uint32_t time) { times_[actor] = std::max(times_[actor], time); }

void VectorClock::join_first(const VectorClock& other, size_t actors) {
  CHECK_EQ(times_.size(), other.times_.size());
  for (size_t i = 0; i < actors; ++i) times_[i] = std::max(times_[i], other.times_[i]);
}

RaceDetector::RaceDetector(size_t places, Names names) : history_(places), names_(std::move(names)) {}

void RaceDetector::expect_ordered(uint32_t place, const Touch& earlier, const char* did, const Touch& later,
                                  const char* does, const VectorClock& clock) const {
  const bool same_step = earlier.step == later.step && earlier.actor == later.actor && earlier.time == later.time;
  if (same_step || clock.has_seen(earlier)) return;
  std::string text = "race on " + names_.place(place) + ": " + names_.step(later.step) + " " + does + " it and " +
                     names_.step(earlier.step) + " " + did + " it, and nothing orders them";
  if (!names_.mend.empty()) text += " (" + names_.mend + ")";
  throw Error(ErrorCode::invalid_input, text);
}

void RaceDetector::read(uint32_t place, const Touch& touch, const VectorClock& clock) {
  History& history = history_[place];
  expect_ordered(place, history.write, "writes", touch, "reads", clock);
  // A read stands for the reads that it comes after; whoever is ordered after it is ordered after them.
  const auto same = std::find_if(history.reads.begin(), history.reads.end(),
                                 [&](const Touch& read) { return read.actor == touch.actor && clock.has_seen(read); });
  if (same == history.reads.end()) {
    history.reads.push_back(touch);
  } else {
    *same = touch;
  }
}

void RaceDetector::write(uint32_t place, const Touch& touch, const VectorClock& clock) {
  History& history = history_[place];
  expect_ordered(place, history.write, "writes", touch, "writes", clock);
  for (const Touch& read : history.reads) expect_ordered(place, read, "reads", touch, "writes", clock);
  history.reads.clear();
  history.write = touch;
}

Interleaver::Interleaver(uint32_t machines, uint64_t seed) : random_(seed) {
  constexpr uint64_t kStays[] = {0, 32, 60, 64};
  stay_of_64_ = kStays[random_() % 4];
  for (uint32_t i = 0; i < machines; ++i) ready_.push_back(i);
}

std::vector<uint32_t> Interleaver::run(const std::function<Attempt(uint32_t)>& attempt) {
  size_t at = 0;  // index into ready_ of the machine to stay with
  bool stay = false;
  while (!ready_.empty()) {
    if (!stay || random_() % 64 >= stay_of_64_) at = random_() % ready_.size();
    const uint32_t machine = ready_[at];
    const Attempt result = attempt(machine);
    stay = result.outcome == Attempt::Outcome::moved;
    if (stay) continue;
    // wake() only appends to ready_, so `at` still names the machine.
    ready_[at] = ready_.back();
    ready_.pop_back();
    if (result.outcome == Attempt::Outcome::waits) waiting_[result.key].push_back(machine);
  }
  std::vector<uint32_t> stuck;
  for (const auto& [key, machines] : waiting_) stuck.insert(stuck.end(), machines.begin(), machines.end());
  std::sort(stuck.begin(), stuck.end());
  return stuck;
}

void Interleaver::wake(uint64_t key) {
  const auto found = waiting_.find(key);
  if (found == waiting_.end()) return;
  ready_.insert(ready_.end(), found->second.begin(), found->second.end());
  waiting_.erase(found);
}

std::string describe_deadlock(const std::vector<uint32_t>& stuck, const std::function<std::string(uint32_t)>& wait_of) {
  constexpr size_t kShown = 8;
  std::string text = "deadlock: ";
  for (size_t i = 0; i < std::min(kShown, stuck.size()); ++i) text += (i == 0 ? "" : "; ") + wait_of(stuck[i]);
  if (stuck.size() > kShown) text += "; and " + std::to_string(stuck.size() - kShown) + " more";
  return text;
}

}  // namespace banyan::testing
