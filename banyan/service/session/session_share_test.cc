#include "banyan/service/session/session_share.h"

#include "banyan/run/engine/rank_plan.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::OperationKind;
using Time = SessionShare::Time;

// Every call puts as many bytes as it has elements on link 4, and half of that on link 2.
class TwoLinks : public run::PlanSource {
 public:
  Answer plan(const Question&) override { return {}; }
  std::vector<LinkBytes> bytes_on_links(const Call& call) override {
    ++asked;
    if (call.kind == OperationKind::barrier) return {};
    const auto bytes = static_cast<double>(call.count);
    return {{.link = 2, .bytes = bytes / 2}, {.link = 4, .bytes = bytes}};
  }
  std::optional<Way> way(uint32_t, const run::PlanLane&) const override { return std::nullopt; }
  std::vector<Way> ways_between(uint32_t, uint32_t) const override { return {}; }
  bool knows_ways() const override { return false; }
  std::string cable_name(uint32_t) const override { return {}; }
  std::shared_ptr<run::PlanSource> revised(const run::FabricUpdate&) const override { return nullptr; }

  int asked = 0;
};

class SessionShareTest : public ::testing::Test {
 protected:
  SessionShare share(bool reports = true) {
    SessionShare::Options options{.gate = gate_,
                                  .capacities = std::make_shared<const std::vector<double>>(5, 1e9),
                                  .now = [this] { return now_; },
                                  .tenant = "7/t",
                                  .about = {.communicator = "job.1", .sharer = "7/t", .weight = 3}};
    if (reports) {
      options.send = [this](const CallReport& report) { reports_.push_back(report); };
      options.carried = carried_;
    }
    return SessionShare(std::move(options));
  }
  static Call all_reduce(size_t count) { return {.kind = OperationKind::all_reduce, .count = count}; }
  // Looks whenever it is due, until then.
  void pass(SessionShare& share, Time time) {
    const Time end = now_ + time;
    for (;;) {
      share.look();
      const std::optional<Time> next = share.next();
      if (!next || *next > end) break;
      ASSERT_GT(*next, now_);
      now_ = *next;
    }
    now_ = end;
  }

  Time now_ = std::chrono::seconds(3);
  std::shared_ptr<TwoLinks> source_ = std::make_shared<TwoLinks>();
  std::shared_ptr<RateGate> gate_ = std::make_shared<RateGate>([this] { return now_; });
  std::vector<CallReport> reports_;
  std::shared_ptr<CarriedBytes> carried_ = std::make_shared<CarriedBytes>();
};

TEST_F(SessionShareTest, ReportsTheBeginTheProgressAndTheEndOfACall) {
  SessionShare session = share();
  session.begin(1, all_reduce(800), source_);
  session.look();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_EQ(reports_[0].communicator, "job.1");
  EXPECT_EQ(reports_[0].weight, 3);
  EXPECT_TRUE(reports_[0].is_under_way);
  ASSERT_EQ(reports_[0].footprint.size(), 2u);
  EXPECT_EQ(reports_[0].footprint[1].link, 4u);
  EXPECT_EQ(reports_[0].footprint[1].bytes, 800);
  pass(session, milliseconds(11));
  EXPECT_EQ(reports_.size(), 3u);  // after 5 and 10 ms
  session.end(1);
  EXPECT_TRUE(session.is_active());
  pass(session, milliseconds(2));
  ASSERT_EQ(reports_.size(), 4u);
  EXPECT_FALSE(reports_[3].is_under_way);
  EXPECT_FALSE(session.is_active());
  EXPECT_FALSE(session.next());
  for (size_t i = 1; i < reports_.size(); ++i) EXPECT_GT(reports_[i].number, reports_[i - 1].number);
}

TEST_F(SessionShareTest, ReportsFewTimesHoweverManyCallsThereAre) {
  SessionShare session = share();
  for (uint64_t number = 1; number <= 1000; ++number) {
    session.begin(number, all_reduce(number % 2 == 0 ? 100 : 200), source_);
    session.look();
    now_ += microseconds(8);
    session.end(number);
    session.look();
    now_ += microseconds(2);
  }
  EXPECT_LE(reports_.size(), 11u);  // in 10 ms
  EXPECT_GE(reports_.size(), 9u);
  EXPECT_EQ(source_->asked, 2);
}

TEST_F(SessionShareTest, ReportsTheOldestCallOfSeveral) {
  SessionShare session = share();
  session.begin(1, all_reduce(100), source_);
  session.begin(2, all_reduce(200), source_);
  session.look();
  EXPECT_EQ(reports_.back().footprint[1].bytes, 100);
  session.end(1);
  pass(session, milliseconds(1));
  EXPECT_EQ(reports_.back().footprint[1].bytes, 200);
}

TEST_F(SessionShareTest, AsksAnewWhenPlansAreRevisedAndCountsARepeatedCallOnce) {
  SessionShare session = share();
  session.begin(1, all_reduce(100), source_);
  session.end(1);
  session.begin(2, all_reduce(100), source_);
  EXPECT_EQ(source_->asked, 1);
  const auto other = std::make_shared<TwoLinks>();
  session.begin(2, all_reduce(100), other);
  EXPECT_EQ(other->asked, 1);
  session.end(2);
  EXPECT_FALSE(session.is_due());
  EXPECT_EQ(carried_->by_tenant().at("7/t").at(4), 200);
}

TEST_F(SessionShareTest, ReportsWhatIsGrantedToACallAndNotToItsCommunicator) {
  SessionShare session = share();
  session.expect(2, {.weight = 9, .share_class = ShareClass::high, .cap = 1000});
  session.begin(1, all_reduce(100), source_);
  session.begin(2, all_reduce(100), source_);
  session.look();
  EXPECT_EQ(reports_.back().weight, 3);
  session.end(1);
  pass(session, SessionShare::kLeastPause);  // though it is like the one before
  EXPECT_EQ(reports_.back().weight, 9);
  EXPECT_EQ(reports_.back().share_class, ShareClass::high);
  EXPECT_EQ(reports_.back().cap, 1000);
  session.end(2);
  session.begin(3, all_reduce(100), source_);
  pass(session, SessionShare::kLeastPause);
  EXPECT_EQ(reports_.back().weight, 3);
  EXPECT_EQ(reports_.back().cap, Steward::kNoLimit);
}

TEST_F(SessionShareTest, TellsAtOnceWhatIsGrantedAnewToCallsUnderWay) {
  SessionShare session = share();
  session.expect(2, {.weight = 9});
  session.begin(1, all_reduce(100), source_);
  session.begin(2, all_reduce(100), source_);
  session.look();
  session.set_terms({.weight = 5});
  pass(session, SessionShare::kLeastPause);
  EXPECT_EQ(reports_.back().weight, 5);
  session.end(1);
  pass(session, SessionShare::kLeastPause);
  EXPECT_EQ(reports_.back().weight, 9) << "that is its own";
}

// Bytes of the busiest link that the gate lets through in a tenth of a second.
double let_through(RateGate& gate, Time& now, uint64_t number, double call_bytes) {
  run::RankPlan plan;
  plan.ranks = 2;
  plan.streams_to.resize(2);
  run::Role role{.length = 1'000'000};
  role.out_children.push_back(plan.add_stream_to(1));
  plan.roles.push_back(role);
  const run::SliceOffer slice{.sequence = number, .plan = &plan, .elements = 1000};
  double bytes = 0;
  for (const Time end = now + milliseconds(100); now < end;) {
    if (gate.admit(slice)) {
      bytes += call_bytes / 1000;
    } else {
      now = *gate.opens_at();
    }
  }
  return bytes;
}

// 100 MB on the busiest link, whose capacity is 1 GB/s, and nobody has told a rate.
TEST_F(SessionShareTest, KeepsCapsWhereNoStewardTellsARate) {
  constexpr double kBytes = 1e8;
  SessionShare session = share(false);
  session.expect(1, {.cap = 50'000'000});
  session.begin(1, all_reduce(static_cast<size_t>(kBytes)), source_);
  EXPECT_NEAR(let_through(*gate_, now_, 1, kBytes), 5e6, 3e5);
  session.set_terms({.cap = 20'000'000});
  EXPECT_NEAR(let_through(*gate_, now_, 1, kBytes), 5e6, 3e5) << "the call has its own";
  session.end(1);
  session.begin(2, all_reduce(static_cast<size_t>(kBytes)), source_);
  EXPECT_NEAR(let_through(*gate_, now_, 2, kBytes), 2e6, 3e5);
  session.set_terms({.cap = 80'000'000});
  EXPECT_NEAR(let_through(*gate_, now_, 2, kBytes), 8e6, 3e5) << "it goes on by what is granted now";
}

TEST_F(SessionShareTest, OnlyOneRankReports) {
  SessionShare session = share(false);
  session.begin(1, all_reduce(100), source_);
  pass(session, milliseconds(20));
  EXPECT_TRUE(reports_.empty());
  EXPECT_FALSE(session.next());
}

TEST_F(SessionShareTest, WakesWhenTheGateOpens) {
  run::RankPlan plan;
  plan.ranks = 2;
  plan.streams_to.resize(2);
  run::Role role{.length = 1000};
  role.out_children.push_back(plan.add_stream_to(1));
  plan.roles.push_back(role);
  SessionShare session = share(false);
  session.begin(1, all_reduce(10'000'000), source_);
  session.set_rate(500'000'000);
  const run::SliceOffer slice{.sequence = 1, .plan = &plan, .elements = 100};
  while (gate_->admit(slice)) {
  }
  const std::optional<Time> next = session.next();
  ASSERT_TRUE(next);
  EXPECT_GT(*next, now_);
  now_ = *next;
  EXPECT_TRUE(gate_->admit(slice));
}

}  // namespace
}  // namespace banyan::service
