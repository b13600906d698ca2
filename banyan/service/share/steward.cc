#include "banyan/service/share/steward.h"

#include <algorithm>
#include <cmath>

#include "banyan/base/error.h"

namespace banyan::service {
namespace {

constexpr double kTolerance = 0.01;    // a speed that has changed by no more is not told
constexpr double kRounding = 1e-12;    // of a link: what calls have that should have nothing
constexpr double kFallByName = 0.001;  // of weights, from the first name to beyond the last

bool differs(double told, double now) {
  if (std::isinf(told) || std::isinf(now)) return told != now;
  return std::abs(now - told) > kTolerance * told;
}

double most_bytes(const std::vector<LinkUse>& footprint) {
  double most = 0;
  for (const LinkUse& use : footprint) most = std::max(most, use.bytes);
  return most;
}

// All that other communicators can feel of this one, but for its progress.
bool asks_the_same(const CallReport& a, const CallReport& b) {
  return a.sharer == b.sharer && a.weight == b.weight && a.share_class == b.share_class && a.cap == b.cap &&
         a.footprint == b.footprint;
}

// The constant weight by which a call takes as long as by the law, if the weights of the others are constant: with W
// their sum, it takes the integral of (F + W) / F over its progress, so 1 / F has to have the same mean.
double factor_of_whole_call(const ProgressWeight& law) {
  const double first = law.of(0, 1), last = law.of(1, 1);
  if (std::abs(last - first) <= 1e-6 * first) return first;
  return (last - first) / std::log(last / first);
}

void expect_time(Steward::Time time, const std::string& what) {
  if (time >= Steward::Time(0) && time <= Steward::kMostTime) return;
  throw invalid(what + " is " + std::to_string(time.count()) + " ns, not from 0 to a day");
}

Steward::Options sound(Steward::Options options) {
  expect_sound(SharedNetwork{.capacities = options.capacities, .weights = {}, .least = options.least});
  expect_sound(options.progress.of(0, 1), "the weight of a call by its progress, at its beginning,");
  expect_sound(options.progress.of(1, 1), "the weight of a call by its progress, at its end,");
  expect_time(options.linger, "the time for which a communicator lingers");
  expect_time(options.expiry, "the time after which a communicator is forgotten");
  expect_time(options.shortest, "the time of the shortest call whose progress counts");
  return options;
}

}  // namespace

Steward::Steward(Options options)
    : options_(sound(std::move(options))), whole_call_(factor_of_whole_call(options_.progress)) {}

void Steward::check(const CallReport& report) const {
  try {
    expect_sound(report.weight, "the weight of " + in_quotes(report.sharer));
    expect_sound(SharedCall{.share_class = report.share_class, .footprint = report.footprint, .cap = report.cap},
                 options_.capacities.size());
    if (!(report.done >= 0 && report.done <= 1)) {
      throw invalid("the part of its call that is done is " + std::to_string(report.done) + ", not from 0 to 1");
    }
  } catch (const Error& error) {
    throw error.within("communicator " + in_quotes(report.communicator));
  }
}

void Steward::report(const CallReport& report, Time now) {
  check(report);
  auto found = known_.find(report.communicator);
  // One that has expired begins anew, whatever the number of its report.
  if (found != known_.end() && found->second.reported + options_.expiry <= now) {
    forget(found);
    found = known_.end();
  }
  if (found == known_.end()) {
    found = known_.try_emplace(report.communicator).first;
  } else if (report.number <= found->second.last.number) {
    return;
  }
  Known& known = found->second;
  const bool was_active = known.is_active();
  const double factor = factor_of(known);
  // A report without a call says nothing of links: the footprint of the last call stays, as if the next one had just
  // begun.
  const CallReport last = std::exchange(known.last, report);
  if (!report.is_under_way && report.footprint.empty()) known.last.footprint = last.footprint;
  // Its call has ended: it lingers as if the next one had just begun.
  if (last.is_under_way && !report.is_under_way) known.lingers_until = now + options_.linger;
  known.lingers = !report.is_under_way && (known.lingers || last.is_under_way);
  known.reported = now;
  set_due(found);
  if (!known.is_active()) return;
  // (3): computing is in vain unless others can feel the difference.
  has_changed_ |= !was_active || !asks_the_same(last, known.last) || (known.shares && factor != factor_of(known));
}

void Steward::forget(const std::string& communicator) {
  if (const auto found = known_.find(communicator); found != known_.end()) forget(found);
}

void Steward::forget(KnownByName::iterator found) {
  const auto& [communicator, known] = *found;
  has_changed_ |= known.is_active() && known.shares;
  due_.erase({known.due, communicator});
  known_.erase(found);
}

void Steward::set_due(KnownByName::iterator found) {
  auto& [communicator, known] = *found;
  due_.erase({known.due, communicator});
  known.due = known.reported + options_.expiry;
  if (known.lingers) known.due = std::min(known.due, known.lingers_until);
  due_.emplace(known.due, communicator);
}

std::optional<Steward::Time> Steward::next() const {
  if (due_.empty()) return std::nullopt;
  return due_.begin()->first;
}

// Forgets, and ends what has lingered long enough.
void Steward::pass(Time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const auto found = known_.find(due_.begin()->second);
    Known& known = found->second;
    // Not reported for too long: its host may be gone.
    if (known.reported + options_.expiry <= now) {
      forget(found);
      continue;
    }
    // It has lingered long enough, and leaves its links to others.
    has_changed_ |= known.shares;
    known.lingers = false;
    set_due(found);
  }
}

double Steward::seconds_alone(const Known& known) const {
  double seconds = 0;
  for (const LinkUse& use : known.last.footprint) {
    seconds = std::max(seconds, use.bytes / options_.capacities[use.link]);
  }
  return seconds;
}

double Steward::factor_of(const Known& known) const {
  // A call that ends before its progress is known has one weight from beginning to end.
  if (seconds_alone(known) < std::chrono::duration<double>(options_.shortest).count()) return whole_call_;
  return options_.progress.of(known.lingers ? 0 : known.last.done, 1);
}

std::vector<Steward::Known*> Steward::find_sharing() {
  // Calls that have no link in common with calls of others are limited by their caps alone: nobody would gain by more.
  std::vector<uint32_t> users(options_.capacities.size(), 0);
  for (const auto& [communicator, known] : known_) {
    if (!known.is_active()) continue;
    for (const LinkUse& use : known.last.footprint) ++users[use.link];
  }
  std::vector<Known*> sharing;
  for (auto& [communicator, known] : known_) {
    const auto is_shared = [&](const LinkUse& use) { return users[use.link] > 1; };
    const std::vector<LinkUse>& footprint = known.last.footprint;
    known.shares = known.is_active() && std::any_of(footprint.begin(), footprint.end(), is_shared);
    if (known.shares) sharing.push_back(&known);
  }
  return sharing;
}

// Calls per second. The weight of a sharer is the largest that its communicators have.
std::vector<double> Steward::allocated(const std::vector<Known*>& sharing) const {
  SharedNetwork network{.capacities = options_.capacities, .weights = {}, .least = options_.least};
  std::map<std::string_view, uint32_t> sharers;
  std::vector<SharedCall> calls;
  calls.reserve(sharing.size());
  for (const Known* const known : sharing) {
    const CallReport& report = known->last;
    const auto [sharer, is_new] = sharers.try_emplace(report.sharer, static_cast<uint32_t>(sharers.size()));
    if (is_new) network.weights.push_back(report.weight);
    double& weight = network.weights[sharer->second];
    weight = std::max(weight, report.weight);
    calls.push_back({.tenant = sharer->second,
                     .share_class = report.share_class,
                     .footprint = report.footprint,
                     .cap = report.cap});
  }
  const std::vector<double> factors = factors_among_equals(sharing, calls);
  for (size_t i = 0; i < calls.size(); ++i) {
    // A communicator of less weight than its sharer's has its own part of that.
    const double part = sharing[i]->last.weight / network.weights[calls[i].tenant];
    calls[i].factor = std::clamp(part * factors[i], kLeastAmount, kMostAmount);
  }
  return allocate(network, calls);
}

// By progress and name, and so that the mean over calls of one class and weight is 1, where each counts as much as
// it has of its sharer's weight.
std::vector<double> Steward::factors_among_equals(const std::vector<Known*>& sharing,
                                                  std::span<const SharedCall> calls) const {
  std::map<std::pair<uint32_t, ShareClass>, uint32_t> calls_of_sharer;
  for (const SharedCall& call : calls) ++calls_of_sharer[{call.tenant, call.share_class}];
  struct Sums {
    double parts = 0, factors = 0;
  };
  std::map<std::pair<ShareClass, double>, Sums> equals;
  const auto group = [&](size_t i) { return std::pair(calls[i].share_class, sharing[i]->last.weight); };
  // Equal jobs that began together part by their names.
  const double fall = options_.progress.slope > 0 ? kFallByName : 0;
  std::vector<double> factors(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    factors[i] = factor_of(*sharing[i]) * (1 - fall * static_cast<double>(i) / static_cast<double>(calls.size()));
    const double part = 1.0 / calls_of_sharer[{calls[i].tenant, calls[i].share_class}];
    Sums& sums = equals[group(i)];
    sums.parts += part;
    sums.factors += part * factors[i];
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Sums& sums = equals[group(i)];
    // The mean over equals is 1 again: others feel nothing of their progress.
    factors[i] *= sums.parts / sums.factors;
  }
  return factors;
}

std::vector<Steward::Speed> Steward::decide(Time now) {
  pass(now);
  if (!has_changed_) return {};
  const std::vector<Known*> sharing = find_sharing();
  const std::vector<double> speeds = allocated(sharing);
  has_changed_ = false;
  ++computations_;
  std::vector<Speed> changed;
  size_t shared = 0;
  for (auto& [communicator, known] : known_) {
    if (!known.is_active()) continue;
    const double most = most_bytes(known.last.footprint);
    Speed speed{.communicator = communicator};
    if (known.shares) {
      speed.calls_per_second = speeds[shared++];
      // A call that should have nothing gets nothing, whatever rounding has left of a link.
      if (speed.calls_per_second * seconds_alone(known) < kRounding) speed.calls_per_second = 0;
      speed.rate = speed.calls_per_second * most;
    } else if (most > 0) {
      speed.calls_per_second = known.last.cap / most;
      speed.rate = known.last.cap;
    }
    const bool is_news =
        differs(known.sent.calls_per_second, speed.calls_per_second) || differs(known.sent.rate, speed.rate);
    // (1): within 1 % the last word stands.
    if (known.is_sent && !is_news) continue;
    known.is_sent = true;
    known.sent = speed;
    changed.push_back(std::move(speed));
  }
  return changed;
}

std::vector<Steward::Row> Steward::rows() const {
  std::vector<Row> rows;
  rows.reserve(known_.size());
  for (const auto& [communicator, known] : known_) {
    rows.push_back({.report = known.last, .speed = known.sent, .is_active = known.is_active()});
    rows.back().speed.communicator = communicator;
  }
  return rows;
}

}  // namespace banyan::service
