#include "banyan/plan/plan_book.h"

namespace banyan::plan {

Collective PlanBook::collective(const PlanQuestion& question) const {
  Collective::Options options{.kind = question.kind, .ranks = question.members};
  if (question.kind == CollectiveKind::broadcast || question.kind == CollectiveKind::reduce) {
    options.root = question.members.at(question.root);
  }
  return Collective::make(fabric_, options);
}

const Schedule& PlanBook::plan(const Planner& planner, const PlanQuestion& question) {
  const auto key = std::pair(&planner, question);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(key, make_plan(planner, fabric_, collective(question))).first;
  }
  return found->second;
}

const std::vector<Candidate>& PlanBook::candidates(const PlanQuestion& question) {
  auto found = candidates_.find(question);
  if (found == candidates_.end()) {
    found = candidates_.emplace(question, plan_candidates(fabric_, collective(question))).first;
  }
  return found->second;
}

}  // namespace banyan::plan
