#include "banyan/run/host/mailboxes.h"

#include <unistd.h>

#include <deque>

#include "banyan/run/host/test_allocations.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kAny = kAnyPeer;
constexpr Segment::Options segment_of(uint32_t ranks) { return {.ranks = ranks, .block_bytes = 4096}; }

// Ranks of one thread.
class Street {
 public:
  Street(uint32_t ranks, bool may_attach) : segment_(Segment::make(segment_of(ranks))), ended_(ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      regions_.push_back(std::make_unique<PeerRegions>(getpid(), pool_.directory_fd()));
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      boxes_.push_back(std::make_unique<Mailboxes>(segment_, Mailboxes::Options{.rank = rank,
                                                                                .own_regions = &pool_,
                                                                                .peers = regions_,
                                                                                .may_attach = may_attach,
                                                                                .eager_bytes = 1000,
                                                                                .piece_bytes = 512}));
    }
  }

  Mailboxes& operator[](uint32_t rank) { return *boxes_[rank]; }
  bool advance(uint32_t rank) { return boxes_[rank]->advance(ended_[rank]); }
  void leave(uint32_t rank) { boxes_[rank].reset(); }
  // Until nothing moves any more.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t rank = 0; rank < boxes_.size(); ++rank) moved |= advance(rank);
    }
  }
  // What has ended on this rank since this was asked for.
  std::vector<MessageEnd> ended(uint32_t rank) { return std::exchange(ended_[rank], {}); }
  RegionPool& pool() { return pool_; }

 private:
  RegionPool pool_;
  Segment segment_;
  std::vector<std::unique_ptr<PeerRegions>> regions_;
  std::vector<std::unique_ptr<Mailboxes>> boxes_;
  std::vector<std::vector<MessageEnd>> ended_;
};

// Threads take the parts of processes.
class MailboxWorld {
 public:
  explicit MailboxWorld(bool may_attach) : may_attach_(may_attach) {}

  void run(uint32_t ranks, const std::function<void(Mailboxes&, uint32_t)>& body) {
    const Segment segment = Segment::make(segment_of(ranks));
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<std::unique_ptr<PeerRegions>> peers(ranks);
        for (auto& peer : peers) peer = std::make_unique<PeerRegions>(getpid(), pool_.directory_fd());
        const Segment own = Segment::attach(getpid(), segment.fd(), segment_of(ranks));
        Mailboxes boxes(own, {.rank = rank,
                              .own_regions = &pool_,
                              .peers = peers,
                              .may_attach = may_attach_,
                              .eager_bytes = 1000,
                              .piece_bytes = 512});
        body(boxes, rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  RegionPool& pool() { return pool_; }

 private:
  RegionPool pool_;
  bool may_attach_;
};

Bytes text_of(uint64_t seed, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 101 + i * 7 + i / 251);
  return bytes;
}

// ---- Each of the five ways ----

struct Kind {
  const char* name;
  size_t size;
  bool is_in_region, may_attach;
};
constexpr Kind kKinds[] = {{"empty", 0, false, false},        {"inline", 104, false, false},
                           {"eager", 999, false, false},      {"viewed", 5001, true, false},
                           {"attached", 5001, false, true},   {"streamed", 5001, false, false},
                           {"two_pieces", 1024, false, false}};

class EveryKind : public ::testing::TestWithParam<Kind> {
 protected:
  // In memory of its kind, which stays until the end.
  std::span<const std::byte> message(uint64_t seed) {
    texts_.push_back(text_of(seed, GetParam().size));
    if (!GetParam().is_in_region) return texts_.back();
    std::byte* const region = street_.pool().allocate(texts_.back().size());
    std::copy(texts_.back().begin(), texts_.back().end(), region);
    return {region, texts_.back().size()};
  }
  Bytes expected(uint64_t seed) const { return text_of(seed, GetParam().size); }
  Bytes memory() const { return Bytes(GetParam().size, std::byte{0xee}); }

  Street street_{3, GetParam().may_attach};

 private:
  std::deque<Bytes> texts_;
};
INSTANTIATE_TEST_SUITE_P(Mailboxes, EveryKind, ::testing::ValuesIn(kKinds),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(EveryKind, IsTakenByItsTagInWhateverOrder) {
  for (uint32_t tag = 1; tag <= 3; ++tag) street_[0].send({.to = 1, .tag = tag, .bytes = message(tag)});
  street_[0].send({.to = 1, .tag = 2, .bytes = message(22)});
  Bytes first = memory(), second = memory(), third = memory(), fourth = memory();
  const auto a = street_[1].receive({.from = 0, .tag = 3, .into = third});
  street_.settle();
  EXPECT_THAT(street_.ended(1), ElementsAre(MessageEnd{a, 0}));
  const auto b = street_[1].receive({.from = 0, .tag = 2, .into = second});
  const auto c = street_[1].receive({.from = 0, .tag = 2, .into = fourth});
  const auto d = street_[1].receive({.from = 0, .tag = 1, .into = first});
  street_.settle();
  EXPECT_THAT(street_.ended(1), UnorderedElementsAre(MessageEnd{b, 0}, MessageEnd{c, 0}, MessageEnd{d, 0}));
  EXPECT_EQ(first, expected(1));
  EXPECT_EQ(second, expected(2));
  EXPECT_EQ(third, expected(3));
  EXPECT_EQ(fourth, expected(22));
  EXPECT_EQ(street_.ended(0).size(), 4u);
  for (const uint32_t rank : {0u, 1u}) EXPECT_TRUE(street_[rank].is_idle());
}

TEST_P(EveryKind, StaysWithItsSenderUntilItStandsInSomebodysWay) {
  street_[0].send({.to = 1, .tag = 1, .bytes = message(1)});
  street_[0].send({.to = 1, .tag = 2, .bytes = message(2)});
  Bytes other = memory(), first = memory(), second = memory();
  street_[1].receive({.from = 2, .tag = 1, .into = other});
  street_.settle();
  EXPECT_EQ(street_.ended(0).size(), GetParam().size < 1000 ? 1u : 0u);  // the first of little ones lies in the box
  EXPECT_FALSE(street_[0].is_idle());
  EXPECT_EQ(street_[0].waiting_for(), 1u);
  EXPECT_EQ(street_[1].waiting_for(), 2u);
  const auto any = street_[1].receive({.from = kAny, .tag = 2, .into = second});
  street_.settle();
  EXPECT_TRUE(street_[0].is_idle());
  EXPECT_THAT(street_.ended(1), ElementsAre(MessageEnd{any, 0}));
  EXPECT_EQ(second, expected(2));
  const auto late = street_[1].receive({.from = 0, .tag = 1, .into = first});
  street_.settle();
  EXPECT_THAT(street_.ended(1), ElementsAre(MessageEnd{late, 0}));
  EXPECT_EQ(first, expected(1));
}

TEST_P(EveryKind, ComesFromWhoeverSends) {
  Bytes one = memory(), two = memory(), tagged = memory();
  const auto a = street_[2].receive({.from = kAny, .tag = 5, .into = one});
  const auto b = street_[2].receive({.from = kAny, .tag = 5, .into = two});
  const auto c = street_[2].receive({.from = kAny, .tag = 6, .into = tagged});
  street_.settle();
  EXPECT_NE(street_[2].waiting_for(), 2u);
  street_[1].send({.to = 2, .tag = 5, .bytes = message(15)});
  street_.settle();
  EXPECT_THAT(street_.ended(2), ElementsAre(MessageEnd{a, 1}));
  street_[0].send({.to = 2, .tag = 6, .bytes = message(6)});
  street_[0].send({.to = 2, .tag = 5, .bytes = message(5)});
  street_.settle();
  EXPECT_THAT(street_.ended(2), ElementsAre(MessageEnd{c, 0}, MessageEnd{b, 0}));
  EXPECT_EQ(one, expected(15));
  EXPECT_EQ(two, expected(5));
  EXPECT_EQ(tagged, expected(6));
  EXPECT_TRUE(street_[2].is_idle());
}

TEST_P(EveryKind, SaysWhoseLengthDiffersEvenWhenItLayAside) {
  for (const bool is_late : {false, true}) {
    Street street(3, GetParam().may_attach);
    const Bytes sent = text_of(1, GetParam().size);
    Bytes other(20), memory(sent.size() + 1);
    street[2].send({.to = 1, .tag = 9, .bytes = sent});
    street.advance(2);
    street[1].receive({.from = kAny, .tag = 8, .into = other});
    if (is_late) street.settle();
    street[1].receive({.from = 2, .tag = 9, .into = memory});
    EXPECT_EQ(testing::error_of([&] { street.settle(); }, ErrorCode::mismatch),
              "rank 2 sends " + std::to_string(GetParam().size) + " bytes where this rank, 1, receives " +
                  std::to_string(GetParam().size + 1) + " (tag 9)");
  }
}

// The sender's memory may be freed by then, or hold something else.
TEST_P(EveryKind, IsLostWhenItLiesInMemoryOfASenderThatHasLeft) {
  constexpr size_t kEagerBytes = 1000;
  Bytes received = memory();
  const auto sent = message(3);
  street_[0].send({.to = 1, .tag = 2, .bytes = sent});
  street_.advance(0);
  street_.leave(0);
  const Mailboxes::Ticket ticket = street_[1].receive({.from = 0, .tag = 2, .into = received});
  if (sent.size() <= kEagerBytes) {
    street_.advance(1);
    EXPECT_THAT(street_.ended(1), ElementsAre(MessageEnd{ticket, 0}));
    EXPECT_EQ(received, expected(3));
    return;
  }
  EXPECT_THAT(testing::error_of([&] { street_.advance(1); }, ErrorCode::peer_lost), HasSubstr(" has left"));
  EXPECT_EQ(street_[1].arriving(0)->taken, 0u);
}

TEST(Mailboxes, AStreamThatIsHalfAsideGoesOnIntoItsReceive) {
  Street street(2, false);
  const Bytes sent = text_of(3, 10'000), little = text_of(4, 10);
  Bytes received(sent.size()), last(little.size());
  street[0].send({.to = 1, .tag = 1, .bytes = sent});
  street[0].send({.to = 1, .tag = 2, .bytes = little});
  street[1].receive({.from = 0, .tag = 2, .into = last});
  for (int i = 0; i < 4; ++i) {
    street.advance(0);
    street.advance(1);
  }
  EXPECT_TRUE(street.ended(0).empty());
  const auto ticket = street[1].receive({.from = 0, .tag = 1, .into = received});
  street.advance(1);
  EXPECT_NE(received.front(), std::byte{0});  // what had come is there
  EXPECT_EQ(received.back(), std::byte{0});
  street.settle();
  EXPECT_EQ(street.ended(1).front().ticket, ticket);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(last, little);
}

TEST(Mailboxes, LargeMessagesLieAsideToo) {
  for (const bool may_attach : {false, true}) {
    Street street(2, may_attach);
    const Bytes sent = text_of(3, (24 << 20) + 5), little = text_of(4, 10);
    Bytes received(sent.size()), last(little.size());
    street[0].send({.to = 1, .tag = 1, .bytes = sent});
    street[0].send({.to = 1, .tag = 2, .bytes = little});
    street[1].receive({.from = 0, .tag = 2, .into = last});
    street.settle();
    EXPECT_EQ(street.ended(0).size(), 2u);
    EXPECT_EQ(last, little);
    street[1].receive({.from = 0, .tag = 1, .into = received});
    street.settle();
    EXPECT_EQ(street.ended(1).size(), 2u);
    EXPECT_TRUE(received == sent);
  }
}

TEST(Mailboxes, AllocateNothingForMessagesThatTheBoxHolds) {
  Street street(3, false);
  const Bytes sent = text_of(1, Post::kInlineBytes), more = text_of(2, 900);
  Bytes received(sent.size()), received_more(more.size());
  std::vector<MessageEnd> ended;
  ended.reserve(16);
  const auto exchange = [&] {
    street[1].receive({.from = 0, .tag = 7, .into = received});
    street[1].receive({.from = kAny, .tag = 3, .into = received_more});
    street[0].send({.to = 1, .tag = 7, .bytes = sent});
    street[0].send({.to = 1, .tag = 3, .bytes = more});
    for (int i = 0; i < 4; ++i) {
      for (const uint32_t rank : {0u, 1u}) street[rank].advance(ended);
    }
    ASSERT_EQ(ended.size(), 4u);
    ended.clear();
  };
  exchange();
  const uint64_t before = allocations();
  for (int i = 0; i < 1000; ++i) exchange();
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(received, sent);
}

TEST(Mailboxes, AFloodFromOneRankLeavesOthersTheirTurn) {
  Street street(3, false);
  const Bytes sent = text_of(1, 8);
  Bytes received(sent.size());
  std::map<uint32_t, int> taken;
  for (int i = 0; i < 200; ++i) {
    for (const uint32_t rank : {0u, 1u}) {
      if (street[rank].is_idle()) street[rank].send({.to = 2, .tag = 1, .bytes = sent});
      street.advance(rank);
    }
    street[2].receive({.from = kAny, .tag = 1, .into = received});
    street.advance(2);
    for (const MessageEnd& end : street.ended(2)) ++taken[end.peer];
  }
  EXPECT_GT(taken[0], 50);
  EXPECT_GT(taken[1], 50);
}

TEST(Mailboxes, SendLittleWithoutWaitingForTheReceiver) {
  Street street(2, false);
  const Bytes bytes(900);
  const auto ticket = street[0].send({.to = 1, .tag = 0, .bytes = bytes});
  EXPECT_TRUE(street.advance(0));
  EXPECT_THAT(street.ended(0), ElementsAre(MessageEnd{ticket, 1}));
  street[0].send({.to = 1, .tag = 0, .bytes = bytes});
  EXPECT_FALSE(street.advance(0));
  EXPECT_TRUE(street.ended(0).empty());
  EXPECT_EQ(street[0].waiting_for(), 1u);
}

TEST(Mailboxes, WhatWasSentArrivesWhenItsSenderHasLeft) {
  const Segment segment = Segment::make(segment_of(2));
  const std::vector<std::unique_ptr<PeerRegions>> nobody(2);
  RegionPool pool;
  std::vector<MessageEnd> ended;
  const Bytes sent = text_of(5, segment.box_bytes());
  Bytes received(sent.size());
  {
    Mailboxes sender(segment, {.rank = 0, .own_regions = &pool, .peers = nobody});
    const Mailboxes::Ticket ticket = sender.send({.to = 1, .tag = 2, .bytes = sent});
    EXPECT_TRUE(sender.advance(ended));
    EXPECT_THAT(ended, ElementsAre(MessageEnd{ticket, 1}));
  }
  ended.clear();
  Mailboxes receiver(segment, {.rank = 1, .own_regions = &pool, .peers = nobody});
  const Mailboxes::Ticket ticket = receiver.receive({.from = kAny, .tag = 2, .into = received});
  EXPECT_TRUE(receiver.advance(ended));
  EXPECT_THAT(ended, ElementsAre(MessageEnd{ticket, 0}));
  EXPECT_EQ(received, sent);
}

TEST(Mailboxes, FromAnyDoWithoutThoseWhoHaveLeftWhileOthersAreThere) {
  const Segment segment = Segment::make(segment_of(3));
  const std::vector<std::unique_ptr<PeerRegions>> nobody(3);
  RegionPool pool;
  const auto live = [&](uint32_t rank) {
    return std::make_unique<Mailboxes>(segment,
                                       Mailboxes::Options{.rank = rank, .own_regions = &pool, .peers = nobody});
  };
  std::unique_ptr<Mailboxes> own = live(0), first = live(1), second = live(2);
  const Bytes text = text_of(1, 20);
  Bytes one(20), two(20), three(20);
  std::vector<MessageEnd> ended, theirs;
  const auto a = own->receive({.from = kAny, .tag = 1, .into = one});
  const auto b = own->receive({.from = kAny, .tag = 1, .into = two});
  own->receive({.from = kAny, .tag = 1, .into = three});
  first->send({.to = 0, .tag = 1, .bytes = text});
  first->advance(theirs);
  first.reset();
  while (own->advance(ended)) continue;
  EXPECT_THAT(ended, ElementsAre(MessageEnd{a, 1}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(own->waiting_for(), 2u);
  second->send({.to = 0, .tag = 1, .bytes = text});
  second->advance(theirs);
  second.reset();
  EXPECT_EQ(testing::error_of(
                [&] {
                  while (ended.size() < 3) own->advance(ended);
                },
                ErrorCode::peer_lost),
            "rank 2 has left");
  EXPECT_THAT(ended, ElementsAre(MessageEnd{a, 1}, MessageEnd{b, 2}));
}

// ---- All at once ----

// Messages between all ranks, with tags that are received from one rank and such that are received from any, of which
// all have the same length. Equal on all ranks for a seed.
struct Plan {
  struct Message {
    uint32_t from = 0, to = 0, tag = 0;
    size_t size = 0;
    bool is_in_region = false;
  };
  static constexpr uint32_t kTags = 6;
  static bool is_from_any(uint32_t tag) { return tag % 3 == 2; }

  Plan(uint32_t ranks, uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw_size = [&] { return random() % (random() % 3 == 0 ? 5000 : random() % 2 == 0 ? 1200 : 120); };
    std::vector<size_t> sizes(kTags);
    for (size_t& size : sizes) size = draw_size();
    for (int i = 0; i < 400; ++i) {
      const auto from = static_cast<uint32_t>(random() % ranks), to = static_cast<uint32_t>(random() % ranks);
      const auto tag = static_cast<uint32_t>(random() % kTags);
      const size_t size = is_from_any(tag) ? sizes[tag] : draw_size();
      if (from != to) messages.push_back({from, to, tag, size, random() % 4 == 0});
    }
  }
  std::vector<Message> messages;
};

class EveryWay : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Mailboxes, EveryWay, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "attached" : "streamed"; });

// Each rank sends what it has to send in order, and posts its receives in an order of its own: then the n-th of them
// for a rank and tag gets the n-th message. Those from any get each message once, and of one rank in order.
TEST_P(EveryWay, MessagesOfAllSizesAndTagsCrossEachOtherAsTheSerialModelSays) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MailboxWorld world(GetParam());
    const uint32_t ranks = seed % 2 == 0 ? 2 : 4;
    const Plan plan(ranks, seed);
    world.run(ranks, [&](Mailboxes& boxes, uint32_t rank) {
      std::mt19937_64 random(seed * 1000 + rank);
      std::vector<size_t> sends, receives;
      std::map<std::pair<uint32_t, uint32_t>, std::deque<size_t>> of_pair;  // by sender and tag
      for (size_t i = 0; i < plan.messages.size(); ++i) {
        const Plan::Message& message = plan.messages[i];
        if (message.from == rank) sends.push_back(i);
        if (message.to != rank) continue;
        receives.push_back(i);
        of_pair[{message.from, message.tag}].push_back(i);
      }
      std::shuffle(receives.begin(), receives.end(), random);
      std::vector<MessageEnd> ended;
      std::map<Mailboxes::Ticket, size_t> expected;  // the message of a receive; of those from any, any with its tag
      std::map<Mailboxes::Ticket, Bytes> memories;
      std::deque<Bytes> texts;
      std::vector<std::byte*> regions;
      std::vector<Mailboxes::Ticket> order;
      for (size_t sent = 0, received = 0; sent < sends.size() || received < receives.size();) {
        const bool is_send = received == receives.size() || (sent < sends.size() && random() % 2 == 0);
        if (is_send) {
          const Plan::Message& message = plan.messages[sends[sent]];
          texts.push_back(text_of(sends[sent++], message.size));
          std::span<const std::byte> bytes = texts.back();
          if (message.is_in_region) {
            regions.push_back(world.pool().allocate(bytes.size()));
            std::copy(bytes.begin(), bytes.end(), regions.back());
            bytes = {regions.back(), bytes.size()};
          }
          boxes.send({.to = message.to, .tag = message.tag, .bytes = bytes});
        } else {
          const Plan::Message& like = plan.messages[receives[received++]];
          const bool is_from_any = Plan::is_from_any(like.tag);
          std::deque<size_t>& coming = of_pair[{like.from, like.tag}];
          const size_t next = coming.front();
          if (!is_from_any) coming.pop_front();
          Bytes memory(plan.messages[next].size);
          const auto ticket = boxes.receive({.from = is_from_any ? kAny : like.from, .tag = like.tag, .into = memory});
          expected[ticket] = next;
          memories[ticket] = std::move(memory);
          order.push_back(ticket);
        }
        for (uint64_t i = random() % 4; i > 0; --i) boxes.advance(ended);
      }
      while (!boxes.is_idle()) {
        if (!boxes.advance(ended)) std::this_thread::yield();
      }
      for (std::byte* const region : regions) world.pool().free(region);
      std::map<Mailboxes::Ticket, uint32_t> sender;
      for (const MessageEnd& end : ended) sender[end.ticket] = end.peer;
      ASSERT_EQ(ended.size(), sends.size() + receives.size());
      ASSERT_EQ(sender.size(), ended.size());
      for (const Mailboxes::Ticket ticket : order) {
        const Plan::Message& like = plan.messages[expected[ticket]];
        size_t message = expected[ticket];
        if (Plan::is_from_any(like.tag)) {
          std::deque<size_t>& coming = of_pair[{sender[ticket], like.tag}];
          ASSERT_FALSE(coming.empty()) << "rank " << rank << " got more than was sent by " << sender[ticket];
          message = coming.front();
          coming.pop_front();
        } else {
          ASSERT_EQ(sender[ticket], like.from);
        }
        ASSERT_TRUE(memories[ticket] == text_of(message, plan.messages[message].size))
            << "rank " << rank << " should have message " << message;
      }
    });
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace banyan::run
