// The planner behind communicators that span hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "banyan/fabric/fabric.h"
#include "banyan/run/execute/plan_source.h"

namespace banyan::compose {

struct PlannerOptions {
  // A file or a generator's spec, whose ranks are the processes of the job, or just those of the communicator, in
  // order; or the hosts of a cluster, where the layout says which host is which (RankLayout::node_of_host). Empty:
  // hosts hang on one switch, and the ranks of a host on another.
  std::string fabric = {};
  std::string plan = {};    // a schedule that is used for its collective; empty: none
  std::string routes = {};  // fabric/route_book.h, between ranks of the fabric; empty: the network offers no choice
  uint64_t slice_bytes = 0;
};

// The files that the options name, read and checked.
struct PlannerFiles;
// Also where no plan is needed, so that a wrong name is told on one host as between many. Throws Error naming what is
// wrong with a file.
std::shared_ptr<const PlannerFiles> read_files(const PlannerOptions& options);
// The fabric that they name, without the powers of its switches; nothing where they name none.
const std::optional<Fabric>& fabric_of(const PlannerFiles& files);

// Throws Error{not_found} unless `name` is a rank of the files' fabric; without a fabric, all names are allowed.
void expect_rank(const PlannerFiles& files, const std::string& name);

// None for one rank. Throws Error{mismatch} when a file is for another number of ranks, Error{not_found} for a host
// that the fabric does not have (job_network.h).
std::shared_ptr<run::PlanSource> planner_from(const PlannerFiles& files, const run::RankLayout& layout);
inline std::shared_ptr<run::PlanSource> make_planner(const PlannerOptions& options, const run::RankLayout& layout) {
  return planner_from(*read_files(options), layout);
}

}  // namespace banyan::compose
