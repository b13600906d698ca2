// CommunicatorCase: what the dumps of one communicator say about it, as of one moment.
//
// Ranks do not write their dumps at the same time: a rank that is late has often come by the time it is asked. All of
// them are therefore wound back to the moment of the first dump that tells of trouble (of the first dump, if none
// does): a call that began after it counts as not made, one that ended after it as under way.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/record/diagnosis.h"

namespace banyan::run {

class CommunicatorCase {
 public:
  // Dumps of one name and one id, at least one; they outlive the case.
  CommunicatorCase(std::string title, const std::vector<const RankDump*>& dumps);

  const std::string& title() const { return title_; }
  const Stall& stall() const { return stall_; }
  // Sorted by rank, one for each.
  const std::vector<RankState>& states() const { return states_; }
  // Nothing for a rank that wrote none.
  const RankDump* dump_of(uint32_t rank) const;

  // The troubles that were found, the likeliest cause first.
  std::vector<Finding> findings() const;
  CommunicatorReport report() const;

 private:
  Finding finding(FindingKind kind, std::vector<uint32_t> ranks, uint64_t sequence, std::string sentence) const;
  int64_t clock(const RankDump& dump, int64_t time) const;
  void choose_dumps(const std::vector<const RankDump*>& dumps);
  void choose_moment();
  RankState state_of(const RankDump& dump) const;
  void record_health();
  void find_mismatch_in_history();
  bool is_worth_reporting(const Stall& stall) const;
  std::optional<Finding> cut_network() const;
  std::optional<Finding> main_finding() const;
  std::optional<Finding> missing_records() const;
  std::optional<Finding> reported() const;
  std::vector<std::string> evidence(const Finding& finding) const;
  std::vector<std::string> messages() const;
  std::vector<uint32_t> missing() const;
  std::string words(const RankState& state) const;
  std::string words_of_calls(const RankState& state) const;

  std::string title_;
  uint32_t size_ = 0;
  std::map<uint32_t, const RankDump*> dumps_;  // by rank, the newest of each
  std::optional<Finding> contradiction_;
  bool share_a_clock_ = false;
  bool is_in_trouble_ = false;  // somebody wrote because of a timeout or an error
  int64_t moment_ = 0;
  std::vector<RankState> states_;
  std::map<uint32_t, Health> claimed_;  // the worst that others say of a rank
  std::optional<Finding> mismatch_;
  Stall stall_;
};

}  // namespace banyan::run
