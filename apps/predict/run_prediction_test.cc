// The bytes of a run on every link, against those that are predicted.
#include "apps/predict/run_prediction.h"

#include <nlohmann/json.hpp>

#include "banyan/fabric/read.h"
#include "banyan/plan/choose.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using ::testing::Gt;

constexpr CollectiveKind kKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                     CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

std::vector<plan::Candidate> candidates(const Fabric& fabric, CollectiveKind kind) {
  return plan::plan_candidates(fabric, is_rooted(kind)
                                           ? Collective::make(fabric, {.kind = kind, .root = fabric.ranks().back()})
                                           : Collective::make(fabric, {.kind = kind}));
}

// How many tree edges cross each link: how often its bytes were rounded.
std::vector<uint64_t> crossings(const Schedule& schedule) {
  std::vector<uint64_t> count(schedule.fabric().links().size());
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const auto tree : {chunk.in_tree, chunk.out_tree}) {
      for (const RouteId edge : tree) {
        for (const LinkId link : schedule.route(edge).links) ++count[index(link)];
      }
    }
  }
  return count;
}

RunPrediction predict(const Schedule& schedule, element::DataType type, const run::LocalRunReport& report) {
  Progress progress(Terminal({}), "simulating");
  return predict_run(schedule, report.elements * size_of(type), report, std::chrono::microseconds(5), progress);
}

class BytesOnLinks : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(
    Of, BytesOnLinks,
    ::testing::Values("full:4", "ring:5", "torus:3x3", "hypercube:3", "star:4@400Mb/s", "dgx-a100:1",
                      "leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s",
                      // Cables side by side, of unequal rates; links that go one way.
                      "a <-> b 3GB/s; a <-> b 1GB/s; b <-> sw 2GB/s; c <-> sw 5GB/s; c -> a 7GB/s; a -> sw 1GB/s"));

// The largest size that holds whole elements in every chunk; one that does not divide; fewer elements than chunks.
TEST_P(BytesOnLinks, AreWhatIsPredicted) {
  const Fabric fabric = fabric::load_fabric({.fabric = GetParam()});
  for (const CollectiveKind kind : kKinds) {
    for (const plan::Candidate& candidate : candidates(fabric, kind)) {
      const Schedule& schedule = candidate.schedule;
      const uint64_t dividing = schedule.total_units() * std::max<uint64_t>(1, 40'000 / schedule.total_units());
      for (const uint64_t elements : {dividing, dividing + schedule.total_units() / 2 + 1, uint64_t{3}}) {
        const std::string what =
            std::string(to_string(kind)) + " by " + candidate.planner + " of " + std::to_string(elements) + " elements";
        const auto transport =
            elements == dividing ? run::Communicator::Transports::tcp : run::Communicator::Transports::automatic;
        const element::DataType type = elements == 3 ? element::DataType::float64 : element::DataType::int16;
        const run::LocalRunReport report = run::run_locally(schedule, {.total = Bytes(elements * size_of(type)),
                                                                       .type = type,
                                                                       .transport = transport,
                                                                       .slice = Bytes(4099),
                                                                       .repeats = 1});
        ASSERT_EQ(report.wrong_elements, 0u) << what;
        EXPECT_EQ(report.slice_bytes, 4099 / size_of(type) * size_of(type)) << what;
        const RunPrediction prediction = predict(schedule, type, report);
        EXPECT_EQ(report.link_bytes, prediction.link_bytes) << what;
        const LinkAgreement agreement = compare_links(report.link_bytes, prediction.link_bytes);
        EXPECT_EQ(agreement.agreeing, fabric.links().size()) << what;

        // The fluid simulation shares out fractions of a byte.
        const std::vector<double>& fluid = prediction.timed.simulation.link_bytes;
        const std::vector<uint64_t> crossed = crossings(schedule);
        ASSERT_EQ(fluid.size(), report.link_bytes.size()) << what;
        for (size_t link = 0; link < fluid.size(); ++link) {
          const auto sent = static_cast<double>(report.link_bytes[link]);
          const double tolerance = 1e-6 + 1e-9 * sent;
          if (elements == dividing) {
            EXPECT_NEAR(fluid[link], sent, tolerance) << what << ", link " << link;
          } else {
            EXPECT_NEAR(fluid[link], sent, static_cast<double>(crossed[link] * size_of(type)) + tolerance)
                << what << ", link " << link;
          }
        }
      }
    }
  }
}

// So the bytes are counted at all, and on the right one of two links between the same ranks.
TEST(BytesOnLinks, TellCablesSideBySideApart) {
  const Fabric fabric = fabric::load_fabric({.fabric = "a -> b 3GB/s; a -> b 1GB/s; b -> a 1GB/s"});
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast, .root = NodeId{0}}));
  for (const auto& [link, units] : {std::pair{0u, 3u}, std::pair{1u, 1u}}) {
    const std::vector<RouteId> tree{builder.add_route(std::vector{LinkId{link}})};
    builder.add_chunk({.root = NodeId{0}, .units = units, .out_tree = tree});
  }
  const Schedule schedule = std::move(builder).build();
  ASSERT_EQ(verify(schedule).reason, "");
  const run::LocalRunReport report = run::run_locally(schedule, {.total = Bytes(4'000'000), .repeats = 0});
  EXPECT_EQ(report.link_bytes, (std::vector<uint64_t>{3'000'000, 1'000'000, 0}));
  EXPECT_EQ(report.bytes_sent, 4'000'000u);
  EXPECT_EQ(prediction_error(report, predict(schedule, element::DataType::float32, report)),
            std::nullopt);  // nothing measured
}

TEST(RunPrediction, SaysWhichLinkIsTheFirstThatDiffers) {
  const Fabric fabric = fabric::load_fabric({.fabric = "a <-> b 1GB/s; b <-> c 1GB/s"});
  const run::LocalRunReport report{.elements = 10,
                                   .slice_bytes = 64,
                                   .median_seconds = 0.004,
                                   .wrong_elements = 0,
                                   .first_wrong = {},
                                   .link_bytes = {40, 41, 40, 0}};
  RunPrediction prediction{.timed = {.slice = Bytes(64), .simulation = {}}, .link_bytes = {40, 40, 40, 40}};
  prediction.timed.simulation.time = std::chrono::milliseconds(5);
  const LinkAgreement agreement = compare_links(report.link_bytes, prediction.link_bytes);
  EXPECT_EQ(agreement.agreeing, 2u);
  EXPECT_EQ(agreement.first_other, LinkId{1});
  EXPECT_THAT(format_run_prediction(Terminal({}), fabric, report, prediction),
              AllOf(HasSubstr("5.00 ms for 4.00 ms measured, error +25.0 %"),
                    HasSubstr("the fabric's links are not this machine's"),
                    HasSubstr("2 of 4 links; first other: b -> a (link 1) carried 41, predicted 40")));
  const Json json = run_prediction_json(fabric, report, prediction);
  EXPECT_DOUBLE_EQ(json["error_percent"].get<double>(), 25);
  EXPECT_EQ(json["links_agreeing"], 2u);
  EXPECT_EQ(json["first_other"], (Json{{"link", 1}, {"from", "b"}, {"to", "a"}, {"sent", 41}, {"predicted", 40}}));

  prediction.timed.simulation.complete = false;
  EXPECT_EQ(prediction_error(report, prediction), std::nullopt);
  EXPECT_THAT(format_run_prediction(Terminal({}), fabric, report, prediction),
              HasSubstr("more than 5.00 ms: interrupted"));
}

}  // namespace
}  // namespace banyan::app
