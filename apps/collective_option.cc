#include "apps/collective_option.h"

#include "apps/command.h"
#include "apps/lists.h"
#include "banyan/base/split_list.h"
#include "banyan/fabric/rank_names.h"

namespace banyan::app {

void CollectiveOption::declare(CommandSyntax& command, Place place) {
  OptionSyntax& kind =
      command.word("COLLECTIVE", &kind_, "allgather, reduce-scatter, allreduce, broadcast, reduce or all-to-all");
  kind.is_required = place == Place::required;
  kind.values = planned_collectives();
  command.group("Collective");
  command.option("--ranks", &ranks_, "LIST",
                 "ranks that take part, in the order of their shards: 0-3,8 or gpu0-gpu3,gpu8 (default all)");
  command.option("--root", &root_, "RANK", "root of a broadcast or reduce (default the first rank)");
  command.option("--weights", &weights_, "LIST",
                 "uneven shards of an allgather or reduce-scatter, one number for each rank: 1,2,1,4");
  command.group("Options");
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
  // Collective knows no options; of those given, one is the likely culprit.
  const std::string culprit = !weights_.empty() ? "--weights"
                              : !root_.empty()  ? "--root"
                              : !ranks_.empty() ? "--ranks"
                                                : "";
  if (culprit.empty()) return Collective::make(fabric, options);
  return parse_option(culprit, [&] { return Collective::make(fabric, options); });
}

}  // namespace banyan::app
