#include "apps/collective_option.h"

#include "apps/command.h"
#include "apps/ranks_option.h"

namespace banyan::app {

void CollectiveOption::declare(CLI::App& command) {
  command.add_option("COLLECTIVE", kind_, "allgather, reduce-scatter, allreduce, broadcast or reduce")
      ->required()
      ->type_name("");
  const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
    command.add_option(name, value, help)->type_name(type)->group("The collective");
  };
  add("--ranks", ranks_, "LIST", "who takes part, in shard order: 0-3,8 or gpu0-gpu3,gpu8 (default all)");
  add("--root", root_, "RANK", "the root of a broadcast or reduce (default the first rank)");
  add("--weights", weights_, "LIST", "uneven shards of an allgather or reduce-scatter: 1,2,1,4, one for each rank");
}

CollectiveKind CollectiveOption::kind() const { return parse_collective_kind(kind_); }

Collective CollectiveOption::make(const Fabric& fabric, size_t first_ranks) const {
  Collective::Options options{.kind = kind()};
  if (!ranks_.empty()) options.ranks = parse_ranks(ranks_, fabric, "--ranks");
  if (ranks_.empty() && first_ranks != 0) {
    options.ranks.assign(fabric.ranks().begin(), fabric.ranks().begin() + static_cast<ptrdiff_t>(first_ranks));
  }
  if (!root_.empty()) options.root = parse_rank(root_, fabric, "--root");
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
