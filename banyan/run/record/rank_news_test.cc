#include "banyan/run/record/rank_news.h"

#include "banyan/run/record/recorder.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

int64_t g_time = 0;

class RankNewsTest : public ::testing::Test {
 protected:
  RankNewsTest() : memory_(Recorder::kMemoryBytes), recorder_(memory(), clock()) { g_time = 100; }

  static RecorderClock clock() {
    const auto now = [] { return g_time; };
    return {.exact = now, .coarse = now, .wall = now};
  }
  std::span<std::byte> memory() const { return {memory_.data(), Recorder::kMemoryBytes}; }
  RankNews news() const { return RankNews::read(memory(), messages_, g_time); }

  SharedMemory memory_;
  Recorder recorder_;
  MessageBook messages_{200};
};

TEST_F(RankNewsTest, TravelAsText) {
  recorder_.begin({.kind = OperationKind::broadcast, .type = element::DataType::int8, .other = 2, .count = 7}).finish();
  recorder_.begin({.kind = OperationKind::send, .other = 1, .count = 9});
  Recorder::Entry entry = recorder_.begin({.kind = OperationKind::reduce_scatter_v,
                                           .type = element::DataType::float64,
                                           .op = element::ReduceOp::max,
                                           .count = UINT64_MAX,
                                           .counts_hash = UINT64_MAX - 1});
  entry.advance(5);
  entry.wait_for(3);
  g_time = 160;
  const RankNews told = RankNews::decode(news().encode());
  EXPECT_EQ(told.since, 60);
  ASSERT_EQ(told.calls.size(), 2u) << "messages are told apart";
  EXPECT_EQ(describe(told.calls[0]), "broadcast #1 of 7 int8 from rank 2");
  EXPECT_EQ(signature(told.calls[1]), signature(news().calls[1]));
  const RankState state = told.state(4, Health::alive);
  EXPECT_EQ(state.rank, 4u);
  EXPECT_EQ(state.sequence, 2u);
  EXPECT_TRUE(state.is_inside());
  EXPECT_EQ(state.step, 5u);
  EXPECT_EQ(state.waits_for, 3u);
  ASSERT_NE(state.operation, nullptr);
  EXPECT_EQ(state.operation->kind, OperationKind::reduce_scatter_v);
}

TEST_F(RankNewsTest, AreOfTheLastCallsOnly) {
  for (size_t i = 0; i < 2 * RankNews::kCalls; ++i) recorder_.begin({}).finish();
  const RankNews told = RankNews::decode(news().encode());
  ASSERT_EQ(told.calls.size(), RankNews::kCalls);
  EXPECT_EQ(told.calls.front().sequence, RankNews::kCalls + 1);
  EXPECT_EQ(told.calls.back().sequence, 2 * RankNews::kCalls);
  EXPECT_FALSE(told.state(0, Health::alive).is_inside());
}

TEST_F(RankNewsTest, KnowEveryReduction) {
  for (size_t op = 0; op < element::kReduceOps; ++op) {
    recorder_.begin({.kind = OperationKind::reduce, .op = static_cast<element::ReduceOp>(op), .other = 0, .count = 3})
        .finish();
    const RankNews told = RankNews::decode(news().encode());
    ASSERT_EQ(told.calls.size(), std::min(op + 1, RankNews::kCalls));
    EXPECT_EQ(told.calls.back().op, static_cast<element::ReduceOp>(op));
  }
}

TEST_F(RankNewsTest, TellOfOpenMessagesAndOfTheirNumbers) {
  const auto over = messages_.begin({.is_send = true, .peer = 7, .tag = 3, .count = 1});
  messages_.end(over, true, 7, OperationState::done);
  messages_.begin({.peer = 7, .tag = 4, .count = 2});
  const auto awaited = messages_.begin({.type = element::DataType::float64, .peer = kNoRank, .tag = 5, .count = 10});
  messages_.record_wait(awaited, 100);
  g_time = 160;
  recorder_.begin({});
  const RankNews told = RankNews::decode(news().encode());
  EXPECT_EQ(told.calls.size(), 1u);
  ASSERT_EQ(told.messages.messages.size(), 2u) << "those that are over are not told";
  EXPECT_EQ(describe(told.messages.messages[0]), "receive of 80 bytes (tag 5) from any rank");
  EXPECT_EQ(describe(told.messages.messages[1]), "receive of 2 bytes (tag 4) from rank 7");
  ASSERT_EQ(told.messages.pairs.size(), 1u);
  EXPECT_EQ(told.messages.pairs[0], (MessagePair{.rank = 7, .sent = 1, .received = 0, .last_tag = 3}));
  const RankState state = told.state(4, Health::alive);
  ASSERT_NE(state.awaited(), nullptr);
  EXPECT_EQ(state.awaited()->number, 3u);
  EXPECT_EQ(state.awaited_for(), 60);
}

TEST_F(RankNewsTest, KeepTheMostImportantOfManyMessages) {
  MessageBook::Place last{};
  for (uint32_t i = 0; i < 200; ++i) last = messages_.begin({.is_send = true, .peer = i, .count = i});
  messages_.record_wait(last, g_time);
  const RankNews told = RankNews::decode(news().encode());
  ASSERT_EQ(told.messages.messages.size(), RankNews::kMessages);
  EXPECT_EQ(told.messages.messages.front().peer, 199u) << "somebody waits for it";
  ASSERT_EQ(told.messages.pairs.size(), RankNews::kPairs);
  EXPECT_TRUE(std::any_of(told.messages.pairs.begin(), told.messages.pairs.end(),
                          [](const MessagePair& pair) { return pair.rank == 199; }));
}

TEST_F(RankNewsTest, OfNoCallSayNothing) {
  const RankNews told = RankNews::decode(news().encode());
  EXPECT_TRUE(told.calls.empty());
  EXPECT_EQ(told.state(0, Health::alive).sequence, 0u);
}

TEST_F(RankNewsTest, WhatIsNoNewsTellsNothing) {
  recorder_.begin({});
  const std::string good = news().encode();
  ASSERT_EQ(RankNews::decode(good).calls.size(), 1u);
  const std::string cut = good.substr(0, good.rfind(' ') + 1);
  for (const std::string& text : {std::string(), std::string("banyan"), std::string("0\n1 99 0 0 0 0 0 0 0 0"),
                                  std::string("0\n1 -1 0 0 0 0 0 0 0 0"), cut, good + " x", good + "\n",
                                  good + "\nm 1 0 99 1 0 0 0 0", good + "\nm 1 0", good + "\np 1", good + "\nq 1"}) {
    EXPECT_TRUE(RankNews::decode(text).calls.empty()) << text;
  }
  std::string many = "0";
  for (size_t i = 0; i <= RankNews::kCalls; ++i) many += good.substr(good.find('\n'));
  EXPECT_TRUE(RankNews::decode(many).calls.empty());
}

TEST_F(RankNewsTest, NeedARecorder) {
  const SharedMemory empty(Recorder::kMemoryBytes);
  EXPECT_THROW(RankNews::read({empty.data(), Recorder::kMemoryBytes}, messages_, 0), Error);
}

}  // namespace
}  // namespace banyan::run
