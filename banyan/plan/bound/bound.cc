#include "banyan/plan/bound/bound.h"

#include "banyan/base/error.h"
#include "banyan/plan/bound/balanced_links.h"
#include "banyan/plan/bound/cuts_witness.h"
#include "banyan/plan/bound/narrowest_cut.h"
#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/flow/all_to_all.h"

namespace banyan::plan {
namespace {

template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Match(Cases...) -> Match<Cases...>;

}  // namespace

Bound compute_bound(const Fabric& fabric, const Collective& collective, PlanObserver* observer) {
  Bound bound;
  // Traffic of pairs is bounded by lengths of links, an allreduce by cuts of both directions at once.
  if (collective.is_personal()) {
    bound.witness = find_link_lengths(fabric, collective, {.observer = observer});
  } else if (collective.reduces() && collective.spreads()) {
    bound.witness = solve_overlap(fabric, collective, observer).witness;
  } else {
    // One direction is bounded by its narrowest cut, or by more where switches cannot be balanced at that.
    const CutWitness cut = narrowest_cut(fabric, collective, collective.reduces(), observer);
    const auto balanced = balance_links(fabric, collective, cut, observer);
    if (balanced && cut.seconds_per_byte() < balanced->witness.bound) {
      bound.witness = balanced->witness;
    } else {
      bound.witness = cut;
    }
  }
  bound.seconds_per_byte = seconds_per_byte(bound.witness, collective);
  return bound;
}

Fraction seconds_per_byte(const Witness& witness, const Collective& collective) {
  return std::visit(Match{[&](const LinkLengths& proof) { return proof.seconds_per_byte(collective); },
                          [](const auto& proof) { return proof.seconds_per_byte(); }},
                    witness);
}

bool holds(const Witness& witness, const Fabric& fabric, const Collective& collective) {
  return std::visit(Match{[&](const CutWitness& proof) { return holds_as_cut(proof, fabric, collective); },
                          [&](const CutsWitness& proof) { return holds_as_cuts(proof, fabric, collective); },
                          [&](const LinkLengths& proof) { return holds(proof, fabric, collective); }},
                    witness);
}

std::string describe(const Witness& witness, const Fabric& fabric, const Collective& collective) {
  return std::visit(Match{[&](const CutWitness& proof) { return describe_cut(proof, fabric, collective); },
                          [&](const CutsWitness& proof) { return describe_cuts(proof, fabric, collective); },
                          [&](const LinkLengths& proof) { return describe(proof, fabric, collective); }},
                    witness);
}

}  // namespace banyan::plan
