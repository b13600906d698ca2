#include "apps/collective_option.h"

#include <algorithm>
#include <numeric>

#include "apps/command.h"
#include "apps/lists.h"
#include "banyan/base/error.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/split_list.h"
#include "banyan/base/text.h"
#include "banyan/design/demand.h"
#include "banyan/fabric/rank_names.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxTrafficBytes = uint64_t{256} << 20;
constexpr size_t kMaxTrafficRanks = 4096;

}  // namespace

void CollectiveOption::declare(CommandSyntax& command) {
  OptionSyntax& kind =
      command.word("COLLECTIVE", &kind_, "allgather, reduce-scatter, allreduce, broadcast, reduce or all-to-all");
  kind.values = planned_collectives();
  command.group("Collective");
  command.option("--ranks", &ranks_, "LIST",
                 "ranks that take part, in the order of their shards: 0-3,8 or gpu0-gpu3,gpu8 (default all)");
  command.option("--root", &root_, "RANK", "root of a broadcast or reduce (default the first rank)");
  command.option("--weights", &weights_, "LIST",
                 "uneven shards of an allgather or reduce-scatter, one number for each rank: 1,2,1,4");
  command
      .option("--traffic", &traffic_, "FILE",
              "a CSV of what each rank of an all-to-all sends to each, N x N bytes, with or without names")
      .paths = OptionSyntax::Paths::files;
  command.group("Options");
}

// Lines and columns in the order of the ranks, or with their names in any order.
std::vector<uint64_t> CollectiveOption::read_traffic(const Fabric& fabric, const std::vector<NodeId>& chosen) const {
  const std::vector<NodeId> ranks =
      chosen.empty() ? std::vector<NodeId>(fabric.ranks().begin(), fabric.ranks().end()) : chosen;
  const design::DemandMatrix matrix = design::parse_demand_csv(
      read_plain_text(traffic_, kMaxTrafficBytes).text, traffic_,
      {.most_endpoints = kMaxTrafficRanks, .allows_own = true, .most_amount = uint64_t{INT64_MAX}});
  if (matrix.size() != ranks.size()) {
    throw Error(ErrorCode::mismatch,
                "is about " + plural(matrix.size(), "rank") + ", but " + std::to_string(ranks.size()) + " take part",
                traffic_);
  }
  std::vector<size_t> row(ranks.size());
  std::iota(row.begin(), row.end(), size_t{0});
  if (matrix.is_named) {
    for (size_t i = 0; i < ranks.size(); ++i) {
      const auto found = std::find(matrix.names.begin(), matrix.names.end(), fabric.name(ranks[i]));
      if (found == matrix.names.end())
        throw Error(ErrorCode::mismatch, "has no line for rank '" + fabric.name(ranks[i]) + "'", traffic_);
      row[i] = static_cast<size_t>(found - matrix.names.begin());
    }
  }
  std::vector<uint64_t> traffic;
  for (const size_t from : row) {
    for (const size_t to : row) traffic.push_back(matrix.at(from, to));
  }
  return traffic;
}

CollectiveKind CollectiveOption::kind() const { return parse_collective_kind(kind_, is_planned); }

Collective CollectiveOption::make(const Fabric& fabric, size_t first_ranks) const {
  Collective::Options options{.kind = kind()};
  if (!ranks_.empty()) options.ranks = fabric::parse_ranks(ranks_, fabric, "--ranks");
  if (ranks_.empty() && first_ranks != 0) {
    options.ranks.assign(fabric.ranks().begin(), fabric.ranks().begin() + static_cast<ptrdiff_t>(first_ranks));
  }
  if (!root_.empty()) options.root = fabric::parse_rank(root_, fabric, "--root");
  if (!weights_.empty()) {
    for (const std::string& weight : split_list(weights_, "--weights")) {
      options.weights.push_back(parse_count(weight, "--weights", {.least = 0, .most = Collective::kMaxWeight}));
    }
  }
  if (!traffic_.empty())
    options.traffic = parse_option("--traffic", [&] { return read_traffic(fabric, options.ranks); });
  // Collective knows no options; of those given, one is the likely culprit.
  const std::string culprit = !traffic_.empty()   ? "--traffic"
                              : !weights_.empty() ? "--weights"
                              : !root_.empty()    ? "--root"
                              : !ranks_.empty()   ? "--ranks"
                                                  : "";
  if (culprit.empty()) return Collective::make(fabric, options);
  return parse_option(culprit, [&] { return Collective::make(fabric, options); });
}

}  // namespace banyan::app
