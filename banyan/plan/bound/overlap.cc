#include "banyan/plan/bound/overlap.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "banyan/plan/bound/narrowest_cut.h"
#include "banyan/plan/bound/overlap_program.h"
#include "banyan/plan/bound/overlap_rounding.h"

namespace banyan::plan {
namespace {

// Numbers that pivots look at; some 10^8 are a second.
constexpr uint64_t kMostWork = 2'000'000'000;
constexpr uint32_t kMostRounds = 1'000;
// The throughput has stopped falling when it has been the same in so many answers.
constexpr uint32_t kFirstPatience = 3;
constexpr double kSame = 1e-9;

// Alternates between the two programs until one says that the throughput of the first can be reached.
class OverlapSearch {
 public:
  explicit OverlapSearch(const OverlapQuestion& question) : program_(question), work_(kMostWork) {}

  void search() {
    try {
      find_throughput();
    } catch (const WorkLeft::Exhausted&) {
      rates_.reset();
    }
  }

  const OverlapProgram& program() const { return program_; }
  const std::optional<OverlapRates>& rates() const { return rates_; }
  uint32_t rounds() const { return rounds_; }

 private:
  void find_throughput() {
    uint32_t stalled = 0, patience = kFirstPatience;
    double before = 0;
    while (rounds_++ < kMostRounds) {
      const bool is_done = program_.solve(work_) == OverlapProgram::Step::done;
      stalled = program_.throughput() >= before * (1 - kSame) ? stalled + 1 : 0;
      before = program_.throughput();
      if (!is_done && stalled < patience) continue;
      if (move_near_halves()) return;
      if (is_done) {
        rates_ = program_.rates();
        return;
      }
      stalled = 0;
      patience *= 2;
    }
  }

  // Whether there are shares for the throughput of the last answer; if not, the cuts that forbid it are learnt.
  bool move_near_halves() {
    OverlapProgram near = OverlapProgram::near_halves(program_);
    OverlapProgram::Step step = OverlapProgram::Step::violated;
    while (step == OverlapProgram::Step::violated && rounds_++ < kMostRounds) step = near.solve(work_);
    if (step == OverlapProgram::Step::done) {
      rates_ = near.rates();
      return true;
    }
    program_.learn_cuts_of(near);
    return false;
  }

  OverlapProgram program_;
  WorkLeft work_;
  std::optional<OverlapRates> rates_;
  uint32_t rounds_ = 0;
};

}  // namespace

Fraction OverlapShares::seconds_per_byte(const Network& network) const {
  const int64_t total = std::accumulate(supply.begin(), supply.end(), int64_t{0});
  return parts / Fraction(int128{total} * static_cast<int128>(network.unit()), 1);
}

namespace {

std::optional<OverlapShares> shares_of(const OverlapSearch& search, const OverlapQuestion& question,
                                       const SwitchTerminals& terminals) {
  if (!search.rates()) return std::nullopt;
  std::optional<OverlapShares> shares = exact_shares(*search.rates(), question);
  if (!shares) shares = rounded_shares(*search.rates(), question);
  if (!shares) return std::nullopt;
  shares->terminals = terminals;
  shares->is_mirrored = question.is_mirrored;
  return shares;
}

// Switches that can take in, and pass on to at least two neighbours, what the bound wants every rank to get.
std::vector<NodeId> with_room(const Network& network, const std::vector<NodeId>& switches, const Fraction& bound) {
  std::vector<NodeId> result;
  for (uint32_t v = network.participant_count(); v < network.vertex_count(); ++v) {
    if (!std::ranges::binary_search(switches, network.node_of(v))) continue;
    int128 in = 0;
    for (const uint32_t a : network.in_arcs(v)) in += network.bandwidths()[a];
    std::set<uint32_t> heads;
    for (const uint32_t a : network.out_arcs(v)) heads.insert(network.arcs()[a].head);
    const Fraction rate(in * static_cast<int128>(network.unit()), 1);
    if (heads.size() >= 2 && !(rate * bound < Fraction(1))) result.push_back(network.node_of(v));
  }
  return result;
}

// Which switches are spanned: sets in the order in which they are tried.
std::vector<SwitchTerminals> choices_of_terminals(const Fabric& fabric, const OverlapQuestion& relaxed,
                                                  const Fraction& bound) {
  const SwitchTerminals able = switches_with_power(fabric);
  const SwitchTerminals roomy{.spread = with_room(relaxed.spread, able.spread, bound),
                              .gather = with_room(relaxed.gather, able.gather, bound)};
  if (roomy.empty()) return {SwitchTerminals()};
  return {roomy, SwitchTerminals()};
}

}  // namespace

AllreduceWitness bound_allreduce(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  const OverlapQuestion question(fabric, collective, observer);
  check_connected(question.spread, fabric, collective);
  OverlapSearch search(question);
  search.search();
  return rounded_witness(search.program(), question);
}

Overlap solve_overlap(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  const OverlapQuestion question(fabric, collective, observer);
  check_connected(question.spread, fabric, collective);
  OverlapSearch search(question);
  search.search();
  Overlap result{.witness = rounded_witness(search.program(), question), .shares = {}, .rounds = search.rounds()};
  if (switches_with_power(fabric).empty()) {
    result.shares = shares_of(search, question, {});
    return result;
  }
  for (const SwitchTerminals& terminals : choices_of_terminals(fabric, question, result.witness.bound)) {
    const OverlapQuestion of_trees(fabric, collective, observer, terminals);
    OverlapSearch tried(of_trees);
    tried.search();
    result.rounds += tried.rounds();
    std::optional<OverlapShares> shares = shares_of(tried, of_trees, terminals);
    if (!shares) continue;
    const auto time = [&](const OverlapShares& of) { return of.seconds_per_byte(of_trees.spread); };
    if (!result.shares || time(*shares) < time(*result.shares)) result.shares = std::move(shares);
    if (!(result.witness.bound < time(*result.shares))) break;
  }
  return result;
}

}  // namespace banyan::plan
