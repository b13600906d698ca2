#include "banyan/run/trial/local.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iterator>

#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

using ::testing::Values;

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

void expect_right(const Schedule& schedule, const LocalRunOptions& options, const std::string& what) {
  ASSERT_EQ(verify(schedule).reason, "") << what;
  const LocalRunReport report = run_locally(schedule, options);
  EXPECT_EQ(report.wrong_elements, 0u) << what;
  EXPECT_EQ(report.first_wrong, "") << what;
  EXPECT_EQ(report.elements, options.total.count() / size_of(options.type)) << what;
}

class EveryRun : public ::testing::TestWithParam<Communicator::Transports> {};
INSTANTIATE_TEST_SUITE_P(LocalRun, EveryRun, Values(Communicator::Transports::automatic, Communicator::Transports::tcp),
                         [](const auto& test) { return std::string(to_string(test.param)); });

TEST_P(EveryRun, BringsEveryKindTypeAndReduction) {
  for (const CollectiveKind kind : kKinds) {
    for (const element::DataType type :
         {element::DataType::uint8, element::DataType::int32, element::DataType::float16, element::DataType::bfloat16,
          element::DataType::float32, element::DataType::float64}) {
      for (const element::ReduceOp op :
           {element::ReduceOp::sum, element::ReduceOp::prod, element::ReduceOp::min, element::ReduceOp::max,
            element::ReduceOp::band, element::ReduceOp::bor, element::ReduceOp::bxor}) {
        if (!is_reducible(type, op)) continue;
        expect_right(
            testing::sample_forest({.kind = kind, .ranks = 3, .root = 1}),
            {.total = Bytes(50'000),
             .type = type,
             .op = op,
             .transport = GetParam(),
             .slice = Bytes(4096),
             .repeats = 1},
            std::string(to_string(kind)) + " " + std::string(to_string(type)) + " " + std::string(to_string(op)));
      }
    }
  }
}

TEST_P(EveryRun, RunsWithTwoToEightProcesses) {
  for (const uint32_t ranks : {2u, 3u, 5u, 8u}) {
    for (const CollectiveKind kind : kKinds) {
      expect_right(
          testing::sample_forest({.kind = kind, .ranks = ranks, .trees_per_root = 3, .root = ranks - 1, .seed = ranks}),
          {.total = Bytes(1'000'003), .transport = GetParam(), .slice = Bytes(16'384), .repeats = 2},
          std::string(to_string(kind)) + " on " + std::to_string(ranks));
    }
  }
}

TEST_P(EveryRun, TakesAnySizeAndSlice) {
  for (const CollectiveKind kind : kKinds) {
    const Schedule schedule = testing::sample_forest({.kind = kind, .ranks = 5, .trees_per_root = 3, .root = 2});
    for (const uint64_t elements : {1u, 2u, 7u, 1009u}) {
      for (const uint64_t slice : {4u, 100u, 1u << 20}) {
        expect_right(schedule,
                     {.total = Bytes(elements * 4), .transport = GetParam(), .slice = Bytes(slice), .repeats = 1},
                     std::string(to_string(kind)) + " of " + std::to_string(elements) + " in slices of " +
                         std::to_string(slice));
      }
    }
  }
}

TEST_P(EveryRun, CarriesSeveralMegabytes) {
  for (const testing::TreeShape shape :
       {testing::TreeShape::random, testing::TreeShape::path, testing::TreeShape::star}) {
    for (const CollectiveKind kind : kKinds) {
      expect_right(testing::sample_forest({.kind = kind, .ranks = 5, .shape = shape}),
                   {.total = Bytes(6'000'001), .transport = GetParam(), .repeats = 2},
                   std::string(to_string(kind)) + ", shape " + std::to_string(static_cast<int>(shape)));
    }
  }
}

TEST_P(EveryRun, KeepsUnevenShardsAndBystandersApart) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
    expect_right(testing::sample_forest({.kind = kind, .ranks = 4, .weights = {5, 0, 1, 3}, .bystanders = 2}),
                 {.total = Bytes(100'000), .transport = GetParam(), .slice = Bytes(1000), .repeats = 1},
                 std::string(to_string(kind)));
  }
}

TEST_P(EveryRun, ReportsWhatItMoved) {
  // Each of the elements goes along 3 edges up and 3 down.
  const LocalRunReport report =
      run_locally(testing::sample_forest({.ranks = 4}),
                  {.total = Bytes(80'003), .transport = GetParam(), .slice = Bytes(1000), .repeats = 4});
  EXPECT_EQ(report.elements, 20'000u);
  EXPECT_EQ(report.bytes_sent, 80'000u * 6);
  EXPECT_EQ(report.slice_bytes, 1000u);
  ASSERT_EQ(report.link_bytes.size(), 12u);  // every route is one of these links
  EXPECT_EQ(std::accumulate(report.link_bytes.begin(), report.link_bytes.end(), uint64_t{0}), report.bytes_sent);
  EXPECT_GT(report.min_seconds, 0);
  EXPECT_GE(report.median_seconds, report.min_seconds);
  EXPECT_LT(report.median_seconds, 60);
}

TEST_P(EveryRun, RunsWithoutTiming) {
  const LocalRunReport report =
      run_locally(testing::sample_forest({.ranks = 2}), {.total = Bytes(100), .transport = GetParam(), .repeats = 0});
  EXPECT_EQ(report.wrong_elements, 0u);
  EXPECT_EQ(report.median_seconds, 0);
}

// The children of this process, from /proc/PID/stat: "pid (name) state parent ...".
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    if (!std::getline(file, text)) continue;
    std::istringstream rest(text.substr(text.rfind(')') + 1));
    char state;
    pid_t its_parent = 0;
    rest >> state >> its_parent;
    if (its_parent == parent) children.push_back(std::stoi(text));
  }
  return children;
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

// Kills the first process of a run that has `ranks`, once all are there, from a process that is beside it.
pid_t start_killer(uint32_t ranks) {
  const pid_t parent = getpid(), killer = fork();
  if (killer != 0) return killer;
  for (;;) {
    std::vector<pid_t> victims = children_of(parent);
    std::erase(victims, getpid());
    if (victims.size() == ranks) {
      std::sort(victims.begin(), victims.end());
      kill(victims.front(), SIGKILL);
      _exit(0);
    }
    usleep(1000);
  }
}

TEST_P(EveryRun, NamesARankThatIsKilledAndLeavesNothingBehind) {
  const size_t descriptors = open_descriptors();
  const pid_t killer = start_killer(4);
  ASSERT_GT(killer, 0);
  try {
    run_locally(testing::sample_forest({.ranks = 4}),
                {.total = Bytes(100'000), .transport = GetParam(), .repeats = 1'000'000});
    ADD_FAILURE() << "nobody was missed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_THAT(error.what(), HasSubstr("rank 0 was ended by signal 9"));
  }
  EXPECT_EQ(waitpid(killer, nullptr, 0), killer);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_P(EveryRun, EndsWhenTheTimeIsOver) {
  try {
    run_locally(testing::sample_forest({.ranks = 3}), {.total = Bytes(10'000'000),
                                                       .transport = GetParam(),
                                                       .repeats = 1'000'000,
                                                       .timeout = std::chrono::milliseconds(200)});
    ADD_FAILURE() << "a million executions took no time";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timed_out);
    EXPECT_THAT(error.what(), HasSubstr("rank 0, 1, 2"));
  }
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

Error refusal_of(const LocalRunOptions& options) {
  return testing::thrown_by([&] { run_locally(testing::sample_forest({.ranks = 2}), options); });
}

TEST(LocalRun, RefusesWhatHoldsNoElement) {
  EXPECT_THAT(refusal_of({.total = Bytes(3)}).what(), HasSubstr("3 B holds no element of float32"));
  EXPECT_THAT(refusal_of({.total = Bytes(8), .type = element::DataType::float64, .slice = Bytes(7)}).what(),
              HasSubstr("a slice of 7 B holds no element of float64"));
}

TEST_P(EveryRun, BringsSumsThatAreScaledOrDivided) {
  for (const element::ReduceOp op : {element::ReduceOp::avg, element::ReduceOp::premul_sum}) {
    for (const CollectiveKind kind : kKinds) {
      expect_right(testing::sample_forest({.kind = kind, .ranks = 3, .root = 2}),
                   {.total = Bytes(50'001), .op = op, .transport = GetParam(), .repeats = 1},
                   std::string(to_string(kind)) + " " + std::string(to_string(op)));
    }
  }
}

TEST(LocalRun, RefusesBitsOfFloats) {
  const Error error =
      refusal_of({.total = Bytes(8), .type = element::DataType::bfloat16, .op = element::ReduceOp::bor});
  EXPECT_EQ(error.code(), ErrorCode::invalid_input);
  EXPECT_EQ(error.message(), "bor is for integers, not bfloat16; give the same bits as uint16");
}

TEST(LocalRun, RefusesBuffersBeyondTheMemory) {
  const Error error = refusal_of({.total = Bytes(uint64_t{1} << 50)});
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.what(), HasSubstr("give a smaller total or fewer ranks"));
}

TEST(LocalRun, RefusesAScheduleThatDoesNotSpanItsRanks) {
  const Schedule good = testing::sample_forest({.kind = CollectiveKind::broadcast, .ranks = 3});
  Schedule::Builder builder(good.fabric(), good.collective());
  const std::vector<RouteId> edge{builder.add_route(good.route(good.chunk(0).out_tree[0]).links)};
  builder.add_chunk({.root = good.chunk(0).root, .units = 1, .out_tree = edge});
  EXPECT_THROW(run_locally(std::move(builder).build(), {.total = Bytes(100)}), Error);
}

TEST(LocalRun, KnowsItsTransportsByName) {
  for (const Communicator::Transports kind : {Communicator::Transports::automatic, Communicator::Transports::tcp}) {
    EXPECT_EQ(parse_transport(to_string(kind)), kind);
  }
  EXPECT_THROW(parse_transport("udp"), Error);
}

}  // namespace
}  // namespace banyan::run
