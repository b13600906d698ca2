// A whole world of agents in one thread, in a simulated network: what they tell each other of who lives, whatever order
// a seed puts events in.

#include "banyan/run/agent/test_simulated_world.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr uint64_t kGroup = SimulatedWorld::kGroup;

TEST(SimulatedAgents, TellAllWhoIsDeadAndOnlyThat) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed);
    const uint64_t deaths = 1 + world.network().draw(world.size());
    for (uint64_t i = 0; i < deaths; ++i) {
      world.some_time_within(milliseconds(100), [&] { world.kill(world.draw_rank()); });
    }
    world.time().run_for(seconds(5));
    ASSERT_EQ(world.wrong_opinions(), "");
  }
}

TEST(SimulatedAgents, DeclareNobodyDeadForABrokenConnection) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed);
    for (int i = 0; i < 40; ++i) {
      world.time().after(milliseconds(50 * i) + microseconds(world.network().draw(50'000)),
                         [&] { world.network().reset(world.draw_rank(), world.draw_rank()); });
    }
    world.time().run_for(seconds(5));
    ASSERT_EQ(world.wrong_opinions(), "");
  }
}

TEST(SimulatedAgents, DeclareNobodyDeadForACutThatIsHealed) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed);
    world.time().run_for(milliseconds(200));
    const std::shared_ptr<void> watched(nullptr, [](void*) {});
    for (const uint32_t rank : world.alive()) world.core(rank).hub().expect(true);
    std::set<uint32_t> side;
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      if (world.network().draw(2) == 0) side.insert(rank);
    }
    world.network().cut(side);
    world.time().run_for(seconds(1 + world.network().draw(8)));
    world.network().heal();
    world.time().run_for(seconds(5));
    ASSERT_EQ(world.wrong_opinions(), "") << "the silent answer again";
  }
}

TEST(SimulatedAgents, TellEverybodyEverythingOnceThoughConnectionsBreak) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed);
    std::vector<std::string> sent;
    for (int i = 0; i < 20; ++i) {
      world.some_time_within(seconds(2), [&] {
        sent.push_back("text " + std::to_string(sent.size()));
        world.core(world.draw_rank()).queries().tell(kGroup, sent.back());
      });
      world.some_time_within(seconds(2), [&] { world.network().reset(world.draw_rank(), world.draw_rank()); });
    }
    world.time().run_for(seconds(8));
    ASSERT_EQ(world.wrong_opinions(), "");
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      ASSERT_THAT(world.texts(rank), ::testing::UnorderedElementsAreArray(sent)) << "rank " << rank;
    }
  }
}

TEST(SimulatedAgents, AnswerQuestionsThoughTheHubDies) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed, 3, 9);
    world.time().run_for(milliseconds(100));
    const uint32_t asker = 1 + static_cast<uint32_t>(world.network().draw(world.size() - 1));
    std::optional<std::vector<PeerReport>> reports;
    world.some_time_within(milliseconds(10), [&] { world.kill(0); });
    world.some_time_within(milliseconds(10), [&] {
      world.core(asker).queries().ask(kGroup, world.time().now() + seconds(1),
                                      [&](std::vector<PeerReport> found) { reports = std::move(found); });
    });
    world.time().run_for(seconds(2));
    ASSERT_TRUE(reports.has_value());
    for (uint32_t rank = 1; rank < world.size(); ++rank) {
      ASSERT_EQ((*reports)[rank].health, Health::alive) << "rank " << rank << ", asked by " << asker;
      ASSERT_EQ((*reports)[rank].text, "state of " + std::to_string(rank));
    }
  }
}

TEST(SimulatedAgents, AgreeWhoSurvivesWhileMoreDieAndConnectionsBreak) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimulatedWorld world(seed, 3, 9);
    world.time().run_for(milliseconds(50));
    std::vector<uint32_t> all;
    for (uint32_t rank = 0; rank < world.size(); ++rank) all.push_back(rank);
    std::vector<std::optional<Membership::Outcome>> outcomes(world.size());
    for (const uint32_t rank : all) {
      world.some_time_within(milliseconds(100), [&, rank] {
        if (!world.is_alive(rank)) return;
        SurvivorQuestion question{.epoch = 9, .candidates = all, .card = "card " + std::to_string(rank)};
        question.deadline = world.time().now() + seconds(20);
        world.core(rank).membership().agree(
            question, [&outcomes, rank](Membership::Outcome outcome) { outcomes[rank] = std::move(outcome); });
      });
    }
    for (uint64_t i = world.network().draw(world.size()); i > 0; --i) {
      world.some_time_within(milliseconds(150), [&] { world.kill(world.draw_rank()); });
      world.some_time_within(milliseconds(150), [&] { world.network().reset(world.draw_rank(), world.draw_rank()); });
    }
    world.time().run_for(seconds(25));
    ASSERT_EQ(world.wrong_opinions(), "");
    const std::vector<uint32_t> alive = world.alive();
    ASSERT_TRUE(outcomes[alive.front()] && outcomes[alive.front()]->survivors);
    const Survivors& agreed = *outcomes[alive.front()]->survivors;
    EXPECT_TRUE(std::includes(agreed.ranks.begin(), agreed.ranks.end(), alive.begin(), alive.end()));
    for (const uint32_t rank : alive) {
      ASSERT_TRUE(outcomes[rank] && outcomes[rank]->survivors) << "rank " << rank;
      ASSERT_EQ(outcomes[rank]->survivors->ranks, agreed.ranks) << "rank " << rank;
    }
    for (size_t i = 0; i < agreed.ranks.size(); ++i) {
      ASSERT_EQ(agreed.cards[i], "card " + std::to_string(agreed.ranks[i]));
    }
  }
}

}  // namespace
}  // namespace banyan::run
