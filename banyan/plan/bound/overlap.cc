#include "banyan/plan/bound/overlap.h"

#include <algorithm>
#include <memory>
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

  void learn_cuts_of(const OverlapSearch& other) { program_.learn_cuts_of(other.program_); }

  // `enough`: whether more throughput than this can be excluded is all that is asked; there are no rates then.
  void search(double enough = 0) {
    try {
      find_throughput(enough);
    } catch (const WorkLeft::Exhausted&) {
      rates_.reset();
    }
  }

  const OverlapProgram& program() const { return program_; }
  const std::optional<OverlapRates>& rates() const { return rates_; }
  uint32_t rounds() const { return rounds_; }

 private:
  void find_throughput(double enough) {
    uint32_t stalled = 0, patience = kFirstPatience;
    double before = 0;
    while (rounds_++ < kMostRounds) {
      // The first program. With each cut that it learns its throughput falls or stays.
      const bool is_done = program_.solve(work_) == CutProgram::Step::done;
      if (program_.throughput() <= enough * (1 + kSame)) return;
      stalled = program_.throughput() >= before * (1 - kSame) ? stalled + 1 : 0;
      before = program_.throughput();
      // Once the throughput stays the same the second program is asked whether it can be reached.
      if (!is_done && stalled < patience) continue;
      if (move_near_halves()) return;
      // No cut is violated and no shares near halves were found: the first program's own answer stands.
      if (is_done) {
        rates_ = program_.rates();
        return;
      }
      // It cannot be reached: the first goes on with the cuts that the second has learnt, and waits longer before it
      // asks again.
      stalled = 0;
      patience *= 2;
    }
  }

  // Whether there are shares for the throughput of the last answer; if not, the cuts that forbid it are learnt.
  bool move_near_halves() {
    OverlapProgram near = OverlapProgram::near_halves(program_);
    CutProgram::Step step = CutProgram::Step::violated;
    while (step == CutProgram::Step::violated && rounds_++ < kMostRounds) step = near.solve(work_);
    if (step == CutProgram::Step::done) {
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
  // Exact fractions if they are few; else whole units, a little less.
  std::optional<OverlapShares> shares = exact_shares(*search.rates(), question);
  if (!shares) shares = rounded_shares(*search.rates(), question);
  if (!shares) return std::nullopt;
  shares->terminals = terminals;
  shares->is_mirrored = question.is_mirrored;
  return shares;
}

// In which every rank can send all pieces out, and take them in: seconds per byte.
Fraction time_of_narrowest_rank(const Network& network) {
  int128 least = -1;
  for (uint32_t t = 0; t < network.participant_count(); ++t) {
    for (const auto arcs : {network.in_arcs(t), network.out_arcs(t)}) {
      int128 bandwidth = 0;
      for (const uint32_t a : arcs) bandwidth += network.bandwidths()[a];
      if (least < 0 || bandwidth < least) least = bandwidth;
    }
  }
  return Fraction(1, least * static_cast<int128>(network.unit()));
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

// The switches that are spanned where no more than `bound` is wanted.
SwitchTerminals roomy_switches(const Fabric& fabric, const OverlapQuestion& relaxed, const Fraction& bound) {
  const SwitchTerminals able = switches_with_power(fabric);
  return {.spread = with_room(relaxed.spread, able.spread, bound),
          .gather = with_room(relaxed.gather, able.gather, bound)};
}

// The programs of a fabric whose switches multicast or reduce. That of trees which span what has room for what ranks
// can take is the quicker one. Its cuts are most of those that prove the bound, and its throughput is the bound if
// those cuts can exclude more.
class BranchingSearch {
 public:
  BranchingSearch(const Fabric& fabric, const Collective& collective, PlanObserver* observer)
      : fabric_(fabric), collective_(collective), observer_(observer), relaxed_(fabric, collective, observer) {
    check_connected(relaxed_.spread, fabric, collective);
  }

  Overlap find() {
    // 1. The shares of trees that span what has room for every tree. This program is the quicker one.
    try_terminals(roomy_switches(fabric_, relaxed_, time_of_narrowest_rank(relaxed_.spread)));
    // 2. The bound, with the cuts that were found. It need only exclude more than the best shares reach.
    OverlapSearch bound(relaxed_);
    for (const Tried& before : tried_) bound.learn_cuts_of(*before.search);
    bound.search(best_);
    result_.rounds += bound.rounds();
    result_.witness = rounded_witness(bound.program(), relaxed_);
    if (is_reached()) return std::move(result_);
    // 3. Other choices of switches to span: those with room for what the bound says, and none.
    try_terminals(roomy_switches(fabric_, relaxed_, result_.witness.bound));
    if (!is_reached()) try_terminals({});
    return std::move(result_);
  }

 private:
  Fraction time_of(const OverlapShares& shares) const { return shares.seconds_per_byte(relaxed_.spread); }
  bool is_reached() const { return result_.shares && !(result_.witness.bound < time_of(*result_.shares)); }

  void try_terminals(const SwitchTerminals& terminals) {
    if (std::ranges::any_of(tried_, [&](const Tried& before) { return before.terminals == terminals; })) return;
    auto question = std::make_unique<OverlapQuestion>(fabric_, collective_, observer_, terminals);
    auto search = std::make_unique<OverlapSearch>(*question);
    search->search();
    result_.rounds += search->rounds();
    std::optional<OverlapShares> shares = shares_of(*search, *question, terminals);
    if (shares && (!result_.shares || time_of(*shares) < time_of(*result_.shares))) result_.shares = std::move(shares);
    if (search->rates()) best_ = std::max(best_, search->program().throughput());
    tried_.push_back({.terminals = terminals, .question = std::move(question), .search = std::move(search)});
  }

  struct Tried {
    SwitchTerminals terminals;
    std::unique_ptr<OverlapQuestion> question;  // which the search refers to
    std::unique_ptr<OverlapSearch> search;
  };

  const Fabric& fabric_;
  const Collective& collective_;
  PlanObserver* observer_;
  OverlapQuestion relaxed_;
  std::vector<Tried> tried_;
  double best_ = 0;  // throughput, in the unit of the programs
  Overlap result_;
};

}  // namespace

Overlap solve_overlap(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  if (!switches_with_power(fabric).empty()) return BranchingSearch(fabric, collective, observer).find();
  const OverlapQuestion question(fabric, collective, observer);
  check_connected(question.spread, fabric, collective);
  OverlapSearch search(question);
  search.search();
  Overlap result{.witness = rounded_witness(search.program(), question), .shares = {}, .rounds = search.rounds()};
  result.shares = shares_of(search, question, {});
  return result;
}

}  // namespace banyan::plan
