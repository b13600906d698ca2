#include "banyan/service/session/way_meter.h"

#include "banyan/service/share/tenant_label.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Time = WayMeter::Time;

// One lane to rank 1, whose kernel is told of by hand.
class WayMeterTest : public ::testing::Test {
 protected:
  LaneWatch watch(const std::string& tenant = "t") {
    return LaneWatch({.meter = meter_,
                      .tenant = tenant,
                      .loads = [this] { return loads_; },
                      .way =
                          [this](uint32_t peer, const std::vector<uint32_t>& cables) {
                            ++asked_;
                            return WayMeter::Way{.to = "host" + std::to_string(peer), .links = cables};
                          },
                      .capacities = std::vector<double>(10, 1e6),
                      .run_delay = [this] { return thread_; }});
  }
  // A look each kPause, between which so many bytes arrive and the kernel is busy all the time.
  void pass(LaneWatch& watch, Time time, uint64_t bytes_per_pause) {
    for (const Time end = now_ + time; now_ < end;) {
      now_ += LaneWatch::kPause;
      for (auto& each : loads_) {
        each.load.arrived += bytes_per_pause;
        each.load.busy += std::chrono::duration_cast<std::chrono::microseconds>(LaneWatch::kPause);
      }
      watch.look(rate_, now_);
    }
  }
  WayMeter::Row only_row() {
    const std::vector<WayMeter::Row> rows = meter_->rows(now_);
    EXPECT_THAT(rows, SizeIs(1));
    return rows.empty() ? WayMeter::Row() : rows.front();
  }
  static uint64_t bytes_of(const WayMeter::Row& row) {
    uint64_t sum = 0;
    for (const auto& [tenant, bytes] : row.bytes) sum += bytes;
    return sum;
  }
  static double ratio(Time part, Time whole) {
    return static_cast<double>(part.count()) / static_cast<double>(whole.count());
  }

  std::shared_ptr<WayMeter> meter_ = std::make_shared<WayMeter>();
  std::vector<run::NetExecutor::LaneOnCables> loads_ = {
      {.load = {.peer = 1, .lane = 2, .has_more = true}, .cables = {4, 7}}};
  std::optional<uint64_t> rate_;
  std::optional<run::RunDelay> thread_;
  int asked_ = 0;
  Time now_ = std::chrono::hours(1);
};

TEST_F(WayMeterTest, AddsUpWhatArrivesWhileBytesWait) {
  LaneWatch watched = watch();
  pass(watched, milliseconds(500), 1000);
  const WayMeter::Row row = only_row();
  EXPECT_EQ(row.way, (WayMeter::Way{.to = "host1", .links = {4, 7}}));
  EXPECT_EQ(row.pressed, row.window);
  EXPECT_GE(row.window, WayMeter::kHalf);
  EXPECT_LT(row.window, 2 * WayMeter::kHalf + LaneWatch::kPause);
  EXPECT_EQ(bytes_of(row), static_cast<uint64_t>(row.window / LaneWatch::kPause) * 1000);
  EXPECT_EQ(row.allowed, std::nullopt);
  EXPECT_EQ(asked_, 1) << "a lane keeps its way";
}

TEST_F(WayMeterTest, SaysNothingBeforeAWindowIsOverAndLongAfterTheLastLook) {
  LaneWatch watched = watch();
  pass(watched, milliseconds(100), 1000);
  EXPECT_THAT(meter_->rows(now_), IsEmpty());
  pass(watched, milliseconds(400), 1000);
  EXPECT_THAT(meter_->rows(now_), SizeIs(1));
  EXPECT_THAT(meter_->rows(now_ + 3 * WayMeter::kHalf), IsEmpty());
}

TEST_F(WayMeterTest, NoticesAChangeWithinTwoHalves) {
  LaneWatch watched = watch();
  pass(watched, milliseconds(500), 1000);
  pass(watched, 2 * WayMeter::kHalf, 100);
  const WayMeter::Row row = only_row();
  EXPECT_EQ(bytes_of(row), static_cast<uint64_t>(row.window / LaneWatch::kPause) * 100);
}

TEST_F(WayMeterTest, IsNotPressedWhereNothingWaits) {
  LaneWatch watched = watch();
  loads_[0].load.has_more = false;
  pass(watched, milliseconds(500), 1000);
  EXPECT_EQ(only_row().pressed, Time(0));
  EXPECT_GT(bytes_of(only_row()), 0u) << "they are on the links all the same";
}

TEST_F(WayMeterTest, IsPressedWhereBytesStandInTheNetworkThoughNoneWaitsInTheKernel) {
  LaneWatch watched = watch();
  loads_[0].load.has_more = false;
  loads_[0].load.least_round_trip = std::chrono::microseconds(50);
  loads_[0].load.round_trip = milliseconds(1);
  pass(watched, milliseconds(1000), 2000);  // 100 kB/s of 1 MB/s, some 100 bytes of which are under way
  EXPECT_EQ(only_row().pressed, Time(0)) << "messages so small say nothing";
  EXPECT_EQ(only_row().busy, only_row().window);
  loads_[0].load.round_trip = milliseconds(20);
  pass(watched, milliseconds(1000), 2000);
  const WayMeter::Row row = only_row();
  EXPECT_EQ(row.pressed, row.window);
  EXPECT_EQ(row.delayed, row.window);
  EXPECT_EQ(row.round_trip, milliseconds(20));
  loads_[0].load.has_more = true;
  pass(watched, milliseconds(1000), 2000);
  EXPECT_EQ(only_row().pressed, only_row().window);
  EXPECT_EQ(only_row().delayed, Time(0)) << "they wait in the kernel";
  loads_[0].load.has_more = false;
  rate_ = 100'000;
  pass(watched, milliseconds(1000), 2000);
  EXPECT_EQ(only_row().pressed, Time(0)) << "it gets what it is allowed";
}

TEST_F(WayMeterTest, SaysForHowLongTheThreadOfASessionWaitedForItsCoreAtEachTurn) {
  LaneWatch watched = watch();
  pass(watched, milliseconds(500), 1000);
  EXPECT_EQ(only_row().wake, Time(0)) << "nobody knows";
  thread_ = run::RunDelay{.waited = std::chrono::hours(1), .turns = 7};
  for (int i = 0; i < 50; ++i) {
    thread_->waited += milliseconds(3);
    thread_->turns += 10;
    pass(watched, LaneWatch::kPause, 1000);
  }
  EXPECT_EQ(only_row().wake, std::chrono::microseconds(300));
}

TEST_F(WayMeterTest, IsNotPressedWhileTheReceiverHasNoRoom) {
  LaneWatch watched = watch();
  for (int i = 0; i < 25; ++i) {
    loads_[0].load.receiver_was_full += milliseconds(15);
    pass(watched, LaneWatch::kPause, 1000);
  }
  const WayMeter::Row row = only_row();
  EXPECT_NEAR(ratio(row.pressed, row.window), 0.25, 0.01);
}

TEST_F(WayMeterTest, IsPressedAsLongAsTheLaneThatIsMostPressed) {
  loads_.push_back({.load = {.peer = 1, .lane = 3, .has_more = false}, .cables = {4, 7}});
  loads_.push_back({.load = {.peer = 2, .lane = 2, .has_more = false}, .cables = {4}});
  LaneWatch watched = watch();
  pass(watched, milliseconds(500), 1000);
  const std::vector<WayMeter::Row> rows = meter_->rows(now_);
  ASSERT_THAT(rows, SizeIs(2)) << "lanes along one way are one row";
  EXPECT_EQ(rows[0].way.to, "host1");
  EXPECT_EQ(rows[0].pressed, rows[0].window);
  EXPECT_NEAR(static_cast<double>(bytes_of(rows[0])), 2.0 * static_cast<double>(bytes_of(rows[1])), 1000)
      << "a half may end between two lanes of one look";
  EXPECT_EQ(rows[1].pressed, Time(0));
}

TEST_F(WayMeterTest, TellsTenantsApartButNotAnyNumber) {
  std::vector<LaneWatch> watches;
  const size_t most = WayMeter::kMostTenants;
  for (size_t i = 0; i < most + 10; ++i) watches.push_back(watch("t" + std::to_string(i)));
  for (int look = 0; look < 20; ++look) {
    now_ += LaneWatch::kPause;
    loads_[0].load.arrived += 10;
    for (LaneWatch& each : watches) each.look(rate_, now_);
  }
  const WayMeter::Row row = only_row();
  EXPECT_EQ(row.bytes.size(), most + 1);
  EXPECT_GT(row.bytes.at(kOthers), row.bytes.at("t50")) << "they are ten or more";
}

TEST_F(WayMeterTest, AddsUpWhatSessionsAreAllowed) {
  LaneWatch one = watch(), other = watch();
  for (int i = 0; i < 20; ++i) {
    rate_ = 500;
    loads_[0].load.rate = 300;
    pass(one, LaneWatch::kPause, 1);
    rate_.reset();
    loads_[0].load.rate = 400;
    pass(other, LaneWatch::kPause, 1);
  }
  EXPECT_EQ(only_row().allowed, 700u);
  loads_[0].load.rate = 0;
  pass(other, LaneWatch::kPause, 1);
  EXPECT_EQ(only_row().allowed, std::nullopt) << "one of them may send as it likes";
}

}  // namespace
}  // namespace banyan::service
