#include "banyan/service/share/steward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "banyan/testing/thrown.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;
using testing::error_of;
using ::testing::HasSubstr;
using Time = Steward::Time;

constexpr double kUnlimited = Steward::kNoLimit;
constexpr ProgressWeight kFairLaw{.slope = 0, .intercept = 1};

// ---- Jobs that compute and communicate in turn, over one link, in virtual time ----

struct Job {
  std::string tenant;
  Time compute{0};   // 0: calls back to back
  double bytes = 0;  // of each call
  Time starts{0};
  double weight = 1;
  int calls = 1;
};

struct World {
  double capacity = 25e6;
  Time late = 1ms;   // reports, and what is told
  Time every = 5ms;  // reports of a call that is under way
  ProgressWeight progress = {};
  Time shortest = Steward::Options{}.shortest;
  bool gathers = false;  // reports that come at the same moment, before it decides
};

// What is under way shares the link max-min fairly, each job within the rate that it was told.
class Simulation {
 public:
  Simulation(const World& world, const std::vector<Job>& jobs)
      : world_(world),
        steward_({.capacities = {world.capacity}, .progress = world.progress, .shortest = world.shortest}) {
    for (const Job& job : jobs) {
      states_.push_back({.job = job, .began = job.starts});
      const size_t i = states_.size() - 1;
      at(job.starts + job.compute, [this, i] { begin(i); });
    }
  }

  // How long each step of each job took, in milliseconds. Ends when all jobs have done so many.
  std::vector<std::vector<double>> steps(size_t count) {
    const auto is_done = [&] {
      return std::all_of(states_.begin(), states_.end(), [&](const State& s) { return s.taken.size() >= count; });
    };
    while (!is_done() && !::testing::Test::HasFatalFailure()) move();
    std::vector<std::vector<double>> taken;
    for (const State& state : states_) taken.push_back(state.taken);
    return taken;
  }
  void run_until(Time end) {
    while (now_ < end && !::testing::Test::HasFatalFailure()) move();
  }
  double sent(size_t i) const { return states_[i].sent; }

 private:
  struct State {
    Job job;
    Time began{0};
    bool is_calling = false;
    uint64_t call = 0, number = 0;
    int calls = 0;
    double left = 0, sent = 0;  // bytes
    double told = kUnlimited, rate = 0;
    std::vector<double> taken = {};
  };
  struct Event {
    Time at;
    uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
  };

  void at(Time when, std::function<void()> act) { events_.push({when, ++order_, std::move(act)}); }

  void begin(size_t i) {
    State& state = states_[i];
    state.is_calling = true;
    state.left = state.job.bytes;
    ++state.call;
    report(i);
    at(now_ + world_.every, [this, i, call = state.call] { refresh(i, call); });
  }
  void refresh(size_t i, uint64_t call) {
    if (!states_[i].is_calling || states_[i].call != call) return;
    report(i);
    at(now_ + world_.every, [this, i, call] { refresh(i, call); });
  }
  void end(size_t i) {
    State& state = states_[i];
    if (++state.calls % state.job.calls != 0) return begin(i);
    state.is_calling = false;
    state.taken.push_back(std::chrono::duration<double, std::milli>(now_ - state.began).count());
    state.began = now_;
    if (state.job.compute == Time(0)) {
      begin(i);
    } else {
      report(i);
      at(now_ + state.job.compute, [this, i] { begin(i); });
    }
  }
  void report(size_t i) {
    State& state = states_[i];
    CallReport report{.communicator = std::to_string(i),
                      .number = ++state.number,
                      .tenant = state.job.tenant,
                      .weight = state.job.weight,
                      .is_under_way = state.is_calling};
    if (state.is_calling) {
      report.footprint = {{0, state.job.bytes}};
      report.done = 1 - state.left / state.job.bytes;
    }
    at(now_ + world_.late, [this, report] {
      steward_.report(report, now_);
      if (!world_.gathers) decide();
    });
  }
  void decide() {
    for (const Steward::Speed& speed : steward_.decide(now_)) {
      at(now_ + world_.late, [this, speed] { states_[std::stoul(speed.communicator)].told = speed.rate; });
    }
    double asked = 0;
    for (const Steward::Row& row : steward_.rows()) {
      if (row.is_active && row.speed.rate < kUnlimited) asked += row.speed.rate;
    }
    ASSERT_LE(asked, world_.capacity * 1.0101);
  }

  void set_rates() {
    std::vector<State*> rising;
    for (State& state : states_) {
      state.rate = 0;
      if (state.is_calling) rising.push_back(&state);
    }
    std::sort(rising.begin(), rising.end(), [](const State* a, const State* b) { return a->told < b->told; });
    double free = world_.capacity;
    for (size_t i = 0; i < rising.size(); ++i) {
      rising[i]->rate = std::min(rising[i]->told, free / static_cast<double>(rising.size() - i));
      free -= rising[i]->rate;
    }
  }

  // To the next moment at which anything happens.
  void move() {
    set_rates();
    Time next = events_.empty() ? Time::max() : events_.top().at;
    if (const auto due = steward_.next()) next = std::min(next, std::max(now_, *due));
    for (const State& state : states_) {
      if (state.rate > 0) next = std::min(next, now_ + Time(static_cast<int64_t>(state.left / state.rate * 1e9) + 1));
    }
    const double seconds = std::chrono::duration<double>(next - now_).count();
    now_ = next;
    for (State& state : states_) {
      const double moved = std::min(state.left, state.rate * seconds);
      state.left -= moved;
      state.sent += moved;
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].is_calling && states_[i].left < 1e-3) end(i);
    }
    while (!events_.empty() && events_.top().at <= now_) {
      const auto act = events_.top().act;
      events_.pop();
      act();
    }
    decide();
  }

  const World world_;
  Steward steward_;
  Time now_{0};
  uint64_t order_ = 0;
  std::vector<State> states_;
  std::priority_queue<Event> events_;
};

TEST(Explore, All) {
  auto shares = [](ProgressWeight law, double mib, Time shortest) {
    std::vector<Job> jobs;
    const double w[3] = {1, 2, 4};
    const int n[3] = {1, 3, 5};
    for (int t = 0; t < 3; ++t)
      for (int k = 0; k < n[t]; ++k)
        jobs.push_back({std::string(1, char('a' + t)), 0ms, 25e6 * mib, Time(k * 7919us + t * 1237us), w[t]});
    Simulation s({.progress = law, .shortest = shortest}, jobs);
    s.run_until(200s);
    double sent[3] = {};
    size_t i = 0;
    for (int t = 0; t < 3; ++t)
      for (int k = 0; k < n[t]; ++k) sent[t] += s.sent(i++);
    const double all = sent[0] + sent[1] + sent[2];
    printf("alone %g: %.4f %.4f %.4f of 1, sum %.4f\n", mib, sent[0] / all * 7, sent[1] / all * 7, sent[2] / all * 7,
           all / 25e6 / 200);
  };
  for (double a : {0.003, 0.012, 0.03, 0.1, 0.3, 1.0}) {
    shares(kFairLaw, a, 10ms);
    shares({}, a, 10ms);
    shares({}, a, 0ms);
  }
  auto worst = [](const char* name, Time compute, double mb, size_t jobs, size_t from, size_t n) {
    double most = 0, mean = 0, late = 0;
    for (uint32_t seed = 0; seed < 200; ++seed) {
      std::mt19937 random(seed);
      std::vector<Job> j;
      for (size_t i = 0; i < jobs; ++i)
        j.push_back({std::string(1, char('a' + i)), compute, mb, Time(random() % 400'000'000)});
      auto taken = Simulation({}, j).steps(n);
      for (auto& t : taken)
        for (size_t i = from; i < n; ++i) {
          if (t[i] > most) most = t[i], late = double(i);
          mean += t[i] / double(n - from) / double(jobs) / 200;
        }
    }
    printf("%s: worst %.1f at %g, mean %.1f\n", name, most, late, mean);
  };
  worst("2x160+138", 160ms, 25e6 * .138, 2, 9, 20);
  worst("2x160+138", 160ms, 25e6 * .138, 2, 19, 20);
  worst("2x138+160", 138ms, 25e6 * .160, 2, 9, 20);
  worst("2x138+160", 138ms, 25e6 * .160, 2, 29, 30);
  worst("3x200+80", 200ms, 2e6, 3, 9, 20);
  worst("3x200+80", 200ms, 2e6, 3, 15, 20);
  worst("3x200+80", 200ms, 2e6, 3, 29, 30);
  worst("3x100+100", 100ms, 2.5e6, 3, 9, 20);
  worst("3x100+100", 100ms, 2.5e6, 3, 29, 30);
}

}  // namespace
}  // namespace banyan::service
