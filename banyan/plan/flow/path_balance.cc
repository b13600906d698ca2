#include "banyan/plan/flow/path_balance.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/plan/flow/arc_lengths.h"
#include "banyan/plan/flow/flow_paths.h"

namespace banyan::plan {
namespace {

// Exponents are 2^k for a power of 2k, and half as much again for 2k + 1: 8, 12, 16, 24, ...
constexpr int kFirstPower = 6, kLastPower = 22;
constexpr uint32_t kMostRoundsOfPower = 12;
constexpr double kLittle = 0x1p-11;  // of what a round gains: the power goes up
// Constant lengths, as a part of all: with the first power, and half of that with each further one down to the
// least. Most of them is for leaving a terminal, so that ways pass through few ranks.
constexpr double kFirstConstant = 0.5, kLeastConstant = 0x1p-13;
constexpr double kForwarding = 0.75;
constexpr int kMostHalvingsOfStep = 20;
// How many arcs a path may have more than the fewest of its pair; from some power on more, in the end any.
constexpr uint32_t kFirstDetour = 3, kSecondDetour = 8;
constexpr int kWidensFrom = 18, kReturnsTo = 10;
// How much of the average of lengths those of the last round are. Lengths of high powers jump from round to round;
// their average proves more than each of them.
constexpr double kNewInAverage = 0.2;
constexpr size_t kMostPathsOfPair = 3;    // on average, unused ones included
constexpr double kShorter = 1 - 0x1p-10;  // of a way that joins the others
constexpr double kLeastAmount = 0x1p-20;  // of a pair's demand: less is nothing

class PathBalance {
 public:
  PathBalance(const Network& network, const Demand& demand, int128 divisor)
      : network_(network),
        demand_(demand),
        most_length_(static_cast<double>(most_length(network, divisor))),
        ways_(network),
        arcs_(network.arcs().size()),
        stamps_(arcs_.size(), 0),
        average_(arcs_.size(), 0) {
    for (size_t a = 0; a < arcs_.size(); ++a) {
      arcs_[a].per_bandwidth = 1 / static_cast<double>(network.bandwidths()[a]);
      arcs_[a].constant = 1 - (network.is_terminal(network.arcs()[a].tail) ? 0 : kForwarding);
    }
    for (uint32_t s = 0; s < demand.terminals(); ++s) {
      for (uint32_t t = 0; t < demand.terminals(); ++t) {
        if (demand.of(s, t) > 0) pairs_.push_back({s, t, static_cast<double>(demand.of(s, t))});
      }
    }
  }

  ConcurrentFlow solve(const FlowOptions& options);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct ArcState {
    double per_bandwidth = 0, constant = 0;
    double load = 0, length = 0;
  };
  struct Pair {
    uint32_t source = 0, target = 0;
    double demand = 0;
    uint32_t first_path = kNone, fewest = 0;
  };
  struct Path {
    uint32_t next = kNone;  // of the same pair
    uint32_t count = 0;
    uint64_t begin = 0;  // in path_arcs_
    double amount = 0;
  };

  // The power by which an arc's length grows with its load: p - 1 of the header. It doubles with every two steps of
  // power_.
  double exponent() const {
    return power_ % 2 == 0 ? static_cast<double>(1 << power_ / 2) : 1.5 * static_cast<double>(1 << power_ / 2);
  }
  // The arc's length at its load, relative to the greatest load, so that powers stay near 1. Odd steps begin with the
  // third power; squares make the rest.
  void update(ArcState& arc) const {
    double power = arc.load * per_greatest_;
    if (power_ % 2 == 1) power *= power * power;
    for (int i = power_ % 2; i < power_ / 2; ++i) power *= power;
    arc.length = (power + constant_ * arc.constant) * arc.per_bandwidth;
  }
  // Adds the amount to all arcs of the path.
  void put(const Path& path, double amount) {
    for (uint32_t i = 0; i < path.count; ++i) {
      ArcState& arc = arcs_[path_arcs_[path.begin + i]];
      // What doubles lose beside large amounts must not make a load negative.
      arc.load = std::max(0.0, arc.load + amount * arc.per_bandwidth);
      update(arc);
    }
  }
  double length(const Path& path) const {
    double sum = 0;
    for (uint32_t i = 0; i < path.count; ++i) sum += arcs_[path_arcs_[path.begin + i]].length;
    return sum;
  }

  void set_power(int power);
  void freeze_lengths();
  double greatest() const;
  void round();
  uint32_t add_path(Pair& pair);
  bool improves(const Pair& pair) const;
  void shift(Pair& pair);
  void shift(Path& from, Path& to);
  void forget_unused();
  void note_bound(std::span<const uint64_t> lengths, const Fraction& bound);
  double note_lengths();
  void prove_by_average();
  void go_up();
  RoughPaths rough_paths() const;
  ConcurrentFlow answer() const;

  const Network& network_;
  const Demand& demand_;
  const double most_length_;
  ShortestPaths ways_;
  std::vector<ArcState> arcs_;
  std::vector<uint64_t> lengths_;  // at the beginning of the round, in whole numbers
  std::vector<Pair> pairs_;        // by source
  std::vector<Path> paths_;
  std::vector<uint32_t> path_arcs_;
  std::vector<uint64_t> stamps_;  // by arc
  uint64_t stamp_ = 0;
  int power_ = kFirstPower;
  uint32_t detour_ = kFirstDetour;
  double per_greatest_ = 1, constant_ = kFirstConstant;
  std::vector<double> average_;         // of the lengths of all rounds so far, each by what they carry
  std::vector<uint64_t> best_lengths_;  // that prove the bound
  Fraction bound_;
  int128 crossed_ = 0;  // of the bound that this round's lengths prove
};

double PathBalance::greatest() const {
  double most = 0;
  for (const ArcState& arc : arcs_) most = std::max(most, arc.load);
  return most;
}

// A new power makes new lengths of the same loads. The constant lengths become a smaller share of all with each power.
void PathBalance::set_power(int power) {
  power_ = power;
  const double most = greatest();
  per_greatest_ = most > 0 ? 1 / most : 1;
  double share = kFirstConstant;
  for (int i = kFirstPower; i < power_; ++i) share = std::max(kLeastConstant, share / 2);
  // The constants are scaled against what the powers alone sum up to.
  double powers = 0, constants = 0;
  constant_ = 0;
  for (ArcState& arc : arcs_) {
    update(arc);
    powers += arc.length / arc.per_bandwidth;
    constants += arc.constant;
  }
  constant_ = powers > 0 ? share * powers / constants : share;
  for (ArcState& arc : arcs_) update(arc);
}

// Lengths in whole numbers, the longest as long as may be: what they prove is counted exactly.
void PathBalance::freeze_lengths() {
  double longest = 0;
  for (const ArcState& arc : arcs_) longest = std::max(longest, arc.length);
  const double scale = most_length_ / longest;
  lengths_.clear();
  for (const ArcState& arc : arcs_)
    lengths_.push_back(std::max<uint64_t>(1, static_cast<uint64_t>(arc.length * scale)));
}

// Whether the way that was just searched for is shorter than all of the pair's.
bool PathBalance::improves(const Pair& pair) const {
  const double found = static_cast<double>(ways_.distance(pair.target));
  for (uint32_t p = pair.first_path; p != kNone; p = paths_[p].next) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < paths_[p].count; ++i) sum += lengths_[path_arcs_[paths_[p].begin + i]];
    if (found >= static_cast<double>(sum) * kShorter) return false;
  }
  return true;
}

// The way that was just searched for becomes the first path of the pair. It carries nothing yet.
uint32_t PathBalance::add_path(Pair& pair) {
  const std::span<const uint32_t> way = ways_.path_to(pair.target);
  Path path{.next = pair.first_path, .count = static_cast<uint32_t>(way.size()), .begin = path_arcs_.size()};
  path_arcs_.insert(path_arcs_.end(), way.begin(), way.end());
  pair.first_path = static_cast<uint32_t>(paths_.size());
  paths_.push_back(path);
  return pair.first_path;
}

// One step of gradient projection: the amount is the difference of lengths over its derivative, at most all there is.
void PathBalance::shift(Path& from, Path& to) {
  const double difference = length(from) - length(to);
  if (difference <= 0) return;
  // The second derivative: what they share does not count.
  const uint64_t in_to = ++stamp_, shared = ++stamp_;
  double curvature = 0;
  const auto add = [&](uint32_t a) {
    curvature += (arcs_[a].length - constant_ * arcs_[a].constant * arcs_[a].per_bandwidth) * arcs_[a].per_bandwidth /
                 std::max(arcs_[a].load, 1e-300);
  };
  // Stamps find the arcs that both paths cross: they keep their load, whatever is shifted.
  for (uint32_t i = 0; i < to.count; ++i) stamps_[path_arcs_[to.begin + i]] = in_to;
  for (uint32_t i = 0; i < from.count; ++i) {
    const uint32_t a = path_arcs_[from.begin + i];
    if (stamps_[a] == in_to) {
      stamps_[a] = shared;
    } else {
      add(a);
    }
  }
  for (uint32_t i = 0; i < to.count; ++i) {
    if (stamps_[path_arcs_[to.begin + i]] == in_to) add(path_arcs_[to.begin + i]);
  }
  curvature *= exponent();
  // Newton's step.
  double amount = curvature * from.amount > difference ? difference / curvature : from.amount;
  put(from, -amount);
  put(to, amount);
  // From below, Newton's step on a power goes too far: halve it until it does not.
  for (int halvings = 0; halvings < kMostHalvingsOfStep && length(to) > length(from); ++halvings) {
    amount /= 2;
    put(from, amount);
    put(to, -amount);
  }
  from.amount -= amount;
  to.amount += amount;
}

// All paths of the pair give to the one that is shortest now.
void PathBalance::shift(Pair& pair) {
  if (paths_[pair.first_path].next == kNone) return;
  uint32_t shortest = kNone;
  double least = 0;
  for (uint32_t p = pair.first_path; p != kNone; p = paths_[p].next) {
    const double own = length(paths_[p]);
    if (shortest != kNone && own >= least) continue;
    shortest = p;
    least = own;
  }
  // Paths that carry nothing are forgotten; they come back when they are shortest again.
  uint32_t* link = &pair.first_path;
  while (*link != kNone) {
    Path& path = paths_[*link];
    if (*link != shortest) {
      if (path.amount > 0) shift(path, paths_[shortest]);
      if (path.amount < kLeastAmount * pair.demand) {
        put(path, -path.amount);
        put(paths_[shortest], path.amount);
        paths_[shortest].amount += path.amount;
        *link = path.next;
        continue;
      }
    }
    link = &path.next;
  }
}

// One round: every pair learns its shortest path by the lengths of the round's beginning, and shifts to the shortest
// that it has by the lengths of now.
void PathBalance::round() {
  freeze_lengths();
  crossed_ = 0;
  uint32_t source = kNone;
  for (Pair& pair : pairs_) {
    if (pair.source != source) {
      network_.tell_observer();
      source = pair.source;
      ways_.search(lengths_, source);
    }
    crossed_ += static_cast<int128>(ways_.distance(pair.target)) * demand_.of(pair.source, pair.target);
    // In the first round all demand takes the first path.
    if (pair.first_path == kNone) {
      Path& path = paths_[add_path(pair)];
      path.amount = pair.demand;
      pair.fewest = path.count;
      put(path, pair.demand);
      continue;
    }
    // Later rounds take a path that is shorter than all others, but no long detour.
    if (improves(pair) && ways_.path_to(pair.target).size() <= pair.fewest + detour_) add_path(pair);
    shift(pair);
  }
}

// Keeps the paths of pairs alone, those of one pair together.
void PathBalance::forget_unused() {
  std::vector<Path> paths;
  std::vector<uint32_t> path_arcs;
  for (Pair& pair : pairs_) {
    uint32_t* link = &pair.first_path;
    while (*link != kNone) {
      Path path = paths_[*link];
      const auto arcs = std::span(path_arcs_).subspan(path.begin, path.count);
      path.begin = path_arcs.size();
      path_arcs.insert(path_arcs.end(), arcs.begin(), arcs.end());
      *link = static_cast<uint32_t>(paths.size());
      paths.push_back(path);
      link = &paths.back().next;
    }
  }
  paths_ = std::move(paths);
  path_arcs_ = std::move(path_arcs);
}

RoughPaths PathBalance::rough_paths() const {
  RoughPaths rough;
  for (const Pair& pair : pairs_) {
    for (uint32_t p = pair.first_path; p != kNone; p = paths_[p].next) {
      rough.add(pair.source, pair.target, paths_[p].amount,
                std::span(path_arcs_).subspan(paths_[p].begin, paths_[p].count));
    }
  }
  return rough;
}

void PathBalance::note_bound(std::span<const uint64_t> lengths, const Fraction& bound) {
  if (!(bound > bound_)) return;
  // The best lengths so far are kept as the proof.
  bound_ = bound;
  best_lengths_.assign(lengths.begin(), lengths.end());
}

// What the lengths of this round prove; they join the average.
double PathBalance::note_lengths() {
  int128 carried = 0;
  for (size_t a = 0; a < lengths_.size(); ++a) carried += static_cast<int128>(lengths_[a]) * network_.bandwidths()[a];
  note_bound(lengths_, Fraction(crossed_, carried));
  for (size_t a = 0; a < lengths_.size(); ++a) {
    average_[a] *= 1 - kNewInAverage;
    average_[a] += kNewInAverage * static_cast<double>(lengths_[a]) / static_cast<double>(carried);
  }
  return static_cast<double>(crossed_) / static_cast<double>(carried);
}

// The average of the last rounds' lengths proves more than most of them do.
void PathBalance::prove_by_average() {
  // The longest becomes as long as may be, so that rounding costs least.
  const double longest = *std::max_element(average_.begin(), average_.end());
  std::vector<uint64_t> lengths;
  for (const double length : average_) lengths.push_back(static_cast<uint64_t>(length / longest * most_length_));
  note_bound(lengths, least_load(network_, demand_, lengths));
}

// The next power. Behind the last one the search returns to a lower power, and from then on detours are not limited.
void PathBalance::go_up() {
  prove_by_average();
  int power = power_ + 1;
  if (power == kWidensFrom) detour_ = std::max(detour_, kSecondDetour);
  if (power > kLastPower) {
    power = kReturnsTo;
    detour_ = network_.vertex_count();
  }
  set_power(power);
}

ConcurrentFlow PathBalance::solve(const FlowOptions& options) {
  double last_most = 0, last_proved = 0;
  set_power(kFirstPower);
  uint32_t of_power = 0;
  for (uint32_t rounds = 0; rounds < options.most_rounds; ++rounds) {
    round();
    if (paths_.size() > kMostPathsOfPair * pairs_.size()) forget_unused();
    const double most = greatest(), proved = note_lengths();
    // A power is left when neither the loads nor the bound gain by it any more, or after too many rounds.
    const bool gains = ++of_power < 2 || most < last_most * (1 - kLittle) || proved > last_proved * (1 + kLittle);
    last_most = most;
    last_proved = proved;
    const bool goes_up = !gains || of_power == kMostRoundsOfPower;
    if (goes_up) {
      of_power = 0;
      go_up();
    }
    // The gap is small enough, rounding included: the search ends.
    if (most * (1 + kLossOfRounding) <= bound_.to_double() * (1 + options.gap)) break;
    if (!goes_up) set_power(power_);
  }
  return answer();
}

// Amounts are rounded to whole units; the load is counted anew from these.
ConcurrentFlow PathBalance::answer() const {
  std::vector<uint32_t> own(arcs_.size());
  std::vector<double> bandwidths(arcs_.size());
  for (uint32_t a = 0; a < own.size(); ++a) {
    own[a] = a;
    bandwidths[a] = static_cast<double>(network_.bandwidths()[a]);
  }
  ConcurrentFlow flow{
      .paths = round_amounts(rough_paths(), demand_, {.of = own, .bandwidth = bandwidths}, kLossOfRounding),
      .lengths = best_lengths_,
      .bound = bound_};
  flow.paths.sort();
  flow.load = greatest_load(network_, flow.paths);
  CHECK(flow.load >= flow.bound) << flow.load << " is less than the bound " << flow.bound;
  return flow;
}

}  // namespace

ConcurrentFlow balance_paths(const Network& network, const Demand& demand, const FlowOptions& options) {
  return PathBalance(network, demand, options.divisor).solve(options);
}

}  // namespace banyan::plan
