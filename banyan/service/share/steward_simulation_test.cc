#include <queue>

#include "banyan/service/share/steward.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;
using Time = Steward::Time;

// Jobs that compute and communicate in turn, over one link, in virtual time.

constexpr ProgressWeight kEven{.slope = 0, .intercept = 1};

struct Job {
  std::string tenant;
  Time compute{0};   // 0: calls back to back
  double bytes = 0;  // of each call
  Time starts{0};
  double weight = 1;
};

struct World {
  ProgressWeight progress = {};
  bool gathers = false;                 // reports that come at the same moment, before it decides
  std::optional<uint32_t> jitter = {};  // seed: computing takes up to 5 ms more or less
};

// What is under way shares the link max-min fairly, each job within the rate that it was told.
class Simulation {
 public:
  static constexpr double kCapacity = 25e6;
  static constexpr Time kLate = 1ms;   // reports, and what is told
  static constexpr Time kEvery = 5ms;  // reports of a call that is under way

  Simulation(const World& world, const std::vector<Job>& jobs)
      : world_(world), steward_({.capacities = {kCapacity}, .progress = world.progress}) {
    random_.seed(world.jitter.value_or(0));
    for (const Job& job : jobs) {
      states_.push_back({.job = job, .began = job.starts});
      const size_t i = states_.size() - 1;
      at(job.starts + job.compute, [this, i] { begin(i); });
    }
  }

  void run_until(Time end) {
    while (now_ < end && !::testing::Test::HasFatalFailure()) move();
  }
  // How long each of so many steps of each job took, in milliseconds.
  std::vector<std::vector<double>> steps(size_t count) {
    const auto is_done = [&](const State& state) { return state.taken.size() >= count; };
    while (!std::all_of(states_.begin(), states_.end(), is_done)) {
      move();
      if (now_ > 60s) ADD_FAILURE() << "no step ends";
      if (::testing::Test::HasFailure()) break;
    }
    std::vector<std::vector<double>> taken;
    for (State& state : states_) {
      state.taken.resize(count);
      taken.push_back(state.taken);
    }
    return taken;
  }
  double sent(size_t i) const { return states_[i].sent; }

 private:
  struct State {
    Job job;
    Time began{0};
    bool is_calling = false;
    uint64_t call = 0, number = 0;
    double left = 0, sent = 0;  // bytes
    double told = Steward::kNoLimit, rate = 0;
    std::vector<double> taken = {};
  };
  struct Event {
    Time at;
    uint64_t order = 0;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::pair(at, order) > std::pair(other.at, other.order); }
  };

  void at(Time when, std::function<void()> act) { events_.push({when, ++order_, std::move(act)}); }

  void begin(size_t i) {
    State& state = states_[i];
    state.is_calling = true;
    state.left = state.job.bytes;
    refresh(i, ++state.call);
  }
  void refresh(size_t i, uint64_t call) {
    if (!states_[i].is_calling || states_[i].call != call) return;
    report(i);
    at(now_ + kEvery, [this, i, call] { refresh(i, call); });
  }
  void end(size_t i) {
    State& state = states_[i];
    state.is_calling = false;
    state.taken.push_back(std::chrono::duration<double, std::milli>(now_ - state.began).count());
    state.began = now_;
    if (state.job.compute == Time(0)) return begin(i);
    report(i);
    const Time more(world_.jitter ? std::uniform_int_distribution<int64_t>(-5'000'000, 5'000'000)(random_) : 0);
    at(now_ + state.job.compute + more, [this, i] { begin(i); });
  }

  void report(size_t i) {
    State& state = states_[i];
    CallReport report{.communicator = std::to_string(i),
                      .number = ++state.number,
                      .sharer = state.job.tenant,
                      .weight = state.job.weight,
                      .is_under_way = state.is_calling};
    if (state.is_calling) {
      report.footprint = {{0, state.job.bytes}};
      report.done = 1 - state.left / state.job.bytes;
    }
    at(now_ + kLate, [this, report] {
      steward_.report(report, now_);
      if (!world_.gathers) decide();
    });
  }
  void decide() {
    for (const Steward::Speed& speed : steward_.decide(now_)) {
      at(now_ + kLate, [this, speed] { states_[std::stoul(speed.communicator)].told = speed.rate; });
    }
    double asked = 0;
    for (const Steward::Row& row : steward_.rows()) {
      if (row.is_active && row.speed.rate < Steward::kNoLimit) asked += row.speed.rate;
    }
    ASSERT_LE(asked, kCapacity * 1.010102);
  }

  void set_rates() {
    std::vector<State*> rising;
    for (State& state : states_) {
      state.rate = 0;
      if (state.is_calling) rising.push_back(&state);
    }
    std::sort(rising.begin(), rising.end(), [](const State* a, const State* b) { return a->told < b->told; });
    double free = kCapacity;
    for (size_t i = 0; i < rising.size(); ++i) {
      rising[i]->rate = std::min(rising[i]->told, free / static_cast<double>(rising.size() - i));
      free -= rising[i]->rate;
    }
  }

  // To the next moment at which anything happens.
  void move() {
    set_rates();
    Time next = events_.empty() ? Time::max() : events_.top().at;
    if (const auto due = steward_.next()) next = std::min(next, *due);
    for (const State& state : states_) {
      if (state.rate > 0) next = std::min(next, now_ + Time(static_cast<int64_t>(state.left / state.rate * 1e9) + 1));
    }
    ASSERT_GE(next, now_);
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
  std::mt19937 random_;
  std::vector<State> states_;
  std::priority_queue<Event> events_;
};

// What is sent in a step is given by the milliseconds that it takes alone.
std::vector<Job> jobs_of(Time compute, int64_t alone_ms, const std::vector<Time>& starts) {
  std::vector<Job> jobs;
  for (const Time& start : starts) {
    const std::string tenant(1, static_cast<char>('a' + jobs.size()));
    jobs.push_back({.tenant = tenant,
                    .compute = compute,
                    .bytes = Simulation::kCapacity * 1e-3 * static_cast<double>(alone_ms),
                    .starts = start});
  }
  return jobs;
}

// Differences of starts: none, a microsecond, a millisecond, and whatever a seed gives.
std::vector<std::vector<Time>> starts_of(size_t jobs, uint32_t seeds) {
  std::vector<std::vector<Time>> all;
  for (const Time apart : {Time(0), Time(1us), Time(1ms)}) {
    all.emplace_back();
    for (size_t i = 0; i < jobs; ++i) all.back().push_back(apart * static_cast<int>(i));
  }
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    all.emplace_back();
    for (size_t i = 0; i < jobs; ++i) all.back().emplace_back(std::chrono::microseconds(random() % 400'000));
  }
  return all;
}

std::string in_words(const std::vector<Time>& starts, const World& world) {
  std::string text = world.gathers ? "all at once:" : "one by one:";
  for (const Time& start : starts) text += " " + std::to_string(start.count()) + " ns";
  return text;
}

struct Claim {
  Time compute{0};
  int64_t alone_ms = 0;
  size_t jobs = 2;
  size_t from = 0;   // the steps from here on, counted from 0,
  double least = 0;  // take no less than this, in milliseconds,
  double most = 0;   // and no more than this
  ProgressWeight progress = {};
};

void expect_steps(const Claim& claim, const std::vector<std::vector<Time>>& all_starts) {
  constexpr size_t kSteps = 20;
  for (const bool gathers : {false, true}) {
    for (const std::vector<Time>& starts : all_starts) {
      if (gathers && starts.front() != Time(0)) continue;  // nothing comes at the same moment
      const World world{.progress = claim.progress, .gathers = gathers};
      SCOPED_TRACE(in_words(starts, world));
      const auto taken = Simulation(world, jobs_of(claim.compute, claim.alone_ms, starts)).steps(kSteps);
      ASSERT_FALSE(::testing::Test::HasFailure());
      for (const std::vector<double>& job : taken) {
        for (size_t i = claim.from; i < kSteps; ++i) {
          ASSERT_GE(job[i], claim.least) << "step " << i;
          ASSERT_LE(job[i], claim.most) << "step " << i;
        }
      }
    }
  }
}

TEST(StewardSimulation, EqualJobsThatShareEvenlyStayInStep) {
  const std::vector<std::vector<Time>> starts = {{0ms, 0ms}, {0ms, 1ms}};
  expect_steps({.compute = 160ms, .alone_ms = 138, .from = 1, .least = 433, .most = 437, .progress = kEven}, starts);
  expect_steps({.compute = 138ms, .alone_ms = 160, .from = 1, .least = 455, .most = 459, .progress = kEven}, starts);
}

TEST(StewardSimulation, TwoJobsComeToCommunicateInTurnWithinTenSteps) {
  // Alone a step takes 298 ms.
  expect_steps({.compute = 160ms, .alone_ms = 138, .from = 9, .least = 297, .most = 302}, starts_of(2, 10));
}

TEST(StewardSimulation, TwoJobsThatSendForLongerThanTheyComputeComeNearTheLinksBound) {
  // The link needs 2 * 160 ms a step.
  expect_steps({.compute = 138ms, .alone_ms = 160, .from = 9, .least = 318, .most = 330}, starts_of(2, 10));
}

TEST(StewardSimulation, ThreeJobsThatFitComeToCommunicateInTurn) {
  // Alone a step takes 280 ms; in step with the others, 440.
  expect_steps({.compute = 200ms, .alone_ms = 80, .jobs = 3, .from = 14, .least = 279, .most = 285}, starts_of(3, 10));
}

TEST(StewardSimulation, ThreeJobsThatDoNotFitComeNearTheLinksBound) {
  // The link needs 3 * 100 ms a step; in step with the others, a step takes 400.
  expect_steps({.compute = 100ms, .alone_ms = 100, .jobs = 3, .from = 14, .least = 299, .most = 310}, starts_of(3, 10));
}

TEST(StewardSimulation, JobsStayInTurnThoughComputingTakesNowMoreNowLess) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto taken = Simulation({.jitter = seed}, jobs_of(160ms, 138, {0ms, 0ms})).steps(60);
    for (const std::vector<double>& job : taken) {
      double sum = 0;
      for (size_t i = 9; i < 60; ++i) sum += job[i];
      EXPECT_LT(sum / 51, 303);
    }
  }
}

// Calls back to back: what each tenant has sent, for each of its weight, as a part of what all have for each of theirs.
std::map<std::string, double> sent_by_weight(const std::vector<Job>& jobs) {
  Simulation simulation({}, jobs);
  simulation.run_until(10s);
  double all = 0;
  std::map<std::string, double> weights, sent;
  for (size_t i = 0; i < jobs.size(); ++i) {
    weights[jobs[i].tenant] = jobs[i].weight;
    sent[jobs[i].tenant] += simulation.sent(i);
    all += simulation.sent(i);
  }
  EXPECT_GT(all, 0.99 * 10 * Simulation::kCapacity);
  double sum = 0;
  for (const auto& [tenant, weight] : weights) sum += weight;
  for (auto& [tenant, bytes] : sent) bytes *= sum / weights[tenant] / all;
  return sent;
}

TEST(StewardSimulation, InTheLongRunTenantsGetTheirWeights) {
  for (const double alone_ms : {3, 30, 300}) {
    SCOPED_TRACE(alone_ms);
    const double bytes = Simulation::kCapacity * 1e-3 * alone_ms;
    std::vector<Job> jobs;
    const std::vector<std::pair<double, int>> tenants = {{1, 1}, {2, 3}, {4, 5}};
    for (const auto& [weight, count] : tenants) {
      for (int i = 0; i < count; ++i) {
        const std::string tenant = std::to_string(static_cast<int>(weight));
        jobs.push_back({.tenant = tenant, .bytes = bytes, .starts = 7919us * i + 1237us * count, .weight = weight});
      }
    }
    for (const auto& [tenant, part] : sent_by_weight(jobs)) EXPECT_NEAR(part, 1, 0.03) << tenant;
  }
}

TEST(StewardSimulation, ShortCallsGetNoLessThanLongOnes) {
  const double millisecond = Simulation::kCapacity * 1e-3;
  const auto sent =
      sent_by_weight({{.tenant = "short", .bytes = 3 * millisecond}, {.tenant = "long", .bytes = 300 * millisecond}});
  EXPECT_NEAR(sent.at("short"), 1, 0.03);
  EXPECT_NEAR(sent.at("long"), 1, 0.03);
}

}  // namespace
}  // namespace banyan::service
