#include "banyan/service/daemon/peer_cards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/system/reactor.h"

namespace banyan::service {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

constexpr uint64_t kCommunicator = 1;

class FakeDirectory : public HostDirectory {
 public:
  void publish(const HostCard& card) override { cards_[card.host] = card; }
  std::optional<HostCard> find(const std::string& host) override {
    ++questions;
    if (fails) throw Error(ErrorCode::io, "no answer");
    const auto found = cards_.find(host);
    return found == cards_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<HostCard> cards() override { return {}; }

  int questions = 0;
  bool fails = false;

 private:
  std::map<std::string, HostCard> cards_;
};

class PeerCardsTest : public ::testing::Test {
 protected:
  static HostCard card(uint64_t incarnation, uint16_t port = 1) {
    return {.host = "b", .incarnation = incarnation, .name = "b", .addresses = {"127.0.0.1"}, .port = port};
  }
  void lead_from(const HostCard& old, const std::function<HostCard(uint16_t port)>& later);
  uint64_t looked_at() { return cards_.look("b").value_or(HostCard()).incarnation; }

  FakeDirectory directory_;
  PeerCards::Clock::time_point now_;
  std::vector<uint64_t> found_;
  PeerCards cards_{directory_, [this](const HostCard& card) { found_.push_back(card.incarnation); },
                   [this] { return now_; }};
};

TEST_F(PeerCardsTest, AskSeldom) {
  directory_.publish(card(1));
  EXPECT_EQ(looked_at(), 1u);
  directory_.publish(card(2));
  EXPECT_EQ(looked_at(), 1u);
  EXPECT_EQ(directory_.questions, 1);
  now_ += PeerCards::kPause;
  EXPECT_EQ(looked_at(), 2u);
  EXPECT_THAT(found_, ElementsAre(1u, 2u));
}

TEST_F(PeerCardsTest, AskADirectoryThatFailsStillMoreSeldom) {
  directory_.publish(card(1));
  looked_at();
  directory_.fails = true;
  now_ += PeerCards::kPause;
  EXPECT_EQ(looked_at(), 1u) << "what was known";
  now_ += PeerCards::kPause;
  EXPECT_EQ(looked_at(), 1u);
  EXPECT_EQ(directory_.questions, 2);
  directory_.fails = false;
  now_ += PeerCards::kLongPause;
  EXPECT_EQ(looked_at(), 1u);
  EXPECT_EQ(directory_.questions, 3);
}

TEST_F(PeerCardsTest, KnowNothingOfAHostThatNeverCame) { EXPECT_EQ(cards_.look("c"), std::nullopt); }

// A session that was opened with the card `old` calls; once it was refused, the card is found that `later` gives for
// the port at which somebody takes it.
void PeerCardsTest::lead_from(const HostCard& old, const std::function<HostCard(uint16_t port)>& later) {
  run::Reactor reactor;
  run::OutgoingConnects connects(reactor, run::Secret(), milliseconds(10'000));
  run::Listener listener = run::Listener::on("127.0.0.1");
  const uint16_t port = listener.port();
  run::Acceptor acceptor(reactor, std::move(listener), run::Secret(), run::Acceptor::Options{},
                         [](const run::Greeting&, run::Admitted&) { return std::nullopt; });
  const HostCard own{.host = "a", .incarnation = 7, .name = "a", .addresses = {"127.0.0.1"}, .port = 1};
  OpenSession open;
  open.members = {0, 1};
  open.hosts = {"a", "b"};
  open.host_of_rank = {0, 1};
  SessionLanes lanes(reactor, connects, "job.1", {target_at(own), target_at(old)}, [] { return false; });
  PeerCards cards(directory_, [](const HostCard&) {});
  cards.follow(lanes, open, {own, old});
  const auto answers = std::make_shared<run::AnswerQueue>();
  lanes.connections().open(
      {.communicator = kCommunicator, .members = {0, 1}, .own = 0, .at_most = milliseconds(60'000)}, answers);
  directory_.publish(old);
  lanes.connections().request(kCommunicator, 1, 0, {});
  std::vector<run::Connector::Answer> got;
  const auto look = [&](const auto& again) -> void {
    // It was refused at least once by now.
    if (directory_.questions > 0) directory_.publish(later(port));
    got = answers->take();
    if (!got.empty()) return reactor.stop();
    reactor.after(milliseconds(5), [&again] { again(again); });
  };
  reactor.after(milliseconds(5), [&look] { look(look); });
  reactor.run([](const Error& error) { FAIL() << error.what(); });
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].peer, 1u);
  EXPECT_TRUE(got[0].socket.is_open());
  lanes.connections().close(kCommunicator);
}

// A session was opened with the card of a daemon that is no more. Nobody listens at port 1.
TEST_F(PeerCardsTest, LeadLanesToTheDaemonThatHasCome) {
  lead_from(card(1), [](uint16_t port) { return card(2, port); });
}

TEST_F(PeerCardsTest, LeadLanesToAnOlderDaemonWhereTheNewestDoesNotTakeThem) {
  lead_from(card(2), [](uint16_t port) {
    HostCard both = card(2);
    both.older.push_back({.incarnation = 1, .addresses = both.addresses, .port = port});
    return both;
  });
}

}  // namespace
}  // namespace banyan::service
