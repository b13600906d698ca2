// Exports against the interpreters, which were written from the formats' descriptions and share no code with them.
#include "banyan/schedule/export.h"

#include <nlohmann/json.hpp>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/test_baselines.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/testing/msccl_interpreter.h"
#include "banyan/testing/mscclpp_interpreter.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/schedule_draft.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};
constexpr schedule::ExportFormat kFormats[] = {schedule::ExportFormat::msccl, schedule::ExportFormat::mscclpp};

uint32_t root_of(const Collective& collective) {
  const auto participants = collective.participants();
  return static_cast<uint32_t>(std::find(participants.begin(), participants.end(), collective.root()) -
                               participants.begin());
}

Schedule forest_of(const Fabric& fabric, CollectiveKind kind, const plan::ForestOptions& options = {}) {
  return plan::plan_forest(fabric, Collective::make(fabric, {.kind = kind}), options).schedule;
}

// Runs what came out under many interleavings.
void run(const schedule::Export& result, schedule::ExportFormat format, uint32_t root, uint32_t seeds) {
  EXPECT_TRUE(result.fit.fits());
  EXPECT_EQ(error_of([&] {
              if (format == schedule::ExportFormat::msccl) {
                check_msccl(result.text, {.root = root, .seeds = seeds});
              } else {
                check_mscclpp(result.text, {.root = root, .seeds = seeds});
              }
            }),
            "no error");
}

// Exports in and out of place.
void check(const Schedule& schedule, schedule::ExportFormat format, uint32_t seeds = 6) {
  const uint32_t root = root_of(schedule.collective());
  for (const bool in_place : {false, true}) {
    SCOPED_TRACE(::testing::Message() << to_string(schedule.collective().kind())
                                      << (in_place ? " in place" : " out of place")
                                      << (format == schedule::ExportFormat::msccl ? " msccl" : " mscclpp"));
    run(export_schedule(schedule, format, {.in_place = in_place, .any_routes = true}), format, root, seeds);
  }
}

// Out of place only: an all-to-all in place is refused.
void check_all_to_all(const Schedule& schedule) {
  for (const schedule::ExportFormat format : kFormats) {
    const schedule::Export result = export_schedule(schedule, format, {.any_routes = true});
    EXPECT_THAT(result.sizes.in_words(), HasSubstr("per rank"));
    run(result, format, 0, 6);
    EXPECT_THROW(export_schedule(schedule, format, {.in_place = true}), Error);
  }
}

TEST(Export, AllToAllsAlongPathsDoWhatTheyPromise) {
  uint32_t checked = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric =
        random_fabric({.ranks = 2 + static_cast<uint32_t>(seed % 5), .switches = 1, .extra_cables = 5, .seed = seed});
    const Schedule schedule =
        random_schedule(fabric, {.kind = CollectiveKind::all_to_all, .max_chunks_per_root = 2, .seed = seed}).build();
    if (schedule.collective().has_traffic()) {
      EXPECT_THROW(export_schedule(schedule, schedule::ExportFormat::msccl), Error) << "pairs of unequal size";
      continue;
    }
    check_all_to_all(schedule);
    ++checked;
  }
  EXPECT_GT(checked, 10u);
}

class ExportOf : public ::testing::TestWithParam<const char*> {};

TEST_P(ExportOf, ForestsDoesWhatTheCollectivePromises) {
  const Fabric fabric = fabric::generate_fabric(GetParam());
  for (const CollectiveKind kind : kAllKinds) {
    const Schedule schedule = forest_of(fabric, kind, {.trees = 1});
    for (const schedule::ExportFormat format : kFormats) check(schedule, format);
  }
}

INSTANTIATE_TEST_SUITE_P(OnFabrics, ExportOf,
                         ::testing::Values("dgx-a100:1", "dgx-h100:2", "mi250:1", "ring:5", "ring:2", "torus:3x3",
                                           "star:7", "leaf-spine:leaves=2,hosts=3,spines=2",
                                           "random:n=9,links=14,seed=5"));

// Two GPUs by a wide switch, which is NVLink, and by a narrow one, which is PCI: no runtime uses both.
TEST(Export, RefusesRoutesThatNoRuntimeTakes) {
  const std::string text = "a <-> nvsw0 100GB/s; b <-> nvsw0 100GB/s; c <-> nvsw0 100GB/s; ";
  const std::string beside = "a <-> swp 20GB/s; b <-> swp 20GB/s; c <-> swp 20GB/s";
  const auto planned = [](const std::string& of) {
    const Fabric fabric = fabric::parse_fabric_text(of);
    return plan::plan_forest(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_gather}), {}).schedule;
  };
  for (const schedule::ExportFormat format : kFormats) {
    EXPECT_EQ(error_of([&] { export_schedule(planned(text), format); }), "no error");
    EXPECT_THAT(error_of([&] { export_schedule(planned(text + beside), format); }, ErrorCode::unsupported),
                ::testing::AllOf(HasSubstr(" by swp, where a runtime takes nvsw0, which is wider"),
                                 HasSubstr("not at 180 GB/s; plan without such ways, as with --fail ")));
    EXPECT_EQ(error_of([&] { export_schedule(planned(text + beside), format, {.any_routes = true}); }), "no error");
  }
}

TEST(Export, SaysThatMemoryChannelsMustReachOtherBoxes) {
  for (const auto& [spec, needs] : {std::pair{"dgx-h100:1", false}, std::pair{"dgx-h100:2", true}}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, {}), {.trees = 1}).schedule;
    EXPECT_TRUE(export_schedule(schedule, schedule::ExportFormat::msccl).needs.empty()) << spec;
    const auto told = export_schedule(schedule, schedule::ExportFormat::mscclpp).needs;
    ASSERT_EQ(told.size(), needs ? 1u : 0u) << spec;
    if (needs) {
      EXPECT_THAT(told.front(), HasSubstr("memory channels between 2 boxes"));
    }
  }
}

// Of three GPUs whose switch sums for each of them.
nlohmann::ordered_json switch_plan(bool in_place) {
  const Fabric fabric = fabric::generate_fabric("star:3+sharp");
  const Schedule schedule = forest_of(fabric, CollectiveKind::all_reduce);
  return nlohmann::ordered_json::parse(export_schedule(schedule, schedule::ExportFormat::mscclpp,
                                                       {.chunks = schedule::ChunkCount::exact, .in_place = in_place})
                                           .text);
}

TEST(Export, AnAllreduceOfABoxThatReducesIsOneOperationOfTheSwitch) {
  for (const char* spec : {"dgx-a100:1+nvls", "dgx-h100:1+nvls", "star:3+sharp", "star:9+sharp", "star:17+sharp"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric::generate_fabric(spec);
    const Schedule schedule = forest_of(fabric, CollectiveKind::all_reduce);
    for (const bool in_place : {false, true}) {
      const schedule::Export result =
          export_schedule(schedule, schedule::ExportFormat::mscclpp, {.in_place = in_place});
      EXPECT_TRUE(result.fit.fits());
      EXPECT_THAT(result.text, HasSubstr("\"glres\""));
      EXPECT_EQ(error_of([&] { check_mscclpp(result.text); }), "no error");
    }
    EXPECT_THROW(export_schedule(schedule, schedule::ExportFormat::msccl), Error);
  }
}

TEST(Export, OtherPlansThatBranchAtSwitchesAreRefused) {
  for (const auto& [spec, kind, words] :
       {std::tuple{"dgx-h100:2+nvls", CollectiveKind::all_reduce, "of an allreduce of one box only"},
        std::tuple{"star:8+sharp", CollectiveKind::broadcast, "of an allreduce of one box only"},
        std::tuple{"star:18+sharp", CollectiveKind::all_reduce, "needs 17 channels in a thread block"}}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Schedule schedule = forest_of(fabric, kind);
    EXPECT_THAT(error_of([&] { export_schedule(schedule, schedule::ExportFormat::mscclpp); }, ErrorCode::unsupported),
                HasSubstr(words))
        << spec;
  }
}

// What the interpreter says when a plan of switches is not what it should be.
TEST(Export, MistakesWithSwitchesAreFound) {
  const auto error_after = [&](auto change) {
    nlohmann::ordered_json plan = switch_plan(false);
    change(plan);
    return error_of([&] { check_mscclpp(plan.dump()); });
  };
  const auto ops = [](nlohmann::ordered_json& plan) -> nlohmann::ordered_json& {
    return plan["gpus"][1]["threadblocks"][0]["ops"];
  };
  ASSERT_EQ(error_after([](auto&) {}), "no error");
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan).erase(1); }), HasSubstr("gpu 1")) << "peers may not run yet";
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan).erase(ops(plan).size() - 1); }), HasSubstr("gpu 1"))
      << "it ends before the others' sums have come";
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan).erase(4); }), HasSubstr("gpu")) << "signals before it has summed";
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan)[3]["dst_buff"][0]["index"] = 0; }), HasSubstr("gpu"));
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan)[3]["src_buff"][0]["switch_channel_id"] = 1; }), HasSubstr("gpu"));
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan)[3]["channel_type"] = "memory"; }), HasSubstr("(glres)"));
  EXPECT_THAT(error_after([&](auto& plan) { ops(plan)[3]["name"] = "re"; }), HasSubstr("is for switch channels"));
  EXPECT_THAT(error_after([&](auto& plan) { plan["gpus"][1]["channels"].erase(2); }), HasSubstr("channel"));
  EXPECT_THAT(error_after([&](auto& plan) { plan["gpus"][2]["channels"][1]["rank_groups"][0]["size"] = 2; }),
              HasSubstr("another size"));
  EXPECT_THAT(error_after([&](auto& plan) {
                auto& group = plan["gpus"][2]["channels"][1]["rank_groups"][0];
                group["ranks"] = {0, 2};
                group["size"] = 2;
              }),
              HasSubstr("has not the switch channels"));
}

TEST(Export, OptimalPlansOfTwoDgxBoxesFit) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:2");
  for (const CollectiveKind kind : kAllKinds) {
    const plan::ForestPlan plan = plan::plan_forest(fabric, Collective::make(fabric, {.kind = kind}));
    ASSERT_TRUE(plan.optimal);
    for (const schedule::ExportFormat format : kFormats) check(plan.schedule, format);
  }
}

TEST(Export, BaselinesRunAsWell) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:1");
  for (const plan::Baseline baseline : plan::kAllBaselines) {
    if (baseline == plan::Baseline::hierarchical_ring) continue;  // needs several boxes
    for (const CollectiveKind kind : kAllKinds) {
      SCOPED_TRACE(to_string(baseline));
      const Schedule schedule = plan_baseline(baseline, fabric, Collective::make(fabric, {.kind = kind}));
      for (const schedule::ExportFormat format : kFormats) check(schedule, format, 3);
    }
  }
}

TEST(Export, ChunksOfUnequalSizesAndSubsetsOfRanksAreRight) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_fabric({.ranks = 5, .switches = 1, .extra_cables = 6, .seed = seed});
    for (const CollectiveKind kind : kAllKinds) {
      Collective::Options options{.kind = kind};
      const bool rooted = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
      if (rooted) options.root = fabric.ranks()[seed % 5];
      const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, options), {.trees = 3}).schedule;
      for (const schedule::ExportFormat format : kFormats) check(schedule, format, 3);
    }
  }
  const Fabric full = fabric::generate_fabric("full:6");
  const std::vector<NodeId> some{full.ranks()[4], full.ranks()[1], full.ranks()[3]};
  for (const CollectiveKind kind : kAllKinds) {
    const Schedule schedule = plan::plan_forest(full, Collective::make(full, {.kind = kind, .ranks = some})).schedule;
    for (const schedule::ExportFormat format : kFormats) check(schedule, format);
  }
}

TEST(Export, SaysWhichLimitAPlanBreaksAndWhatWouldFit) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:16");
  const Schedule schedule = forest_of(fabric, CollectiveKind::all_reduce);
  for (const schedule::ExportFormat format : kFormats) {
    try {
      const schedule::Export fitting = export_schedule(schedule, format);
      EXPECT_TRUE(fitting.fit.fits());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_THAT(error.what(), HasSubstr("needs"));
      EXPECT_THAT(error.what(), ::testing::AnyOf(HasSubstr("plan with --trees"), HasSubstr("--ranks")));
    }
  }
  const Fabric full = fabric::generate_fabric("full:40");
  const Schedule wide = forest_of(full, CollectiveKind::all_reduce);
  for (const schedule::ExportFormat format : kFormats) {
    EXPECT_THAT(testing::error_of([&] { export_schedule(wide, format); }), HasSubstr("plan for fewer --ranks"));
  }
}

TEST(Export, IsForPowersOfTwoAtASmallLoss) {
  for (const char* spec : {"dgx-h100:3", "ring:5", "mi250:1"}) {
    SCOPED_TRACE(spec);
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const CollectiveKind kind : kAllKinds) {
      const Schedule schedule = forest_of(fabric, kind, {.trees = 3});
      for (const schedule::ExportFormat format : kFormats) {
        const schedule::Export result = export_schedule(schedule, format);
        EXPECT_EQ(result.sizes.divisor & (result.sizes.divisor - 1), 0u) << result.sizes.divisor;
        EXPECT_LT(result.sizes.loss, 0.3);
        check(schedule, format, 2);
        const schedule::Export exact = export_schedule(schedule, format, {.chunks = schedule::ChunkCount::exact});
        EXPECT_EQ(exact.sizes.divisor, exact.sizes.exact_divisor);
        EXPECT_EQ(exact.sizes.loss, 0);
      }
    }
  }
}

TEST(Export, SaysForWhichSizesItIs) {
  const Fabric fabric = fabric::generate_fabric("ring:3");
  const Schedule three = forest_of(fabric, CollectiveKind::all_reduce);
  const schedule::Export exact =
      export_schedule(three, schedule::ExportFormat::msccl, {.chunks = schedule::ChunkCount::exact});
  ASSERT_EQ(exact.sizes.divisor % 3, 0u);
  EXPECT_THAT(exact.text, HasSubstr("divides: no power of two -->"));
  const schedule::Export rounded = export_schedule(three, schedule::ExportFormat::msccl);
  EXPECT_THAT(rounded.text, HasSubstr("<!-- for element counts that " + std::to_string(rounded.sizes.divisor) +
                                      " divides: all powers of two from "));
  EXPECT_THAT(rounded.text, HasSubstr("nchunksperloop=\"" + std::to_string(rounded.sizes.divisor) + "\""));
}

TEST(Export, KeepsTheFileWholeWhateverTheName) {
  const Fabric fabric = fabric::generate_fabric("ring:3");
  const Schedule schedule = forest_of(fabric, CollectiveKind::all_gather);
  const schedule::Export result =
      export_schedule(schedule, schedule::ExportFormat::msccl, {.name = "two\nlines\x1b[31m\"<"});
  EXPECT_THAT(result.text, HasSubstr("name=\"two_lines_[31m__\""));
}

TEST(Export, RefusesShardsOfUnequalSize) {
  const Fabric fabric = fabric::generate_fabric("full:3");
  const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, {.weights = {1, 2, 1}})).schedule;
  for (const schedule::ExportFormat format : kFormats) {
    EXPECT_THAT(testing::error_of([&] { export_schedule(schedule, format); }), HasSubstr("unequal size"));
  }
}

TEST(Export, KnowsItsFormats) {
  EXPECT_EQ(schedule::parse_export_format("msccl"), schedule::ExportFormat::msccl);
  EXPECT_EQ(schedule::parse_export_format("mscclpp"), schedule::ExportFormat::mscclpp);
  EXPECT_THROW(schedule::parse_export_format("nccl"), Error);
}

}  // namespace
}  // namespace banyan::testing
