// `banyan doctor` on folders of records: what it prints, and its three exit codes.
#include <banyan/banyan.h>
#include <sys/mman.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/run/record/dump.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using Json = nlohmann::json;

class Doctor : public ::testing::Test {
 protected:
  // Rank `rank` of 3 finished barrier #1 at 1 s, and is in allreduce #2 since 2 s unless it is late; it wrote at 9.5 s.
  void write(uint32_t rank, bool is_late, const std::string& message = "") {
    run::RankDump dump;
    dump.communicator = "world";
    dump.rank = rank;
    dump.size = 3;
    dump.host = "node0";
    dump.program = "train";
    dump.pid = 4000 + rank;
    dump.time = 9'500'000'000;
    dump.reason = is_late ? run::DumpReason::asked : run::DumpReason::timeout;
    dump.message = message;
    dump.operations.push_back({.ticket = 1,
                               .sequence = 1,
                               .begin = 900'000'000,
                               .end = 1'000'000'000,
                               .kind = run::OperationKind::barrier,
                               .state = run::OperationState::done});
    if (!is_late) {
      dump.operations.push_back({.ticket = 2,
                                 .sequence = 2,
                                 .count = 1024,
                                 .begin = 2'000'000'000,
                                 .waits_for = 1,
                                 .kind = run::OperationKind::all_reduce,
                                 .type = element::DataType::float32,
                                 .state = run::OperationState::running});
    }
    dump.begun = dump.operations.size();
    write_dump(dump, folder_.path(""));
  }

  TemporaryFolder folder_;
};

TEST_F(Doctor, NamesTheRankThatIsLate) {
  write(0, false);
  write(1, true);
  write(2, false);
  const Outcome outcome = run_banyan({"doctor", folder_.path("")});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(
      outcome.out,
      StartsWith("late       world: rank 1 has not called allreduce #2 (1024 float32 sum); its last was barrier "
                 "#1, finished 8.5 s before; ranks 0, 2 wait for it\n           - rank 1 is process 4001 (train) "
                 "on node0\n"));
  EXPECT_THAT(outcome.out,
              HasSubstr("ranks      world: 3 ranks, 3 records\n           rank 0 (node0:4000): in allreduce "
                        "#2 for 7.5 s, step 0, waits for rank 1\n"));
}

TEST_F(Doctor, SaysTheSameInJson) {
  write(0, false);
  write(1, true);
  const Outcome outcome = run_banyan({"doctor", folder_.path(""), "--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["healthy"], false);
  ASSERT_EQ(report["findings"].size(), 1u);
  EXPECT_EQ(report["findings"][0]["kind"], "late");
  EXPECT_EQ(report["findings"][0]["ranks"], Json::array({1}));
  EXPECT_EQ(report["findings"][0]["sequence"], 2);
  EXPECT_EQ(report["findings"][0]["because"].back(), "rank 2 wrote no record");
  EXPECT_EQ(report["communicators"][0]["missing"], Json::array({2}));
  EXPECT_EQ(report["communicators"][0]["ranks"][1]["pid"], 4001);
}

TEST_F(Doctor, FindsNothingWrongWhereNothingIs) {
  for (uint32_t rank = 0; rank < 3; ++rank) write(rank, true);
  const Outcome outcome = run_banyan({"doctor", folder_.path("")});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, StartsWith("healthy"));
  EXPECT_EQ(Json::parse(run_banyan({"doctor", folder_.path(""), "--json"}).out)["healthy"], true);
}

TEST_F(Doctor, ObeysNoMessage) {
  write(0, false, "\x1b[2Jgone\nforged");
  write(1, true);
  write(2, false);
  const Outcome outcome = run_banyan({"doctor", folder_.path("")});
  EXPECT_THAT(outcome.out, HasSubstr("rank 0 says: ?[2Jgone?forged\n"));
}

TEST_F(Doctor, RefusesWhatItCannotRead) {
  expect_refused({"doctor", folder_.path("")}, "there is no flight record ('*-rank<N>.json') in this folder");
  expect_refused({"doctor", folder_.path("none")}, "banyan: " + folder_.path("none") + ": ");
  write(0, false);
  folder_.write("world-rank1.json", "{");
  expect_refused({"doctor", folder_.path("")}, "world-rank1.json: is not JSON: parse error at line 1");
  expect_refused({"doctor"}, "see 'banyan doctor --help'");
}

// Two real ranks, of which one does not call.
class LiveDoctor : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < 2; ++rank) ranks_.emplace_back([&] { return be_rank(rank); });
    ASSERT_EQ(waiting_.wait_for(2), true) << "the ranks have not joined";
  }

  int be_rank(int rank) {
    alarm(100);
    banyan_comm_t comm = nullptr;
    const std::string url = "file://" + folder_.path("meeting");
    if (banyan_comm_init_url(&comm, url.c_str(), 2, rank, nullptr) != BANYAN_SUCCESS) return 1;
    if (banyan_barrier(comm, nullptr) != BANYAN_SUCCESS) return 2;
    waiting_.add();
    float value = 1;
    if (rank == 0) banyan_all_reduce(&value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM, comm, nullptr);
    pause();
    return 3;
  }

  // In memory that the ranks share.
  class Count {
   public:
    void add() { ++*count_; }
    bool wait_for(int value) const {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (*count_ < value && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      return *count_ >= value;
    }

   private:
    std::atomic<int>* const count_ =
        new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
            std::atomic<int>(0);
  };

  TemporaryFolder folder_;
  Count waiting_;
  std::vector<run::Child> ranks_;
};

TEST_F(LiveDoctor, NamesTheRankThatIsLateAndStopsNobody) {
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // so that rank 0 has waited for long
  for (const run::Child& asked : ranks_) {
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome = run_banyan({"doctor", "--live", std::to_string(asked.id())});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6)) << "a second, on a quiet machine";
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("rank 1 has not called allreduce #2"));
    EXPECT_THAT(outcome.out, HasSubstr("still      world: 2 ranks"));
  }
  const Json json = Json::parse(run_banyan({"doctor", "--live", std::to_string(ranks_[0].id()), "--json"}).out);
  EXPECT_EQ(json["banyan"], "live/1");
  EXPECT_EQ(json["healthy"], false);
  EXPECT_EQ(json["jobs"][0]["findings"][0]["ranks"], Json::array({1}));
  for (const run::Child& rank : ranks_) EXPECT_FALSE(rank.has_ended());
}

TEST_F(LiveDoctor, FindsAJobByThePlaceWhereItsRanksHaveMet) {
  const Outcome outcome = run_banyan({"doctor", "--live", "file://" + folder_.path("meeting")});
  EXPECT_THAT(outcome.out, HasSubstr("world: 2 ranks")) << outcome.err;
  expect_refused({"doctor", "--live", "file://" + folder_.path("nothing")}, "no meeting at file://");
}

// Three are expected, and rank 1 does not come.
TEST(DoctorOfAMeeting, SaysWhoHasNotCome) {
  const TemporaryFolder folder;
  const std::string url = "file://" + folder.path("meeting");
  std::vector<run::Child> ranks;
  for (const int rank : {0, 2}) {
    ranks.emplace_back([&] {
      alarm(100);
      banyan_comm_t comm = nullptr;
      banyan_comm_init_url(&comm, url.c_str(), 3, rank, nullptr);
      return 0;
    });
  }
  Json json;
  for (int attempt = 0; attempt < 50; ++attempt) {
    const Outcome outcome = run_banyan({"doctor", "--live", url, "--json"});
    if (outcome.exit_code != 1) continue;  // rank 0 has still to come
    json = Json::parse(outcome.out);
    if (json["meeting"]["here"].size() == 2) break;
  }
  EXPECT_EQ(json["meeting"]["size"], 3);
  EXPECT_EQ(json["meeting"]["absent"], Json::array({1}));
  EXPECT_EQ(json["meeting"]["here"][1]["rank"], 2);
  const Outcome outcome = run_banyan({"doctor", "--live", url});
  EXPECT_THAT(outcome.out, HasSubstr("joining    2 of 3 ranks have come to file://"));
  EXPECT_THAT(outcome.out, HasSubstr("rank 2: process " + std::to_string(ranks[1].id()) + " on "));
  EXPECT_THAT(outcome.out, HasSubstr("missing    rank 1"));
  for (const run::Child& rank : ranks) EXPECT_FALSE(rank.has_ended());
}

TEST_F(LiveDoctor, SaysWhoIsDead) {
  const pid_t dead = ranks_[1].id();
  ranks_[1].end();
  Outcome outcome;
  for (int attempt = 0; attempt < 50; ++attempt) {
    outcome = run_banyan({"doctor", "--live", std::to_string(ranks_[0].id())});
    if (outcome.out.find("dead") != std::string::npos) break;
  }
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("rank 1 of the job (process " + std::to_string(dead) + " on "));
}

TEST_F(LiveDoctor, NamesWhatIsNoJob) {
  const run::Child idle([]() -> int {
    for (;;) pause();
  });
  EXPECT_THAT(run_banyan({"doctor", "--live", std::to_string(idle.id())}).err, HasSubstr("joined no job"));
  EXPECT_THAT(run_banyan({"doctor", "--live", "nowhere"}).err, HasSubstr("write host:port or a process id"));
}

}  // namespace
}  // namespace banyan::app
