#include "banyan/run/execute/unconfirmed_calls.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(UnconfirmedCalls, AreFewAndHaveRoomThatSomebodyGives) {
  std::vector<uint64_t> asked;
  UnconfirmedCalls calls([&](uint64_t bytes) -> std::shared_ptr<void> {
    asked.push_back(bytes);
    if (bytes > 8192) throw Error(ErrorCode::invalid_input, "the quota is used up");
    return std::make_shared<int>();
  });
  const auto keep = [&](uint64_t number, size_t bytes) {
    calls.keep({.number = number, .result = std::vector<std::byte>(bytes)});
  };
  ASSERT_TRUE(calls.has_room_for(4000));
  keep(7, 4000);
  ASSERT_TRUE(calls.has_room_for(96)) << "of the same page";
  ASSERT_TRUE(calls.has_room_for(97));
  keep(8, 97);
  EXPECT_FALSE(calls.has_room_for(4096));
  EXPECT_THAT(asked, ElementsAre(4096u, 8192u, 12'288u));
  EXPECT_TRUE(calls.has_room_for(1)) << "what was given before is still there";
  keep(9, 1);
  keep(10, 0);
  EXPECT_FALSE(calls.has_room_for(0)) << "a fifth one";
  EXPECT_EQ(calls.first(), 7u);
  EXPECT_TRUE(calls.reaches(10));
  EXPECT_FALSE(calls.reaches(11));
  EXPECT_EQ(calls.find(9)->result.size(), 1u);
  EXPECT_EQ(calls.find(11), nullptr);
}

TEST(UnconfirmedCalls, AreSettledUntilAnotherOneIsKept) {
  UnconfirmedCalls calls({});
  const auto before = UnconfirmedCalls::Clock::now();
  calls.keep({.number = 1});
  EXPECT_GE(calls.settles_at(), before + UnconfirmedCalls::kConfirmAfter);
  EXPECT_FALSE(calls.is_settling());
  calls.settle();
  EXPECT_TRUE(calls.is_settling());
  calls.keep({.number = 2});
  EXPECT_FALSE(calls.is_settling());
}

}  // namespace
}  // namespace banyan::run
