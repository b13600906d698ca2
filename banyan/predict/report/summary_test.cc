#include "banyan/predict/report/summary.h"

#include "banyan/fabric/text.h"
#include "banyan/predict/report/link_names.h"
#include "banyan/predict/report/test_predictions.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using report::LinkNames;

// Three links of 1 GB/s in a ring, one millisecond.
ReportInput ring() {
  ReportInput input;
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b"), c = builder.add_rank("c");
  const Bandwidth rate = Bandwidth::gigabytes_per_second(1);
  builder.add_link({.from = a, .to = b, .bandwidth = rate});
  builder.add_link({.from = b, .to = c, .bandwidth = rate});
  builder.add_link({.from = c, .to = a, .bandwidth = rate});
  input.fabric = std::move(builder).build();
  input.prediction.time = Picoseconds(1'000'000'000);
  input.prediction.links.resize(3);
  return input;
}

TEST(Summary, NamesTheTightestLinkAndThoseLikeIt) {
  ReportInput input = ring();
  input.prediction.links = {{.bytes = 2e5, .load = {}},
                            {.bytes = 9e5, .full = Picoseconds(840'000'000), .load = {}},
                            {.bytes = 8e5, .full = Picoseconds(839'000'000), .load = {}}};
  EXPECT_THAT(in_words(input),
              HasSubstr("The tightest link, b -> c (1 more like it), is a bottleneck for 84 % of the time."));
  EXPECT_EQ(tight_links(link_standings(input)), 2u);
  const std::vector<LinkStanding> busiest = busiest_links(input, 2);
  ASSERT_EQ(busiest.size(), 2u);
  EXPECT_EQ(busiest[0].link, 1u);
  EXPECT_DOUBLE_EQ(busiest[0].load, 0.9);
  EXPECT_EQ(busiest[1].link, 2u);
}

TEST(Summary, GathersBusyLinksThatLookAlike) {
  ReportInput input = ring();
  input.prediction.links = {{.bytes = 9e5, .full = Picoseconds(840'000'000), .load = {}},
                            {.bytes = 2e5, .load = {}},
                            {.bytes = 9.0001e5, .full = Picoseconds(840'000'100), .load = {}}};
  const std::vector<AlikeLinks> kinds = busiest_kinds(input, 5);
  ASSERT_EQ(kinds.size(), 2u);
  EXPECT_EQ(kinds[0].first.link, 2u);
  EXPECT_EQ(kinds[0].count, 2u);
  EXPECT_EQ(kinds[1].first.link, 1u);
  EXPECT_EQ(kinds[1].count, 1u);
  EXPECT_EQ(busiest_kinds(input, 1).size(), 1u);
}

TEST(Summary, SaysWhenNoLinkIsToBlame) {
  ReportInput input = ring();
  input.prediction.links[2].bytes = 1.2e5;
  EXPECT_THAT(in_words(input),
              HasSubstr("No link holds anything up; the busiest, c -> a, carries 12 % of what it could."));
  EXPECT_EQ(busiest_links(input, 10).size(), 1u);
  EXPECT_EQ(tight_links(link_standings(input)), 0u);
}

TEST(Summary, SharesTheTimeOfAllRanks) {
  Prediction prediction;
  prediction.time = Picoseconds(1000);
  prediction.ranks.resize(2);
  prediction.ranks[0].compute = Picoseconds(1000);
  prediction.ranks[1].compute = Picoseconds(200);
  prediction.ranks[1].exposed = Picoseconds(300);
  prediction.ranks[1].waiting = Picoseconds(400);
  prediction.ranks[1].bubble = Picoseconds(100);
  const TimeShares shares = time_shares(prediction);
  EXPECT_DOUBLE_EQ(shares.compute, 0.6);
  EXPECT_DOUBLE_EQ(shares.exposed, 0.15);
  EXPECT_DOUBLE_EQ(shares.waiting, 0.2);
  EXPECT_DOUBLE_EQ(shares.bubble, 0.05);
  EXPECT_THAT(
      in_words({.prediction = prediction}),
      HasSubstr("Ranks spend 60 % computing, 15 % moving data that no computation hides, 20 % waiting for other "
                "ranks, 5.0 % with nothing to do."));
}

TEST(Summary, SaysWhatIsIncomplete) {
  EXPECT_THAT(in_words(sample::stopped_early()), HasSubstr("Stopped early: this is what happens in the first "));
  EXPECT_THAT(in_words(sample::three_jobs()), Not(HasSubstr("Stopped")));
}

TEST(Summary, SaysWhichPlanIsBestForWhichSizes) {
  EXPECT_THAT(in_words(sample::sweep_only()),
              HasSubstr("tree is fastest from 1 KiB, forest from 2 MiB; 4 GiB take 25.0 ms"));
}

TEST(Summary, SaysWhatWouldHelpMost) {
  ReportInput input = ring();
  input.what_if = {{"links", Picoseconds(9), 0.02}, {"compute", Picoseconds(5), 0.5}};
  EXPECT_THAT(in_words(input), HasSubstr("Doubling compute would save 50 %."));
  input.what_if = {{"links", Picoseconds(9), 0.0}};
  EXPECT_THAT(in_words(input), HasSubstr("Doubling no resource alone would help."));
}

TEST(Summary, NamesAJobThatAFailedLinkHasEnded) {
  ReportInput input = sample::three_jobs();
  EXPECT_THAT(in_words(input), Not(HasSubstr("failed link")));
  input.prediction.jobs[1].failed_at = Picoseconds(7'500'000'000);
  EXPECT_THAT(in_words(input), HasSubstr("A failed link ended finetune after 7.50 ms."));
  input.prediction.jobs[2].failed_at = Picoseconds(8'000'000'000);
  EXPECT_THAT(in_words(input), HasSubstr("ended finetune after 7.50 ms, and 1 more."));
}

TEST(Summary, OfNothingSaysSo) { EXPECT_EQ(in_words(sample::nothing()), "Nothing was simulated."); }

TEST(LinkNames, TellParallelLinksApart) {
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b");
  for (int i = 0; i < 3; ++i) builder.add_cable({.from = a, .to = b, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  const Fabric fabric = std::move(builder).build();
  const LinkNames names(&fabric);
  std::vector<std::string> all;
  for (uint32_t link = 0; link < 6; ++link) all.push_back(names.name(link));
  EXPECT_EQ(all, (std::vector<std::string>{"a -> b", "b -> a", "a -> b#1", "b -> a#1", "a -> b#2", "b -> a#2"}));
  EXPECT_EQ(LinkNames(nullptr).name(7), "link 7");
}

}  // namespace
}  // namespace banyan::predict
