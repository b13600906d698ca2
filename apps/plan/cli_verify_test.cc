// `banyan verify` says no, with the reason, to plans that do not do what they promise; and no other command touches
// them. All reasons are in the tests of the verifier and of answer/plan_check.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/fabric/text.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

// Three ranks, each joined to each by 1 GB/s: links 0 a->b, 1 b->a, 2 b->c, 3 c->b, 4 a->c, 5 c->a.
constexpr const char* kTriangle = "a <-> b 1GB/s; b <-> c 1GB/s; a <-> c 1GB/s";

// The out-trees of an allgather, one per rank, each a list of links. The direct plan is optimal at 2/3 of 1/(2 GB/s).
using Trees = std::vector<std::vector<uint32_t>>;
const Trees kDirect = {{0, 4}, {1, 2}, {3, 5}};
const Fraction kDirectClaim(1, 3'000'000'000);

struct Claims {
  Fraction seconds_per_byte = kDirectClaim;
  std::optional<Fraction> bound = kDirectClaim;
};

class Verify : public ::testing::Test {
 protected:
  // Chunk i is rooted at rank i.
  void write(const Trees& trees, const Claims& claims) {
    const Fabric fabric = fabric::parse_fabric_text(kTriangle);
    Schedule::Builder builder(fabric, Collective::make(fabric, {}));
    for (uint32_t root = 0; root < trees.size(); ++root) {
      std::vector<RouteId> tree;
      for (const uint32_t link : trees[root]) tree.push_back(builder.add_route(std::vector<LinkId>{LinkId{link}}));
      builder.add_chunk({.root = NodeId{root}, .units = 1, .out_tree = tree});
    }
    schedule::write_schedule(plan_, {.schedule = std::move(builder).build(),
                                     .planner = "by hand",
                                     .claimed_seconds_per_byte = claims.seconds_per_byte,
                                     .bound_seconds_per_byte = claims.bound});
  }

  void expect_no(const std::string& reason) {
    const Outcome outcome = run_banyan({"verify", plan_});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(outcome.out, StartsWith("not valid"));
    EXPECT_THAT(outcome.out, HasSubstr(reason));
    EXPECT_THAT(outcome.err, IsEmpty());
    const Outcome json = run_banyan({"verify", plan_, "--json"});
    EXPECT_EQ(json.exit_code, 1);
    const Json answer = Json::parse(json.out);
    EXPECT_EQ(answer["valid"], false);
    EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr(reason));
  }

  TemporaryFolder folder_;
  std::string plan_ = folder_.path("plan.json");
};

TEST_F(Verify, AcceptsAPlanMadeByHand) {
  write(kDirect, {});
  const Outcome outcome = run_banyan({"verify", plan_, "--json"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(Json::parse(outcome.out)["schedule"]["optimal"], true);
  EXPECT_THAT(run_banyan({"verify", plan_}).out, HasSubstr("planner by hand"));
}

TEST_F(Verify, RejectsATreeThatMissesARank) {
  write({{0}, {1, 2}, {3, 5}}, {});
  expect_no("out-tree does not reach c");
}

TEST_F(Verify, RejectsAClaimOfABoundThatIsNone) {
  // Through b alone: twice the time of the direct plan, and said to be optimal.
  const Fraction slow(2, 3'000'000'000);
  write({{0, 2}, {1, 2}, {3, 1}}, {.seconds_per_byte = slow, .bound = slow});
  expect_no("bound");
}

TEST_F(Verify, KeepsInvalidPlansFromEveryOtherCommand) {
  write({{0}, {1, 2}, {3, 5}}, {});
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"export", plan_, "--format", "msccl", "-o", folder_.path("x.xml")},
        {"show", plan_, "-o", folder_.path("x.svg")},
        {"run", "allgather", "--plan", plan_}}) {
    expect_refused(arguments, "is no valid plan");
  }
  EXPECT_THAT(folder_.names(), ElementsAre("plan.json"));
}

}  // namespace
}  // namespace banyan::app
