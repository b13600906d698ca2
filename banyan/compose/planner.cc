#include "banyan/compose/planner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/read.h"
#include "banyan/fabric/route_book.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/choose.h"
#include "banyan/plan/plan_book.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::compose {
namespace {

// Rank i is "rank<i>". What hosts and networks are like today; only ratios matter.
Fabric fabric_of_hosts(const std::vector<uint32_t>& host_of_rank) {
  std::string text;
  uint32_t hosts = 0;
  for (const uint32_t host : host_of_rank) hosts = std::max(hosts, host + 1);
  const bool is_one = hosts == 1;
  for (size_t rank = 0; rank < host_of_rank.size(); ++rank) {
    text += "rank" + std::to_string(rank) + " <-> swhost" + std::to_string(host_of_rank[rank]) + " 10 GB/s; ";
  }
  for (uint32_t host = 0; host < hosts && !is_one; ++host) {
    text += "swhost" + std::to_string(host) + " <-> swnet 3 GB/s; ";
  }
  return fabric::parse_fabric_text(text, "the hosts of the job");
}

class Planner : public run::PlanSource {
 public:
  Planner(Fabric fabric, std::vector<NodeId> ranks, std::optional<Schedule> fixed, fabric::RouteBook routes,
          uint64_t slice_bytes)
      : whole_(std::move(fabric)),
        ranks_(std::move(ranks)),
        cables_(whole_),
        given_(std::move(fixed)),
        routes_(std::move(routes)),
        slice_bytes_(slice_bytes),
        network_{.book = std::make_unique<plan::PlanBook>(whole_), .original = {}, .lost = {}, .fixed = given_} {}

  Answer plan(const Question& question) override {
    if (network_.fixed && network_.fixed->collective().kind() == question.kind) {
      const Collective& collective = network_.fixed->collective();
      if (!collective.is_rooted() || collective.root() == collective.participants()[question.root]) {
        return answer("the given plan", *network_.fixed, question.total);
      }
    }
    const plan::Candidate& chosen = choose(
        network_.book->candidates({.kind = question.kind, .members = ranks_, .root = question.root}), question.total);
    return answer(chosen.planner, chosen.schedule, question.total);
  }

  std::optional<Way> way(uint32_t own, const run::PlanLane& lane) const override {
    Way way;
    const bool is_turned = lane.to_peer.empty();
    for (const LinkId link : is_turned ? lane.from_peer : lane.to_peer) {
      way.cables.push_back(cables_.of(network_.original.empty() ? link : network_.original[index(link)]));
    }
    if (is_turned) std::reverse(way.cables.begin(), way.cables.end());
    const std::optional<fabric::RouteBook::Addresses> addresses =
        routes_.find({.from = ranks_[own], .to = ranks_[lane.peer], .cables = way.cables});
    if (!addresses) return std::nullopt;
    way.path = {.local_address = addresses->from, .peer_address = addresses->to};
    return way;
  }

  std::vector<Way> ways_between(uint32_t own, uint32_t peer) const override {
    std::vector<Way> ways;
    for (fabric::RouteBook::Path& path : routes_.paths(ranks_[own], ranks_[peer])) {
      const bool is_whole = std::none_of(path.cables.begin(), path.cables.end(),
                                         [&](uint32_t cable) { return network_.lost.contains(cable); });
      if (!is_whole) continue;
      const fabric::RouteBook::Addresses addresses = *routes_.find(path);
      ways.push_back(
          {.path = {.local_address = addresses.from, .peer_address = addresses.to}, .cables = std::move(path.cables)});
    }
    return ways;
  }

  std::string cable_name(uint32_t cable) const override { return name_of(cables_[cable], whole_, false); }

  bool knows_ways() const override { return routes_.size() > 0; }

  void revise(const run::FabricUpdate& update) override {
    if (update.generation <= generation_) return;
    Network network = network_after(update);
    generation_ = update.generation;
    network_ = std::move(network);
  }

  void expect_possible(const run::FabricUpdate& update) const override { network_after(update); }

 private:
  Answer answer(const std::string& planner, const Schedule& schedule, Bytes total) const {
    return {.schedule = &schedule,
            .planner = planner,
            .slice_bytes = slice_bytes_ > 0 ? slice_bytes_ : plan::choose_slice(schedule, total).count(),
            .seconds = estimate_seconds(schedule, total),
            .busy_seconds = seconds_per_byte(schedule).to_double() * static_cast<double>(total.count())};
  }

  // The network as it is after an update, and the plan that is to be followed there.
  struct Network {
    std::unique_ptr<plan::PlanBook> book;  // of its fabric
    std::vector<LinkId> original;          // in the whole fabric, by link of the book's; empty: the same
    std::set<uint32_t> lost;               // cables of the whole fabric
    std::optional<Schedule> fixed;         // for its collective
  };

  Network network_after(const run::FabricUpdate& update) const {
    Fabric::Builder builder;
    for (const Node& node : whole_.nodes()) builder.add_node(node);
    std::vector<LinkId> original;
    for (uint32_t number = 0; number < whole_.links().size(); ++number) {
      const uint32_t cable = cables_.of(LinkId{number});
      if (update.lost_cables.contains(cable)) continue;
      Link link = whole_.links()[number];
      if (const auto changed = update.bytes_per_second.find(cable); changed != update.bytes_per_second.end()) {
        link.bandwidth = Bandwidth::bytes_per_second(changed->second);
      }
      builder.add_link(link);
      original.push_back(LinkId{number});
    }
    expect_cables(update);
    return {.book = std::make_unique<plan::PlanBook>(built(std::move(builder), update)),
            .original = std::move(original),
            .lost = update.lost_cables,
            .fixed = update.plan.empty() ? given_where_possible(update) : wanted_plan(update)};
  }

  void expect_cables(const run::FabricUpdate& update) const {
    const size_t count = cables_.all().size();
    for (const auto& [cable, bandwidth] : update.bytes_per_second) {
      if (cable >= count || bandwidth == 0) {
        throw Error(ErrorCode::invalid_input, "cable " + std::to_string(cable) + " cannot have " +
                                                  std::to_string(bandwidth) + " bytes per second: the fabric has " +
                                                  std::to_string(count) + " cables, and a lost one is named as lost");
      }
    }
    if (!update.lost_cables.empty() && *update.lost_cables.rbegin() >= count) {
      throw Error(ErrorCode::invalid_input, "cable " + std::to_string(*update.lost_cables.rbegin()) +
                                                " does not exist: the fabric has " + std::to_string(count));
    }
  }

  Fabric built(Fabric::Builder builder, const run::FabricUpdate& update) const {
    try {
      return std::move(builder).build();
    } catch (const Error& error) {
      std::string names;
      for (const uint32_t cable : update.lost_cables) names += (names.empty() ? "" : ", ") + cable_name(cable);
      throw Error(ErrorCode::peer_lost, "without the lost links (" + names + ") there is no way: " + error.message());
    }
  }

  // The plan that was given at first, unless it goes by links that are lost, or whose numbers have changed.
  std::optional<Schedule> given_where_possible(const run::FabricUpdate& update) const {
    return update.lost_cables.empty() ? given_ : std::nullopt;
  }

  Schedule wanted_plan(const run::FabricUpdate& update) const {
    const std::string where = "the plan of generation " + std::to_string(update.generation);
    Schedule plan = schedule::parse_schedule(update.plan, where).schedule;
    const schedule::Verdict verdict = verify(plan);
    if (!verdict.valid) throw Error(ErrorCode::invalid_input, "this plan is wrong: " + verdict.reason, where);
    const auto participants = plan.collective().participants();
    const auto links = plan.fabric().links();
    const bool is_ours = std::equal(participants.begin(), participants.end(), ranks_.begin(), ranks_.end()) &&
                         std::equal(links.begin(), links.end(), whole_.links().begin(), whole_.links().end(),
                                    [](const Link& a, const Link& b) { return a.from == b.from && a.to == b.to; });
    if (!is_ours) {
      throw Error(ErrorCode::mismatch, "this plan is for other ranks or links than those of the communicator", where);
    }
    if (!update.lost_cables.empty()) {
      throw Error(ErrorCode::invalid_input, "this plan cannot be followed while links are lost; plan without them",
                  where);
    }
    return plan;
  }

  const Fabric whole_;
  const std::vector<NodeId> ranks_;  // of the communicator
  const fabric::Cables cables_;      // of the whole fabric
  const std::optional<Schedule> given_;
  const fabric::RouteBook routes_;
  const uint64_t slice_bytes_;  // 0: as the plan needs it
  uint32_t generation_ = 0;     // of the last update
  Network network_;
};

std::optional<Schedule> read_plan(const std::string& path) {
  if (path.empty()) return std::nullopt;
  schedule::ScheduleFile file = schedule::read_schedule(path);
  const schedule::Verdict verdict = verify(file.schedule);
  if (!verdict.valid) throw Error(ErrorCode::invalid_input, "this plan is wrong: " + verdict.reason, path);
  return std::move(file.schedule);
}

}  // namespace

struct PlannerFiles {
  PlannerOptions options;  // by which they were read
  std::optional<Schedule> plan;
  std::optional<Fabric> fabric;  // that of the plan, where no other is named
  std::string routes;            // which depend on the hosts where there is no fabric
};

std::shared_ptr<const PlannerFiles> read_files(const PlannerOptions& options) {
  auto files = std::make_shared<PlannerFiles>();
  files->options = options;
  files->plan = read_plan(options.plan);
  if (!options.fabric.empty()) {
    files->fabric = fabric::load_fabric({.fabric = options.fabric});
  } else if (files->plan) {
    files->fabric = files->plan->fabric();
  }
  if (!options.routes.empty()) {
    files->routes = read_file(options.routes);
    if (files->fabric) fabric::RouteBook::parse(files->routes, *files->fabric, options.routes);
  }
  return files;
}

std::shared_ptr<run::PlanSource> planner_from(const PlannerFiles& files, const run::RankLayout& layout) {
  const PlannerOptions& options = files.options;
  const size_t ranks = layout.members.size();
  if (ranks == 1) return nullptr;  // who is alone needs no plan
  if (files.plan && files.plan->collective().participants().size() != ranks) {
    throw Error(ErrorCode::mismatch,
                "this plan is for " + std::to_string(files.plan->collective().participants().size()) +
                    " ranks, the communicator has " + std::to_string(ranks),
                options.plan);
  }
  Fabric network = files.fabric ? *files.fabric : fabric_of_hosts(layout.host_of_rank);
  std::vector<NodeId> nodes(network.ranks().begin(), network.ranks().end());
  if (nodes.size() != ranks) {
    if (nodes.size() != layout.job_size) {
      throw Error(ErrorCode::mismatch,
                  "this fabric has " + std::to_string(nodes.size()) + " ranks, the communicator has " +
                      std::to_string(ranks) + " and the job " + std::to_string(layout.job_size),
                  options.fabric);
    }
    std::vector<NodeId> members;
    for (const uint32_t member : layout.members) members.push_back(nodes[member]);
    nodes = std::move(members);
  }
  fabric::RouteBook routes;
  if (!options.routes.empty()) routes = fabric::RouteBook::parse(files.routes, network, options.routes);
  return std::make_shared<Planner>(std::move(network), std::move(nodes), files.plan, std::move(routes),
                                   options.slice_bytes);
}

}  // namespace banyan::compose
