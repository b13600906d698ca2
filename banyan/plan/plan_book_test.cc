#include "banyan/plan/plan_book.h"

#include "banyan/fabric/generate.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

PlanQuestion allgather_of(const Fabric& fabric, std::vector<size_t> ranks) {
  PlanQuestion question{.kind = CollectiveKind::all_gather, .members = {}};
  for (const size_t rank : ranks) question.members.push_back(fabric.ranks()[rank]);
  return question;
}

TEST(PlanBook, GivesEqualQuestionsTheSamePlan) {
  PlanBook book(fabric::generate_fabric("torus:4x4"));
  const PlanQuestion question = allgather_of(book.fabric(), {0, 1, 2, 3});
  const Planner& forest = planner_named("forest");
  const Schedule& first = book.plan(forest, question);
  const auto& candidates = book.candidates(question);
  EXPECT_EQ(&book.plan(forest, question), &first);
  EXPECT_EQ(&book.candidates(question), &candidates);
}

TEST(PlanBook, TellsPlannersMembersAndRootsApart) {
  PlanBook book(fabric::generate_fabric("full:5"));
  const Planner &forest = planner_named("forest"), &ring = planner_named("ring");
  const PlanQuestion four = allgather_of(book.fabric(), {0, 1, 2, 3}),
                     other = allgather_of(book.fabric(), {3, 2, 1, 0});
  EXPECT_NE(&book.plan(forest, four), &book.plan(ring, four));
  EXPECT_NE(&book.plan(forest, four), &book.plan(forest, other));
  PlanQuestion broadcast = four;
  broadcast.kind = CollectiveKind::broadcast;
  for (uint32_t root = 0; root < 4; ++root) {
    broadcast.root = root;
    EXPECT_EQ(book.plan(forest, broadcast).collective().root(), four.members[root]);
  }
}

TEST(PlanBook, KeepsNothingOfAPlannerThatHasNoPlan) {
  PlanBook book(fabric::generate_fabric("ring:6"));
  const PlanQuestion question = allgather_of(book.fabric(), {0, 1, 2, 3, 4, 5});
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THROW(book.plan(planner_named("recursive-doubling"), question), Error);
  }
}

}  // namespace
}  // namespace banyan::plan
