// PlanSource: where schedules come from. The runtime executes plans and makes none (ARCHITECTURE.md).
//
// Functions that are const may be called by any thread at any time, the others by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/execute/fabric_update.h"
#include "banyan/run/transport/connector.h"
#include "banyan/schedule/schedule.h"

namespace banyan::run {

// The processes of the job that a communicator has, and their hosts.
struct RankLayout {
  std::vector<uint32_t> members;  // rank i is process members[i] of the job
  uint32_t job_size = 0;
  std::vector<uint32_t> host_of_rank;  // hosts numbered in order of first appearance
  uint32_t own = 0;                    // the rank of this process; only bytes_on_links() depends on it
  // Indexed by host: the rank node of the fabric that this host is, for a fabric whose ranks are hosts. Empty: its
  // ranks are processes.
  std::vector<std::string> node_of_host = {};
};

class PlanSource {
 public:
  PlanSource() = default;
  PlanSource(const PlanSource&) = delete;
  PlanSource& operator=(const PlanSource&) = delete;
  virtual ~PlanSource() = default;

  struct Question {
    CollectiveKind kind = CollectiveKind::all_reduce;
    uint32_t root = 0;    // of broadcast and reduce; participant number
    Bytes total{0};       // as in schedule/collective.h, on the wire; 0 while it is not known
    bool is_even = true;  // false: an all-to-all-v, of which no rank knows what all ranks send before they say so
  };
  // The same on every rank for the same question.
  struct Answer {
    // Its participants are the ranks, in order; stays as long as the source. Null, for an all-to-all, if sending
    // straight from each rank to each is no slower.
    const Schedule* schedule = nullptr;
    std::string planner;       // "forest", for people
    uint64_t slice_bytes = 0;  // the piece that moves at once, on the wire
    double seconds = 0;        // how long it should take
    double busy_seconds = 0;   // of which the busiest link is busy
    // All-to-all-v: M in elements; what each pair exchanges follows from it by the traffic of the schedule. 0: the
    // ranks tell each other first.
    uint64_t elements = 0;
  };
  // Throws Error when there is no plan.
  virtual Answer plan(const Question& question) = 0;
  // True if it may have plans for all-to-alls. If not, these go straight from each rank to each, and it is not asked.
  virtual bool plans_all_to_all() const { return false; }

  // Bytes that one whole call moves over the links of the fabric; each link once, in order of its number. For fabrics
  // whose ranks are hosts these are the links of that fabric, for every communicator the same. A call that follows no
  // plan is taken to go along shortest paths. Empty if nothing crosses a link. The call is one that rank
  // RankLayout::own could make (expect_possible in run/call). Throws what plan() throws.
  struct LinkBytes {
    uint32_t link = 0;
    double bytes = 0;
  };
  virtual std::vector<LinkBytes> bytes_on_links(const Call& call) = 0;

  // The way of a lane between rank `own` and its peer.
  struct Way {
    Path path;                     // addresses whose packets take it
    std::vector<uint32_t> cables;  // that it crosses, by numbers that stay the same as long as the source
  };
  // Empty if the network offers no choice. The two ends of a lane get the same, turned round.
  virtual std::optional<Way> way(uint32_t own, const PlanLane& lane) const = 0;
  // For traffic that follows no plan: the ways between rank `own` and another that cross no lost cable, those of the
  // fewest cables first. The two ends get the same, turned round.
  virtual std::vector<Way> ways_between(uint32_t own, uint32_t peer) const = 0;
  // True if way() or ways_between() may return anything at all.
  virtual bool knows_ways() const = 0;
  // The name by which people know a cable.
  virtual std::string cable_name(uint32_t cable) const = 0;
  // The source of plans for the network as the update says, whatever this one has been revised to. Throws
  // Error{peer_lost} naming the lost links when the rest does not join all ranks, Error{invalid_input} for what no
  // source could follow.
  virtual std::shared_ptr<PlanSource> revised(const FabricUpdate& update) const = 0;
};

}  // namespace banyan::run
