// A whole world of agents in one thread, in a simulated network: what they tell each other of who lives, whatever order
// a seed puts events in.
#include <gmock/gmock.h>

#include <optional>

#include "banyan/run/agent/core.h"
#include "banyan/testing/simulated_network.h"

namespace banyan::run {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::SimulatedNetwork;
using testing::SimulatedTime;

constexpr uint64_t kSeeds = 200;
constexpr uint64_t kGroup = 7;

class World {
 public:
  World(uint64_t seed, uint32_t least_ranks = 2)
      : size_(least_ranks + static_cast<uint32_t>(seed % 7)),
        network_(time_, {.processes = size_, .seed = seed, .lost_after = seconds(10)}) {
    for (uint32_t rank = 0; rank < size_; ++rank) hosts_.push_back(network_.draw(1 + size_ / 2));
    for (uint32_t rank = 0; rank < size_; ++rank) ranks_.push_back(std::make_unique<Rank>(*this, rank));
    for (uint32_t rank = 0; rank < size_; ++rank) {
      time_.after(network_.delay(), [this, rank] {
        if (is_alive(rank)) ranks_[rank]->core.start();
      });
    }
  }

  uint32_t size() const { return size_; }
  SimulatedNetwork& network() { return network_; }
  SimulatedTime& time() { return time_; }
  uint32_t draw_rank() { return static_cast<uint32_t>(network_.draw(size_)); }
  bool is_alive(uint32_t rank) const { return ranks_[rank] != nullptr; }
  AgentCore& core(uint32_t rank) { return ranks_[rank]->core; }
  std::vector<std::string>& texts(uint32_t rank) { return ranks_[rank]->texts; }
  std::vector<uint32_t> alive() const {
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < size_; ++rank) {
      if (is_alive(rank)) ranks.push_back(rank);
    }
    return ranks;
  }
  // OutgoingConnects `event` at a moment within `time`.
  void some_time_within(milliseconds time, std::function<void()> event) {
    time_.after(microseconds(network_.draw(static_cast<uint64_t>(microseconds(time).count()))), std::move(event));
  }
  // As by kill -9. The kernel tells the processes of its host.
  void kill(uint32_t rank) {
    if (!is_alive(rank) || alive().size() == 1) return;
    network_.end(rank);
    ranks_[rank].reset();
    for (uint32_t other = 0; other < size_; ++other) {
      if (hosts_[other] != hosts_[rank]) continue;
      time_.after(network_.delay(), [this, rank, other] {
        if (is_alive(other) && ranks_[other]->processes.is_watched(rank)) ranks_[other]->core.process_ended(rank);
      });
    }
  }
  // What those who live think of all others, where that is wrong.
  std::string wrong_opinions() {
    std::string text;
    for (const uint32_t rank : alive()) {
      for (uint32_t other = 0; other < size_; ++other) {
        const Health truth = is_alive(other) ? Health::alive : Health::dead;
        const Health opinion = core(rank).liveness().state(other);
        if (opinion == truth) continue;
        text += "rank " + std::to_string(rank) + " takes rank " + std::to_string(other) + " for " +
                std::string(to_string(opinion)) + " (" + core(rank).liveness().why(other) + ")\n";
      }
    }
    return text;
  }

 private:
  struct Processes : ProcessObserver {
    Processes(const World& world, uint32_t own) {
      for (uint32_t rank = 0; rank < world.size_; ++rank) {
        if (rank != own && world.hosts_[rank] == world.hosts_[own]) watched.insert(rank);
      }
    }
    bool is_watched(uint32_t rank) const override { return watched.contains(rank); }
    void forget(uint32_t rank) override { watched.erase(rank); }
    std::set<uint32_t> watched;
  };
  struct Rank {
    Rank(World& world, uint32_t own)
        : processes(world, own),
          core(world.time_, world.network_.dialer(own), processes,
               {.own = own, .names = world.names(), .lost_after = seconds(10)},
               {.joined = [] {}, .changed = [](uint32_t) {}}) {
      world.network_.listen(
          own, [this](uint32_t from, std::unique_ptr<ByteStream> stream) { core.adopt(from, std::move(stream)); });
      hooks = core.hooks()->attach(kGroup, {.state = [own] { return "state of " + std::to_string(own); },
                                            .broadcast = [this](const std::string& text) { texts.push_back(text); },
                                            .liveness_changed = {}});
    }
    Processes processes;
    std::vector<std::string> texts;
    AgentCore core;
    HookRegistration hooks;
  };
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (uint32_t rank = 0; rank < size_; ++rank) names.push_back("process " + std::to_string(rank));
    return names;
  }

  const uint32_t size_;
  SimulatedTime time_;
  SimulatedNetwork network_;
  std::vector<uint64_t> hosts_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // none: dead
};

TEST(SimulatedAgents, TellAllWhoIsDeadAndOnlyThat) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
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
    World world(seed);
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
    World world(seed);
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
    World world(seed);
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
    World world(seed, 3);
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
    World world(seed, 3);
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
