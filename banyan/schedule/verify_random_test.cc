// The verifier against a slow execution of the same schedules, good ones and tampered ones.

#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/schedule_draft.h"
#include "banyan/testing/test.h"

namespace banyan::schedule {
namespace {

using testing::ChunkDraft;
using testing::ScheduleDraft;

// The same with switches that multicast and reduce, at random.
Fabric with_powers(const Fabric& fabric, uint64_t seed) {
  std::mt19937_64 random(seed);
  Fabric::Builder builder;
  for (Node node : fabric.nodes()) {
    if (node.kind == fabric::NodeKind::switch_) {
      node.multicast = random() % 2 == 0;
      node.reduce = random() % 2 == 0;
    }
    builder.add_node(node);
  }
  for (const Link& link : fabric.links()) builder.add_link(link);
  return std::move(builder).build();
}

constexpr std::array kKinds{CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce,
                            CollectiveKind::broadcast,  CollectiveKind::reduce,         CollectiveKind::all_to_all};

ScheduleDraft random_draft(uint64_t seed) {
  const Fabric plain = testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(seed % 6),
                                               .switches = static_cast<uint32_t>(seed / 6 % 3),
                                               .extra_cables = static_cast<uint32_t>(seed % 7),
                                               .directed = seed % 2 == 1,
                                               .seed = seed});
  const Fabric fabric = seed % 4 < 2 ? with_powers(plain, seed) : plain;
  return testing::random_schedule(
      fabric, {.kind = kKinds[seed / 4 % kKinds.size()], .steps = seed % 3 == 0, .seed = seed * 31 + 7});
}

// Changes one thing, mostly to another value that might do.
class Vandal {
 public:
  Vandal(ScheduleDraft& draft, uint64_t seed) : draft_(draft), random_(seed) {}

  void strike() {
    ChunkDraft& chunk = draft_.chunks[pick(draft_.chunks.size())];
    const bool in = chunk.out.empty() || (!chunk.in.empty() && pick(2) == 0);
    auto& tree = in ? chunk.in : chunk.out;
    auto& steps = in ? chunk.in_steps : chunk.out_steps;
    switch (pick(9)) {
      case 0:
        return strike_chunk(chunk);
      case 1:
        return strike_route(draft_.routes[pick(draft_.routes.size())]);
      case 2:
        return draft_.chunks.push_back(ChunkDraft(chunk));
      case 3:
        return std::swap(chunk.in, chunk.out);
      case 4:
        return strike_steps(steps, tree.size());
      default:
        return strike_tree(tree, steps);
    }
  }

 private:
  uint64_t pick(uint64_t below) { return random_() % below; }
  uint32_t any_route() { return static_cast<uint32_t>(pick(draft_.routes.size())); }

  void strike_chunk(ChunkDraft& chunk) {
    const auto participants = draft_.collective.participants();
    if (pick(2) == 0)
      chunk.units = 1 + pick(4);
    else
      chunk.root = participants[pick(participants.size())];
  }

  void strike_route(std::vector<LinkId>& links) {
    if (links.empty()) return;  // an earlier strike took the last
    const auto link = LinkId{static_cast<uint32_t>(pick(draft_.fabric.links().size()))};
    const size_t at = pick(links.size());
    switch (pick(4)) {
      case 0:
        links[at] = link;
        break;
      case 1:
        links.insert(links.begin() + static_cast<ptrdiff_t>(at), link);
        break;
      case 2:
        links.erase(links.begin() + static_cast<ptrdiff_t>(at));
        break;
      default:
        extend(links);
        break;
    }
  }

  // By a link that does follow, so that the path stays one.
  void extend(std::vector<LinkId>& links) {
    const auto next = draft_.fabric.out_links(draft_.fabric.link(links.back()).to);
    links.push_back(next[pick(next.size())]);
  }

  void strike_steps(std::vector<uint32_t>& steps, size_t size) {
    steps.resize(size);
    if (size > 0) steps[pick(size)] = static_cast<uint32_t>(pick(12));
  }

  void strike_tree(std::vector<uint32_t>& tree, std::vector<uint32_t>& steps) {
    if (tree.empty()) return tree.push_back(any_route());
    const size_t a = pick(tree.size()), b = pick(tree.size());
    switch (pick(4)) {
      case 0:
        std::swap(tree[a], tree[b]);
        break;
      case 1:
        tree[a] = any_route();
        break;
      case 2:
        tree.insert(tree.begin() + static_cast<ptrdiff_t>(a), any_route());
        break;
      default:
        tree.erase(tree.begin() + static_cast<ptrdiff_t>(a));
        break;
    }
    if (!steps.empty()) steps.resize(tree.size());
  }

  ScheduleDraft& draft_;
  std::mt19937_64 random_;
};

bool has_switch_in_a_tree(const Schedule& schedule) {
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    if (!schedule.fabric().is_rank(schedule.route(RouteId{r}).to)) return true;
  }
  return false;
}

TEST(VerifyRandomly, AcceptsRightSchedulesWithTheirTime) {
  uint32_t with_switches = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScheduleDraft draft = random_draft(seed);
    const Schedule schedule = draft.build();
    const Verdict verdict = verify(schedule);
    ASSERT_TRUE(verdict.valid) << verdict.reason;
    ASSERT_EQ(testing::executes_to(draft), verdict.seconds_per_byte);
    ASSERT_EQ(seconds_per_byte(schedule), verdict.seconds_per_byte);
    if (has_switch_in_a_tree(schedule)) ++with_switches;
  }
  EXPECT_GT(with_switches, 40u) << "of 400";
}

TEST(VerifyRandomly, AgreesWithExecutionOnTamperedSchedules) {
  uint32_t malformed = 0, rejected = 0, accepted = 0;
  for (uint64_t seed = 1; seed <= 12'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ScheduleDraft draft = random_draft(seed % 300 + 1);
    Vandal vandal(draft, seed);
    for (uint64_t strikes = 1 + seed % 3; strikes > 0; --strikes) vandal.strike();
    std::optional<Schedule> schedule;
    try {
      schedule = draft.build();
    } catch (const Error&) {
      ++malformed;  // refused before it is a schedule
      continue;
    }
    const Verdict verdict = verify(*schedule);
    const std::optional<Fraction> time = testing::executes_to(draft);
    ASSERT_EQ(verdict.valid, time.has_value()) << verdict.reason;
    ASSERT_EQ(verdict.seconds_per_byte, time.value_or(0));
    ++(verdict.valid ? accepted : rejected);
  }
  // The three fates all come up, or the test shows less than it says.
  EXPECT_GT(malformed, 300u);
  EXPECT_GT(rejected, 5'000u);
  EXPECT_GT(accepted, 300u);
}

}  // namespace
}  // namespace banyan::schedule
