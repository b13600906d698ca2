#include "banyan/run/record/message_book.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr int64_t kLater = 5'000'000'000;

TEST(MessageBook, KnowsWhatIsOpenAndWhatThereHasBeen) {
  MessageBook book(3);
  EXPECT_EQ(book.read(1), MessageRecords());
  const auto sent =
      book.begin({.is_send = true, .type = element::DataType::int32, .peer = 1, .tag = 9, .count = 100'000});
  const auto received = book.begin({.peer = kNoRank, .count = 4});
  book.end(received, false, 2, OperationState::done);
  const MessageRecords records = book.read(1);
  ASSERT_EQ(records.messages.size(), 2u);
  EXPECT_EQ(describe(records.messages[0]), "send of 400,000 bytes (tag 9) to rank 1");
  EXPECT_TRUE(records.messages[0].is_open());
  EXPECT_EQ(describe(records.messages[1]), "receive of 4 bytes (tag 0) from rank 2") << "whoever it came from";
  EXPECT_FALSE(records.messages[1].is_open());
  EXPECT_EQ(records.begun, 2u);
  EXPECT_EQ(records.pairs, (std::vector<MessagePair>{{.rank = 1, .sent = 1, .received = 0, .last_tag = 9},
                                                     {.rank = 2, .sent = 0, .received = 1, .last_tag = 0}}));
  book.end(sent, true, 1, OperationState::failed);
  EXPECT_TRUE(book.read(1).messages[0].is_open()) << "what failed was open";
  EXPECT_EQ(book.read(1).pairs[0].sent, 1u);
}

TEST(MessageBook, KnowsSinceWhenSomebodyWaits) {
  MessageBook book(2);
  const auto place = book.begin({.peer = 1});
  const auto since = [&](int64_t now) { return book.read(now).messages.front().awaited_since; };
  EXPECT_EQ(since(5), 0);
  book.record_wait(place, 10);
  book.record_wait(place, 20);
  EXPECT_EQ(since(30), 10);
  EXPECT_EQ(since(20 + MessageBook::kLongestGap + 1), 0) << "nobody has looked for so long";
  book.record_wait(place, kLater);
  EXPECT_EQ(since(kLater), kLater) << "a new wait";
  book.end(place, false, 1, OperationState::done);
  EXPECT_EQ(since(kLater), 0);
}

TEST(MessageBook, KeepsWhatIsOpenAndForgetsWhatEndedFirst) {
  MessageBook book(2);
  const auto open = book.begin({.peer = 1, .tag = 77});
  for (uint64_t i = 0; i < 3 * MessageBook::kPlaces; ++i) {
    book.end(book.begin({.is_send = true, .peer = 1, .count = i}), true, 1, OperationState::done);
  }
  const MessageRecords records = book.read(1);
  ASSERT_EQ(records.messages.size(), MessageBook::kPlaces);
  EXPECT_EQ(records.messages.front().tag, 77u);
  EXPECT_EQ(records.messages.back().count, 3 * MessageBook::kPlaces - 1);
  EXPECT_EQ(records.messages[1].count, 2 * MessageBook::kPlaces + 1);
  EXPECT_EQ(records.pairs.front().sent, 3 * MessageBook::kPlaces);
  book.end(open, false, 1, OperationState::done);
}

TEST(MessageBook, CountsWhatItCannotKeep) {
  MessageBook book(2);
  std::vector<MessageBook::Place> places;
  for (size_t i = 0; i < 2 * MessageBook::kPlaces; ++i) places.push_back(book.begin({.is_send = true, .peer = 1}));
  EXPECT_EQ(places.back(), MessageBook::kNowhere);
  book.record_wait(places.back(), 1);
  EXPECT_EQ(book.read(1).messages.size(), MessageBook::kPlaces);
  EXPECT_EQ(book.read(1).begun, 2 * MessageBook::kPlaces);
  for (const MessageBook::Place place : places) book.end(place, true, 1, OperationState::done);
  EXPECT_NE(book.begin({.peer = 1}), MessageBook::kNowhere);
}

}  // namespace
}  // namespace banyan::run
