#include "apps/run/live_report.h"

#include "banyan/run/record/test_dumps.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using run::Health;
using run::JobView;
using run::SampleDump;

// Two ranks at 100 s and a quarter of a second later.
class TwoLooks {
 public:
  TwoLooks& add(run::RankDump first, run::RankDump second, std::vector<run::LaneBytes> before = {},
                std::vector<run::LaneBytes> after = {}) {
    second.time = first.time + run::seconds(0.25);
    const uint32_t rank = first.rank;
    put(first_, rank, std::move(first), std::move(before));
    put(second_, rank, std::move(second), std::move(after));
    return *this;
  }
  JobView& second() { return second_; }
  LiveReport report() const { return report_of(first_, second_); }

 private:
  static void put(JobView& job, uint32_t rank, run::RankDump record, std::vector<run::LaneBytes> lanes) {
    job.ranks.resize(std::max<size_t>(job.ranks.size(), rank + 1));
    JobView::Rank& each = job.ranks[rank];
    each.health = Health::alive;
    if (!each.view) {
      each.view =
          run::ProcessView{.rank = rank, .size = 2, .host = "node0", .pid = 1, .communicators = {}, .doubts = {}};
    }
    each.view->communicators.push_back({.record = std::move(record), .lanes = std::move(lanes)});
  }
  JobView first_, second_;
};

TEST(LiveReport, CallsNothingLateThatMoves) {
  // Rank 0 is a call ahead in both, which would be a finding if they stood still.
  const LiveReport report =
      TwoLooks()
          .add(SampleDump("world", 0, 2).add_done(10, 99).add({}, 99.5).waits_for(1).get(),
               SampleDump("world", 0, 2).add_done(60, 99).add({}, 99.5).waits_for(1).get())
          .add(SampleDump("world", 1, 2).add_done(10, 99).get(), SampleDump("world", 1, 2).add_done(60, 99).get())
          .report();
  EXPECT_TRUE(report.is_healthy());
  ASSERT_THAT(report.communicators, SizeIs(1));
  EXPECT_TRUE(report.communicators[0].moves);
  EXPECT_DOUBLE_EQ(report.communicators[0].calls_per_second, 200);
}

TEST(LiveReport, NamesWhoIsLateWhereNothingMoves) {
  const auto waiting = SampleDump("world", 0, 2).add_done(10, 90).add({}, 91).waits_for(1).get();
  const auto late = SampleDump("world", 1, 2).add_done(10, 90).get();
  const LiveReport report = TwoLooks().add(waiting, waiting).add(late, late).report();
  EXPECT_FALSE(report.is_healthy());
  ASSERT_THAT(report.diagnosis.findings, SizeIs(1));
  EXPECT_THAT(report.diagnosis.findings[0].sentence, HasSubstr("rank 1 has not called allreduce #11"));
  EXPECT_FALSE(report.communicators.at(0).moves);
}

TEST(LiveReport, GivesRatesOfLanesTheFastestFirst) {
  const auto record = SampleDump("world", 0, 2).add_done(1, 99).get();
  const auto other = SampleDump("world", 1, 2).add_done(1, 99).get();
  const LiveReport report =
      TwoLooks()
          .add(record, record, {{1, 0, 1000, 0}, {1, 1, 500, 500}}, {{1, 0, 1000, 0}, {1, 1, 1500, 500}})
          .add(other, other, {{0, 1, 9000, 0}}, {{0, 1, 9000, 4000}, {0, 2, 8000, 0}})
          .report();
  ASSERT_THAT(report.lanes, SizeIs(3)) << "one stood still";
  EXPECT_EQ(report.lanes[0].lane, 2u) << "new, and the fastest";
  EXPECT_DOUBLE_EQ(report.lanes[0].sent_per_second, 32'000);
  EXPECT_DOUBLE_EQ(report.lanes[1].received_per_second, 16'000);
  EXPECT_DOUBLE_EQ(report.lanes[2].sent_per_second, 4000);
}

TEST(LiveReport, ListsThoseThatDoNotAnswerAndWhoIsDoubted) {
  const auto record = SampleDump("world", 0, 2).add_done(1, 99).get();
  TwoLooks looks;
  looks.add(record, record);
  looks.second().ranks.push_back({.process = "process 5 on node1",
                                  .place = "10.0.0.1:4000",
                                  .health = Health::silent,
                                  .view = {},
                                  .why = "nothing was heard of it for 7 s"});
  looks.second().ranks[0].view->doubts = {{.rank = 1, .health = Health::alive, .why = "suspected: it was reset"}};
  const LiveReport report = looks.report();
  EXPECT_FALSE(report.is_healthy());
  ASSERT_THAT(report.absent, SizeIs(1));
  EXPECT_EQ(report.absent[0].rank, 1u);
  EXPECT_EQ(report.absent[0].why, "nothing was heard of it for 7 s");
  ASSERT_THAT(report.doubts, SizeIs(1));
  EXPECT_EQ(report.doubts[0].by, 0u);
  EXPECT_EQ(report.doubts[0].of.rank, 1u);
  EXPECT_THAT(TwoLooks().report().communicators, IsEmpty());
}

}  // namespace
}  // namespace banyan::app
