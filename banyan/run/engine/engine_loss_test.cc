// One rank is lost at every step that it takes, in every way in which a rank can be lost; or one connection. Nobody
// hangs: every other rank has its right results, or an error that names who is missing, or waits for the one that is
// silent, and says so.
//
// The engine learns of a loss when it uses a connection; of one between others it is told. As in a communicator, who
// meets an error tells all, and so does who notices that a process has ended; a rank that is told looks on until
// nothing moves any more, since what was sent before may suffice.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using ::testing::AnyOf;

// killed: its end is seen, after what it has sent. reset: with what it has sent. cut: it lives, and a connection of it
// does not. silent: it does nothing any more, and nothing is seen of that.
enum class Loss { killed, reset, cut, silent };

struct Scene {
  OperationKind kind = OperationKind::all_reduce;
  uint32_t ranks = 2;
  Loss loss = Loss::killed;
  uint32_t victim = 0;
  uint32_t other = 0;  // the other end of what is cut
  uint64_t round = 0;  // another order of events
  uint64_t step = 0;   // of the victim: so many times something has moved there

  // The same at every step, so that each scene is like the one before until then.
  uint64_t seed() const {
    return 1 + ((round * kOperationKinds + static_cast<uint64_t>(kind)) * 8 + ranks) * 8 + victim;
  }
  std::string words() const {
    constexpr const char* kWords[] = {"killed", "reset", "cut", "silent"};
    return "rank " + std::to_string(victim) + " of " + std::to_string(ranks) + " " + kWords[static_cast<size_t>(loss)] +
           (loss == Loss::cut ? " from " + std::to_string(other) : "") + " at step " + std::to_string(step) + " of " +
           std::string(to_string(kind)) + ", seed " + std::to_string(seed());
  }
};

class Play {
 public:
  explicit Play(const Scene& scene) : scene_(scene), world_(world_of(scene)), ranks_(scene.ranks) {
    for (uint64_t i = 0; i < kOperations; ++i) {
      operations_.push_back(TestOperation({.kind = scene.kind,
                                           .ranks = scene.ranks,
                                           .in_place = i % 2 == 1,
                                           .elements = 20 + 7 * i,
                                           .root = static_cast<uint32_t>((scene.seed() + i) % scene.ranks),
                                           .seed = scene.seed() * kOperations + i}));
    }
    for (uint32_t rank = 0; rank < scene.ranks; ++rank) {
      ranks_[rank].engine = std::make_unique<Engine>(world_.transport(rank), EngineOptions{.slice_bytes = 16});
      for (uint64_t i = 0; i < kOperations; ++i) {
        ranks_[rank].tickets.push_back(ranks_[rank].engine->start(operations_[i].command(rank, i + 1)));
      }
    }
  }

  // False when the victim was done before the step.
  bool run() {
    constexpr uint32_t kStill = 300;  // calls that move nothing, so that nothing can: one in four fails at random
    for (uint32_t still = 0; still < kStill * scene_.ranks;) {
      const auto number = static_cast<uint32_t>(world_.draw(scene_.ranks));
      bool moved = world_.draw(3) == 0 && world_.deliver_some();
      moved |= act(number);
      still = moved ? 0 : still + 1;
      if (still == kStill * scene_.ranks - 1 && tell()) still = 0;
    }
    return is_lost_;
  }

  void expect_an_end() {
    for (uint32_t rank = 0; rank < scene_.ranks; ++rank) {
      if (rank == scene_.victim && scene_.loss != Loss::cut) continue;
      for (uint64_t i = 0; i < kOperations; ++i) {
        const std::optional<Error>& error = ranks_[rank].error;
        const bool is_done = ranks_[rank].engine->is_done(ranks_[rank].tickets[i]);
        ASSERT_TRUE(is_done || error) << "rank " << rank << " hangs";
        if (is_done) {
          ASSERT_EQ(operations_[i].wrong_elements(rank), 0u) << "rank " << rank << ", operation " << i;
          continue;
        }
        ASSERT_EQ(error->code(), ErrorCode::peer_lost);
        const std::string victim = "rank " + std::to_string(scene_.victim);
        const std::string other = "rank " + std::to_string(scene_.loss == Loss::cut ? scene_.other : scene_.victim);
        ASSERT_THAT(error->message(), AnyOf(HasSubstr(victim), HasSubstr(other)));
      }
      if (ranks_[rank].engine->is_idle()) {
        ASSERT_EQ(ranks_[rank].engine->pool().taken_bytes(), 0u);
      }
      ranks_[rank].engine.reset();  // gives all back, as a CHECK of the pool demands
    }
  }

  // Whoever is not done waits, directly or not, for the one that is silent, and can be ended by its timeout.
  void expect_to_wait_for_the_silent() {
    for (uint32_t rank = 0; rank < scene_.ranks; ++rank) {
      if (rank == scene_.victim || ranks_[rank].has_failed || ranks_[rank].engine->is_idle()) continue;
      std::vector<bool> reached(scene_.ranks, false);
      reach(rank, reached);
      ASSERT_TRUE(reached[scene_.victim]) << "rank " << rank << " does not say that it waits for it";
    }
    for (uint32_t rank = 0; rank < scene_.ranks; ++rank) {
      if (rank == scene_.victim) continue;
      const std::string who = "rank " + std::to_string(scene_.victim) + " gives no sign of life";
      if (!ranks_[rank].error) ranks_[rank].error = Error(ErrorCode::peer_lost, who);
      take_results(rank);
    }
    expect_an_end();
  }

  uint32_t unfinished() const {
    uint32_t count = 0;
    for (const Rank& rank : ranks_) count += rank.has_failed ? 1 : 0;
    return count;
  }

 private:
  static constexpr uint64_t kOperations = 2;

  struct Rank {
    std::unique_ptr<Engine> engine;
    std::vector<Engine::Ticket> tickets;
    std::vector<bool> is_taken = std::vector<bool>(kOperations, false);
    bool has_failed = false;
    std::optional<Error> error = {};  // that ended what was not done, and that it goes on with no more
  };

  static testing::SimulatedWorld::Options world_of(const Scene& scene) {
    return {.ranks = scene.ranks, .least_capacity = 20, .most_capacity = 100, .seed = scene.seed()};
  }

  bool is_gone(uint32_t rank) const { return is_lost_ && rank == scene_.victim && scene_.loss != Loss::cut; }

  // One thing that one rank does.
  bool act(uint32_t number) {
    if (is_gone(number) || ranks_[number].has_failed) return false;
    bool moved = false;
    try {
      moved = ranks_[number].engine->progress();
    } catch (const Error& error) {
      fail(number, error);
      return true;
    }
    take_results(number);
    if (number == scene_.victim && moved && steps_++ == scene_.step && !ranks_[number].engine->is_idle()) lose();
    return moved;
  }

  void lose() {
    is_lost_ = true;
    if (scene_.loss == Loss::cut) {
      world_.cut(scene_.victim, scene_.other);
    } else if (scene_.loss != Loss::silent) {
      world_.end_rank(scene_.victim);
      news_ = "rank " + std::to_string(scene_.victim) + " is dead";
    }
    if (scene_.loss != Loss::reset) return;
    for (uint32_t peer = 0; peer < scene_.ranks; ++peer) world_.cut(scene_.victim, peer);
  }

  void fail(uint32_t number, const Error& error) {
    ranks_[number].has_failed = true;
    ranks_[number].error = error;
    if (news_.empty()) news_ = error.message();
    take_results(number);  // one may have been over just before
  }

  // Nothing moves: whoever has heard news now ends with it. False when there are none, or nobody left to hear them.
  bool tell() {
    bool heard = false;
    expect_noticed();
    for (uint32_t number = 0; number < scene_.ranks && !news_.empty(); ++number) {
      if (is_gone(number) || ranks_[number].has_failed || ranks_[number].engine->is_idle()) continue;
      fail(number, Error(ErrorCode::peer_lost, news_));
      heard = true;
    }
    return heard;
  }

  // Whose next operation needs a connection that is lost has met an error by now, and waits no more.
  void expect_noticed() const {
    const bool is_cut = scene_.loss == Loss::cut;
    for (uint32_t number = 0; number < scene_.ranks && is_lost_ && scene_.loss != Loss::silent; ++number) {
      if (is_gone(number) || (is_cut && number != scene_.victim && number != scene_.other)) continue;
      const uint32_t lost = is_cut && number == scene_.victim ? scene_.other : scene_.victim;
      const std::vector<Engine::Waiting> waiting = ranks_[number].engine->waiting_for();
      if (waiting.empty() || ranks_[number].has_failed) continue;
      EXPECT_THAT(waiting.front().peers, Not(Contains(lost))) << "rank " << number << " did not notice";
    }
  }

  void take_results(uint32_t number) {
    Rank& rank = ranks_[number];
    for (uint64_t i = 0; i < kOperations; ++i) {
      if (rank.is_taken[i] || !rank.engine->is_done(rank.tickets[i])) continue;
      rank.is_taken[i] = true;
      operations_[i].take_result(number);
    }
  }

  void reach(uint32_t rank, std::vector<bool>& reached) const {
    if (reached[rank]) return;
    reached[rank] = true;
    if (is_gone(rank) || ranks_[rank].has_failed) return;
    for (const Engine::Waiting& waiting : ranks_[rank].engine->waiting_for()) {
      for (const uint32_t peer : waiting.peers) reach(peer, reached);
    }
  }

  const Scene scene_;
  testing::SimulatedWorld world_;
  std::vector<TestOperation> operations_;
  std::vector<Rank> ranks_;
  uint64_t steps_ = 0;
  bool is_lost_ = false;
  std::string news_;  // what is told of the loss; empty while nobody knows of it
};

class EngineLoss : public ::testing::TestWithParam<OperationKind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, EngineLoss,
                         ::testing::Values(OperationKind::all_reduce, OperationKind::all_gather,
                                           OperationKind::broadcast, OperationKind::reduce_scatter,
                                           OperationKind::reduce, OperationKind::all_to_all, OperationKind::barrier),
                         [](const auto& each) {
                           std::string name(to_string(each.param));
                           std::erase(name, '-');
                           return name;
                         });

struct Tally {
  uint64_t scenes = 0, failures = 0;  // ranks that ended with an error
};

// Plays the scene at every step of the victim.
void play_every_step(Scene scene, Tally& tally) {
  for (scene.step = 0;; ++scene.step) {
    SCOPED_TRACE(scene.words());
    Play play(scene);
    if (!play.run()) return;
    if (scene.loss == Loss::silent) {
      play.expect_to_wait_for_the_silent();
    } else {
      play.expect_an_end();
    }
    if (::testing::Test::HasFatalFailure()) return;
    ++tally.scenes;
    tally.failures += play.unfinished();
  }
}

constexpr uint64_t kRounds = 2;

void expect_losses(const Tally& tally) {
  ::testing::Test::RecordProperty("scenes", std::to_string(tally.scenes));
  EXPECT_GT(tally.scenes, 100u);
  EXPECT_GT(tally.failures, tally.scenes / 4) << "losses were noticed";
}

TEST_P(EngineLoss, OfAnyRankAtAnyStepLeavesNobodyWaiting) {
  Tally tally;
  for (Scene scene{.kind = GetParam()}; scene.round < kRounds; ++scene.round) {
    for (scene.ranks = 2; scene.ranks <= 4; ++scene.ranks) {
      for (scene.victim = 0; scene.victim < scene.ranks; ++scene.victim) {
        for (const Loss loss : {Loss::killed, Loss::reset, Loss::silent}) {
          scene.loss = loss;
          ASSERT_NO_FATAL_FAILURE(play_every_step(scene, tally));
        }
      }
    }
  }
  expect_losses(tally);
}

TEST_P(EngineLoss, OfAnyConnectionAtAnyStepLeavesNobodyWaiting) {
  Tally tally;
  for (Scene scene{.kind = GetParam(), .loss = Loss::cut}; scene.round < kRounds; ++scene.round) {
    for (scene.ranks = 2; scene.ranks <= 4; ++scene.ranks) {
      for (scene.victim = 0; scene.victim < scene.ranks; ++scene.victim) {
        for (scene.other = 0; scene.other < scene.ranks; ++scene.other) {
          if (scene.other == scene.victim) continue;
          ASSERT_NO_FATAL_FAILURE(play_every_step(scene, tally));
        }
      }
    }
  }
  expect_losses(tally);
}

}  // namespace
}  // namespace banyan::run
