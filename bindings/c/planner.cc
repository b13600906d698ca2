#include "bindings/c/planner.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/fabric/read.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/choose.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"

namespace banyan::c {
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
  return parse_fabric_text(text, "the hosts of the job");
}

class Planner : public PlanSource {
 public:
  Planner(Fabric fabric, std::optional<Schedule> fixed) : fabric_(std::move(fabric)), fixed_(std::move(fixed)) {}

  const Schedule& plan(const Question& question) override {
    if (fixed_ && fixed_->collective().kind() == question.kind) {
      const Collective& collective = fixed_->collective();
      if (!collective.is_rooted() || collective.root() == collective.participants()[question.root]) return *fixed_;
    }
    const auto key = std::pair(question.kind, question.root);
    auto found = candidates_.find(key);
    if (found == candidates_.end()) {
      Collective::Options asked{.kind = question.kind};
      if (question.kind == CollectiveKind::broadcast || question.kind == CollectiveKind::reduce) {
        asked.root = fabric_.ranks()[question.root];
      }
      found = candidates_.emplace(key, plan_candidates(fabric_, Collective::make(fabric_, asked))).first;
    }
    return choose(found->second, question.total).schedule;
  }

 private:
  const Fabric fabric_;
  const std::optional<Schedule> fixed_;
  std::map<std::pair<CollectiveKind, uint32_t>, std::vector<Candidate>> candidates_;
};

std::optional<Schedule> read_plan(const std::string& path, size_t ranks) {
  if (path.empty()) return std::nullopt;
  ScheduleFile file = read_schedule(path);
  const Verdict verdict = verify(file.schedule);
  if (!verdict.valid) throw Error(ErrorCode::invalid_input, "this plan is wrong: " + verdict.reason, path);
  if (file.schedule.collective().participants().size() != ranks) {
    throw Error(ErrorCode::mismatch,
                "this plan is for " + std::to_string(file.schedule.collective().participants().size()) +
                    " ranks, the communicator has " + std::to_string(ranks),
                path);
  }
  return std::move(file.schedule);
}

}  // namespace

std::shared_ptr<PlanSource> make_planner(const std::string& fabric, const std::string& plan_file,
                                         const std::vector<uint32_t>& host_of_rank) {
  const size_t ranks = host_of_rank.size();
  if (ranks == 1) return nullptr;  // who is alone needs no plan
  std::optional<Schedule> fixed = read_plan(plan_file, ranks);
  if (fixed && fabric.empty()) {
    Fabric of_plan = fixed->fabric();
    return std::make_shared<Planner>(std::move(of_plan), std::move(fixed));
  }
  Fabric network = fabric.empty() ? fabric_of_hosts(host_of_rank) : load_fabric({.fabric = fabric});
  if (network.ranks().size() != ranks) {
    throw Error(ErrorCode::mismatch,
                "this fabric has " + std::to_string(network.ranks().size()) + " ranks, the communicator has " +
                    std::to_string(ranks),
                fabric);
  }
  return std::make_shared<Planner>(std::move(network), std::move(fixed));
}

}  // namespace banyan::c
