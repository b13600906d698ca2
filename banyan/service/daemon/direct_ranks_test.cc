#include "banyan/service/daemon/direct_ranks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "banyan/run/record/recorder.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/thrown.h"

namespace banyan::service {
namespace {

using run::Recorder;
using testing::error_of;
using ::testing::HasSubstr;

class DirectRanksOfAHost : public ::testing::Test {
 protected:
  // A rank's memory, as its program has it.
  struct Record {
    run::SharedMemory memory = run::SharedMemory::with_pages(Recorder::kMemoryBytes);
    Recorder recorder{{memory.data(), Recorder::kMemoryBytes}};

    run::FileDescriptor file() const { return run::FileDescriptor(fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)); }
    SealedMemory shown() const { return {file(), Recorder::kMemoryBytes}; }
  };

  DirectRanks::Program program(uint64_t client) {
    return {.client = client,
            .who = {.host = "a", .process = 100 + static_cast<uint32_t>(client), .program = "train"},
            .tenant = "1000/vgg",
            .account = account_,
            .later = [](const std::function<void()>& task) { task(); }};
  }
  static ShowRecord show(uint32_t rank, uint64_t communicator = 1, uint32_t record = 0) {
    return {.record = record, .communicator = communicator, .name = "world", .rank = rank, .size = 2};
  }

  const std::shared_ptr<TenantAccount> account_ = std::make_shared<TenantAccount>(1000, TenantLimits());
  DirectRanks ranks_;
};

TEST_F(DirectRanksOfAHost, OfOneCommunicatorAreOneRow) {
  Record first, second;
  ranks_.add(program(7), show(1), second.shown());
  ranks_.add(program(5), show(0), first.shown());
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
  ranks_.add(program(5), show(0, 1, 0), record.shown());
  ranks_.add(program(5), show(0, 2, 1), record.shown());
  const std::vector<CommunicatorView> views = ranks_.views();
  ASSERT_EQ(views.size(), 2u);
  EXPECT_NE(views[0].id, views[1].id);
}

TEST_F(DirectRanksOfAHost, GoWithTheirRecordAndTheirClient) {
  const Record record;
  ranks_.add(program(5), show(0, 1, 0), record.shown());
  ranks_.add(program(5), show(0, 2, 1), record.shown());
  ranks_.add(program(6), show(1, 2, 0), record.shown());
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
  EXPECT_EQ(account_->used(Resource::region_bytes), 0u);
}

TEST_F(DirectRanksOfAHost, WhoseMemoryIsTakenBackAreNotSeen) {
  const Record record;
  ranks_.add(program(5), show(0), record.shown());
  ASSERT_EQ(fallocate(record.memory.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
  EXPECT_TRUE(ranks_.views().empty());
}

TEST_F(DirectRanksOfAHost, AreRefusedWithWords) {
  const Record record;
  const auto refusal = [&](const ShowRecord& show, const run::FileDescriptor& file) {
    return error_of([&] { ranks_.add(program(5), show, {file, Recorder::kMemoryBytes}); }, ErrorCode::invalid_input);
  };
  EXPECT_THAT(refusal(show(2), record.file()), HasSubstr("rank 2 of 2"));
  ShowRecord named = show(0);
  named.name.assign(2000, 'x');
  EXPECT_THAT(refusal(named, record.file()), HasSubstr("a name of 2000 bytes"));
  const auto large = run::SharedMemory::with_pages(1 << 20);
  EXPECT_THAT(refusal(show(0), run::FileDescriptor(fcntl(large.fd(), F_DUPFD_CLOEXEC, 0))),
              HasSubstr("has to be offered whole"));
  const auto small = run::SharedMemory::with_pages(4096);
  EXPECT_THAT(refusal(show(0), run::FileDescriptor(fcntl(small.fd(), F_DUPFD_CLOEXEC, 0))),
              HasSubstr("only 4096 bytes long"));
  EXPECT_THAT(refusal(show(0), run::FileDescriptor(open("/dev/null", O_RDWR | O_CLOEXEC))),
              HasSubstr("no memory of memfd_create"));
  ranks_.add(program(5), show(0), record.shown());
  EXPECT_THAT(refusal(show(0), record.file()), HasSubstr("two records of number 0"));
  EXPECT_EQ(account_->used(Resource::regions), 1u);
}

}  // namespace
}  // namespace banyan::service
