#include "banyan/service/operate/direct_ranks.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "banyan/run/record/recorder.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/service/view/view_budget.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Recorder;

class DirectRanksOfAHost : public ::testing::Test {
 protected:
  // A rank's memory, as its program has it.
  struct Record {
    run::SharedMemory memory = run::SharedMemory::with_pages(Recorder::kMemoryBytes);
    Recorder recorder{{memory.data(), Recorder::kMemoryBytes}};

    run::FileDescriptor file() const { return run::FileDescriptor(fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)); }
  };

  DirectRanks::Program program(uint64_t client) {
    return {.client = client,
            .who = {.host = "a", .process = 100 + static_cast<uint32_t>(client), .program = "train"},
            .tenant = "1000/vgg",
            .account = account_,
            .close = [](run::FileDescriptor) {}};
  }
  void add(const DirectRanks::Program& program, const ShowRecord& show, run::FileDescriptor record) {
    ranks_.add(program, show, record);
    EXPECT_FALSE(record.is_open()) << "it is taken";
  }
  static ShowRecord show(uint32_t rank, uint64_t communicator = 1, uint32_t record = 0) {
    return {.record = record, .communicator = communicator, .name = "world", .rank = rank, .size = 2};
  }

  const std::shared_ptr<TenantAccount> account_ = std::make_shared<TenantAccount>("user 1000", TenantLimits());
  DirectRanks ranks_;
};

TEST_F(DirectRanksOfAHost, OfOneCommunicatorAreOneRow) {
  Record first, second;
  add(program(7), show(1), second.file());
  add(program(5), show(0), first.file());
  first.recorder.begin({.count = 4}).finish();
  second.recorder.begin({.count = 4}).finish();
  second.recorder.begin({.count = 4}).wait_for(0);
  const std::vector<CommunicatorView> views = ranks_.views();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_TRUE(views[0].is_direct);
  EXPECT_EQ(views[0].name, "world");
  EXPECT_EQ(views[0].tenant, "1000/vgg");
  EXPECT_EQ(views[0].size, 2u);
  EXPECT_EQ(views[0].hosts, std::vector<std::string>{"a"});
  ASSERT_EQ(views[0].ranks.size(), 2u);
  EXPECT_EQ(views[0].ranks[0].process, 105u);
  EXPECT_EQ(views[0].ranks[0].calls_begun, 1u);
  EXPECT_EQ(views[0].ranks[1].rank, 1u);
  EXPECT_EQ(views[0].ranks[1].calls_begun, 2u);
  EXPECT_EQ(views[0].ranks[1].calls_over, 1u);
  EXPECT_EQ(views[0].ranks[1].waiting_for, 0u);
}

TEST_F(DirectRanksOfAHost, OfOtherCommunicatorsAreOtherRows) {
  const Record record;
  add(program(5), show(0, 1, 0), record.file());
  add(program(5), show(0, 2, 1), record.file());
  const std::vector<CommunicatorView> views = ranks_.views();
  ASSERT_EQ(views.size(), 2u);
  EXPECT_NE(views[0].id, views[1].id);
}

TEST_F(DirectRanksOfAHost, GoWithTheirRecordAndTheirClient) {
  const Record record;
  add(program(5), show(0, 1, 0), record.file());
  add(program(5), show(0, 2, 1), record.file());
  add(program(6), show(1, 2, 0), record.file());
  EXPECT_EQ(account_->used(Resource::regions), 3u);
  ranks_.remove(5, 0);
  ranks_.remove(5, 77);
  EXPECT_EQ(ranks_.views().size(), 1u);
  ranks_.remove(6);
  ASSERT_EQ(ranks_.views().size(), 1u);
  EXPECT_EQ(ranks_.views()[0].ranks.size(), 1u);
  ranks_.remove(5);
  EXPECT_TRUE(ranks_.views().empty());
  EXPECT_EQ(account_->used(Resource::regions), 0u);
}

TEST_F(DirectRanksOfAHost, WhoseMemoryIsTakenBackAreSeenWithoutCallsAndTheirPagesNotMadeAnew) {
  Record record;
  record.recorder.begin({.count = 4}).finish();
  add(program(5), show(0), record.file());
  ASSERT_EQ(ranks_.views().at(0).ranks.at(0).calls_begun, 1u);
  const auto bytes = static_cast<off_t>(Recorder::kMemoryBytes);
  ASSERT_EQ(fallocate(record.memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes), 0);
  EXPECT_EQ(ranks_.views().at(0).ranks.at(0).calls_begun, 0u);
  struct stat status {};
  ASSERT_EQ(fstat(record.memory.fd(), &status), 0);
  EXPECT_LE(status.st_blocks, 4096 / 512) << "but for what is behind the last whole page";
}

TEST_F(DirectRanksOfAHost, WhoseRecordIsTooShortAreNotSeen) {
  const auto small = run::SharedMemory::with_pages(4096);
  add(program(5), show(0), run::FileDescriptor(fcntl(small.fd(), F_DUPFD_CLOEXEC, 0)));
  EXPECT_TRUE(ranks_.views().empty());
}

// Each is a copy of 64 KiB, of words that its user makes up.
TEST_F(DirectRanksOfAHost, BeyondWhatAUserHasListedAreCountedAndNotLookedAt) {
  constexpr uint32_t kRecords = 2000;
  const Record record;
  for (uint32_t i = 0; i < kRecords; ++i) {
    ShowRecord one = show(0, i, i);
    one.name.assign(1000, '\1');
    add(program(5), one, record.file());
  }
  DirectRanks::Program honest = program(6);
  honest.who.user = 1002;
  add(honest, show(0, kRecords), record.file());
  const auto views = ranks_.views();
  EXPECT_EQ(ranks_.looks(), views.size());
  EXPECT_LE(views.size(), ViewBudget::kMostBytes / 1400) << "a record takes at least as much";
  EXPECT_EQ(ranks_.unlisted().at("0") + views.size(), kRecords + 1);
  EXPECT_EQ(ranks_.unlisted().size(), 1u);
  ranks_.look();
  EXPECT_EQ(ranks_.looks(), 2 * views.size()) << "the same ones";
  ranks_.remove(5);
  EXPECT_EQ(ranks_.views().size(), 1u);
  EXPECT_TRUE(ranks_.unlisted().empty());
}

TEST_F(DirectRanksOfAHost, HaveNamesThatAreShortAndHarmless) {
  const Record record;
  ShowRecord named = show(0);
  named.name.assign(1000, '\x01');
  add(program(5), named, record.file());
  EXPECT_EQ(ranks_.views().at(0).name, std::string(128, '?'));
}

TEST_F(DirectRanksOfAHost, AreRefusedWithWords) {
  const Record record;
  const auto refusal = [&](const ShowRecord& show, run::FileDescriptor file) {
    return testing::error_of([&] { ranks_.add(program(5), show, file); }, ErrorCode::invalid_input);
  };
  EXPECT_THAT(refusal(show(2), record.file()), HasSubstr("rank 2 of 2"));
  ShowRecord named = show(0);
  named.tenant.assign(2000, 'x');
  EXPECT_THAT(refusal(named, record.file()), HasSubstr("a tenant's name of 2000 bytes"));
  named.tenant = "v\x01gg";
  EXPECT_THAT(refusal(named, record.file()), HasSubstr("a tenant's name with characters that cannot be shown: 'v?gg'"));
  EXPECT_THAT(refusal(show(0), run::FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC))),
              HasSubstr("no memory of memfd_create"));
  add(program(5), show(0), record.file());
  EXPECT_THAT(refusal(show(0), record.file()), HasSubstr("two records of number 0"));
  EXPECT_EQ(account_->used(Resource::regions), 1u);
}

}  // namespace
}  // namespace banyan::service
