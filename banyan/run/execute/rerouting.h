// Rerouting: how the ranks of a communicator agree what to do when a way between two of them is lost, but no rank is.
//
// Whoever notices tells all, naming the round. Every rank then stops what is under way, and tells all what it knows:
// which calls are over here, and how each of its lanes does. When the reports of all ranks of the same round are there,
// everybody draws the same conclusions from them: which cables to avoid from now on, and which calls are over. The
// latest round counts; who notices another loss after its report begins the next.
//
// A call that is over at one rank is over at all, as their plans end with a confirmation (engine/direct_plan.h). All
// others begin again, on the cables that are left.
//
// Which cable of a lost lane is broken follows from the others: a cable cannot be the one when a lane that crosses it
// was heard of later. What is left may be more than the culprit; then all of it is avoided.
//
// Texts go by other connections (Agent::tell). One thread, but for heard().
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace banyan::run {

struct LaneReport {
  std::vector<uint32_t> cables;  // the lane crosses
  bool is_lost = false;
  uint64_t silent_ms = 0;
};

struct RerouteReport {
  uint32_t round = 0, rank = 0;
  uint64_t over = 0;                // calls up to this number are over here
  std::vector<uint64_t> also_over;  // of those after it
  std::vector<LaneReport> lanes;

  std::string encode() const;
};

struct RerouteDecision {
  uint32_t round = 0;
  std::set<uint32_t> lost_cables;  // in this round
  uint64_t over = 0;
  std::set<uint64_t> also_over;
  bool is_over(uint64_t call) const { return call <= over || also_over.contains(call); }
};

class Rerouting {
 public:
  explicit Rerouting(uint32_t ranks) : ranks_(ranks) {}

  static constexpr const char* kPrefix = "reroute ";
  // A text that begins with kPrefix. What cannot be read is ignored. Any thread.
  void heard(const std::string& text);

  // The round that this rank should report on, when others have begun one after `round`.
  std::optional<uint32_t> called_to(uint32_t round) const;
  // Once the reports of all are there.
  std::optional<RerouteDecision> decide(uint32_t round) const;
  // A rank whose report of the round is missing; none when all are there.
  std::optional<uint32_t> missing(uint32_t round) const;
  // How many reports there are.
  uint64_t count() const;

 private:
  const uint32_t ranks_;
  mutable std::mutex mutex_;                                       // protects the rest
  std::map<uint32_t, std::map<uint32_t, RerouteReport>> reports_;  // by round and rank
};

// The cables that the reports do not exonerate.
std::set<uint32_t> lost_cables(const std::vector<LaneReport>& lanes);

}  // namespace banyan::run
