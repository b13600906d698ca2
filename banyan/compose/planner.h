// The planner behind communicators that span hosts.
#pragma once

#include <memory>
#include <string>
#include <vector>

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
// Bytes per second of each link of the fabric that they name; empty where they name none.
std::vector<double> link_bandwidths(const PlannerFiles& files);
// The cable of each of these links, by numbers as PlanSource has them; empty as above.
std::vector<uint32_t> link_cables(const PlannerFiles& files);

// Whether a host may be called so. Throws Error{not_found} for what is no rank of their fabric; without one, all may.
void expect_rank(const PlannerFiles& files, const std::string& name);

// By number, as people call them: "leaf0->spine1", the third of several "leaf0->spine1#2". Empty as above.
std::vector<std::string> link_names(const PlannerFiles& files);
// The cables between two nodes, by numbers as PlanSource has them: "leaf0-spine1", "leaf0->spine1", or one of several
// "leaf0-spine1#2". Throws Error{not_found} with the nearest name, Error{invalid_usage} where no fabric is known.
std::vector<uint32_t> cables_called(const PlannerFiles& files, const std::string& name);

// The links from one rank of the fabric to another, in their order: of the one way over these cables, or of the
// shortest one where there are none. Where the network chooses among several that are as short: those of all of them,
// and the rest is not known. None where there is no way, or no such rank.
struct WayLinks {
  std::vector<uint32_t> links;
  bool is_whole = true;
};
// O(nodes + links).
WayLinks links_between(const PlannerFiles& files, const std::string& from, const std::string& to,
                       const std::vector<uint32_t>& cables);

// A link that shortest ways from some ranks of a fabric to others of them cross, and between which, as their places.
struct LinkAmong {
  uint32_t link = 0;
  std::vector<uint32_t> from, to;
};
// Those of all shortest ways among these ranks, by number; names that the fabric does not have are on none.
// O(ranks * (nodes + links) + links of the ways of all pairs).
std::vector<LinkAmong> links_among(const PlannerFiles& files, const std::vector<std::string>& ranks);

// None for one rank. Throws Error{mismatch} when a file is for another number of ranks, Error{not_found} for a host
// that the fabric does not have (job_network.h).
std::shared_ptr<run::PlanSource> planner_from(const PlannerFiles& files, const run::RankLayout& layout);
inline std::shared_ptr<run::PlanSource> make_planner(const PlannerOptions& options, const run::RankLayout& layout) {
  return planner_from(*read_files(options), layout);
}

}  // namespace banyan::compose
