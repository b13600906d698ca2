#include "banyan/run/execute/plans_in_force.h"

#include "banyan/run/execute/test_executors.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Two ways between each two ranks, by cable 0 and by cable 1. Nobody asks for a plan.
class TwoCables : public WaylessSource {
 public:
  explicit TwoCables(std::set<uint32_t> lost = {}) : lost_(std::move(lost)) {}
  Answer plan(const Question&) override { throw std::logic_error("nothing is called"); }
  std::vector<Way> ways_between(uint32_t own, uint32_t peer) const override {
    std::vector<Way> ways;
    for (const uint32_t cable : {0u, 1u}) {
      if (!lost_.contains(cable)) ways.push_back({.path = path(cable, own, peer), .cables = {cable}});
    }
    return ways;
  }
  bool knows_ways() const override { return true; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate& update) const override {
    return std::make_shared<TwoCables>(update.lost_cables);
  }
  static Path path(uint32_t cable, uint32_t own, uint32_t peer) {
    const std::string network = "10." + std::to_string(cable) + ".0.";
    return {network + std::to_string(own), network + std::to_string(peer)};
  }

 private:
  const std::set<uint32_t> lost_;
};

// Keeps what is tried; the test says how that ends.
class Trials : public ChannelTransport, private LaneControl {
 public:
  size_t write(uint32_t, std::span<const std::byte>, std::span<const std::byte>) override { return 0; }
  std::span<const std::byte> peek(uint32_t) override { return {}; }
  void consume(uint32_t, size_t) override {}
  size_t read(uint32_t, std::span<std::byte>) override { return 0; }
  uint32_t channel(uint32_t peer, uint32_t lane) const override { return 8 * lane + peer; }
  void wake() override {}
  bool has_unsent_but(LaneChoice) override { return false; }
  LaneControl* lane_control() override { return this; }
  void prepare(WaitSet&) override {}
  bool react(std::span<const pollfd>) override { return false; }

  std::vector<Tried> begun;  // in the order in which they were asked for
  std::vector<Tried> ended;  // to be told

 private:
  void pace(uint32_t, uint64_t) override {}
  void mark(uint8_t) override {}
  std::vector<LaneHealth> health() override { return {}; }
  void drop_if(const std::function<bool(uint32_t)>&) override {}
  std::vector<std::byte> drain(uint32_t) override { return {}; }
  size_t in_flight(uint32_t) override { return 0; }
  bool was_reset(uint32_t) override { return false; }
  void announce_path(uint32_t, const Path&) override {}
  void try_path(uint32_t peer, const Path& path) override { begun.push_back({.peer = peer, .path = path}); }
  std::vector<Tried> tried() override { return std::exchange(ended, {}); }
};

// Plans do without what is lost, so only those before them know the paths that crossed it.
TEST(PlansInForce, TryThePathsThatCrossedALostCableUntilOneCarriesAgain) {
  Trials trials;
  std::vector<std::string> sent;
  NetOptions options;
  options.send = [&](const std::string& text) { sent.push_back(text); };
  PlansInForce plans({.rank = 0, .ranks = 3, .source = std::make_shared<TwoCables>()}, options, trials);
  const LostPaths::TimePoint start = std::chrono::steady_clock::now();
  plans.try_lost_paths(start + LostPaths::kFirstPause);
  EXPECT_TRUE(trials.begun.empty()) << "nothing is lost";

  plans.adopt({.generation = 1, .lost_cables = {0}}, {});
  EXPECT_EQ(plans.present().generation(), 1u);
  const LostPaths::TimePoint due = std::chrono::steady_clock::now() + LostPaths::kFirstPause;
  plans.try_lost_paths(due);
  ASSERT_EQ(trials.begun.size(), 2u);
  for (const uint32_t peer : {1u, 2u}) {
    EXPECT_EQ(trials.begun[peer - 1].peer, peer);
    EXPECT_EQ(trials.begun[peer - 1].path, TwoCables::path(0, 0, peer));
  }

  trials.ended = {{.peer = 1, .path = TwoCables::path(0, 0, 1), .works = false},
                  {.peer = 2, .path = TwoCables::path(0, 0, 2), .works = true}};
  plans.try_lost_paths(due);
  plans.advance({.is_idle = true});
  ASSERT_FALSE(sent.empty()) << "a path that carries is a wish to use its cables";

  plans.adopt({.generation = 2}, {});
  trials.begun.clear();
  plans.try_lost_paths(due + LostPaths::kLongestPause);
  EXPECT_TRUE(trials.begun.empty()) << "its cables are in use again";
}

}  // namespace
}  // namespace banyan::run
