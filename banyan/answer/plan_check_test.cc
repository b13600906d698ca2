#include "banyan/answer/plan_check.h"

#include "banyan/answer/plan_answer.h"
#include "banyan/fabric/generate.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

using ::testing::ThrowsMessage;

schedule::ScheduleFile good_plan() {
  const Fabric fabric = fabric::generate_fabric("full:3@1GB/s");
  return to_file(make_plan(fabric, Collective::make(fabric, {}), {}));
}

TEST(PlanCheck, AcceptsWhatThePlannerWrote) {
  const schedule::ScheduleFile file = good_plan();
  const Examination examined = examine(file, nullptr);
  EXPECT_TRUE(examined.verdict.valid) << examined.verdict.reason;
  EXPECT_EQ(examined.bound.seconds_per_byte, *file.bound_seconds_per_byte);
  EXPECT_EQ(parse_valid_plan(format_schedule(file), "here").planner, "forest");
}

TEST(PlanCheck, RefusesAFileWithAFalseClaim) {
  schedule::ScheduleFile file = good_plan();
  file.claimed_seconds_per_byte = file.claimed_seconds_per_byte * Fraction(1, 2);
  const std::string text = format_schedule(file);
  const auto parse = [&] { parse_valid_plan(text, "plan.json"); };
  EXPECT_THAT(parse, ThrowsMessage<Error>(HasSubstr("plan.json: is no valid plan: ")));
  EXPECT_FALSE(examine(file, nullptr).verdict.valid);
}

TEST(PlanCheck, FindsABoundThatIsNone) {
  schedule::ScheduleFile file = good_plan();
  file.bound_seconds_per_byte = *file.bound_seconds_per_byte * Fraction(1, 2);
  EXPECT_THAT(examine(file, nullptr).verdict.reason, HasSubstr("it claims a bound of"));
}

TEST(PlanCheck, TellsFabricsApart) {
  const schedule::ScheduleFile file = good_plan();
  require_same_fabric(file, "plan.json", fabric::generate_fabric("full:3@1GB/s"), "full:3@1GB/s");
  const auto compare = [&] {
    require_same_fabric(file, "plan.json", fabric::generate_fabric("full:3@2GB/s"), "full:3@2GB/s");
  };
  EXPECT_THAT(compare, ThrowsMessage<Error>(HasSubstr("than full:3@2GB/s (3 ranks, 0 switches, 6 links")));
}

}  // namespace
}  // namespace banyan::answer
