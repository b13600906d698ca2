#include "banyan/service/daemon/succession.h"

#include <sys/socket.h>

#include "banyan/run/join/wire.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// The older daemon is this test, which has sent all that it says before the newer one reads.
class PredecessorTest : public ::testing::Test {
 protected:
  PredecessorTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    older_ = run::FileDescriptor(ends[0]);
    newer_.emplace(ends[1]);
  }
  void say_older(uint64_t incarnation) {
    run::WireWriter writer;
    writer.text("older").number(incarnation).number(uint16_t{5000}).number(uint32_t{1}).text("10.0.0.1");
    EXPECT_TRUE(send_parcel(older_.get(), writer.take(), -1));
  }
  void say(run::WireWriter&& writer) { EXPECT_TRUE(send_parcel(older_.get(), writer.take(), -1)); }
  void say_take() { say(std::move(run::WireWriter().text("take").number(uint8_t{1}).number(uint8_t{0}))); }

  run::FileDescriptor older_;
  std::optional<Predecessor> newer_;
};

TEST_F(PredecessorTest, HandsOverItselfAndItsSessions) {
  say_older(7);
  say(std::move(run::WireWriter().text("session").text("job.1").ranks({2})));
  say_take();
  const Inheritance given = newer_->take_over();
  EXPECT_EQ(given.older.daemon.incarnation, 7u);
  EXPECT_THAT(given.older.daemon.addresses, ElementsAre("10.0.0.1"));
  EXPECT_THAT(given.older.sessions, ElementsAre(OpenSessions::Key("job.1", 2)));
  EXPECT_TRUE(given.unlinks_tenants);
  EXPECT_FALSE(given.unlinks_operators);
}

TEST_F(PredecessorTest, IsNotFollowedWhileItHasAnOlderOneItself) {
  say_older(7);
  say_older(6);
  say_take();
  EXPECT_THAT(testing::error_of([&] { newer_->take_over(); }, ErrorCode::unsupported), HasSubstr("upgrade again"));
}

TEST_F(PredecessorTest, HasToSayWhoItIs) {
  say_take();
  EXPECT_THAT(testing::error_of([&] { newer_->take_over(); }, ErrorCode::invalid_input), HasSubstr("who it is"));
}

}  // namespace
}  // namespace banyan::service
