// Revisions: how the ranks of a communicator agree on other plans when a link was lost while calls are in flight. What
// an operator wants is done without stopping anybody (plan_switch.h), unless a revision comes first.
//
// Whoever has a reason begins a new *generation*: it tells all. Every rank then stops what is in flight, and tells all
// what it knows in a *report*: which calls are over here, how each of its lanes does, what it has adopted so far and
// what it was asked for. When the reports of all ranks of one generation are there, everybody draws the same
// conclusions from them: which update of the network (fabric_update.h) to plan for, and which calls are over. The
// latest generation counts; who has another reason after its report begins the next.
//
// Wishes are adopted by all ranks or by none: each rank tries whether it can plan for them, and tells all in a *vote*.
// Where one refuses, the plans stay as they are, but for links that were lost. Losses alone need no vote, since every
// rank must do without them. Where the ranks cannot be joined without them, plans use again cables that
// nothing can be done without; then what was lost earlier; and where not even that joins them, all of it: something may
// be whole again, and if it is not, that is found out once more. So a call without a way ends at its deadline and not
// before. A wish may also say that lost cables carry again (lost_ways.h). An update is the whole difference from the
// network as it was given, so that a rank which went from one generation to the next but one has missed nothing: the
// reports say what others have adopted.
//
// A call that is over at one rank is over at all, as their plans end with a confirmation (engine/direct_plan.h). All
// others begin again, by the new plans.
//
// Texts go by other connections (Agent::tell) and arrive, in any order. One thread, but for heard().
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
  FabricUpdate wish = {};     // what it was asked for

  std::string encode() const;
};

struct RevisionVote {
  uint32_t generation = 0, rank = 0;
  std::string refusal = {};  // why this rank cannot adopt the wishes; empty: it can

  std::string encode() const;
};

struct RevisionDecision {
  FabricUpdate certain;  // to be adopted whatever the votes: what any rank has adopted, without the lost links
  FabricUpdate wished;   // the same with all wishes
  std::set<uint32_t> losses = {};  // cables that are lost, and that nobody has adopted as lost
  bool has_wishes = false;
  uint64_t over = 0;
  std::set<uint64_t> also_over = {};

  bool is_over(uint64_t call) const { return call <= over || also_over.contains(call); }
};

class Revisions {
 public:
  explicit Revisions(uint32_t ranks) : ranks_(ranks) {}

  static constexpr const char* kPrefix = "revise ";
  // A text that begins with kPrefix. What cannot be read is ignored. Any thread.
  void heard(const std::string& text);

  // The generation that this rank should report on, when others have begun one after this one.
  std::optional<uint32_t> called_to(uint32_t generation) const;
  // Once the reports of all are there.
  std::optional<RevisionDecision> decide(uint32_t generation) const;
  // Once the votes of all are there: why the wishes are not adopted; empty: they are. The same on all ranks.
  std::optional<std::string> refusal(uint32_t generation) const;
  // A rank whose report, or whose vote when all have reported, is missing; none when all are there.
  std::optional<uint32_t> missing(uint32_t generation) const;
  // How many reports and votes there are.
  uint64_t count() const;
  // Those of earlier generations are of no use any more.
  void forget_before(uint32_t generation);

 private:
  const uint32_t ranks_;
  mutable std::mutex mutex_;                                        // protects the rest
  std::map<uint32_t, std::map<uint32_t, RevisionReport>> reports_;  // by generation and rank
  std::map<uint32_t, std::map<uint32_t, RevisionVote>> votes_;
  uint64_t count_ = 0;
};

}  // namespace banyan::run
