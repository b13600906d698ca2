// HostView: what one daemon knows of the service, for operators; and ClusterView, what the daemons of all hosts know
// together. Both are plain values that travel as JSON (view_json.h): over the daemon's operator socket, between
// daemons, to `banyan service` and to the dashboard.
//
// Counters never fall while a daemon lives: whoever wants a rate takes the difference of two views and divides it by
// the difference of their times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/share/rules.h"

namespace banyan::service {

// One rank of a communicator, as the daemon that carries out its calls sees it.
struct RankView {
  uint32_t rank = 0;
  std::string host = {};  // its name for people
  uint32_t process = 0;   // on that host
  uint32_t user = 0;
  std::string program = {};  // as it calls itself
  uint64_t calls_begun = 0;  // for all ranks: submitted by the program
  uint64_t calls_over = 0;   // and completed
  uint64_t messages_over = 0;
  uint64_t payload_bytes = 0;   // of the larger buffer of each call that is over
  uint64_t sent_tcp_bytes = 0;  // with headers
  uint64_t sent_shared_memory_bytes = 0;
  std::string call = {};                     // the oldest that is under way, "allreduce of 4 MiB"; empty: none is
  double call_seconds = 0;                   // for which it has been under way
  double stalled_seconds = 0;                // for which nothing of it has moved
  double idle_seconds = 0;                   // since its last call was over; 0 while one is under way
  double idle_total_seconds = 0;             // without a call under way, since it was opened; of a direct one: 0
  std::optional<uint32_t> waiting_for = {};  // a rank, while calls are under way
  // Time of the daemon's thread, by the clock: it includes times in which others take its core.
  double core_seconds = 0;
  uint32_t generation = 0, reroutes = 0;  // of its plans
  std::string error = {};                 // that has ended it; empty: none

  friend bool operator==(const RankView&, const RankView&) = default;
};

struct CommunicatorView {
  std::string id = {};    // in the cluster; a short digest of what only its ranks know
  std::string name = {};  // as its program calls it
  std::string tenant = {};
  uint32_t size = 0;
  std::vector<std::string> hosts = {};  // by name, where its ranks are
  // Its ranks exchange in the memory of their host, without the daemon, which reads their flight records: nothing
  // limits it, and its ranks' bytes are not known.
  bool is_direct = false;
  std::string rule = {};    // that granted it
  std::string sharer = {};  // whom the weight belongs to (share/sharer.h)
  double weight = 1;
  ShareClass share_class = ShareClass::normal;
  std::optional<uint64_t> cap = {};  // bytes per second on any link
  // As the steward says: bytes per second on the link that its calls use most; nothing: not limited.
  std::optional<uint64_t> rate = {};
  double progress = 0;               // part of the call under way, 0 to 1
  std::vector<RankView> ranks = {};  // of this host; of a ClusterView: all that are known, in ascending order

  friend bool operator==(const CommunicatorView&, const CommunicatorView&) = default;
};

// Bytes of payload that have gone over one direction of a cable, from plans and calls that are over.
struct LinkView {
  std::string name = {};  // "leaf0->spine1"
  double capacity = 0;    // bytes per second of payload
  std::map<std::string, uint64_t> bytes_by_tenant = {};

  friend bool operator==(const LinkView&, const LinkView&) = default;
};

struct WayLink {
  std::string name = {};  // as in LinkView
  double capacity = 0;    // bytes per second of payload

  friend auto operator<=>(const WayLink&, const WayLink&) = default;
};

// Traffic of sessions of one host to another one along the same links, of all tenants, in a window of some tenths of a
// second that has just ended (slow_links.h).
struct WayView {
  std::string from = {}, to = {};   // names of the hosts
  std::vector<WayLink> links = {};  // in their order; where the network chooses among several ways, those of all
  bool is_whole = true;             // these are all its links
  double seconds = 0;               // of the window
  double busy_seconds = 0;          // of it, while anything was under way and the receiver had room
  double pressed_seconds = 0;       // of that, while bytes waited in the kernel, or stood in the network
  double delayed_seconds = 0;       // of that, while they stood in the network only
  double round_trip_seconds = 0;    // the least of then; 0: they did not
  double wake_seconds = 0;          // that threads of the daemon there waited for a core at each turn, on average
  std::map<std::string, uint64_t> bytes_by_tenant = {};  // that have arrived, with headers
  std::optional<uint64_t> allowed = {};  // bytes per second that its calls may send at most; nothing: any

  double bytes() const;  // of all tenants
  friend bool operator==(const WayView&, const WayView&) = default;
};

// Something that has happened, for people. A daemon keeps the last ones.
struct EventView {
  double at = 0;           // seconds since the epoch
  std::string host = {};   // whose daemon says so
  std::string words = {};  // "process 4711 of user 1000 has detached: it has ended"

  friend bool operator==(const EventView&, const EventView&) = default;
};

// Something that is wrong, in one sentence that names the culprit: "rank 5 of 'job17' on host c is late: 15 ranks have
// begun call 812, it has not for 1.2 s".
struct FindingView {
  std::string kind = {};  // "late rank", "slow link", "stalled", "unreachable host", "directory", "descriptors",
                          // "rules", "left out"
  std::string communicator = {};  // its id; empty: none
  std::string words = {};

  friend bool operator==(const FindingView&, const FindingView&) = default;
};

struct HostView {
  double at = 0;          // seconds since the epoch, by the clock of the host
  std::string host = {};  // its identifier
  std::string name = {};  // for people
  std::string node = {};  // that it is in the fabric; empty: no fabric is known
  std::string version = {};
  double up_seconds = 0;
  std::string steward = {};  // name of the host whose daemon shares out links; empty: nobody does
  bool is_draining = false;
  std::vector<std::string> obeys = {};  // hosts whose daemons may command it
  uint64_t rules_version = 0;
  uint32_t clients = 0;
  uint64_t memory_bytes = 0;                     // of tenants, that the daemon has mapped
  double core_seconds = 0;                       // of the workers' threads
  std::map<std::string, uint64_t> refused = {};  // by reason
  uint64_t replans = 0;                          // wishes for new plans that were adopted
  uint64_t events_dropped = 0;                   // that were kept no more
  std::vector<CommunicatorView> communicators = {};
  std::vector<LinkView> links = {};    // that calls of communicators whose rank 0 is here have used
  std::vector<WayView> ways = {};      // from here that calls have used just now
  std::vector<EventView> events = {};  // the oldest first
  // Open files and sockets of the daemon, and how many it may have; 0: not known.
  uint64_t descriptors = 0, most_descriptors = 0;
  std::vector<FindingView> troubles = {};  // what is wrong with the daemon itself, or what it needs
  uint32_t lost_hosts = 0;                 // to which no call of this one comes through
  // Ranks of which there is nothing in `communicators`, since their user has so many (view_budget.h), by user.
  std::map<std::string, uint64_t> unlisted = {};

  friend bool operator==(const HostView&, const HostView&) = default;
};

struct UnreachableHost {
  std::string host = {}, why = {};

  friend bool operator==(const UnreachableHost&, const UnreachableHost&) = default;
};

struct ClusterView {
  double at = 0;  // of the daemon that was asked
  std::vector<HostView> hosts =
      {};  // in the order of their names; without communicators, links, ways, events and troubles
  std::vector<UnreachableHost> unreachable = {};
  std::vector<CommunicatorView> communicators = {};  // by tenant, then name, then id
  std::vector<LinkView> links = {};                  // by name
  std::vector<EventView> events = {};                // the oldest first
  std::vector<FindingView> findings = {};

  friend bool operator==(const ClusterView&, const ClusterView&) = default;
};

// Pure. One host of several daemons (daemon/succession.h), the newest first, which answers for the host: counts are
// summed, and communicators, links, ways and events are of all; the rest is of the newest. A process that has attached
// to two counts twice. Throws nothing; `daemons` is not empty. O(n log n) in rows.
HostView as_one_host(std::vector<HostView> daemons);
// Pure. The part of a view that stays true when its daemon has ended: its counts and its events. as_one_host() makes
// them a part of its host's, so that no counter falls.
HostView remains_of(HostView ended);
// Pure. Joins views of the same moment, and adds what is wrong (findings.h, slow_links.h).
ClusterView merge(std::vector<HostView> hosts, std::vector<UnreachableHost> unreachable, double at);

}  // namespace banyan::service
