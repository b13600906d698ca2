#include "banyan/service/session/early_box.h"

#include <sys/socket.h>

#include "banyan/base/check.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using std::chrono::minutes;

std::vector<std::string> texts(const std::vector<EarlyBox::Item>& items) {
  std::vector<std::string> said;
  for (const EarlyBox::Item& item : items) said.push_back(std::get<EarlyBox::Text>(item.what));
  return said;
}

EarlyBox::Item text(const std::string& session, const std::string& user, const std::string& words) {
  return {.key = {session, 0}, .user = user, .what = words};
}

run::FileDescriptor keep_lane(EarlyBox& box, const std::string& session) {
  std::array<int, 2> ends{};
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0) << "socketpair";
  box.keep({.key = {session, 0},
            .user = "1",
            .what = EarlyBox::Lane{.payload = "", .connection = {.socket = run::FileDescriptor(ends[0]), .keys = {}}}},
           {});
  return run::FileDescriptor(ends[1]);
}

TEST(EarlyBox, GivesASessionWhatCameForItInOrder) {
  EarlyBox box;
  box.keep(text("a", "1", "first"), {});
  box.keep(text("b", "1", "of another"), {});
  box.keep(text("a", "2", "second"), {});
  EXPECT_THAT(texts(box.take({"a", 0})), ElementsAre("first", "second"));
  EXPECT_TRUE(box.take({"a", 0}).empty());
  EXPECT_EQ(box.size(), 1u);
}

TEST(EarlyBox, HasTheFloodOfAUserPushOutItsOwnOnly) {
  EarlyBox box;
  box.keep(text("victim", "2", "waits"), {});
  for (size_t i = 0; i < 3 * EarlyBox::kMostOfUser; ++i) box.keep(text("flood" + std::to_string(i), "1", "x"), {});
  EXPECT_EQ(box.size(), EarlyBox::kMostOfUser + 1);
  EXPECT_EQ(box.take({"flood0", 0}).size(), 0u) << "its oldest has gone";
  EXPECT_THAT(texts(box.take({"victim", 0})), ElementsAre("waits"));
}

TEST(EarlyBox, TakesFromThoseThatHaveMostWhenItIsFull) {
  EarlyBox box;
  box.keep(text("victim", "2", "waits"), {});
  for (size_t i = 0; i < 2 * EarlyBox::kMost; ++i) {
    box.keep(text("flood", "many" + std::to_string(i % 8), "x"), {});
    ASSERT_LE(box.size(), EarlyBox::kMost);
  }
  EXPECT_THAT(texts(box.take({"victim", 0})), ElementsAre("waits"));
}

TEST(EarlyBox, KnowsOneRefusalOfACommunicatorAsLongAsThereIsRoom) {
  EarlyBox box;
  box.keep({.key = {"b", UINT32_MAX}, .user = "2", .what = EarlyBox::Text("for a rank that nobody has")}, {});
  for (const std::string communicator : {"a", "b"}) EXPECT_EQ(box.refusal_of(communicator), nullptr);
  for (const std::string why : {"first", "second"}) box.keep_refusal("a", "1", Error(ErrorCode::io, why), {});
  EXPECT_EQ(box.size(), 2u);
  box.keep(text("a", "1", "for rank 0"), {});
  EXPECT_THAT(texts(box.take({"a", 0})), ElementsAre("for rank 0"));
  ASSERT_NE(box.refusal_of("a"), nullptr);
  EXPECT_EQ(box.refusal_of("a")->message(), "first");
  for (size_t i = 0; i < EarlyBox::kMostOfUser; ++i) box.keep(text("flood", "1", "x"), {});
  EXPECT_EQ(box.refusal_of("a"), nullptr);
}

// Each that is kept by one who has too many was found by a walk through what all others have.
TEST(EarlyBox, IsAsQuickWhenItIsFullAsWhenItIsEmpty) {
  using Clock = std::chrono::steady_clock;
  const auto time_to_keep = [](EarlyBox& box, const std::string& user) {
    auto best = Clock::duration::max();
    for (int times = 0; times < 5; ++times) {
      const auto begin = Clock::now();
      for (size_t i = 0; i < 4 * EarlyBox::kMostOfUser; ++i) box.keep(text("late", user, "x"), {});
      best = std::min(best, Clock::now() - begin);
    }
    return best;
  };
  EarlyBox empty, full;
  for (size_t i = 0; i < EarlyBox::kMost; ++i) full.keep(text("early", "user" + std::to_string(i % 3), "x"), {});
  EXPECT_LT(time_to_keep(full, "late"), 5 * time_to_keep(empty, "late"));
}

TEST(EarlyBox, ForgetsLanesWhoseCallersHaveHungUp) {
  EarlyBox box;
  const run::FileDescriptor stays = keep_lane(box, "stays");
  { const run::FileDescriptor goes = keep_lane(box, "goes"); }
  box.sweep({});
  EXPECT_EQ(box.size(), 1u);
  EXPECT_EQ(box.take({"stays", 0}).size(), 1u);
}

TEST(EarlyBox, ForgetsWhatNobodyComesFor) {
  EarlyBox box;
  box.keep(text("a", "1", "old"), {});
  box.keep(text("a", "1", "new"), EarlyBox::Time(minutes(5)));
  box.sweep(EarlyBox::Time(minutes(10)));
  EXPECT_THAT(texts(box.take({"a", 0})), ElementsAre("new"));
}

}  // namespace
}  // namespace banyan::service
