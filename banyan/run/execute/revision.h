// Revisions: how the ranks of a communicator agree on other plans when a link was lost while calls are in flight. An
// operator's wish is carried out without stopping anybody (plan_switch.h).
//
// A rank that has a reason begins a new *generation*: it tells all. Every rank then stops what is in flight, and tells
// all what it knows in a *report*: which calls are over here, how each of its lanes does and what it has adopted so
// far. As soon as the reports of all ranks of one generation are there, every rank draws the same conclusions from
// them: which update of the network (fabric_update.h) to plan for, and which calls are over. The latest generation
// counts; a rank that has another reason after its report begins the next.
//
// A revision adds lost cables to what was adopted and fulfils no wishes: those of an operator that were adopted stay,
// and the others wait at rank 0 until the revision is over (plan_switch.h). An update is a whole state, so that a rank
// which went from one generation to the next but one has missed nothing: the reports say what others have adopted.
// Losses need no vote, since every rank must do without them.
//
// If the ranks cannot be joined without the lost cables, plans use cables that an operator has them avoid, as few as
// will do, for as long as anything is lost; if that is not enough, also lost cables that the ranks cannot be joined
// without; then cables that were lost earlier; and if not even those join the ranks, all lost cables: some may carry
// again, and if not, their loss is found once more. So a call without a path ends at its deadline and not before
// (revision_talk.h).
//
// Calls that are over, and calls that begin again. Plans end with a confirmation (engine/direct_plan.h), and most calls
// are over at a rank when that has come: such a call that is over at one rank has its result at all. A small call may
// be over at a rank before it is confirmed, and so be over here and not elsewhere
// (NetOptions::confirms_late). Its result is the same on all ranks, and it is over nowhere before all have
// begun it; a rank where it is over keeps a copy of the result until it is confirmed. So, of the calls that any rank
// reports as over:
//   - those that all ranks report are over;
//   - small ones that some report begin again as a broadcast of the result from the first of these ranks, by the new
//     plans. It was computed once, so all ranks end with the same bits, whatever the plans;
//   - others have their results everywhere, and are over.
// All that no rank reports begin again as they were. A rank reports a small call, too, when it has the result and has
// not told its caller yet. So if it is confirmed anywhere, and its copy is gone, all ranks report it.
//
// Texts go by other connections (Agent::broadcast) and arrive, in any order. One thread, but for receive().
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/run/execute/fabric_update.h"
#include "banyan/run/execute/rerouting.h"

namespace banyan::run {

struct RevisionReport {
  uint32_t generation = 0, rank = 0;
  uint64_t over = 0;                     // calls up to this number are over here
  std::vector<uint64_t> also_over = {};  // of those after it
  std::vector<LaneReport> lanes = {};
  FabricUpdate adopted = {};  // what this rank plans for

  std::string encode() const;
};

struct RevisionDecision {
  FabricUpdate update = {};        // what any rank has adopted, with all that is lost
  std::set<uint32_t> losses = {};  // cables that are lost, and that nobody has adopted as lost
  // Calls that each rank has reported to be over; indexed by rank.
  struct Over {
    uint64_t up_to = 0;
    std::set<uint64_t> also = {};
    bool contains(uint64_t call) const { return call <= up_to || also.contains(call); }
  };
  std::vector<Over> over = {};

  // True if the call is over at any rank; at all ranks.
  bool is_over(uint64_t call) const { return first_over(call).has_value(); }
  bool is_over_everywhere(uint64_t call) const;
  // The first rank where it is over.
  std::optional<uint32_t> first_over(uint64_t call) const;
};

class Revisions {
 public:
  explicit Revisions(uint32_t ranks) : ranks_(ranks) {}

  static constexpr const char* kPrefix = "revise ";
  // A text that begins with kPrefix. A text that cannot be read is ignored. Any thread.
  void receive(const std::string& text);

  // The generation that this rank should report on, when others have begun one after this one.
  std::optional<uint32_t> called_to(uint32_t generation) const;
  // The decision, once the reports of all are there.
  std::optional<RevisionDecision> decide(uint32_t generation) const;
  // A rank whose report is missing; none when all are there.
  std::optional<uint32_t> missing(uint32_t generation) const;
  // The number of reports that have come.
  uint64_t count() const;
  // Those of earlier generations are of no use any more.
  void forget_before(uint32_t generation);

 private:
  const uint32_t ranks_;
  mutable std::mutex mutex_;                                        // protects the rest
  std::map<uint32_t, std::map<uint32_t, RevisionReport>> reports_;  // by generation and rank
  uint64_t count_ = 0;
};

}  // namespace banyan::run
