// A steward against a recomputation of everything, with random reports.

#include "banyan/service/share/steward.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using namespace std::chrono_literals;
using Time = Steward::Time;

struct Naive {
  struct Entry {
    CallReport last;
    Time reported{0};
    std::optional<Time> ended;
    std::optional<Steward::Speed> told;
  };
  struct Expected {
    double calls_per_second = Steward::kNoLimit, rate = Steward::kNoLimit;
    bool is_shared = false;
  };

  explicit Naive(const Steward::Options& of) : options(of) {
    constexpr int kParts = 10'000;
    double sum = 0;
    for (int i = 0; i < kParts; ++i) sum += 1 / options.progress.of(i + 0.5, kParts);
    whole_call = kParts / sum;
  }
  void forget_old(Time now) {
    std::erase_if(entries, [&](const auto& entry) { return now - entry.second.reported >= options.expiry; });
  }
  void report(CallReport report, Time now) {
    forget_old(now);
    const bool is_known = entries.contains(report.communicator);
    Entry& entry = entries[report.communicator];
    if (is_known && report.number <= entry.last.number) return;
    if (entry.last.is_under_way && !report.is_under_way) entry.ended = now;
    if (report.is_under_way) entry.ended.reset();
    if (!report.is_under_way && report.footprint.empty()) report.footprint = entry.last.footprint;
    entry.last = report;
    entry.reported = now;
  }
  bool is_active(const Entry& entry, Time now) const {
    return entry.last.is_under_way || (entry.ended && now - *entry.ended < options.linger);
  }
  bool is_shared(const std::string& communicator, Time now) const {
    for (const LinkUse& use : entries.at(communicator).last.footprint) {
      for (const auto& [other, entry] : entries) {
        if (other == communicator || !is_active(entry, now)) continue;
        for (const LinkUse& theirs : entry.last.footprint) {
          if (theirs.link == use.link) return true;
        }
      }
    }
    return false;
  }
  double factor(const Entry& entry) const {
    for (const LinkUse& use : entry.last.footprint) {
      if (use.bytes / options.capacities[use.link] >= std::chrono::duration<double>(options.shortest).count()) {
        return options.progress.of(entry.last.is_under_way ? entry.last.done : 0, 1);
      }
    }
    return whole_call;
  }
  static double most_bytes(const Entry& entry) {
    double most = 0;
    for (const LinkUse& use : entry.last.footprint) most = std::max(most, use.bytes);
    return most;
  }

  // What progress gives to calls of one class and weight, it takes from others of them: with w a call's part of its
  // tenant, the sum of w * factor is that of w.
  static void scale_among_equals(std::vector<SharedCall>& calls, const std::vector<double>& weights) {
    const std::vector<SharedCall> before = calls;
    const auto part = [&](const SharedCall& call) {
      return 1.0 / static_cast<double>(std::count_if(before.begin(), before.end(), [&](const SharedCall& each) {
               return each.tenant == call.tenant && each.share_class == call.share_class;
             }));
    };
    for (size_t i = 0; i < calls.size(); ++i) {
      double parts = 0, factors = 0;
      for (size_t j = 0; j < before.size(); ++j) {
        if (before[j].share_class != before[i].share_class || weights[j] != weights[i]) continue;
        parts += part(before[j]);
        factors += part(before[j]) * before[j].factor;
      }
      calls[i].factor = weights[i] * before[i].factor * parts / factors;
    }
  }

  // By active communicator. Each call has its weight, progress and place in its factor; all tenants weigh 1.
  std::map<std::string, Expected> expected(Time now) {
    forget_old(now);
    SharedNetwork network{.capacities = options.capacities, .weights = {}, .least = options.least};
    std::vector<SharedCall> calls;
    std::vector<std::string> tenants;
    std::vector<double> weights;  // by call
    std::map<std::string, Expected> expected;
    for (const auto& [communicator, entry] : entries) {
      if (!is_active(entry, now)) continue;
      Expected& row = expected[communicator];
      row.is_shared = is_shared(communicator, now);
      if (!row.is_shared && !entry.last.footprint.empty()) {
        row = {.calls_per_second = entry.last.cap / most_bytes(entry), .rate = entry.last.cap};
      }
      if (!row.is_shared) continue;
      const auto tenant = std::find(tenants.begin(), tenants.end(), entry.last.sharer);
      calls.push_back({.tenant = static_cast<uint32_t>(tenant - tenants.begin()),
                       .share_class = entry.last.share_class,
                       .footprint = entry.last.footprint,
                       .cap = entry.last.cap,
                       .factor = factor(entry)});
      weights.push_back(entry.last.weight);
      if (tenant == tenants.end()) tenants.push_back(entry.last.sharer);
    }
    network.weights.assign(tenants.size(), 1);
    const double count = static_cast<double>(calls.size());
    for (size_t i = 0; i < calls.size() && options.progress.slope > 0; ++i) {
      calls[i].factor *= 1 - static_cast<double>(i) / (1000 * count);
    }
    scale_among_equals(calls, weights);
    const std::vector<double> speeds = allocate(network, calls);
    size_t next = 0;
    for (auto& [communicator, row] : expected) {
      if (!row.is_shared) continue;
      row.calls_per_second = speeds[next++];
      row.rate = row.calls_per_second * most_bytes(entries.at(communicator));
    }
    return expected;
  }
  std::optional<Time> next(Time now) const {
    std::optional<Time> next;
    const auto no_later_than = [&](Time time) { next = std::min(next.value_or(time), time); };
    for (const auto& [communicator, entry] : entries) {
      no_later_than(entry.reported + options.expiry);
      if (entry.ended && *entry.ended + options.linger > now) no_later_than(*entry.ended + options.linger);
    }
    return next;
  }

  const Steward::Options options;
  std::map<std::string, Entry> entries;
  double whole_call = 0;
};

bool is_near(double told, double expected, double tolerance) {
  if (std::isinf(told) || std::isinf(expected)) return told == expected;
  return std::abs(told - expected) <= tolerance * told + 1e-9;
}

// What the steward says at a moment, against what it should.
void expect_right(Steward& steward, Naive& naive, Time now) {
  const std::map<std::string, Naive::Expected> expected = naive.expected(now);
  for (const Steward::Speed& speed : steward.decide(now)) {
    ASSERT_TRUE(expected.contains(speed.communicator)) << speed.communicator;
    std::optional<Steward::Speed>& told = naive.entries.at(speed.communicator).told;
    const bool is_news = !told || !is_near(told->calls_per_second, speed.calls_per_second, 0.00999) ||
                         !is_near(told->rate, speed.rate, 0.00999);
    ASSERT_TRUE(is_news) << speed.communicator << " has been told " << speed.rate;
    told = speed;
  }
  std::vector<double> asked(naive.options.capacities.size(), 0);
  for (const auto& [communicator, row] : expected) {
    const Naive::Entry& entry = naive.entries.at(communicator);
    ASSERT_TRUE(entry.told) << communicator;
    ASSERT_TRUE(is_near(entry.told->calls_per_second, row.calls_per_second, 0.010001))
        << communicator << " was told " << entry.told->calls_per_second << ", not " << row.calls_per_second;
    ASSERT_TRUE(is_near(entry.told->rate, row.rate, 0.010001))
        << communicator << " was told " << entry.told->rate << ", not " << row.rate;
    if (!row.is_shared) continue;
    for (const LinkUse& use : entry.last.footprint) asked[use.link] += entry.told->calls_per_second * use.bytes;
  }
  for (size_t link = 0; link < asked.size(); ++link) {
    ASSERT_LE(asked[link], naive.options.capacities[link] * 1.010102) << "link " << link;
  }
  ASSERT_EQ(steward.next(), naive.next(now));
}

CallReport random_report(std::mt19937& random, const Steward::Options& options) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const uint32_t communicator = below(7);
  CallReport report{.communicator = std::to_string(communicator),
                    .sharer = std::string(1, static_cast<char>('a' + (below(20) == 0 ? 0 : communicator % 3))),
                    .is_under_way = below(4) > 0};
  report.weight = below(10) == 0 ? 1 + below(3) : 2;
  if (below(3) == 0) report.share_class = static_cast<ShareClass>(below(3));
  if (below(4) == 0) report.cap = 10.0 * (1 + below(5));
  report.done = 0.1 * below(11);
  if (report.is_under_way && below(8) == 0) return report;
  if (!report.is_under_way && below(8) > 0) return report;
  for (uint32_t link = 0; link < options.capacities.size(); ++link) {
    if (below(3) == 0) report.footprint.push_back({link, std::array{0.2, 5.0, 50.0}[below(3)]});
  }
  return report;
}

TEST(Steward, SaysWhatARecomputationOfEverythingSays) {
  uint64_t told_nothing = 0, computations = 0, moments = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    Steward::Options options;
    options.expiry = 40ms;
    if (below(2) == 0) options.progress = {.slope = 0, .intercept = 1};
    for (uint32_t link = 0; link <= below(5); ++link) options.capacities.push_back(50.0 * (1 + below(2)));
    if (below(4) == 0) options.least = 0;
    Steward steward(options);
    Naive naive(options);
    uint64_t number = 100;
    Time now{0};
    for (int i = 0; i < 200; ++i) {
      const Time then = now + std::chrono::microseconds(below(50) == 0 ? below(50'000) : below(1500));
      const bool is_punctual = below(4) > 0;  // decides when the steward says
      for (auto next = steward.next(); is_punctual && next && *next <= then; next = steward.next()) {
        now = *next;
        expect_right(steward, naive, now);
        ASSERT_FALSE(::testing::Test::HasFatalFailure());
      }
      now = then;
      const uint32_t reports = below(3);
      for (uint32_t k = 0; k < reports; ++k) {
        CallReport report = random_report(random, options);
        report.number = below(8) == 0 ? number - below(10) : ++number;  // late, now and then
        steward.report(report, now);
        naive.report(report, now);
      }
      if (below(40) == 0) {
        const std::string communicator = std::to_string(below(7));
        steward.forget(communicator);
        naive.entries.erase(communicator);
      }
      expect_right(steward, naive, now);
      ASSERT_FALSE(::testing::Test::HasFatalFailure());
      ++moments;
      told_nothing += steward.decide(now).empty() ? 1 : 0;
    }
    computations += steward.computations();
  }
  EXPECT_EQ(told_nothing, moments);
  EXPECT_GT(computations, moments / 4);
}

TEST(Steward, OneThatTakesOverKnowsAllFromTheNextReports) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const Steward::Options options{.capacities = {100, 50, 100}};
    Steward first(options), second(options);
    std::map<std::string, CallReport> last;
    for (uint64_t number = 1; number <= 100; ++number) {
      CallReport report = random_report(random, options);
      report.is_under_way = true;
      report.number = number;
      first.report(report, 0ns);
      if (number % 7 == 0) first.decide(0ns);
      last[report.communicator] = report;
    }
    first.decide(0ns);
    for (auto report = last.rbegin(); report != last.rend(); ++report) second.report(report->second, 1ms);
    second.decide(1ms);
    const std::vector<Steward::Row> before = first.rows(), after = second.rows();
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(is_near(before[i].speed.rate, after[i].speed.rate, 0.0101)) << before[i].speed.communicator;
    }
  }
}

}  // namespace
}  // namespace banyan::service
