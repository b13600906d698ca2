#include "banyan/plan/bound/wished_shares.h"

#include <numeric>

#include "banyan/plan/bound/fixed_roots.h"
#include "banyan/plan/bound/overlap_program.h"
#include "banyan/plan/bound/overlap_rounding.h"

namespace banyan::plan {
namespace {

constexpr uint64_t kMostWishWork = 500'000'000;  // as in overlap.cc

}  // namespace

std::optional<OverlapShares> shares_for(const Fabric& fabric, const Collective& collective,
                                        const Fraction& seconds_per_byte, const WishedShares& wish,
                                        PlanObserver* observer) {
  OverlapQuestion question(fabric, collective, observer);
  question.is_mirrored = false;
  const FixedRoots fixed{.directions = {&question.gather, &question.spread}, .weights = wish.supply};
  const double throughput =
      1 / (seconds_per_byte * Fraction(static_cast<int128>(question.spread.unit()), 1)).to_double();
  const double total = std::accumulate(wish.supply.begin(), wish.supply.end(), 0.0);
  // The wish: the loads of the trees there are, at the throughput asked for, with the room that is left to them.
  FixedRootsProgram::Rates rates;
  for (const std::vector<int64_t>* loads : {&wish.gather, &wish.spread}) {
    rates.emplace_back();
    for (const int64_t load : *loads) {
      rates.back().push_back(static_cast<double>(load) / total * throughput / wish.room.to_double());
    }
  }
  FixedRootsProgram program(fixed, throughput, rates);
  WorkLeft work(kMostWishWork);
  try {
    for (auto step = CutProgram::Step::violated; step != CutProgram::Step::done;) {
      step = program.solve(work);
      if (step == CutProgram::Step::infeasible) return std::nullopt;
    }
  } catch (const WorkLeft::Exhausted&) {
    return std::nullopt;
  }
  rates = program.rates();
  OverlapRates found{.spread = rates[1], .gather = rates[0], .roots = {}};
  for (const int64_t weight : wish.supply) found.roots.push_back(throughput * static_cast<double>(weight) / total);
  // Floating-point rates become whole shares that are checked.
  if (auto shares = exact_shares(found, question)) return shares;
  return rounded_shares(found, question);
}

}  // namespace banyan::plan
