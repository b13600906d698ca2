#include "banyan/service/cluster/card_cache.h"

#include <condition_variable>
#include <mutex>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ::testing::Pair;

HostCard card_of(const std::string& host, uint16_t port) {
  return {.host = host, .incarnation = port, .name = host, .addresses = {"127.0.0.1"}, .port = port};
}

// What a directory knows and how it feels; shared with the thread of a cache.
struct Shared {
  std::mutex mutex;  // protects what follows
  std::condition_variable changed;
  std::map<std::string, HostCard> known;
  std::map<std::string, std::string> unread;
  std::vector<std::string> questions;  // "a": for this host; "all"; "put a"
  bool answers = true, is_stuck = false;

  template <typename Change>
  void set(Change change) {
    const std::lock_guard lock(mutex);
    change();
    changed.notify_all();
  }
};

class Moody : public HostDirectory {
 public:
  explicit Moody(Shared& shared) : shared_(shared) {}
  void publish(const HostCard& card) override {
    const auto lock = asked("put " + card.host);
    shared_.known[card.host] = card;
  }
  std::optional<HostCard> find(const std::string& host) override {
    const auto lock = asked(host);
    if (shared_.unread.contains(host)) throw Error(ErrorCode::invalid_input, shared_.unread[host]);
    const auto found = shared_.known.find(host);
    return found == shared_.known.end() ? std::nullopt : std::optional(found->second);
  }
  HostCards cards() override {
    const auto lock = asked("all");
    HostCards all{.cards = {}, .unread = shared_.unread};
    for (const auto& [host, card] : shared_.known) {
      if (!shared_.unread.contains(host)) all.cards.push_back(card);
    }
    return all;
  }

 private:
  std::unique_lock<std::mutex> asked(const std::string& question) {
    std::unique_lock lock(shared_.mutex);
    shared_.questions.push_back(question);
    shared_.changed.notify_all();
    shared_.changed.wait(lock, [this] { return !shared_.is_stuck; });
    if (!shared_.answers) throw Error(ErrorCode::io, "it is away");
    return lock;
  }
  Shared& shared_;
};

class CardCacheTest : public ::testing::Test {
 protected:
  ~CardCacheTest() override {
    shared_.set([this] { shared_.is_stuck = false; });
  }
  // Runs until these hosts have been looked for; returns how long that took.
  milliseconds look(const std::vector<std::string>& hosts) {
    const auto begin = reactor_.now();
    cache_->look(hosts, [this] { reactor_.stop(); });
    run();
    return std::chrono::duration_cast<milliseconds>(reactor_.now() - begin);
  }
  void run() {
    reactor_.run([](const Error& error) { FAIL() << error.what(); });
  }
  // A reactor ends once.
  void run_for(milliseconds time, const std::function<void()>& task) {
    reactor_.after(time, [this, task] {
      task();
      reactor_.stop();
    });
    run();
  }
  uint16_t port_of(const std::string& host) const {
    const HostCard* const card = cache_->find(host);
    return card == nullptr ? 0 : card->port;
  }
  std::vector<std::string> take_questions() {
    const std::lock_guard lock(shared_.mutex);
    return std::exchange(shared_.questions, {});
  }

  Shared shared_;
  std::vector<std::string> notes_;
  std::vector<uint16_t> found_;
  run::Reactor reactor_;
  std::optional<CardCache> cache_{
      std::in_place, reactor_, std::make_unique<Moody>(shared_), "etcd",
      CardCache::Hooks{.found = [this](const HostCard& card) { found_.push_back(card.port); },
                       .record = [this](const std::string& words) { notes_.push_back(words); }}};
};

TEST_F(CardCacheTest, KnowsWhatThereIsFromTheBeginning) {
  shared_.known["b"] = card_of("b", 2);
  cache_->begin(card_of("a", 1));
  EXPECT_EQ(port_of("a"), 1);
  EXPECT_EQ(port_of("b"), 2);
  EXPECT_EQ(port_of("c"), 0);
  EXPECT_THAT(take_questions(), ElementsAre("put a", "all"));
  EXPECT_THAT(found_, ElementsAre(1, 2));
}

// However many wishes come, and hosts.
TEST_F(CardCacheTest, AsksOneQuestionForAllWhoWait) {
  cache_->begin(card_of("a", 1));
  take_questions();
  shared_.set([this] { shared_.is_stuck = true; });
  int called = 0;
  cache_->look({"b"}, [&] { ++called; });
  std::vector<std::string> hosts;
  for (int i = 0; i < 4000; ++i) hosts.push_back("host " + std::to_string(i));
  for (int i = 0; i < 100; ++i) cache_->look(hosts, [&] { ++called; });
  EXPECT_EQ(called, 0) << "it does not wait";
  shared_.set([this] { shared_.is_stuck = false; });
  run_for(milliseconds(200), [] {});
  EXPECT_EQ(called, 101);
  EXPECT_THAT(take_questions(), ElementsAre("b", "all"));
}

TEST_F(CardCacheTest, SaysHowThingsWereLastWhileTheDirectoryIsAway) {
  shared_.known["b"] = card_of("b", 2);
  cache_->begin(card_of("a", 1));
  shared_.set([this] { shared_.answers = false; });
  std::vector<std::pair<std::string, std::string>> seen;
  const auto look_and = [&](const auto& then) {
    cache_->look({"b", "c"}, [&, then] {
      seen.emplace_back(std::to_string(port_of("b")), cache_->trouble());
      then();
    });
  };
  look_and([&] {
    shared_.set([this] {
      shared_.answers = true;
      shared_.known["b"] = card_of("b", 7);
    });
    // At first it is believed to be away still.
    look_and([&] { reactor_.after(milliseconds(100), [&] { look_and([&] { reactor_.stop(); }); }); });
  });
  run();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_THAT(seen.front(), Pair("2", HasSubstr("etcd does not answer; hosts are taken to be where they were last")));
  EXPECT_THAT(seen.front().second, HasSubstr("it is away"));
  EXPECT_THAT(seen.back(), Pair("7", ""));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("etcd does not answer"), "etcd answers again"));
}

TEST_F(CardCacheTest, LetsNobodyWaitForADirectoryThatHangs) {
  cache_->begin(card_of("a", 1));
  shared_.set([this] { shared_.is_stuck = true; });
  EXPECT_LT(look({"b"}), 2 * CardCache::kPatience);
  EXPECT_THAT(cache_->trouble(), HasSubstr("more than a second"));
}

TEST_F(CardCacheTest, ForgetsWhoHasGone) {
  shared_.known["b"] = card_of("b", 2);
  cache_->begin(card_of("a", 1));
  shared_.set([this] { shared_.known.erase("b"); });
  look({"b"});
  EXPECT_EQ(port_of("b"), 0);
}

TEST_F(CardCacheTest, NamesCardsThatCannotBeReadOnce) {
  shared_.known["b"] = card_of("b", 2);
  shared_.unread["c"] = "garbage";
  cache_->begin(card_of("a", 1));
  EXPECT_EQ(port_of("b"), 2) << "the others are there";
  EXPECT_THAT(cache_->unread(), ElementsAre(Pair("c", "garbage")));
  cache_->look({}, [this] { cache_->look({"c"}, [this] { reactor_.stop(); }); });
  run();
  EXPECT_THAT(notes_, ElementsAre("the card of host 'c' cannot be read: garbage"));
}

// As whoever writes to the directory may make up.
TEST_F(CardCacheTest, NamesManyCardsThatCannotBeReadInOneLine) {
  for (int i = 0; i < 60'000; ++i) shared_.unread["host " + std::to_string(100'000 + i)] = "garbage";
  cache_->begin(card_of("a", 1));
  EXPECT_EQ(cache_->unread().size(), 60'000u);
  shared_.set([this] { shared_.unread["late"] = "rubbish"; });
  look({});
  EXPECT_THAT(notes_, ElementsAre("the card of host 'host 100000' cannot be read: garbage (and 59,999 other cards)",
                                  "the card of host 'late' cannot be read: rubbish"));
}

// A daemon that starts before its directory.
TEST_F(CardCacheTest, PublishesOnceTheDirectoryIsThere) {
  shared_.answers = false;
  cache_->begin(card_of("a", 1));
  EXPECT_EQ(port_of("a"), 1);
  EXPECT_NE(cache_->trouble(), "");
  shared_.set([this] { shared_.answers = true; });
  run_for(CardCache::kAgain + milliseconds(500), [this] {
    const std::lock_guard lock(shared_.mutex);
    EXPECT_EQ(shared_.known.count("a"), 1u);
  });
  EXPECT_EQ(cache_->trouble(), "");
}

TEST_F(CardCacheTest, LooksAgainOnlyWhenALookIsOld) {
  cache_->begin(card_of("a", 1));
  take_questions();
  int called = 0;
  cache_->look_if_old([&] { ++called; });
  cache_->look({}, [&] {
    cache_->look_if_old([&] { ++called; });
    EXPECT_EQ(called, 2) << "at once";
    reactor_.stop();
  });
  run();
  EXPECT_THAT(take_questions(), ElementsAre("all"));
}

TEST(DirectoryNames, AreForPeople) {
  EXPECT_EQ(name_of_directory("etcd://node1:2379/banyan"), "etcd");
  EXPECT_EQ(name_of_directory("etcds://node1:2379/banyan"), "etcd");
  EXPECT_EQ(name_of_directory("file:///shared/banyan"), "the folder /shared/banyan");
}

}  // namespace
}  // namespace banyan::service
