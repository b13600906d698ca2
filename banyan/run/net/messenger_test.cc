// Messenger in a simulated world: bytes arrive late, in pieces cut anywhere, through streams that hold few of them.
#include "banyan/run/net/messenger.h"

#include <deque>

#include "banyan/base/check.h"
#include "banyan/testing/simulated_transport.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kAny = kAnyPeer;

Bytes text_of(uint64_t seed, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed * 101 + i * 7 + i / 251);
  return bytes;
}

// Streams that stand only when both ends have asked for them, and have bytes unsent for a while, as those of
// LaneTransport.
class ShyStreams {
 public:
  ShyStreams(testing::SimulatedWorld& world, uint32_t ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) ends_.push_back(std::make_unique<End>(*this, world, rank));
  }
  Transport& transport(uint32_t rank) { return *ends_[rank]; }
  bool has_asked(uint32_t rank, uint32_t peer) const { return asked_.contains({rank, peer}); }
  // Whether it insisted, by reading or writing.
  bool has_insisted(uint32_t rank, uint32_t peer) const { return insisted_.contains({rank, peer}); }

 private:
  class End : public Transport {
   public:
    End(ShyStreams& streams, testing::SimulatedWorld& world, uint32_t rank)
        : streams_(streams), world_(world), real_(world.transport(rank)), rank_(rank) {}
    size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
      if (!insist(peer)) return 0;
      const bool is_beginning = head.size() == kHeaderBytes;
      CHECK(!is_beginning || !unsent_.contains(peer)) << "a message begins although the one before has not gone";
      const size_t count = real_.write(peer, head, body);
      if (count > 0) unsent_.insert(peer);
      return count;
    }
    bool has_unsent(uint32_t peer) override {
      if (world_.draw(3) == 0) unsent_.erase(peer);
      return unsent_.contains(peer);
    }
    std::span<const std::byte> peek(uint32_t peer) override {
      return insist(peer) ? real_.peek(peer) : std::span<const std::byte>();
    }
    void consume(uint32_t peer, size_t count) override { real_.consume(peer, count); }
    size_t read(uint32_t peer, std::span<std::byte> into) override { return insist(peer) ? real_.read(peer, into) : 0; }
    bool listen(uint32_t peer) override {
      streams_.asked_.insert({rank_, peer});
      return stands(peer);
    }
    void wait(std::chrono::milliseconds) override { CHECK(false) << "nobody sleeps here"; }

   private:
    bool stands(uint32_t peer) const { return streams_.has_asked(rank_, peer) && streams_.has_asked(peer, rank_); }
    bool insist(uint32_t peer) {
      streams_.asked_.insert({rank_, peer});
      if (!stands(peer)) streams_.insisted_.insert({rank_, peer});
      return stands(peer);
    }
    static constexpr size_t kHeaderBytes = 16;
    ShyStreams& streams_;
    testing::SimulatedWorld& world_;
    Transport& real_;
    const uint32_t rank_;
    std::set<uint32_t> unsent_;  // to whom
  };

  std::vector<std::unique_ptr<End>> ends_;
  std::set<std::pair<uint32_t, uint32_t>> asked_, insisted_;
};

class MessengerWorld {
 public:
  explicit MessengerWorld(const testing::SimulatedWorld::Options& options, size_t step_bytes = SIZE_MAX)
      : ranks_(options.ranks), world_(options), streams_(world_, ranks_), ended_(ranks_) {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      message_streams_.push_back(std::make_unique<MessageStreams>(
          streams_.transport(rank), MessageStreams::Options{.rank = rank, .ranks = ranks_}));
      messengers_.push_back(std::make_unique<Messenger>(
          *message_streams_[rank],
          Messenger::Options{.rank = rank,
                             .ranks = ranks_,
                             .budget = std::make_shared<const StepBudget>(StepBudget{.bytes = step_bytes})}));
    }
  }
  Messenger& operator[](uint32_t rank) { return *messengers_[rank]; }
  testing::SimulatedWorld& world() { return world_; }
  const ShyStreams& streams() const { return streams_; }
  bool step() {
    const bool delivered = world_.deliver_some();
    const auto rank = static_cast<uint32_t>(world_.draw(ranks_));
    if (silent_.contains(rank)) return delivered;
    return messengers_[rank]->advance(ended_[rank]) || delivered;
  }
  // Until nothing has moved for long.
  void settle() {
    for (int idle = 0; idle < 2000;) idle = step() ? 0 : idle + 1;
  }
  // It advances no more.
  void silence(uint32_t rank) { silent_.insert(rank); }
  // What has ended on this rank since this was asked for.
  std::vector<MessageEnd> ended(uint32_t rank) { return std::exchange(ended_[rank], {}); }

 private:
  const uint32_t ranks_;
  testing::SimulatedWorld world_;
  ShyStreams streams_;
  std::vector<std::unique_ptr<MessageStreams>> message_streams_;
  std::vector<std::unique_ptr<Messenger>> messengers_;
  std::vector<std::vector<MessageEnd>> ended_;
  std::set<uint32_t> silent_;
};

// Each rank sends what it has to send in order, and posts its receives in an order of its own: then the n-th of them
// for a rank and tag gets the n-th message. Those from any, of the odd tags, get each message once, and of one rank in
// order; all messages of such a tag have the same length.
TEST(Messenger, OfAllTagsArriveInEveryWorldAsTheSerialModelSays) {
  constexpr uint32_t kRanks = 4, kTags = 4;
  struct Sent {
    uint32_t from = 0, to = 0, tag = 0;
    Bytes bytes;
  };
  struct Received {
    uint32_t rank = 0;
    size_t like = 0;  // the message, or one with its tag
    Messenger::Ticket ticket = 0;
    Bytes memory;
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    MessengerWorld world({.ranks = kRanks, .seed = seed}, seed % 3 == 0 ? seed % 50 + 1 : SIZE_MAX);
    std::mt19937_64 random(seed);
    const auto draw_size = [&] { return random() % (random() % 2 == 0 ? 5 : 1000); };
    const auto is_from_any = [](const Sent& message) { return message.tag % 2 == 1; };
    std::vector<size_t> sizes(kTags);
    for (size_t& size : sizes) size = draw_size();
    std::deque<Sent> sent;
    std::map<std::array<uint32_t, 3>, std::deque<size_t>> of_pair;  // by receiver, sender and tag
    for (uint64_t i = 0; i < 60; ++i) {
      const auto from = static_cast<uint32_t>(random() % kRanks), to = static_cast<uint32_t>(random() % kRanks);
      const auto tag = static_cast<uint32_t>(random() % kTags);
      if (from == to) continue;
      const size_t size = tag % 2 == 1 ? sizes[tag] : draw_size();
      of_pair[{to, from, tag}].push_back(sent.size());
      sent.push_back({from, to, tag, text_of(i, size)});
    }
    std::vector<size_t> order(sent.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::deque<Received> received;
    for (size_t sends = 0, receives = 0; sends < sent.size() || receives < order.size();) {
      if (receives == order.size() || (sends < sent.size() && random() % 2 == 0)) {
        const Sent& message = sent[sends++];
        world[message.from].send({.to = message.to, .tag = message.tag, .bytes = message.bytes});
      } else {
        const Sent& like = sent[order[receives++]];
        std::deque<size_t>& coming = of_pair[{like.to, like.from, like.tag}];
        received.push_back(
            {.rank = like.to, .like = coming.front(), .memory = Bytes(sent[coming.front()].bytes.size())});
        if (!is_from_any(like)) coming.pop_front();
        received.back().ticket = world[like.to].receive(
            {.from = is_from_any(like) ? kAny : like.from, .tag = like.tag, .into = received.back().memory});
      }
      for (uint64_t i = random() % 8; i > 0; --i) world.step();
    }
    world.settle();
    std::map<std::pair<uint32_t, Messenger::Ticket>, uint32_t> peers;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      ASSERT_TRUE(world[rank].is_idle());
      for (const MessageEnd& end : world.ended(rank)) peers[{rank, end.ticket}] = end.peer;
    }
    ASSERT_EQ(peers.size(), 2 * sent.size());
    for (const Received& each : received) {
      const Sent& like = sent[each.like];
      const uint32_t peer = peers.at({each.rank, each.ticket});
      size_t message = each.like;
      if (is_from_any(like)) {
        std::deque<size_t>& coming = of_pair[{each.rank, peer, like.tag}];
        ASSERT_FALSE(coming.empty()) << "rank " << each.rank << " got more than was sent by " << peer;
        message = coming.front();
        coming.pop_front();
      } else {
        ASSERT_EQ(peer, like.from);
      }
      ASSERT_EQ(each.memory, sent[message].bytes) << "rank " << each.rank;
    }
    ASSERT_TRUE(world.world().is_quiet());
  }
}

TEST(Messenger, StandInNobodysWay) {
  MessengerWorld world({.ranks = 3, .seed = 4});
  const Bytes large = text_of(1, 100'000), little = text_of(2, 3);
  Bytes into_large(large.size()), into_little(little.size()), nothing(1);
  world[0].send({.to = 1, .tag = 1, .bytes = large});
  world[0].send({.to = 1, .tag = 2, .bytes = little});
  world[1].receive({.from = 2, .tag = 2, .into = nothing});
  world.settle();
  EXPECT_TRUE(world.ended(0).empty());  // nobody waits for rank 0
  EXPECT_EQ(world[0].waiting_for(), 1u);
  EXPECT_EQ(world[1].waiting_for(), 2u);
  const auto first = world[1].receive({.from = 0, .tag = 2, .into = into_little});
  world.settle();
  EXPECT_EQ(world.ended(0).size(), 2u);
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{first, 0}));
  EXPECT_EQ(into_little, little);
  const auto second = world[1].receive({.from = kAny, .tag = 1, .into = into_large});
  world.settle();
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{second, 0}));
  EXPECT_EQ(into_large, large);
}

TEST(Messenger, MoveNoMoreInAStepThanTheyMay) {
  constexpr size_t kStep = 100, kSize = 1050;
  for (const uint32_t to : {0u, 1u}) {
    MessengerWorld world({.ranks = 2, .seed = 5}, kStep);
    const Bytes sent = text_of(1, kSize);
    Bytes got(kSize);
    world[0].send({.to = to, .tag = 1, .bytes = sent});
    world[to].receive({.from = 0, .tag = 1, .into = got});
    std::vector<MessageEnd> ended;
    int steps = 0;
    while (world[to].advance(ended) || !world[to].is_idle()) {
      ++steps;
      if (to == 1) world[0].advance(ended);
      world.world().deliver_some();
    }
    EXPECT_EQ(got, sent);
    EXPECT_GE(steps, static_cast<int>(kSize / kStep)) << "to rank " << to;
  }
}

TEST(Messenger, FromAnyListenToAllAndInsistOnNobody) {
  MessengerWorld world({.ranks = 4, .seed = 2});
  const Bytes text = text_of(1, 400);
  Bytes one(text.size()), two(text.size());
  const auto a = world[1].receive({.from = kAny, .tag = 7, .into = one});
  const auto b = world[1].receive({.from = kAny, .tag = 7, .into = two});
  world.settle();
  for (const uint32_t peer : {0u, 2u, 3u}) {
    EXPECT_TRUE(world.streams().has_asked(1, peer)) << peer;
    EXPECT_FALSE(world.streams().has_insisted(1, peer)) << peer;
  }
  EXPECT_FALSE(world.streams().has_asked(1, 1));
  world[3].send({.to = 1, .tag = 7, .bytes = text});
  world.settle();
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{a, 3}));
  world[0].send({.to = 1, .tag = 7, .bytes = text});
  world.settle();
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{b, 0}));
  EXPECT_EQ(one, text);
  EXPECT_EQ(two, text);
}

std::string error_of(MessengerWorld& world, ErrorCode code) {
  try {
    world.settle();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.message();
  }
  return "nothing";
}

TEST(Messenger, OfAnotherLengthAreRefusedEvenWhenTheyLayAside) {
  for (const bool is_late : {false, true}) {
    MessengerWorld world({.ranks = 3, .least_capacity = 300, .seed = 1});
    const Bytes text = text_of(1, 20);
    Bytes other(5), memory(10);
    world[2].send({.to = 1, .tag = 3, .bytes = text});
    world[1].receive({.from = 2, .tag = 4, .into = other});
    if (is_late) world.settle();
    world[1].receive({.from = kAny, .tag = 3, .into = memory});
    EXPECT_EQ(error_of(world, ErrorCode::mismatch), "rank 2 sends 20 bytes where this rank, 1, receives 10 (tag 3)");
  }
}

TEST(Messenger, RefuseWhatIsNone) {
  MessengerWorld world({.ranks = 2, .least_capacity = 300, .seed = 1});
  Bytes memory(10);
  world[0].send({.to = 1, .tag = 1, .bytes = {}});  // so that the stream stands
  world.world().inject(0, 1, text_of(1, 16));
  world[1].receive({.from = 0, .tag = 3, .into = memory});
  EXPECT_THAT(error_of(world, ErrorCode::mismatch), HasSubstr("rank 0 sent what is no message"));
}

TEST(Messenger, FromAnyDoWithoutThoseWhoAreGoneWhileOthersAreLeft) {
  MessengerWorld world({.ranks = 4, .least_capacity = 300, .seed = 7});
  const Bytes text = text_of(1, 60);
  std::vector<Bytes> memories(3, Bytes(text.size()));
  std::vector<Messenger::Ticket> tickets;
  for (Bytes& memory : memories) tickets.push_back(world[1].receive({.from = kAny, .tag = 7, .into = memory}));
  // Rank 0 says what it has to say and leaves; rank 3 leaves without a word.
  world[0].send({.to = 1, .tag = 7, .bytes = text});
  for (int i = 0; i < 100 && !world[0].is_idle(); ++i) world.step();
  world[3].receive({.from = kAny, .tag = 1, .into = {}});  // so that its stream stands
  for (int i = 0; i < 100; ++i) world.step();
  for (const uint32_t gone : {0u, 3u}) {
    world.silence(gone);
    world.world().end_rank(gone);
  }
  world.settle();
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{tickets[0], 0}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(world[1].waiting_for(), 2u);
  world[2].send({.to = 1, .tag = 7, .bytes = text});
  world.settle();
  EXPECT_THAT(world.ended(1), ElementsAre(MessageEnd{tickets[1], 2}));
  world.silence(2);
  world.world().end_rank(2);
  EXPECT_THAT(error_of(world, ErrorCode::peer_lost), HasSubstr("the connection to rank 2"));
}

TEST(Messenger, WhoeverIsGoneInTheMiddleOfAMessageOrAwaitedIsMissed) {
  for (const bool is_named : {false, true}) {
    MessengerWorld world({.ranks = 3, .least_capacity = 10, .most_capacity = 20, .seed = 3});
    const Bytes text = text_of(1, 1000);
    Bytes memory(text.size());
    world[1].receive({.from = kAny, .tag = 7, .into = memory});
    if (is_named) {
      world[0].receive({.from = 1, .tag = 7, .into = {}});
    } else {
      world[0].send({.to = 1, .tag = 7, .bytes = text});
    }
    for (int i = 0; i < 60; ++i) world.step();
    world.silence(0);
    world.world().end_rank(0);
    if (is_named) world[1].receive({.from = 0, .tag = 1, .into = {}});
    EXPECT_THAT(error_of(world, ErrorCode::peer_lost), HasSubstr("the connection to rank 0"));
  }
}

}  // namespace
}  // namespace banyan::run
