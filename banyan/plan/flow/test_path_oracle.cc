#include "banyan/plan/flow/test_path_oracle.h"

#include <vector>

#include "banyan/plan/lp/linear_program.h"

namespace banyan::plan {
namespace {

using PathOfLinks = std::vector<LinkId>;

void list_simple_paths(const Fabric& fabric, std::vector<bool>& may_enter, NodeId at, NodeId to, PathOfLinks& path,
                       std::vector<PathOfLinks>& found) {
  if (at == to) {
    found.push_back(path);
    return;
  }
  may_enter[index(at)] = false;
  for (const LinkId link : fabric.out_links(at)) {
    const NodeId next = fabric.link(link).to;
    if (!may_enter[index(next)]) continue;
    path.push_back(link);
    list_simple_paths(fabric, may_enter, next, to, path, found);
    path.pop_back();
  }
  may_enter[index(at)] = true;
}

}  // namespace

std::optional<double> oracle_seconds_per_byte(const Fabric& fabric, const Collective& collective) {
  std::vector<bool> may_enter(fabric.nodes().size(), true);
  for (const NodeId rank : fabric.ranks()) may_enter[index(rank)] = false;
  for (const NodeId rank : collective.participants()) may_enter[index(rank)] = true;
  const auto ranks = collective.participants();
  LinearProgram program;
  const int seconds = program.add_column(1);
  std::vector<std::vector<LinearProgram::Term>> pairs, links(fabric.links().size());
  std::vector<double> gigabytes;
  const double part = collective.carried_per_byte().to_double() / static_cast<double>(collective.total_weight());
  for (size_t s = 0; s < ranks.size(); ++s) {
    for (size_t t = 0; t < ranks.size(); ++t) {
      if (s == t || collective.traffic(s, t) == 0) continue;
      std::vector<PathOfLinks> paths;
      PathOfLinks path;
      list_simple_paths(fabric, may_enter, ranks[s], ranks[t], path, paths);
      if (paths.empty()) return std::nullopt;
      std::vector<LinearProgram::Term>& pair = pairs.emplace_back();
      for (const PathOfLinks& way : paths) {
        const int amount = program.add_column(0);
        pair.push_back({amount, 1});
        for (const LinkId link : way) links[index(link)].push_back({amount, 1});
      }
      gigabytes.push_back(part * static_cast<double>(collective.traffic(s, t)));
    }
  }
  for (size_t i = 0; i < pairs.size(); ++i) program.add_row(pairs[i], gigabytes[i], gigabytes[i]);
  for (uint32_t l = 0; l < links.size(); ++l) {
    links[l].push_back({seconds, -1e-9 * static_cast<double>(fabric.link(LinkId{l}).bandwidth.bytes_per_second())});
    program.add_row(links[l], -LinearProgram::kInfinity, 0);
  }
  return program.solve().value * 1e-9;
}

}  // namespace banyan::plan
