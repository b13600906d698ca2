#include "banyan/service/session/client_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include "banyan/base/check.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using std::chrono::nanoseconds;

class ClientConnectionTest : public ::testing::Test {
 protected:
  ClientConnectionTest() {
    std::array<int, 2> ends{};
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0) << "socketpair";
    client_ = run::FileDescriptor(ends[0]);
    run::FileDescriptor own(ends[1]);
    ClientProcess process = process_of(own);
    connection_.emplace(reactor_, std::move(own), std::move(process),
                        ClientConnection::Hooks{.received =
                                                    [this](const ClientMessage&, std::optional<run::FileDescriptor>&) {
                                                      if (++heard_ == ends_after_) connection_->end();
                                                    },
                                                .gone = [this](const std::string& why) { gone_ = why; },
                                                .pause = [this] { return pause_; },
                                                .close = [this](run::FileDescriptor) { ++closed_; }});
  }
  void offer(size_t times) {
    for (size_t i = 0; i < times; ++i) {
      ASSERT_TRUE(send_parcel(client_.get(), encode(ClientMessage(OfferRegion{.wish = i, .bytes = 1}))));
    }
  }
  void run_for(milliseconds time) {
    reactor_.after(time, [this] { reactor_.stop(); });
    reactor_.run([](const Error& error) { FAIL() << error.what(); });
  }

  run::Reactor reactor_;
  run::FileDescriptor client_;
  nanoseconds pause_{0};
  size_t heard_ = 0, ends_after_ = SIZE_MAX, closed_ = 0;
  std::string gone_;
  std::optional<ClientConnection> connection_;
};

TEST(ClientProcess, IsKnownByItsNumberOnlyWhereItIsOfTheUserWhoConnected) {
  EXPECT_TRUE(watched_by_number(getpid(), geteuid()).is_open());
  EXPECT_EQ(testing::error_of([] { watched_by_number(getpid(), geteuid() + 1); }, ErrorCode::peer_lost),
            "its process has ended");
  run::Child child([] { return 0; });
  const pid_t gone = child.id();
  child.reap();
  EXPECT_EQ(testing::error_of([&] { watched_by_number(gone, geteuid()); }, ErrorCode::peer_lost),
            "its process has ended");
}

// By what it hears itself, as a daemon that drops a client does.
TEST_F(ClientConnectionTest, HearsNothingOnceItIsEnded) {
  ends_after_ = 3;
  offer(10);
  run_for(milliseconds(50));
  EXPECT_EQ(heard_, 3u);
  EXPECT_EQ(gone_, "");
  EXPECT_FALSE(connection_->end());
}

TEST_F(ClientConnectionTest, HearsNoMoreWishesThanItMayOweAnswers) {
  offer(100);
  reactor_.after(milliseconds(50), [this] {
    EXPECT_EQ(heard_, 64u);
    for (uint64_t wish = 0; wish < 10; ++wish) connection_->send(RegionPlaced{.wish = wish, .place = {}});
  });
  run_for(milliseconds(100));
  EXPECT_EQ(heard_, 74u);
  EXPECT_EQ(gone_, "");
}

TEST_F(ClientConnectionTest, LeavesUnreadWhatComesInAPause) {
  pause_ = milliseconds(20);
  offer(3);
  reactor_.after(milliseconds(5), [this] {
    EXPECT_EQ(heard_, 0u);
    pause_ = nanoseconds(0);
  });
  run_for(milliseconds(200));
  EXPECT_EQ(heard_, 3u);
}

TEST_F(ClientConnectionTest, NoticesInAPauseThatTheClientHasGone) {
  pause_ = std::chrono::hours(1);
  offer(1);
  reactor_.after(milliseconds(20), [this] { client_.reset(); });
  run_for(milliseconds(100));
  EXPECT_EQ(gone_, "the other side has gone");
  EXPECT_EQ(heard_, 0u);
}

TEST_F(ClientConnectionTest, LeavesDescriptorsThatNobodyTakesAndItsSocketToTheCloser) {
  ASSERT_TRUE(send_parcel(client_.get(), encode(ClientMessage(OfferRegion{.wish = 1, .bytes = 1})), client_.get()));
  run_for(milliseconds(50));
  EXPECT_EQ(closed_, 1u);
  connection_.reset();
  EXPECT_EQ(closed_, 2u);
}

}  // namespace
}  // namespace banyan::service
