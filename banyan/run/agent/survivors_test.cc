#include "banyan/run/agent/agent.h"
#include "banyan/run/agent/test_worlds.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = Agent::Clock;
using Member = ForkedWorld::Member;

SurvivorQuestion question_of(const Agent& agent, uint64_t epoch, milliseconds patience = milliseconds(1500)) {
  SurvivorQuestion question{.epoch = epoch, .card = "card " + std::to_string(agent.rank()), .patience = patience};
  question.candidates.resize(agent.liveness().size());
  std::iota(question.candidates.begin(), question.candidates.end(), 0u);
  question.deadline = Clock::now() + ForkedWorld::kLong;
  return question;
}

std::string text_of(const Survivors& survivors) {
  std::ostringstream text;
  for (size_t i = 0; i < survivors.ranks.size(); ++i) {
    text << survivors.ranks[i] << (survivors.cards[i] == "card " + std::to_string(survivors.ranks[i]) ? "" : "?")
         << " ";
  }
  return text.str();
}

milliseconds since(Clock::time_point start) { return std::chrono::duration_cast<milliseconds>(Clock::now() - start); }

TEST(Survivors, AgreeQuicklyWhenOneWasKilled) {
  ForkedWorld world({"a", "a", "a", "a", "b", "b", "b", "b"}, [](Member& member) -> std::string {
    const auto agent = start_agent(member);
    member.say(1);
    if (!wait_for_state(*agent, 0, Health::dead)) return "it was not noticed";
    const auto start = Clock::now();
    const std::string text = text_of(agent->agree(question_of(*agent, 1)));
    const milliseconds time = since(start);
    member.say(2);
    member.wait_for_test(2);
    return text + "after " + std::to_string(time.count()) + " ms";
  });
  ASSERT_TRUE(world.all_say(1));
  world.strike(0, SIGKILL);
  for (uint32_t rank = 1; rank < 8; ++rank) ASSERT_TRUE(world.board().wait_for(rank, 2)) << rank;
  world.say(2);
  for (uint32_t rank = 1; rank < 8; ++rank) {
    const std::string report = world.report(rank);
    EXPECT_THAT(report, StartsWith("1 2 3 4 5 6 7 after "));
    std::printf("rank %u: %s\n", rank, report.c_str());
    EXPECT_LT(std::stoi(report.substr(report.find("after ") + 6)), 1400);
  }
}

// Processes are killed while they agree. All who come back say the same, and it holds all who live.
TEST(Survivors, AgreeWhoeverDiesWhenever) {
  const char* const seeds = std::getenv("BANYAN_TEST_SEEDS");
  const uint64_t count = seeds != nullptr ? std::strtoull(seeds, nullptr, 10) : 20;
  const uint64_t first = std::random_device()();
  std::printf("seeds from %lu on\n", first);
  milliseconds longest{0};
  for (uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t size = 3 + static_cast<uint32_t>(random() % 4);
    std::vector<std::string> hosts;
    for (uint32_t rank = 0; rank < size; ++rank) hosts.push_back(std::string(1, static_cast<char>('a' + random() % 3)));
    ForkedWorld world(hosts, [](Member& member) -> std::string {
      const auto agent = start_agent(member);
      member.say(1);
      member.wait_for_test(2);
      const std::string text = text_of(agent->agree(question_of(*agent, 1)));
      member.say(2);
      member.wait_for_test(3);
      return text;
    });
    ASSERT_TRUE(world.all_say(1));
    std::vector<uint32_t> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0u);
    std::shuffle(ranks.begin(), ranks.end(), random);
    const uint32_t deaths = 1 + static_cast<uint32_t>(random() % (size - 1));
    const auto start = Clock::now();
    world.say(2);
    for (uint32_t i = 0; i < deaths; ++i) {
      // Spins, since a sleep is longer than the whole agreement.
      const auto until = Clock::now() + std::chrono::microseconds(random() % 2500);
      while (Clock::now() < until) {
      }
      world.strike(ranks[i], SIGKILL);
    }
    std::string common;
    for (uint32_t i = deaths; i < size; ++i) {
      ASSERT_TRUE(world.board().wait_for(ranks[i], 2)) << "rank " << ranks[i] << " hangs, seed " << seed;
    }
    longest = std::max(longest, since(start));
    world.say(3);
    for (uint32_t i = deaths; i < size; ++i) {
      const std::string report = world.report(ranks[i]);
      if (common.empty()) common = report;
      EXPECT_EQ(report, common) << "rank " << ranks[i] << ", seed " << seed;
      EXPECT_THAT(" " + report, HasSubstr(" " + std::to_string(ranks[i]) + " ")) << "seed " << seed;
    }
  }
  std::printf("the longest took %ld ms\n", static_cast<long>(longest.count()));
}

TEST(Survivors, AreAskedOncePerEpoch) {
  LocalWorld world(1);
  EXPECT_EQ(text_of(world[0].agree(question_of(world[0], 1))), "0 ");
  EXPECT_EQ(testing::thrown_by([&] { world[0].agree(question_of(world[0], 1)); }).code(), ErrorCode::invalid_input);
}

}  // namespace
}  // namespace banyan::run
