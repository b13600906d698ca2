// Executors of several ranks in one process, each with connections of its own and a thread for itself, and texts that
// all hear at once; plans that are others in each generation; calls to make. For tests of the executor only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/fabric/generate.h"
#include "banyan/plan/planner.h"
#include "banyan/run/execute/net_executor.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {

// Plans that take no ways along cables.
class WaylessSource : public PlanSource {
 public:
  std::vector<LinkBytes> bytes_on_links(const Call&) override { return {}; }  // nobody asks
  std::optional<Way> way(uint32_t, const PlanLane&) const override { return std::nullopt; }
  std::vector<Way> ways_between(uint32_t, uint32_t) const override { return {}; }
  bool knows_ways() const override { return false; }
  std::string cable_name(uint32_t cable) const override { return "cable" + std::to_string(cable); }
};

// Allreduces along other trees in each generation.
class TreesByGeneration : public WaylessSource {
 public:
  TreesByGeneration(uint32_t ranks, bool refuses, uint32_t generation = 0)
      : ranks_(ranks),
        refuses_(refuses),
        schedule_(testing::sample_forest({.ranks = ranks_, .trees_per_root = 2, .seed = 1 + generation})) {}
  Answer plan(const Question&) override { return {.schedule = &schedule_, .planner = "sample", .slice_bytes = 4096}; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate& update) const override {
    if (refuses_) throw Error(ErrorCode::invalid_input, "this rank does not like it");
    return std::make_shared<TreesByGeneration>(ranks_, refuses_, update.generation);
  }

 private:
  const uint32_t ranks_;
  const bool refuses_;
  const Schedule schedule_;
};

// Ends a test that hangs.
class Impatient : public Watch {
 public:
  void waiting_for(uint32_t rank) override {
    if (std::chrono::steady_clock::now() > end_)
      throw Error(ErrorCode::timed_out, "nothing came from rank " + std::to_string(rank));
  }

 private:
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(60);
};

// The same, and all-to-alls along a ring, where ranks forward.
class ExchangesByGeneration : public WaylessSource {
 public:
  explicit ExchangesByGeneration(uint32_t ranks, uint32_t generation = 0)
      : sums_(ranks, false, generation),
        ranks_(ranks),
        gathers_(testing::sample_forest({.kind = CollectiveKind::all_gather, .ranks = ranks, .seed = 7 + generation})),
        exchanges_(exchange(ranks, generation)) {}
  Answer plan(const Question& question) override {
    if (question.kind == CollectiveKind::all_reduce) return sums_.plan(question);
    const bool exchanges = question.kind == CollectiveKind::all_to_all;
    return {.schedule = exchanges ? &exchanges_ : &gathers_, .planner = "sample", .slice_bytes = 1000};
  }
  bool plans_all_to_all() const override { return true; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate& update) const override {
    return std::make_shared<ExchangesByGeneration>(ranks_, update.generation);
  }

 private:
  // By turns the shortest ways, or whatever loads links least.
  static Schedule exchange(uint32_t ranks, uint32_t generation) {
    const Fabric fabric = fabric::generate_fabric("ring:" + std::to_string(ranks));
    return plan::make_plan(plan::planner_named(generation % 2 == 0 ? "flow" : "pairwise"), fabric,
                           Collective::make(fabric, {.kind = CollectiveKind::all_to_all}));
  }

  TreesByGeneration sums_;
  const uint32_t ranks_;
  const Schedule gathers_, exchanges_;
};

// Each kind along trees of its own, and others in each generation.
class KindsByGeneration : public WaylessSource {
 public:
  explicit KindsByGeneration(uint32_t ranks, uint32_t generation = 0) : ranks_(ranks), generation_(generation) {}
  Answer plan(const Question& question) override {
    auto& schedule = schedules_[{question.kind, question.root}];
    if (schedule == nullptr) {
      schedule = std::make_unique<Schedule>(testing::sample_forest(
          {.kind = question.kind, .ranks = ranks_, .root = question.root, .seed = 1 + generation_}));
    }
    return {.schedule = schedule.get(), .planner = "sample", .slice_bytes = 4096};
  }
  std::shared_ptr<PlanSource> revised(const FabricUpdate& update) const override {
    return std::make_shared<KindsByGeneration>(ranks_, update.generation);
  }

 private:
  const uint32_t ranks_, generation_;
  std::map<std::pair<CollectiveKind, uint32_t>, std::unique_ptr<Schedule>> schedules_;
};

class Ranks {
 public:
  struct Options {
    uint32_t ranks = 3;
    bool exchanges = false, has_kinds = false;
    std::optional<uint32_t> refuses = {};  // a rank that wants no other plans
    Background background = {};
    bool confirms_late = false;
    Switchboard* board = nullptr;  // that joins them; none: an own one
  };
  explicit Ranks(const Options& options) : board_(options.board == nullptr ? own_board_ : *options.board) {
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      executors.push_back(std::make_unique<NetExecutor>(
          NetPlans::Options{.rank = rank, .ranks = options.ranks, .source = source_of(rank, options), .revises = true},
          NetExecutor::Options{.is_oversubscribed = true,
                               .fail_peers = [](const Error&) {},
                               .send =
                                   [this](const std::string& text) {
                                     for (const auto& executor : executors) executor->reviser()->receive(text);
                                   },
                               .confirms_late = options.confirms_late,
                               .background = options.background,
                               .transport =
                                   [&](auto) {
                                     return std::make_unique<LaneTransport>(
                                         board_.connector(rank),
                                         LaneTransport::Options{.rank = rank, .ranks = options.ranks});
                                   }}));
    }
  }

  // Each rank in a thread of its own; says what was wrong.
  std::vector<std::string> run(const std::function<std::string(uint32_t rank)>& body) {
    std::vector<std::string> reports(executors.size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < executors.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          reports[rank] = body(rank);
        } catch (const Error& error) {
          reports[rank] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return reports;
  }

  std::vector<std::unique_ptr<NetExecutor>> executors;

 private:
  static std::shared_ptr<PlanSource> source_of(uint32_t rank, const Options& options) {
    if (options.has_kinds) return std::make_shared<KindsByGeneration>(options.ranks);
    if (options.exchanges) return std::make_shared<ExchangesByGeneration>(options.ranks);
    return std::make_shared<TreesByGeneration>(options.ranks, options.refuses == rank);
  }

  Switchboard own_board_;
  Switchboard& board_;
};

// An allreduce whose numbers depend on the rank, the position and the number of the call.
struct Sum {
  Sum(uint32_t rank, uint32_t ranks, int64_t number, size_t count) : in(count), out(count), expected(count) {
    for (size_t i = 0; i < count; ++i) {
      const auto at = static_cast<int64_t>(i);
      in[i] = number * 1000 + at * (rank + 1);
      expected[i] = number * 1000 * ranks + at * ranks * (ranks + 1) / 2;
    }
  }
  Call call() {
    return {.kind = OperationKind::all_reduce,
            .type = element::DataType::int64,
            .send = reinterpret_cast<const std::byte*>(in.data()),
            .recv = reinterpret_cast<std::byte*>(out.data()),
            .count = in.size()};
  }
  bool is_right() const { return out == expected; }
  std::vector<int64_t> in, out, expected;
};

}  // namespace banyan::run
