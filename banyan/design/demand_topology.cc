#include "banyan/design/demand_topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/design/topology_bound.h"

namespace banyan::design {
namespace {

constexpr uint64_t kScale = uint64_t{1} << 20;  // of fractions that are rounded
constexpr double kSteps = 3e8;                  // of judgements, over all searches
constexpr uint64_t kSeed = 1;
constexpr uint64_t kStages = 4;  // of annealing, each from the best of the one before, with its best threshold

using Links = std::vector<uint32_t>;

Ports ports_of(const DemandSet& demands, const TopologyRequest& request) {
  return {.endpoints = demands.size(), .each = request.ports, .wiring = request.wiring};
}

std::vector<double> as_real(const Links& links) { return std::vector<double>(links.begin(), links.end()); }

void check_request(const DemandSet& demands, const TopologyRequest& request) {
  check_demands(demands);
  if (request.ports < 1 || request.ports > TopologyRequest::kMaxPorts) {
    throw invalid("an endpoint has 1 to " + std::to_string(TopologyRequest::kMaxPorts) + " ports");
  }
}

// The largest of all demands, entry by entry.
std::vector<double> envelope(const DemandSet& demands) {
  std::vector<double> result(demands.size() * demands.size());
  for (const DemandMatrix& matrix : demands.matrices) {
    for (size_t e = 0; e < result.size(); ++e) {
      result[e] = std::max(result[e], static_cast<double>(matrix.amounts[e]));
    }
  }
  return result;
}

// Rows and columns scaled to sums of about `sum` in turns (Sinkhorn and Knopp 1967). The amounts are above 0 off the
// diagonal.
void balance(std::vector<double>& amounts, size_t n, double sum, bool symmetric) {
  // A cable has as many links one way as the other, so the larger demand of a pair counts.
  if (symmetric) {
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < i; ++j) {
        amounts[i * n + j] = amounts[j * n + i] = std::max(amounts[i * n + j], amounts[j * n + i]);
      }
    }
  }
  std::vector<double> rows(n), columns(n);
  for (int round = 0; round < 50; ++round) {
    std::ranges::fill(rows, 0);
    std::ranges::fill(columns, 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        rows[i] += amounts[i * n + j];
        columns[j] += amounts[i * n + j];
      }
    }
    // Both by their square roots, which keeps what is symmetric so.
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (i != j) amounts[i * n + j] *= sum / std::sqrt(rows[i] * columns[j]);
      }
    }
  }
}

class TopologySearch {
 public:
  TopologySearch(const DemandSet& demands, const TopologyRequest& request, const std::function<void()>& works_on)
      : demands_(demands),
        request_(request),
        ports_(ports_of(demands, request)),
        routing_(demands, request.bandwidth, request.hops),
        works_on_(works_on),
        wishes_(envelope(demands)) {
    // Work is bounded by the judgements: each costs about this many steps.
    const double n = static_cast<double>(demands.size());
    const double each = n * n * (1 + std::min<double>(request.ports, n)) *
                        static_cast<double>(demands.matrices.size()) * (demands.uncertainty > Fraction(0) ? 12 : 1);
    judgements_ = static_cast<size_t>(std::clamp(kSteps / each, 300.0, 200'000.0));
  }

  DemandTopology run(const std::vector<double>& shares) {
    std::vector<Candidate> candidates;
    // 1. Starts of several kinds, their free ports filled by what is wished for most.
    for (Links& start : starts(shares)) {
      fill_ports(start, ports_, [&](size_t i, size_t j) {
        return wishes_[i * ports_.endpoints + j] / (1 + start[i * ports_.endpoints + j]);
      });
      candidates.push_back(judged(std::move(start)));
      tell();
    }
    std::ranges::stable_sort(candidates, {}, &Candidate::cost);
    Candidate best = candidates.front();
    // 2. From the best of them: annealing in stages, then descent.
    // On few endpoints all starts are improved, else the best three.
    const size_t searches = std::min<size_t>(ports_.endpoints <= 16 ? candidates.size() : 3, candidates.size());
    for (size_t s = 0; s < searches; ++s) {
      Candidate found = candidates[s];
      for (uint64_t stage = 0; stage < kStages; ++stage) {
        found = anneal(found, judgements_ / searches / kStages, kStages * (kSeed + s) + stage);
      }
      found = descend(std::move(found), judgements_ / searches);
      if (found.cost < best.cost) best = std::move(found);
    }
    // 3. The best of all, unless some traffic has no way in it.
    DemandTopology result;
    result.threshold = best.choice.threshold;
    result.worst = best.choice.judgement.worst;
    result.links = std::move(best.links);
    if (best.choice.judgement.unreachable > 0) {
      throw invalid("no topology of " + plural(ports_.each, "port") +
                    " was found that gives all traffic a way; give endpoints more ports");
    }
    return result;
  }

 private:
  struct Candidate {
    Links links;
    ThresholdRouting::Choice choice;
    double cost = 0;
  };

  void tell() const {
    if (works_on_) works_on_();
  }

  Candidate judged(Links links) const {
    Candidate result{.links = std::move(links), .choice = {}, .cost = 0};
    result.choice = routing_.best_threshold(as_real(result.links));
    result.cost = cost_of(result.choice.judgement, routing_);
    return result;
  }

  std::vector<Links> starts(const std::vector<double>& shares) const {
    const size_t n = ports_.endpoints;
    std::vector<Links> result{even_mesh(ports_), random_regular(ports_, kSeed)};
    // Mixtures of an even mesh and the balanced demand; the demand alone comes first.
    std::vector<double> shape = wishes_;
    double largest = 0;
    for (const double wish : wishes_) largest = std::max(largest, wish);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (i != j) shape[i * n + j] += 1e-6 * largest;  // rows without demand can be scaled, too
      }
    }
    balance(shape, n, ports_.each, ports_.wiring == Wiring::cables);
    for (const double even : {0.0, 0.25, 0.5, 0.75}) {
      std::vector<double> mixed(n * n);
      for (size_t i = 0; i < n; ++i) {
        for (size_t j = 0; j < n; ++j) {
          if (i != j)
            mixed[i * n + j] = even * ports_.each / static_cast<double>(n - 1) + (1 - even) * shape[i * n + j];
        }
      }
      result.push_back(rounded(mixed));
    }
    // The shares of the bound's program, and the best topology without any way of two hops.
    result.push_back(rounded(symmetric(shares)));
    try {
      result.push_back(best_direct_topology(demands_, request_.bandwidth, ports_).links);
    } catch (const Error&) {
      // There is none: some endpoint has more partners than ports.
    }
    return result;
  }

  std::vector<double> symmetric(std::vector<double> shares) const {
    const size_t n = ports_.endpoints;
    if (shares.empty()) shares.assign(n * n, 0);
    for (size_t i = 0; i < n && ports_.wiring == Wiring::cables; ++i) {
      for (size_t j = 0; j < i; ++j) {
        shares[i * n + j] = shares[j * n + i] = (shares[i * n + j] + shares[j * n + i]) / 2;
      }
    }
    return shares;
  }

  // Rows and columns are cut to what the ports allow.
  Links rounded(const std::vector<double>& fractions) const {
    const size_t n = ports_.endpoints;
    std::vector<double> rows(n), columns(n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        rows[i] += fractions[i * n + j];
        columns[j] += fractions[i * n + j];
      }
    }
    std::vector<uint64_t> shares(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        // A line with more than its ports shrinks all that crosses it, in both directions alike.
        const double most = std::max({rows[i], columns[j], rows[j], columns[i], static_cast<double>(ports_.each)});
        shares[i * n + j] = static_cast<uint64_t>(fractions[i * n + j] * ports_.each / most * kScale);
      }
    }
    return round_links(shares, kScale, ports_);
  }

  double cost_at(const Links& links, double threshold) const {
    return cost_of(routing_.judge(as_real(links), threshold), routing_);
  }

  // Simulated annealing of links and threshold.
  Candidate anneal(const Candidate& start, size_t judgements, uint64_t seed) const {
    Links links = start.links, best_links = links;
    EndExchange ends(links, ports_);
    if (ends.link_count() < 2) return start;
    std::mt19937_64 random(seed);
    double threshold = start.choice.threshold, cost = start.cost, best_cost = cost;
    double heat = 0.03 * start.choice.judgement.worst;
    const double cooling = std::pow(1e-2, 1.0 / static_cast<double>(judgements));
    for (size_t step = 0; step < judgements; ++step) {
      // A hundredth of the first heat is left at the end.
      heat *= cooling;
      if (step % 64 == 0) tell();
      double tried = threshold;
      // One step in sixteen changes the threshold, the others exchange ends of links.
      if (random() % 16 == 0) {
        tried = changed_threshold(links, threshold, random);
      } else if (!change(ends, random)) {
        continue;
      }
      const double changed = cost_at(links, tried);
      // A worse topology is taken by chance, the less so the worse it is and the colder the search.
      const double chance = static_cast<double>(random() >> 11) * 0x1p-53;
      if (changed > cost && chance >= std::exp((cost - changed) / heat)) {
        ends.undo();
        continue;
      }
      ends.keep();
      cost = changed;
      threshold = tried;
      // The best topology on the way is kept, not the last one.
      if (cost >= best_cost) continue;
      best_cost = cost;
      best_links = links;
    }
    // It is judged with the threshold that is best for it.
    Candidate best = judged(std::move(best_links));
    return best.cost < start.cost ? best : start;
  }

  // That at which the traffic of some pair just goes direct, or one near the present.
  double changed_threshold(const Links& links, double threshold, std::mt19937_64& random) const {
    const size_t e = random() % links.size();
    if (random() % 2 == 0 && links[e] > 0 && wishes_[e] > 0) {
      return wishes_[e] / static_cast<double>(request_.bandwidth.bytes_per_second()) / links[e];
    }
    return threshold * (0.8 + 0.4 * static_cast<double>(random() >> 11) * 0x1p-53);
  }

  // One exchange, or sometimes two at once: one alone takes a ring apart.
  bool change(EndExchange& ends, std::mt19937_64& random) const {
    const size_t count = ends.link_count();
    const auto exchange_two = [&] {
      const size_t first = random() % count, second = random() % count;
      return ends.exchange(first, second, random() % 2 == 0);
    };
    const uint64_t kind = random() % 16;
    const auto endpoint = [&] { return static_cast<uint32_t>(random() % ports_.endpoints); };
    if (kind == 2 && ends.swap_endpoints(endpoint(), endpoint())) return true;
    // With all ports in use no end can move; where one is free, it is found by chance.
    if (kind < 2 && ends.move_end(random() % count, endpoint(), kind == 0)) return true;
    const bool is_changed = exchange_two();
    return (is_changed && kind < 12) || (exchange_two() || is_changed);
  }

  // Takes the best change as long as one helps: of all exchanges of two links or endpoints, or, when none of these
  // does, of two such exchanges, as far as the judgements go.
  Candidate descend(Candidate best, size_t judgements) const {
    const size_t turns = ports_.wiring == Wiring::cables ? 2 : 1;
    while (true) {
      Links links = best.links;
      EndExchange ends(links, ports_);
      const size_t count = ends.link_count(), pairs = count * (count - 1) / 2 * turns;
      // The best of all changes is taken, not the first.
      double least = best.cost;
      std::optional<Links> found;
      const auto look = [&] {
        const double cost = cost_at(links, best.choice.threshold);
        if (cost >= least * (1 - 1e-12)) return;
        least = cost;
        found = links;
      };
      // A round is looked at as a whole or not at all.
      if (pairs > judgements) return best;
      judgements -= pairs;
      // All single changes: exchanges of two links, moves of one end, and endpoints that take each other's place.
      for (size_t first = 0; first < count; ++first) {
        for (size_t other = first + 1; other < count * turns; ++other) {
          if (ends.exchange(first, other % count, other >= count)) look();
          ends.undo();
        }
        for (size_t to = 0; to < 2 * ports_.endpoints; ++to) {
          if (ends.move_end(first, to / 2, to % 2 == 0)) look();
          ends.undo();
        }
        tell();
      }
      for (uint32_t one = 0; one < ports_.endpoints; ++one) {
        for (uint32_t other = one + 1; other < ports_.endpoints; ++other) {
          if (ends.swap_endpoints(one, other)) look();
          ends.undo();
        }
      }
      // Nothing helped alone: pairs of exchanges that share a link.
      if (!found && pairs * count * turns <= judgements) {
        judgements -= pairs * count * turns;
        for (size_t first = 0; first < count; ++first) {
          for (size_t second = 0; second < count * turns; ++second) {
            for (size_t third = 0; third < count * turns; ++third) {
              if (ends.exchange(first, second % count, second >= count) &&
                  ends.exchange(first, third % count, third >= count)) {
                look();
              }
              ends.undo();
            }
          }
          tell();
        }
      }
      if (!found) return best;
      best = judged(std::move(*found));
    }
  }

  const DemandSet& demands_;
  const TopologyRequest& request_;
  Ports ports_;
  ThresholdRouting routing_;
  const std::function<void()>& works_on_;
  std::vector<double> wishes_;
  size_t judgements_ = 0;
};

}  // namespace

DemandTopology choose_topology(const DemandSet& demands, const TopologyRequest& request,
                               const std::function<void()>& works_on) {
  check_request(demands, request);
  const Ports ports = ports_of(demands, request);
  // Without a second hop the best topology is known, and ports that it leaves free are filled evenly.
  if (request.hops == Hops::direct_only) {
    DirectTopology best = best_direct_topology(demands, request.bandwidth, ports);
    DemandTopology result{.links = std::move(best.links),
                          .threshold = 0,
                          .worst = best.worst.to_double(),
                          .bound = best.worst,
                          .is_best = true};
    fill_ports(result.links, ports,
               [&](size_t i, size_t j) { return -static_cast<double>(result.links[i * ports.endpoints + j]); });
    result.threshold = std::numeric_limits<double>::infinity();
    return result;
  }
  // With it: a bound, whose shares are one of the starts, and a search.
  const TopologyBound bound = bound_topology(demands, request.bandwidth, ports, works_on);
  DemandTopology result = TopologySearch(demands, request, works_on).run(bound.shares);
  result.bound = bound.least;
  return result;
}

std::vector<RivalTopology> rival_topologies(const DemandSet& demands, const TopologyRequest& request) {
  check_request(demands, request);
  const Ports ports = ports_of(demands, request);
  const ThresholdRouting routing(demands, request.bandwidth, request.hops);
  const size_t n = ports.endpoints;
  // A rotor joins all pairs in turn: on average it is the even mesh in fractions.
  std::vector<double> rotor(n * n, static_cast<double>(ports.each) / static_cast<double>(n - 1));
  for (size_t i = 0; i < n; ++i) rotor[i * n + i] = 0;
  std::vector<RivalTopology> result;
  const auto judge = [&](std::string name, const std::vector<double>& links) {
    const ThresholdRouting::Choice choice = routing.best_threshold(links);
    result.push_back({.name = std::move(name),
                      .worst = choice.judgement.worst,
                      .threshold = choice.threshold,
                      .unreachable = choice.judgement.unreachable});
  };
  judge("even mesh", as_real(even_mesh(ports)));
  judge("rotor", rotor);
  judge("random regular", as_real(random_regular(ports, kSeed)));
  return result;
}

Fabric topology_fabric(const std::vector<std::string>& names, const std::vector<uint32_t>& links,
                       const TopologyRequest& request) {
  const size_t n = names.size();
  if (!joins_all(links, n)) {
    throw invalid(
        "the links leave parts that nothing joins, which no fabric can be; give a pair of each two parts a demand of 1 "
        "byte");
  }
  Fabric::Builder builder;
  for (const std::string& name : names) builder.add_rank(name);
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      const uint64_t count = links[i * n + j];
      if (count == 0) continue;
      if (request.bandwidth.bytes_per_second() > Bandwidth::kMaxBytesPerSecond / count) {
        throw invalid(plural(count, "link") + " of " + request.bandwidth.to_string() + " are above 1 PB/s together");
      }
      builder.add_link({.from = NodeId{i},
                        .to = NodeId{j},
                        .bandwidth = Bandwidth::bytes_per_second(count * request.bandwidth.bytes_per_second())});
    }
  }
  return std::move(builder).build();
}

}  // namespace banyan::design
