#include "banyan/run/communicator/call_log.h"

#include <stdlib.h>

#include "banyan/run/record/diagnosis.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

class StoppedClock : public TimeSource {
 public:
  TimePoint now() const override { return TimePoint() + std::chrono::hours(1); }
};

class CallLogTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  CallLogTest() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }
  ~CallLogTest() override { unsetenv("BANYAN_RECORDER_DIR"); }
  std::vector<RankDump> dumps() const { return read_dumps(folder_); }

  StoppedClock clock_;
  Health health_ = Health::alive;  // of every peer
  CallLog log_{{.communicator = "c", .id = "", .rank = 1, .size = 3, .health = [this](uint32_t) { return health_; }},
               clock_};
};

// Rank 0 tells of a failure, and leaves before a call of this rank fails of it.
TEST_F(CallLogTest, RecordsAFailedCallWithThePeersAsTheyWereWhenTheFailureWasNoticed) {
  const Error error(ErrorCode::timed_out, "nothing has moved for 1000 ms");
  health_ = Health::silent;
  log_.write_failure(DumpReason::asked, error);
  EXPECT_TRUE(log_.has_failure());
  EXPECT_FALSE(log_.has_failed_call());
  health_ = Health::left;
  log_.write_failure(DumpReason::error, error);
  EXPECT_TRUE(log_.has_failed_call());
  ASSERT_THAT(dumps(), ::testing::Not(SizeIs(0)));
  bool is_recorded = false;
  for (const RankDump& dump : dumps()) {
    is_recorded = is_recorded || dump.reason == DumpReason::error;
    ASSERT_THAT(dump.peers, SizeIs(2));
    for (const PeerRecord& peer : dump.peers) EXPECT_EQ(peer.health, Health::silent) << peer.rank;
  }
  EXPECT_TRUE(is_recorded);
}

TEST_F(CallLogTest, KeepsTheRecordOfAFailedCallWhenTheFailureIsHeardOfLater) {
  const Error error(ErrorCode::peer_lost, "rank 2 is dead");
  log_.write_failure(DumpReason::error, error);
  log_.write_failure(DumpReason::asked, error);
  ASSERT_THAT(dumps(), SizeIs(1));
  EXPECT_EQ(dumps().front().reason, DumpReason::error);
}

// Between the failure and its record others hear of it, fail and write theirs.
TEST_F(CallLogTest, RecordsAFailureWithTheTimeAtWhichItWasNoticed) {
  log_.notice_failure();
  const int64_t told = RecorderClock::system().exact();
  log_.write_failure(DumpReason::timeout, Error(ErrorCode::timed_out, "nothing has moved for 1000 ms"));
  ASSERT_THAT(dumps(), SizeIs(1));
  EXPECT_LE(dumps().front().time, told);
  EXPECT_GT(dumps().front().time, 0);
}

TEST_F(CallLogTest, WritesNothingWhenAskedAfterAFailure) {
  log_.write_failure(DumpReason::error, Error(ErrorCode::peer_lost, "rank 2 is dead"));
  log_.write_when_asked("curious");
  log_.write_for_peer("curious");
  ASSERT_THAT(dumps(), SizeIs(1));
  EXPECT_EQ(dumps().front().message, "rank 2 is dead");
}

}  // namespace
}  // namespace banyan::run
