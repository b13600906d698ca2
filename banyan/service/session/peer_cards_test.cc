#include "banyan/service/session/peer_cards.h"

#include <mutex>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr uint64_t kCommunicator = 1;

// Shared with the thread of a cache.
struct Published {
  void put(const HostCard& card) {
    const std::lock_guard lock(mutex);
    cards.insert_or_assign(card.host, card);
  }
  std::mutex mutex;
  std::map<std::string, HostCard> cards;
  int questions = 0;
};

class FakeDirectory : public HostDirectory {
 public:
  explicit FakeDirectory(Published& published) : published_(published) {}
  void publish(const HostCard& card) override { published_.put(card); }
  std::optional<HostCard> find(const std::string& host) override {
    const std::lock_guard lock(published_.mutex);
    ++published_.questions;
    const auto found = published_.cards.find(host);
    return found == published_.cards.end() ? std::nullopt : std::optional(found->second);
  }
  HostCards cards() override { return {}; }

 private:
  Published& published_;
};

HostCard card(uint64_t incarnation, uint16_t port = 1) {
  return {.host = "b", .incarnation = incarnation, .name = "b", .addresses = {"127.0.0.1"}, .port = port};
}

// A session that was opened with the card `old` calls; once it was refused, the card is found that `later` gives for
// the port at which somebody takes it.
void lead_from(const HostCard& old, const std::function<HostCard(uint16_t port)>& later) {
  run::Reactor reactor;
  run::OutgoingConnects connects(reactor, run::Secret(), "a", milliseconds(10'000));
  run::Listener listener = run::Listener::on("127.0.0.1");
  const uint16_t port = listener.port();
  run::Acceptor acceptor(reactor, std::move(listener), run::Secret(), "b", run::Acceptor::Options{},
                         [](const run::Greeting&, run::Admitted&) { return std::nullopt; });
  const HostCard own{.host = "a", .incarnation = 7, .name = "a", .addresses = {"127.0.0.1"}, .port = 1};
  OpenSession open;
  open.members = {0, 1};
  open.hosts = {"a", "b"};
  open.host_of_rank = {0, 1};
  Published published;
  CardCache cache(reactor, std::make_unique<FakeDirectory>(published), "a fake",
                  {.found = [](const HostCard&) {}, .record = [](const std::string&) {}});
  const auto lanes = std::make_shared<SessionLanes>(reactor, connects, "job.1",
                                                    std::vector<run::ConnectTarget>{target_at(own), target_at(old)},
                                                    [] { return false; });
  follow_daemons(cache, lanes, open, {own, old});
  const auto answers = std::make_shared<run::AnswerQueue>();
  lanes->connections().open(
      {.communicator = kCommunicator, .members = {0, 1}, .own = 0, .at_most = milliseconds(60'000)}, answers);
  published.put(old);
  lanes->connections().request(kCommunicator, 1, 0, {});
  std::vector<run::Connector::Answer> got;
  const auto was_refused = [&] {
    const std::lock_guard lock(published.mutex);
    return published.questions > 0;
  };
  const auto look = [&](const auto& again) -> void {
    if (was_refused()) published.put(later(port));
    got = answers->take();
    if (!got.empty()) return reactor.stop();
    reactor.after(milliseconds(5), [&again] { again(again); });
  };
  reactor.after(milliseconds(5), [&look] { look(look); });
  reactor.run([](const Error& error) { FAIL() << error.what(); });
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].peer, 1u);
  EXPECT_TRUE(got[0].socket.is_open());
  lanes->connections().close(kCommunicator);
}

// A session was opened with the card of a daemon that is no more. Nobody listens at port 1.
TEST(PeerCards, LeadLanesToTheDaemonThatHasCome) {
  lead_from(card(1), [](uint16_t port) { return card(2, port); });
}

TEST(PeerCards, LeadLanesToAnOlderDaemonWhereTheNewestDoesNotTakeThem) {
  lead_from(card(2), [](uint16_t port) {
    HostCard both = card(2);
    both.older.push_back({.incarnation = 1, .addresses = both.addresses, .port = port});
    return both;
  });
}

}  // namespace
}  // namespace banyan::service
