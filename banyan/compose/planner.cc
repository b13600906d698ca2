#include "banyan/compose/planner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/compose/plan_book.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/read.h"
#include "banyan/fabric/route_book.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/choose.h"
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
        book_(whole_),
        fixed_(std::move(fixed)),
        routes_(std::move(routes)),
        slice_bytes_(slice_bytes) {}

  Answer plan(const Question& question) override {
    if (fixed_ && fixed_->collective().kind() == question.kind) {
      const Collective& collective = fixed_->collective();
      if (!collective.is_rooted() || collective.root() == collective.participants()[question.root]) {
        return answer("the given plan", *fixed_, question.total);
      }
    }
    const plan::Candidate& chosen =
        choose(book_->candidates({.kind = question.kind, .members = ranks_, .root = question.root}), question.total);
    return answer(chosen.planner, chosen.schedule, question.total);
  }

  std::optional<Way> way(uint32_t own, const run::PlanLane& lane) const override {
    Way way;
    const bool is_turned = lane.to_peer.empty();
    for (const LinkId link : is_turned ? lane.from_peer : lane.to_peer) {
      way.cables.push_back(cables_.of(original_.empty() ? link : original_[index(link)]));
    }
    if (is_turned) std::reverse(way.cables.begin(), way.cables.end());
    const std::optional<fabric::RouteBook::Addresses> addresses =
        routes_.find({.from = ranks_[own], .to = ranks_[lane.peer], .cables = way.cables});
    if (!addresses) return std::nullopt;
    way.path = {.local_address = addresses->from, .peer_address = addresses->to};
    return way;
  }

  std::string cable_name(uint32_t cable) const override { return name_of(cables_[cable], whole_, false); }

  bool knows_ways() const override { return routes_.size() > 0; }

  void avoid(const std::set<uint32_t>& cables) override {
    avoided_.insert(cables.begin(), cables.end());
    Fabric::Builder builder;
    for (const Node& node : whole_.nodes()) builder.add_node(node);
    std::vector<LinkId> original;
    for (uint32_t number = 0; number < whole_.links().size(); ++number) {
      if (avoided_.contains(cables_.of(LinkId{number}))) continue;
      builder.add_link(whole_.links()[number]);
      original.push_back(LinkId{number});
    }
    try {
      book_.emplace(std::move(builder).build());
    } catch (const Error& error) {
      std::string names;
      for (const uint32_t cable : avoided_) {
        names += (names.empty() ? "" : ", ") + cable_name(cable);
      }
      throw Error(ErrorCode::peer_lost, "without the lost links (" + names + ") there is no way: " + error.message());
    }
    original_ = std::move(original);
    fixed_.reset();  // it goes by links that are lost, or whose numbers have changed
  }

 private:
  Answer answer(const std::string& planner, const Schedule& schedule, Bytes total) const {
    return {.schedule = &schedule,
            .planner = planner,
            .slice_bytes = slice_bytes_ > 0 ? slice_bytes_ : plan::choose_slice(schedule, total).count(),
            .seconds = estimate_seconds(schedule, total),
            .busy_seconds = seconds_per_byte(schedule).to_double() * static_cast<double>(total.count())};
  }

  const Fabric whole_;
  const std::vector<NodeId> ranks_;  // of the communicator
  const fabric::Cables cables_;      // of the whole fabric
  std::set<uint32_t> avoided_;       // cables
  std::optional<PlanBook> book_;     // of the fabric without what is to be avoided; always there
  std::vector<LinkId> original_;     // in the whole fabric, by link of the book's; empty: the same
  std::optional<Schedule> fixed_;
  const fabric::RouteBook routes_;
  const uint64_t slice_bytes_;  // 0: as the plan needs it
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

std::shared_ptr<run::PlanSource> planner_from(const PlannerFiles& files, const run::Seating& seating) {
  const PlannerOptions& options = files.options;
  const size_t ranks = seating.members.size();
  if (ranks == 1) return nullptr;  // who is alone needs no plan
  if (files.plan && files.plan->collective().participants().size() != ranks) {
    throw Error(ErrorCode::mismatch,
                "this plan is for " + std::to_string(files.plan->collective().participants().size()) +
                    " ranks, the communicator has " + std::to_string(ranks),
                options.plan);
  }
  Fabric network = files.fabric ? *files.fabric : fabric_of_hosts(seating.host_of_rank);
  std::vector<NodeId> nodes(network.ranks().begin(), network.ranks().end());
  if (nodes.size() != ranks) {
    if (nodes.size() != seating.job_size) {
      throw Error(ErrorCode::mismatch,
                  "this fabric has " + std::to_string(nodes.size()) + " ranks, the communicator has " +
                      std::to_string(ranks) + " and the job " + std::to_string(seating.job_size),
                  options.fabric);
    }
    std::vector<NodeId> members;
    for (const uint32_t member : seating.members) members.push_back(nodes[member]);
    nodes = std::move(members);
  }
  fabric::RouteBook routes;
  if (!options.routes.empty()) routes = fabric::RouteBook::parse(files.routes, network, options.routes);
  return std::make_shared<Planner>(std::move(network), std::move(nodes), files.plan, std::move(routes),
                                   options.slice_bytes);
}

}  // namespace banyan::compose
