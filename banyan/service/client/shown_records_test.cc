#include "banyan/service/client/shown_records.h"

#include "banyan/run/system/child.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using State = FakeDaemon::State;

class Shown : public ::testing::Test {
 protected:
  std::shared_ptr<Attachment> attach() {
    const std::lock_guard lock(mutex_);
    if (!attachment_) throw Error(ErrorCode::not_found, "no daemon");
    return attachment_;
  }
  void turn_to(FakeDaemon& daemon) {
    auto attachment = Attachment::to(daemon.url(), pool_, run::Deadline::after(std::chrono::seconds(60)));
    const std::lock_guard lock(mutex_);
    attachment_ = std::move(attachment);
  }
  static run::FileDescriptor memory() { return run::SharedMemory::with_pages(4096).take_file(); }
  static ShowRecord record(const std::string& name) { return {.communicator = 1, .name = name, .rank = 0, .size = 2}; }

  FakeDaemon first_, second_;
  run::RegionPool pool_;
  std::mutex mutex_;  // protects what follows
  std::shared_ptr<Attachment> attachment_;
};

TEST_F(Shown, UntilTheHandleIsGone) {
  turn_to(first_);
  ShownRecords records([this] { return attach(); });
  auto one = records.show(record("one"), memory());
  auto two = records.show(record("two"), memory());
  ASSERT_TRUE(first_.wait_until([](const State& state) { return state.count<ShowRecord>() == 2; }));
  const auto shown = first_.look([](const State& state) { return state.all_heard<ShowRecord>(); });
  EXPECT_NE(shown[0].record, shown[1].record);
  EXPECT_EQ(shown[0].name + shown[1].name, "onetwo");
  one = nullptr;
  ASSERT_TRUE(first_.wait_until([](const State& state) { return state.count<HideRecord>() == 1; }));
  EXPECT_EQ(first_.look([](const State& state) { return state.all_heard<HideRecord>()[0].record; }), shown[0].record);
}

TEST_F(Shown, ToADaemonThatComesLaterAndToTheNextOne) {
  ShownRecords records([this] { return attach(); });
  const auto handle = records.show(record("world"), memory());
  turn_to(first_);
  ASSERT_TRUE(first_.wait_until([](const State& state) { return state.count<ShowRecord>() == 1; }));
  turn_to(second_);
  ASSERT_TRUE(second_.wait_until([](const State& state) { return state.count<ShowRecord>() == 1; }));
  // The first one is let go of.
  EXPECT_TRUE(first_.wait_until([](const State& state) { return state.clients.empty(); }));
}

TEST_F(Shown, HandlesMayOutliveIt) {
  turn_to(first_);
  auto records = std::make_unique<ShownRecords>([this] { return attach(); });
  auto handle = records->show(record("world"), memory());
  ASSERT_TRUE(first_.wait_until([](const State& state) { return state.count<ShowRecord>() == 1; }));
  records = nullptr;
  EXPECT_TRUE(first_.wait_until([](const State& state) { return state.count<HideRecord>() == 1; }));
  handle = nullptr;
}

TEST_F(Shown, NotByAForkedProcess) {
  turn_to(first_);
  auto records = std::make_unique<ShownRecords>([this] { return attach(); });
  auto handle = records->show(record("world"), memory());
  ASSERT_TRUE(first_.wait_until([](const State& state) { return state.count<ShowRecord>() == 1; }));
  run::Child child([&] {
    handle = nullptr;
    records = nullptr;
    return 0;
  });
  EXPECT_EQ(child.reap(), 0);
  EXPECT_EQ(first_.look([](const State& state) { return state.count<HideRecord>(); }), 0u);
  handle = nullptr;
  EXPECT_TRUE(first_.wait_until([](const State& state) { return state.count<HideRecord>() == 1; }));
}

}  // namespace
}  // namespace banyan::service
