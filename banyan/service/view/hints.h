// Hints for tenants (NetHint, NSDI'22): how the hosts of a tenant hang together, how many others use the same links,
// and what these have left. So a program can plan its own traffic anew. A tenant learns numbers, and the names of links
// and of its own hosts; nothing tells it who the others are, or where they have hosts.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

// A link that shortest paths from hosts of the tenant to others of them cross.
struct HintLink {
  std::string name = {};                   // as in LinkView
  double capacity = 0;                     // bytes per second of payload
  std::vector<std::string> from, to = {};  // names of these hosts
};

struct HintQuestion {
  std::vector<std::string> hosts = {};  // of the tenant, by name
  std::set<std::string> tenants = {};   // that are the one who asks
  std::vector<HintLink> links = {};
};

// {"hosts": ["a", "b"], "links": [{"name", "capacity", "own", "free", "cotenants", "from": ["a"], "to": ["b"]}]}, with
// bytes per second. Seen on the paths of all hosts (WayView), so in some tenths of a second that have just passed.
// `own`, `free` and `cotenants` are null for a link of which nothing is known, since the network chooses among several
// paths.
// Pure. O(links of all ways * log).
std::string hints_json(const HintQuestion& question, std::span<const WayView> ways);

}  // namespace banyan::service
