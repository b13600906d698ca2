#include "banyan/service/client/service_link.h"

#include <stdlib.h>

#include "banyan/run/system/child.h"
#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ServiceState = FakeDaemon::State;

// A place at which one daemon after the other listens.
class ServiceLinks : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  ServiceLinks() { listen(first_); }

  std::string url() const { return "unix:" + folder_ + "/socket"; }
  void listen(const FakeDaemon& daemon) const {
    std::filesystem::remove(folder_ + "/socket");
    std::filesystem::create_symlink(daemon.path(), folder_ + "/socket");
  }
  static void wait_until_gone(const Attachment& attachment) {
    while (!attachment.has_gone()) std::this_thread::sleep_for(milliseconds(1));
  }

  FakeDaemon first_, second_;
  run::RegionPool pool_;
};

TEST_F(ServiceLinks, HaveOneAttachmentAsLongAsTheDaemonLives) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  const auto attachment = link.attachment(run::Deadline::after(seconds(60)));
  EXPECT_EQ(link.attachment(run::Deadline::after(seconds(60))), attachment);
  EXPECT_EQ(link.host(), "node7");
}

TEST_F(ServiceLinks, NeedADaemonAtFirst) {
  first_.die();
  EXPECT_EQ(
      testing::error_of([&] { ServiceLink(url(), pool_, run::Deadline::after(seconds(60))); }, ErrorCode::not_found),
      "no service listens at " + url());
}

TEST_F(ServiceLinks, WaitForTheNextDaemon) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  const auto before = link.attachment(run::Deadline::after(seconds(60)));
  first_.die();
  wait_until_gone(*before);
  std::thread later([&] {
    std::this_thread::sleep_for(milliseconds(50));
    listen(second_);
  });
  const auto after = link.attachment(run::Deadline::after(seconds(60)));
  later.join();
  EXPECT_NE(after, before);
  EXPECT_FALSE(after->has_gone());
  EXPECT_NE(after->allocate(100).data, nullptr);
  EXPECT_EQ(link.attachment(run::Deadline::after(seconds(60))), after);
}

TEST_F(ServiceLinks, SayThatNoneHasComeBack) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  const auto before = link.attachment(run::Deadline::after(seconds(60)));
  first_.die();
  wait_until_gone(*before);
  EXPECT_EQ(testing::error_of([&] { link.attachment(run::Deadline::after(milliseconds(30))); }, ErrorCode::timed_out),
            "the service has gone (" + url() + "), and has not come back within 30 ms");
}

TEST_F(ServiceLinks, RefuseADaemonOfAnotherHost) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  const auto before = link.attachment(run::Deadline::after(seconds(60)));
  EXPECT_TRUE(link.is_usable());
  first_.die();
  wait_until_gone(*before);
  second_.look([](ServiceState& state) { state.welcome.host = "node8"; });
  listen(second_);
  EXPECT_EQ(testing::error_of([&] { link.attachment(run::Deadline::after(seconds(60))); }, ErrorCode::mismatch),
            "the service at " + url() +
                " has come back as that of host 'node8', and was that of 'node7': the processes of the job have to "
                "join anew");
  EXPECT_FALSE(link.is_usable());
}

TEST_F(ServiceLinks, GiveEachJobACapabilityOfItsOwn) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  const Capability first = link.new_capability(), second = link.new_capability();
  EXPECT_EQ(first, (Capability{1, 2, 0xab}));
  EXPECT_NE(second, first);
  EXPECT_NE(link.new_capability(), second);
}

TEST_F(ServiceLinks, AreOfNoUseToAForkedProcess) {
  ServiceLink link(url(), pool_, run::Deadline::after(seconds(60)));
  run::Child child([&] {
    const std::string said =
        testing::error_of([&] { link.attachment(run::Deadline::after(seconds(60))); }, ErrorCode::unsupported);
    return !link.is_usable() && said.find("it has to join anew") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace banyan::service
