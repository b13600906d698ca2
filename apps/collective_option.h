// COLLECTIVE and the options that shape it: --ranks, --root, --weights, --traffic.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "banyan/schedule/collective.h"

namespace banyan::app {

class CollectiveOption {
 public:
  // COLLECTIVE may be left out: the command says where it is needed.
  void declare(CommandSyntax& command);

  // Throws Error naming the option that is wrong or does not fit the others. `first_ranks`: where --ranks is absent,
  // only the first so many ranks of the fabric take part; 0 for all.
  Collective make(const Fabric& fabric, size_t first_ranks = 0) const;

  CollectiveKind kind() const;
  const std::string& text() const { return kind_; }  // as it was given
  // True if --ranks, --root, --weights or --traffic was given. A plan file fixes all of these itself.
  bool any_shape() const { return !ranks_.empty() || !root_.empty() || !weights_.empty() || !traffic_.empty(); }
  bool names_ranks() const { return !ranks_.empty(); }

 private:
  std::vector<uint64_t> read_traffic(const Fabric& fabric, const std::vector<NodeId>& chosen) const;

  std::string kind_, ranks_, root_, weights_, traffic_;
};

}  // namespace banyan::app
