#include "banyan/service/share/fair_queue.h"

#include <limits>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Client = FairQueue::Client;

void enter(FairQueue& queue, Client client, double weight) {
  queue.set_weight(client, weight);
  queue.set_waiting(client, true);
}

// What each client got of so many pieces of cost 1, all served in turn.
std::map<Client, int> serve_in_turn(FairQueue& queue, int pieces, double cost = 1) {
  std::map<Client, int> got;
  for (int i = 0; i < pieces; ++i) {
    const Client client = queue.next().value();
    queue.serve(client, cost);
    ++got[client];
  }
  return got;
}

TEST(FairQueue, ServesByWeight) {
  FairQueue queue;
  enter(queue, 7, 1);
  enter(queue, 8, 3);
  const auto got = serve_in_turn(queue, 400);
  EXPECT_NEAR(got.at(7), 100, 1);
  EXPECT_NEAR(got.at(8), 300, 3);
}

TEST(FairQueue, AsksNobodyWhenNobodyWaitsAndTheLowestNumberOfEquals) {
  FairQueue queue;
  EXPECT_EQ(queue.next(), std::nullopt);
  queue.set_weight(5, 1);
  EXPECT_EQ(queue.next(), std::nullopt);
  EXPECT_FALSE(queue.is_waiting(5));
  EXPECT_FALSE(queue.is_waiting(99));
  enter(queue, 9, 1);
  enter(queue, 4, 1);
  queue.set_waiting(5, true);
  EXPECT_EQ(queue.next(), Client{4});
  EXPECT_EQ(queue.next(), Client{4});
  queue.remove(4);
  queue.remove(4);
  EXPECT_EQ(queue.next(), Client{5});
  queue.set_waiting(5, false);
  EXPECT_EQ(queue.next(), Client{9});
  EXPECT_TRUE(queue.is_waiting(9));
}

TEST(FairQueue, CountsANewWeightFromTheNextPieceOn) {
  FairQueue queue;
  enter(queue, 0, 1);
  queue.serve(0, 10);
  EXPECT_EQ(queue.lead(0), 10);
  queue.set_weight(0, 5);
  EXPECT_EQ(queue.lead(0), 10);
  queue.serve(0, 10);
  EXPECT_EQ(queue.virtual_time(), 10);
  EXPECT_EQ(queue.lead(0), 2);
}

TEST(FairQueue, WhoWasIdleNeitherSavesUpNorPays) {
  FairQueue queue;
  enter(queue, 0, 1);
  enter(queue, 1, 1);
  queue.set_waiting(0, false);
  serve_in_turn(queue, 1000);
  queue.set_waiting(0, true);
  // 1 had the link alone for long: it neither waits for that now, nor had 0 saved up anything.
  auto got = serve_in_turn(queue, 10);
  EXPECT_NEAR(got[0], 5, 1);
  EXPECT_NEAR(got[1], 5, 1);
}

TEST(FairQueue, ALightClientDoesNotPayForItsLastPieceAfterAllWereIdle) {
  FairQueue queue;
  enter(queue, 0, 1);
  serve_in_turn(queue, 1);
  queue.set_waiting(0, false);
  // By its own finish tag it would come after 1000 pieces of the other one.
  enter(queue, 1, 1000);
  queue.set_waiting(0, true);
  EXPECT_GE(serve_in_turn(queue, 2)[0], 1);
}

TEST(FairQueue, WhoStopsWaitingAfterEveryPieceGetsNoMoreThanItsPart) {
  FairQueue queue;
  enter(queue, 0, 1);
  enter(queue, 1, 1);
  enter(queue, 2, 2);
  std::map<Client, int> got;
  for (int i = 0; i < 4000; ++i) {
    const Client client = queue.next().value();
    queue.serve(client, 1);
    ++got[client];
    queue.set_waiting(0, false);
    queue.set_waiting(0, true);
  }
  EXPECT_NEAR(got[0], 1000, 2);
  EXPECT_NEAR(got[1], 1000, 2);
  EXPECT_NEAR(got[2], 2000, 4);
}

// Small calls whose pieces come one after the other, each when the one before has been answered by somebody else.
TEST(FairQueue, ACreditServesWhoTakesLessThanItsPartAtOnceAndGivesItNoMore) {
  for (const double credit : {0.0, 3.0}) {
    FairQueue queue(credit);
    enter(queue, 0, 1);
    enter(queue, 1, 1);
    queue.set_waiting(1, false);
    int waits = 0;
    for (int bursts = 0; bursts < 100; ++bursts) {
      serve_in_turn(queue, 10);
      for (int pieces = 0; pieces < 3; ++pieces) {
        queue.set_waiting(1, true);
        while (queue.next() != Client{1}) {
          ++waits;
          queue.serve(0, 1);
        }
        queue.serve(1, 1);
        queue.set_waiting(1, false);
      }
    }
    EXPECT_EQ(waits, credit > 0 ? 0 : 200) << credit;
    // Who wants all that it can get, with what it has saved up at first.
    queue.set_waiting(1, true);
    const auto got = serve_in_turn(queue, 1000);
    EXPECT_NEAR(got.at(1), 500 + credit / 2, 2) << credit;
  }
}

TEST(FairQueue, WhoIsPassedOverKeepsItsClaim) {
  FairQueue queue;
  enter(queue, 0, 1);
  enter(queue, 1, 1);
  queue.serve(0, 1);  // client 1 is next
  const double then = queue.virtual_time();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(queue.next(), Client{1});
    queue.serve(0, 1);
  }
  EXPECT_EQ(queue.virtual_time(), then);
  EXPECT_EQ(queue.lead(0), 11);
  // It has 10 pieces to come, and its own turn after each of them.
  EXPECT_EQ(serve_in_turn(queue, 11)[1], 11);
}

TEST(FairQueue, WhoLeavesTakesItsClaimAlong) {
  FairQueue queue;
  enter(queue, 0, 1);
  enter(queue, 1, 1);
  for (int i = 0; i < 10; ++i) queue.serve(1, 1);
  queue.remove(0);
  queue.serve(1, 1);
  EXPECT_EQ(queue.virtual_time(), 10);
  queue.set_weight(0, 1);
  EXPECT_EQ(queue.lead(0), 0);
}

TEST(FairQueue, StaysFairHoweverFarItHasCome) {
  FairQueue queue;
  enter(queue, 0, 1);
  enter(queue, 1, 1);
  // A double that holds this does not feel a thousandth more.
  serve_in_turn(queue, 2, 1e17);
  serve_in_turn(queue, 1, 1e-3);
  const double before = queue.virtual_time();
  serve_in_turn(queue, 1 << 20, 1e-3);
  auto got = serve_in_turn(queue, 1 << 20, 1e-3);
  EXPECT_NEAR(got[0], got[1], 2);
  got = serve_in_turn(queue, 3 << 19, 1e-3);
  EXPECT_NEAR(got[0], got[1], 2);
  EXPECT_GE(queue.virtual_time(), before);
  EXPECT_NEAR(queue.lead(0), 0, 2e-3);
  queue.set_waiting(0, false);
  queue.set_waiting(1, false);
  EXPECT_NEAR(queue.lead(0), 0, 2e-3);
}

TEST(FairQueue, OurOwnMistakesEndTheProcess) {
  FairQueue queue;
  queue.set_weight(0, 1);
  EXPECT_DEATH(queue.serve(0, 1), "client 0 has no work");
  EXPECT_DEATH(queue.set_waiting(1, true), "client 1 was never given a weight");
  EXPECT_DEATH(queue.set_weight(0, 0), "client 0 gets weight 0");
}

// ---- Against fluid servers ----

// Two clients by their service so far, divided by their weights of the time: how far apart it moves while both wait.
struct Pair {
  bool is_open = false;
  double least = 0, most = 0;  // of the difference in this interval
};

// Clients come, go, fall idle and change weights at random, while pieces of random costs are served in turn.
class Crowd {
 public:
  static constexpr Client kMost = 6;
  explicit Crowd(uint32_t seed, double credit) : random_(seed), credit_(credit), queue_(credit) {}

  void step() {
    change();
    const std::optional<Client> next = queue_.next();
    if (!next) return;
    Member& served = members_[*next];
    const double cost = pick(1, 100);
    queue_.serve(*next, cost);
    served.got += cost / served.weight;
    served.largest = std::max(served.largest, cost / served.weight);
    // A fluid server gives everybody who waits the same for its weight, in the same time.
    double weights = 0;
    for (const auto& [client, member] : members_) weights += queue_.is_waiting(client) ? member.weight : 0;
    for (auto& [client, member] : members_) {
      if (queue_.is_waiting(client)) member.fluid += cost / weights;
    }
    look();
  }

 private:
  struct Member {
    double weight = 0;
    double got = 0, largest = 0;  // by weight
    double fluid = 0;             // the same, of a fluid server
  };

  double pick(double least, double most) { return std::uniform_real_distribution<>(least, most)(random_); }

  void change() {
    if (pick(0, 1) > 0.1) return;
    const Client client = static_cast<Client>(pick(0, kMost));
    const double weight = std::exp2(pick(0, 6));
    const double what = pick(0, 1);
    if (!members_.count(client)) {
      queue_.set_weight(client, weight);
      members_[client] = {.weight = weight};
    } else if (what < 0.1) {
      queue_.remove(client);
      members_.erase(client);
    } else if (what < 0.3) {
      queue_.set_weight(client, weight);
      members_[client].weight = weight;
    } else {
      queue_.set_waiting(client, !queue_.is_waiting(client));
    }
    for (Client a = 0; a < kMost; ++a) {
      for (Client b = 0; b < a; ++b) {
        if (a != client && b != client) continue;
        // A new weight ends no interval.
        if (!queue_.is_waiting(a) || !queue_.is_waiting(b)) pairs_[{a, b}].is_open = false;
      }
    }
    look();
  }

  void look() {
    for (Client a = 0; a < kMost; ++a) {
      for (Client b = 0; b < a; ++b) {
        if (!queue_.is_waiting(a) || !queue_.is_waiting(b)) continue;
        look(members_[a], members_[b], pairs_[{a, b}]);
      }
    }
  }

  // Over every interval in which both wait: the largest difference minus the least one.
  void look(const Member& a, const Member& b, Pair& pair) {
    const double apart = (a.got - a.fluid) - (b.got - b.fluid);
    if (!std::exchange(pair.is_open, true)) pair.least = pair.most = apart;
    pair.least = std::min(pair.least, apart);
    pair.most = std::max(pair.most, apart);
    ASSERT_LE(pair.most - pair.least, (a.largest + b.largest + credit_) * (1 + 1e-9));
  }

  std::mt19937 random_;
  const double credit_;
  FairQueue queue_;
  std::map<Client, Member> members_;
  std::map<std::pair<Client, Client>, Pair> pairs_;
};

TEST(FairQueue, IsNeverFartherFromAFluidServerThanItsBound) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd(seed, seed % 2 == 0 ? 0 : 30);
    for (int i = 0; i < 5000; ++i) crowd.step();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// One client with work that comes at random, and its private fluid link.
struct Sender {
  struct Piece {
    double comes, cost;
  };
  double weight = 1;
  std::vector<Piece> pieces;
  size_t arrived = 0, ended = 0;
  double fluid_end = 0;  // of its last piece, on its private link
  double largest = 0;
};

std::vector<Sender> random_senders(std::mt19937& random) {
  const auto pick = [&](double least, double most) { return std::uniform_real_distribution<>(least, most)(random); };
  std::vector<Sender> senders(2 + random() % 5);
  for (Sender& sender : senders) {
    sender.weight = std::exp2(pick(0, 8));
    const double size = std::exp2(pick(0, 6)), gap = pick(0.2, 10) * size;
    double now = 0;
    while (now < 20000 && sender.pieces.size() < 2000) {
      now += random() % 8 == 0 ? pick(0, 8 * gap) : 0;
      sender.pieces.push_back({.comes = now, .cost = pick(size / 4, size)});
      sender.largest = std::max(sender.largest, sender.pieces.back().cost);
    }
  }
  return senders;
}

// Serves all on a link of rate 1 and checks when each piece ends. Whether the link was ever idle in between.
bool serve_all(std::vector<Sender>& senders) {
  FairQueue queue;
  double weights = 0, largest = 0, now = 0;
  for (Client i = 0; i < senders.size(); ++i) {
    queue.set_weight(i, senders[i].weight);
    weights += senders[i].weight;
    largest += senders[i].largest;
  }
  bool was_idle = false;
  for (;;) {
    double next_arrival = std::numeric_limits<double>::infinity();
    for (Client i = 0; i < senders.size(); ++i) {
      Sender& sender = senders[i];
      while (sender.arrived < sender.pieces.size() && sender.pieces[sender.arrived].comes <= now) ++sender.arrived;
      if (sender.arrived < sender.pieces.size()) {
        next_arrival = std::min(next_arrival, sender.pieces[sender.arrived].comes);
      }
      if (sender.arrived > sender.ended) queue.set_waiting(i, true);
    }
    for (Client i = 0; i < senders.size(); ++i) queue.set_waiting(i, senders[i].arrived > senders[i].ended);
    const std::optional<Client> client = queue.next();
    if (!client && next_arrival == std::numeric_limits<double>::infinity()) return was_idle;
    if (!client) {
      was_idle = true;
      now = next_arrival;
      continue;
    }
    Sender& sender = senders[*client];
    const Sender::Piece& piece = sender.pieces[sender.ended++];
    queue.serve(*client, piece.cost);
    now += piece.cost;
    // The private link carries nothing before it comes, and one piece after the other.
    const double fluid_begin = std::max(piece.comes, sender.fluid_end);
    sender.fluid_end = fluid_begin + piece.cost / (sender.weight / weights);
    const double bound = fluid_begin + largest - sender.largest + piece.cost;
    if (now > bound * (1 + 1e-12)) ADD_FAILURE() << "client " << *client << " at " << now << ", bound " << bound;
  }
}

TEST(FairQueue, EveryPieceEndsSoonAfterItWouldBeginOnAPrivateFluidLink) {
  int idle = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::vector<Sender> senders = random_senders(random);
    idle += serve_all(senders) ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(idle, 20);
  EXPECT_LT(idle, 180);
}

}  // namespace
}  // namespace banyan::service
