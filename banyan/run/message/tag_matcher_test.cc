#include "banyan/run/message/tag_matcher.h"

#include <ctime>
#include <deque>

#include "banyan/run/message/queue.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint32_t kAny = kAnyPeer;

// Rank 0 of four; a message is a text.
class Desk {
 public:
  // Its memory is full of dots.
  void post(uint64_t ticket, uint32_t peer, uint32_t tag, size_t size = 2) {
    std::string& memory = memories_[ticket] = std::string(size, '.');
    receives.post({.ticket = ticket, .peer = peer, .tag = tag, .into = std::as_writable_bytes(std::span(memory))});
  }
  void begin(uint32_t peer, uint32_t tag, const std::string& text) {
    receives.begin(peer, tag, text.size());
    texts_[peer] = text;
  }
  void bring(uint32_t peer, size_t count) {
    TagMatcher::Arrival& arrival = *receives.arriving(peer);
    if (count > 0) std::memcpy(arrival.bytes + arrival.taken, texts_[peer].data() + arrival.taken, count);
    arrival.taken += count;
    if (arrival.taken == arrival.size) receives.end(peer);
  }
  void arrive(uint32_t peer, uint32_t tag, const std::string& text) {
    begin(peer, tag, text);
    bring(peer, text.size());
  }
  // "3: ab from 1" of each receive that is over.
  std::vector<std::string> over() {
    std::vector<MessageEnd> ended;
    receives.hand_over(ended);
    std::vector<std::string> lines;
    for (const MessageEnd& end : ended) {
      lines.push_back(std::to_string(end.ticket) + ": " + memories_.at(end.ticket) + " from " +
                      std::to_string(end.peer));
    }
    return lines;
  }

  TagMatcher receives{{.rank = 0, .ranks = 4}};

 private:
  std::map<uint64_t, std::string> memories_;
  std::map<uint32_t, std::string> texts_;
};

TEST(TagMatcher, TakesEachTagInTheOrderOfPosting) {
  Desk desk;
  desk.post(1, 2, 7);
  desk.post(2, 2, 5);
  desk.post(3, 2, 7);
  desk.arrive(2, 5, "aa");
  desk.arrive(2, 7, "bb");
  desk.arrive(2, 7, "cc");
  EXPECT_THAT(desk.over(), ElementsAre("2: aa from 2", "1: bb from 2", "3: cc from 2"));
  EXPECT_TRUE(desk.receives.is_idle());
}

TEST(TagMatcher, ReceivesFromAnyAndFromOneAreServedInTheOrderOfPosting) {
  Desk desk;
  desk.post(1, kAny, 7);
  desk.post(2, 2, 7);
  desk.post(3, kAny, 7);
  desk.arrive(2, 7, "aa");
  desk.arrive(3, 7, "bb");
  desk.arrive(2, 7, "cc");
  EXPECT_THAT(desk.over(), ElementsAre("1: aa from 2", "3: bb from 3", "2: cc from 2"));
}

TEST(TagMatcher, TakesTheEarliestUnexpectedMessageFirst) {
  Desk desk;
  desk.post(1, kAny, 1);
  desk.arrive(3, 7, "aa");
  desk.arrive(2, 7, "bb");
  desk.arrive(3, 7, "cc");
  EXPECT_THAT(desk.over(), IsEmpty());
  desk.post(2, 2, 7);
  desk.post(3, kAny, 7);
  desk.post(4, kAny, 7);
  desk.post(5, kAny, 7);
  EXPECT_THAT(desk.over(), ElementsAre("2: bb from 2", "3: aa from 3", "4: cc from 3"));
  desk.arrive(1, 7, "dd");
  EXPECT_THAT(desk.over(), ElementsAre("5: dd from 1"));
}

TEST(TagMatcher, AnUnexpectedMessageThatIsStillArrivingGoesOnIntoItsReceive) {
  Desk desk;
  desk.post(1, 2, 1, 0);
  desk.begin(2, 7, "abcdef");
  desk.bring(2, 4);
  desk.post(2, 2, 7, 6);
  EXPECT_THAT(desk.over(), IsEmpty());
  EXPECT_EQ(desk.receives.waiting_for(), 2u);
  desk.bring(2, 2);
  EXPECT_THAT(desk.over(), ElementsAre("2: abcdef from 2"));
  desk.arrive(2, 1, "");
  EXPECT_THAT(desk.over(), ElementsAre("1:  from 2"));
}

TEST(TagMatcher, LeavesMessagesThatBlockNobody) {
  Desk desk;
  EXPECT_FALSE(desk.receives.awaits(1));
  desk.post(1, 2, 7);
  EXPECT_TRUE(desk.receives.awaits(2) && desk.receives.names(2));
  EXPECT_FALSE(desk.receives.awaits(1));
  desk.post(2, kAny, 7);
  EXPECT_TRUE(desk.receives.awaits(1));
  EXPECT_FALSE(desk.receives.names(1));
  desk.begin(1, 7, "aa");
  EXPECT_FALSE(desk.receives.awaits(3));  // the receive has its message, although it has not come yet
  EXPECT_FALSE(desk.receives.is_idle());
}

TEST(TagMatcher, NamesBothEndsAndTheTagWhenLengthsDiffer) {
  const auto message_of = [](const auto& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      return error.what();
    }
    return "nothing";
  };
  Desk desk;
  desk.post(1, 2, 7);
  EXPECT_EQ(message_of([&] { desk.begin(2, 7, "abc"); }),
            "rank 2 sends 3 bytes where this rank, 0, receives 2 (tag 7)");
  for (const size_t there : {5u, 1u}) {  // unexpected, wholly or in part
    Desk other;
    other.post(1, 3, 1);
    other.begin(3, 9, "abcde");
    other.bring(3, there);
    other.post(2, kAny, 9);
    EXPECT_EQ(message_of([&] { other.over(); }), "rank 3 sends 5 bytes where this rank, 0, receives 2 (tag 9)");
  }
}

// Whether the message or its receive comes first.
TEST(TagMatcher, NamesBothTypesWhenTheyDiffer) {
  const auto words = [](const MessageShape& shape) {
    return std::to_string(shape.bytes() / 4) + (shape.type() == 3 ? " threes" : " others");
  };
  std::vector<std::byte> memory(8);
  for (const bool comes_first : {false, true}) {
    TagMatcher receives({.rank = 0, .ranks = 3, .words = words});
    const TagMatcher::Receive receive{.ticket = 1, .peer = 2, .tag = 5, .into = memory, .type = 3};
    std::string error;
    try {
      if (comes_first) {
        receives.post({.ticket = 2, .peer = 2, .tag = 6, .into = memory});
        receives.begin(2, 5, {8, 7}).taken = 8;
        receives.end(2);
      }
      receives.post(receive);
      if (!comes_first) receives.begin(2, 5, {8, 7});
      std::vector<MessageEnd> ended;
      receives.hand_over(ended);
    } catch (const Error& mismatch) {
      EXPECT_EQ(mismatch.code(), ErrorCode::mismatch);
      error = mismatch.message();
    }
    EXPECT_EQ(error, "rank 2 sends 2 others where this rank, 0, receives 2 threes (tag 5): the types differ");
  }
}

TEST(TagMatcher, ShapesTravelAsAWord) {
  const MessageShape shape(uint64_t{1} << 55, 255);
  EXPECT_EQ(MessageShape::of_word(shape.word()), shape);
  EXPECT_EQ(shape.bytes(), uint64_t{1} << 55);
  EXPECT_EQ(shape.type(), 255);
  EXPECT_EQ(MessageShape(40).word(), 40u);
}

TEST(TagMatcher, SaysWhenThereIsNoMemoryForAnUnexpectedMessage) {
  Desk desk;
  desk.post(1, 2, 7);
  try {
    desk.receives.begin(2, 8, (uint64_t{1} << MessageShape::kTypeBit) - 1);
    ADD_FAILURE() << "there was";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("rank 2 sends 72057594037927935 bytes (tag 8) before this rank, 0"));
  }
}

TEST(TagMatcher, AsksItsKeeperForTheMemoryOfUnexpectedMessagesAndLetsGoOfIt) {
  uint64_t used = 0;
  TagMatcher receives({.rank = 0, .ranks = 2, .keeper = [&](uint64_t bytes) -> std::shared_ptr<void> {
                         if (used + bytes > 10'000) throw Error(ErrorCode::unsupported, "too much");
                         used += bytes;
                         return {&used, [bytes](uint64_t* all) { *all -= bytes; }};
                       }});
  std::vector<std::byte> awaited(1), big(5000);
  receives.post({.ticket = 1, .peer = 1, .tag = 7, .into = awaited});
  TagMatcher::Arrival& first = receives.begin(1, 8, big.size());
  first.taken = first.size;
  receives.end(1);
  EXPECT_GE(used, big.size());
  EXPECT_THROW(receives.begin(1, 8, 6000), Error);
  receives.post({.ticket = 2, .peer = 1, .tag = 8, .into = big});
  EXPECT_EQ(used, 0u);
}

TEST(TagMatcher, ReceivesFromAnyWaitForEachPeerInTurnButNotForTheLost) {
  Desk desk;
  desk.post(1, kAny, 7);
  const auto asked = [&](int times) {
    std::map<uint32_t, int> counts;
    uint32_t last = kAny;
    int changes = 0;
    for (int i = 0; i < times; ++i) {
      const uint32_t peer = desk.receives.waiting_for().value();
      ++counts[peer];
      changes += peer != last ? 1 : 0;
      last = peer;
    }
    EXPECT_LE(changes, times / 4 + 1);  // it stays with one for a while
    return counts;
  };
  const std::map<uint32_t, int> all = asked(160);
  for (const uint32_t peer : {1u, 2u, 3u}) EXPECT_GE(all.at(peer), 40) << peer;
  EXPECT_EQ(all.size(), 3u);
  const auto lose = [&](uint32_t peer) {
    desk.receives.lose(peer, Error(ErrorCode::peer_lost, "rank " + std::to_string(peer) + " went"));
  };
  lose(2);
  EXPECT_EQ(asked(160).count(2), 0u);
  EXPECT_FALSE(desk.receives.awaits(2));
  lose(1);
  lose(1);
  EXPECT_THAT(desk.over(), IsEmpty());
  lose(3);
  try {
    desk.over();
    ADD_FAILURE() << "from nobody";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 3 went");
  }
}

// What MPI says, word for word: lists that are searched from the front.
class SerialModel {
 public:
  struct Message {
    uint32_t peer = 0, tag = 0;
    uint64_t number = 0;
  };
  struct Posted {
    uint64_t ticket = 0;
    uint32_t peer = 0, tag = 0;
  };

  void post(const Posted& receive) {
    const auto found = std::find_if(unexpected_.begin(), unexpected_.end(),
                                    [&](const Message& message) { return do_match(receive, message); });
    if (found == unexpected_.end()) {
      posted_.push_back(receive);
      return;
    }
    matches[receive.ticket] = *found;
    unexpected_.erase(found);
  }
  void arrive(const Message& message) {
    const auto found =
        std::find_if(posted_.begin(), posted_.end(), [&](const Posted& receive) { return do_match(receive, message); });
    if (found == posted_.end()) {
      unexpected_.push_back(message);
      return;
    }
    matches[found->ticket] = message;
    posted_.erase(found);
  }
  bool awaits(uint32_t peer) const {
    return std::any_of(posted_.begin(), posted_.end(),
                       [&](const Posted& receive) { return receive.peer == peer || receive.peer == kAny; });
  }
  std::map<uint64_t, Message> matches;  // by ticket of the receive

 private:
  static bool do_match(const Posted& receive, const Message& message) {
    return receive.tag == message.tag && (receive.peer == kAny || receive.peer == message.peer);
  }
  std::deque<Posted> posted_;
  std::deque<Message> unexpected_;
};

TEST(TagMatcher, MatchesAsTheSerialModelInEveryOrderOfEvents) {
  constexpr uint32_t kRanks = 5, kTags = 3;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](uint64_t n) { return random() % n; };
    // Of these some fall together with others in the table of those that wait.
    std::vector<uint32_t> tags{0, 1, 2};
    for (uint32_t i = 0; i < kTags; ++i) tags.push_back(static_cast<uint32_t>(random()));
    const uint64_t eagerness = 1 + draw(9);  // of posting
    TagMatcher receives({.rank = 0, .ranks = kRanks});
    SerialModel model;
    std::vector<std::vector<uint64_t>> memories(1);  // by ticket
    std::vector<uint64_t> arriving(kRanks);          // the message
    uint64_t messages = 0, over = 0;
    std::vector<MessageEnd> ended;
    // Of one tag all have the same length; each word of a message is its number.
    const auto words_of = [&](uint32_t tag) { return 1 + size_t{tag} % 7; };
    const auto bring = [&](uint32_t peer) {
      TagMatcher::Arrival& arrival = *receives.arriving(peer);
      const uint64_t left = arrival.size - arrival.taken;
      const uint64_t count = left < 2 || draw(2) == 0 ? left : draw(left);
      for (uint64_t i = 0; i < count; ++i, ++arrival.taken) {
        arrival.bytes[arrival.taken] = std::as_bytes(std::span(&arriving[peer], 1))[arrival.taken % 8];
      }
      if (arrival.taken == arrival.size) receives.end(peer);
    };
    for (int step = 0; step < 400; ++step) {
      if (draw(10) < eagerness) {
        const uint32_t peer = draw(3) == 0 ? kAny : static_cast<uint32_t>(1 + draw(kRanks - 1));
        const uint32_t tag = tags[draw(tags.size())];
        const uint64_t ticket = memories.size();
        memories.emplace_back(words_of(tag), 0);
        receives.post(
            {.ticket = ticket, .peer = peer, .tag = tag, .into = std::as_writable_bytes(std::span(memories.back()))});
        model.post({.ticket = ticket, .peer = peer, .tag = tag});
      }
      const auto peer = static_cast<uint32_t>(1 + draw(kRanks - 1));
      ASSERT_EQ(receives.awaits(peer), model.awaits(peer));
      if (receives.arriving(peer) != nullptr) {
        bring(peer);
      } else if (receives.awaits(peer)) {
        const uint32_t tag = tags[draw(tags.size())];
        arriving[peer] = ++messages;
        receives.begin(peer, tag, words_of(tag) * sizeof(uint64_t));
        model.arrive({.peer = peer, .tag = tag, .number = messages});
        if (draw(2) == 0) bring(peer);
      }
      receives.hand_over(ended);
    }
    for (uint32_t peer = 1; peer < kRanks; ++peer) {
      while (receives.arriving(peer) != nullptr) bring(peer);
    }
    receives.hand_over(ended);
    for (const MessageEnd& end : ended) {
      ASSERT_TRUE(model.matches.contains(end.ticket)) << end.ticket;
      const SerialModel::Message& message = model.matches.at(end.ticket);
      EXPECT_EQ(end.peer, message.peer);
      EXPECT_THAT(memories[end.ticket], ::testing::Each(message.number)) << "receive " << end.ticket;
      ++over;
    }
    EXPECT_EQ(over, model.matches.size());
    EXPECT_GT(over, 10u);
  }
}

std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// A tenant of the service chooses its tags and the order, and shares a thread with others. To look through all that
// wait, each time, takes a hundred times as long as this may.
TEST(TagMatcher, TakesNoLongerWhateverWaits) {
  constexpr uint32_t kMany = 60'000;
  const auto began = processor_time();
  TagMatcher receives({.rank = 0, .ranks = 4});
  std::vector<MessageEnd> ended;
  std::byte byte{};
  const auto post = [&](uint32_t peer, uint32_t tag) {
    receives.post({.ticket = tag, .peer = peer, .tag = tag, .into = {&byte, 1}});
  };
  const auto arrive = [&](uint32_t peer, uint32_t tag) {
    TagMatcher::Arrival& arrival = receives.begin(peer, tag, 1);
    arrival.taken = 1;
    receives.end(peer);
  };
  // Receives of as many tags, for which messages come from the last one on.
  for (uint32_t tag = 0; tag < kMany; ++tag) post(1, 1024 * tag);
  for (uint32_t tag = kMany; tag-- > 0;) arrive(1, 1024 * tag);
  // Messages of one tag that nobody expects: of peer 1, and then of peer 2, whose receives come first.
  post(3, 1);  // so that messages are taken
  post(kAny, 2);
  for (const uint32_t peer : {1, 2}) {
    for (uint32_t i = 0; i < kMany; ++i) arrive(peer, 7);
  }
  for (const uint32_t peer : {2, 1}) {
    for (uint32_t i = 0; i < kMany; ++i) post(peer, 7);
  }
  arrive(3, 1);
  arrive(3, 2);
  receives.hand_over(ended);
  EXPECT_EQ(ended.size(), 3 * size_t{kMany} + 2);
  EXPECT_TRUE(receives.is_idle());
  EXPECT_LT(processor_time() - began, std::chrono::seconds(2));
}

TEST(Queue, KeepsTheOrder) {
  Queue<int> queue;
  int pushed = 0, popped = 0;
  std::mt19937 random(3);
  for (int i = 0; i < 100'000; ++i) {
    if (pushed - popped < 40 && random() % 2 == 0) queue.push(pushed++);
    ASSERT_EQ(queue.empty(), pushed == popped);
    if (!queue.empty() && random() % 2 == 0) {
      ASSERT_EQ(queue.front(), popped++);
      queue.pop();
    }
  }
  EXPECT_GT(popped, 20'000);
}

}  // namespace
}  // namespace banyan::run
