#include "banyan/service/daemon/user_names.h"

#include <unistd.h>

#include <deque>
#include <future>

#include "banyan/run/system/reactor.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// The system answers when the test says so, whenever that is.
class UserNamesTest : public ::testing::Test {
 protected:
  ~UserNamesTest() override {
    reactor_.stop();
    thread_.join();
  }
  // On the thread of the names.
  template <typename Body>
  auto there(Body body) {
    std::packaged_task<decltype(body())()> task(std::move(body));
    auto result = task.get_future();
    reactor_.mailbox()->post([&task] { task(); });
    return result.get();
  }
  void ask(const auto& who, std::function<void()> then) {
    there([&] { names_.ask(who, std::move(then)); });
  }
  bool knows(const auto& who) {
    return there([&] { return names_.knows(who); });
  }
  void let_the_system_answer() {
    for (; !asked_.empty(); asked_.pop_front()) asked_.front()();
    there([] {});
    there([] {});  // those who wait have tasks of their own
  }

  run::Reactor reactor_;
  std::deque<std::function<void()>> asked_;
  bool has_threads_ = true;
  UserNames::Clock::time_point now_{};
  std::map<uint32_t, std::string> users_ = {{1000, "alice"}, {1001, "bob"}};
  UserNames names_{{.mailbox = reactor_.mailbox(),
                    .elsewhere =
                        [this](std::function<void()> task) {
                          if (has_threads_) asked_.push_back(std::move(task));
                          return has_threads_;
                        },
                    .now = [this] { return now_; },
                    .name_of = [this](uint32_t user) -> std::optional<std::string> {
                      const auto found = users_.find(user);
                      return found == users_.end() ? std::nullopt : std::optional(found->second);
                    },
                    .number_of = [this](const std::string& name) -> std::optional<uint32_t> {
                      for (const auto& [number, each] : users_) {
                        if (each == name) return number;
                      }
                      return std::nullopt;
                    }}};
  std::vector<std::string> failures_;
  std::thread thread_{[this] { reactor_.run([this](const Error& error) { failures_.push_back(error.message()); }); }};
};

TEST_F(UserNamesTest, AreWaitedForByThoseWhoNeedThem) {
  int called = 0;
  EXPECT_FALSE(knows(1000u));
  ask(1000u, [&] { ++called; });
  ask(1000u, [&] { ++called; });
  ask(std::string("bob"), [&] { ++called; });
  EXPECT_EQ(asked_.size(), 2u) << "about each user once";
  EXPECT_EQ(called, 0);
  EXPECT_EQ(names_.name_of(1000), "1000");
  let_the_system_answer();
  EXPECT_EQ(called, 3);
  EXPECT_EQ(names_.name_of(1000), "alice");
  EXPECT_EQ(names_.number_of("bob"), 1001u);
  ask(1000u, [&] { ++called; });
  EXPECT_EQ(called, 4) << "at once";
  EXPECT_TRUE(asked_.empty());
}

TEST_F(UserNamesTest, OfNobodyAreTheNumber) {
  ask(4000u, [] {});
  ask(std::string("nobody-here"), [] {});
  let_the_system_answer();
  EXPECT_TRUE(knows(4000u));
  EXPECT_EQ(names_.name_of(4000), "4000");
  EXPECT_EQ(names_.number_of("nobody-here"), std::nullopt);
}

TEST_F(UserNamesTest, AreAskedForAgainAndHoldMeanwhile) {
  ask(1000u, [] {});
  let_the_system_answer();
  users_[1000] = "alicia";
  now_ += UserNames::kFresh - seconds(1);
  EXPECT_TRUE(knows(1000u));
  EXPECT_TRUE(asked_.empty());
  now_ += seconds(1);
  EXPECT_TRUE(knows(1000u));
  EXPECT_TRUE(knows(1000u));
  EXPECT_EQ(asked_.size(), 1u);
  EXPECT_EQ(names_.name_of(1000), "alice");
  let_the_system_answer();
  EXPECT_EQ(names_.name_of(1000), "alicia");
}

TEST_F(UserNamesTest, AreForgottenWhereThereAreTooMany) {
  ask(1000u, [] {});
  let_the_system_answer();
  int called = 0;
  for (uint32_t i = 0; i < UserNames::kMost; ++i) ask(1'000'000 + i, [&] { ++called; });
  EXPECT_FALSE(knows(1000u));
  let_the_system_answer();
  EXPECT_EQ(called, static_cast<int>(UserNames::kMost)) << "who waits is not forgotten";
}

// What one of them throws is the reactor's to tell.
TEST_F(UserNamesTest, AreToldToAllWhoWaitThoughOneThrows) {
  bool is_called = false;
  ask(1000u, [] { throw Error(ErrorCode::io, "meant"); });
  ask(1000u, [&] { is_called = true; });
  let_the_system_answer();
  EXPECT_TRUE(is_called);
  there([] {});  // the reactor tells of a failure when it has done all tasks that had come
  EXPECT_EQ(failures_, std::vector<std::string>{"meant"});
}

TEST_F(UserNamesTest, AreNumbersWhereNobodyCanBeAsked) {
  has_threads_ = false;
  bool is_called = false;
  ask(1000u, [&] { is_called = true; });
  let_the_system_answer();
  EXPECT_TRUE(is_called);
  EXPECT_EQ(names_.name_of(1000), "1000");
}

TEST(UserNames, AreThoseOfTheSystem) {
  const std::optional<std::string> own = UserNames::system_name_of(0);
  EXPECT_EQ(own, "root");
  EXPECT_EQ(UserNames::system_number_of("root"), 0u);
  EXPECT_EQ(UserNames::system_name_of(4'000'000'000), std::nullopt);
  EXPECT_EQ(UserNames::system_number_of("nobody-of-this-name"), std::nullopt);
}

}  // namespace
}  // namespace banyan::service
