#include "bindings/c/test_lab_verdict.h"

#include <algorithm>
#include <cstdio>
#include <regex>
#include <set>

namespace banyan::c {
namespace {

// In which the ranks find out who is late (banyan.h), and one for whatever else.
constexpr LabTime kFindingOut{3000};
// How long before the timeout ranks are asked at the latest, and time for the questions to go round.
constexpr LabTime kAsking{2000};
// A machine that stood still for so long within the time of a call may have spoilt it.
constexpr LabTime kLongStop{500};
// To cut or mend a cable takes a tenth of that, and a second when other labs are set up meanwhile.
constexpr LabTime kSlowDeed{2000};

std::string name_of(size_t rank) { return "rank " + std::to_string(rank); }

std::string seconds(LabTime time) {
  char text[32];
  snprintf(text, sizeof text, "%.1f s", static_cast<double>(time.count()) / 1000);
  return text;
}

// Of "rank 3" or "ranks 0-2, 5", wherever a text has them.
std::set<size_t> ranks_in(const std::string& text) {
  static const std::regex lists(R"(\branks? (\d+(?:-\d+)?(?:, \d+(?:-\d+)?)*))"), pieces(R"((\d+)(?:-(\d+))?)");
  std::set<size_t> ranks;
  for (std::sregex_iterator list(text.begin(), text.end(), lists), end; list != end; ++list) {
    const std::string numbers = (*list)[1];
    for (std::sregex_iterator piece(numbers.begin(), numbers.end(), pieces); piece != end; ++piece) {
      const size_t first = std::stoul((*piece)[1]), last = (*piece)[2].matched ? std::stoul((*piece)[2]) : first;
      for (size_t rank = first; rank <= last; ++rank) ranks.insert(rank);
    }
  }
  return ranks;
}

class Judge {
 public:
  explicit Judge(const LabCase& lab)
      : lab_(lab),
        oracle_(lab.topology.graph, lab.outages),
        until_failure_(lab.topology.graph, lab.outages, first_failure(lab)) {}

  LabVerdict verdict() const {
    const bool is_cut = lab_.mode == LabMode::cuts;
    const bool has_to = !is_cut || !may_have_failed();
    LabVerdict verdict{.outcome = LabOutcome::went_on, .had_to_go_on = has_to};
    verdict.why = whatever_never_may_be();
    if (!verdict.why.empty()) {
      verdict.outcome = LabOutcome::failed;
      return verdict;
    }
    if (have_all_gone_on()) {
      verdict.why = patience();
      if (!verdict.why.empty()) verdict.outcome = LabOutcome::failed;
      return verdict;
    }
    if (!has_to) verdict.why = what_is_wrong_with_errors();
    if (!has_to && verdict.why.empty()) {
      const bool is_clear = longest(until_failure_.possible_splits()) >= kLabTimeout;
      verdict.outcome = is_clear ? LabOutcome::cut_off : LabOutcome::unclear;
      return verdict;
    }
    if (has_to) verdict.why = "the ranks should have gone on; ";
    const LabTime stop = withheld_before_errors(), deed = slowest_deed();
    verdict.outcome = stop < kLongStop && deed < kSlowDeed ? LabOutcome::failed : LabOutcome::withheld;
    if (stop > LabTime(0)) verdict.why += "the machine stood still for " + seconds(stop) + "; ";
    if (deed >= kSlowDeed) verdict.why += "the machine took " + seconds(deed) + " to cut or mend a cable; ";
    return verdict;
  }

 private:
  static LabTime first_failure(const LabCase& lab) {
    LabTime first = LabOutage::kNever;
    for (const RankEnd& end : lab.ends) {
      if (end.result != BANYAN_SUCCESS) first = std::min(first, end.failed_at);
    }
    return first;
  }

  // Calls may have stood still for as long as they wait, and did so until shortly before the first of them failed.
  bool may_have_failed() const {
    const LabTime failure = first_failure(lab_);
    const std::vector<LabSpan> stalls = until_failure_.stalls(kLabRecovery);
    return std::any_of(stalls.begin(), stalls.end(), [&](const LabSpan& stall) {
      const bool is_recent = failure == LabOutage::kNever || stall.end >= failure - kFindingOut;
      return stall.length() >= kLabTimeout && is_recent;
    });
  }

  bool have_all_gone_on() const {
    return std::all_of(lab_.ends.begin(), lab_.ends.end(), [](const RankEnd& end) { return end.is_over; });
  }

  // Nobody hangs, gets wrong data, or is taken for dead: all live, and none was cut off for 30 s.
  std::string whatever_never_may_be() const {
    std::string why;
    bool is_anybody_over = false;
    for (size_t rank = 0; rank < lab_.ends.size(); ++rank) {
      const RankEnd& end = lab_.ends[rank];
      is_anybody_over |= end.is_over;
      if (!end.trouble.empty()) why += name_of(rank) + " " + end.trouble + "; ";
      if (!end.wrong.empty()) why += name_of(rank) + " got wrong data: " + end.wrong + "; ";
      for (const char* words : {"is dead", "are dead", "was taken for dead"}) {
        if (end.text.find(words) != std::string::npos) why += name_of(rank) + " takes a living rank for dead; ";
      }
      const bool is_known =
          end.is_over || end.result == BANYAN_TIMED_OUT || end.result == BANYAN_PEER_LOST || !end.trouble.empty();
      if (!is_known && end.wrong.empty()) why += name_of(rank) + " has another error; ";
    }
    if (is_anybody_over && !have_all_gone_on()) why += "some went on and some did not; ";
    return why;
  }

  // Calls that nothing moves in end at their timeout.
  std::string patience() const {
    for (const LabSpan& split : oracle_.standstills(kLabRecovery)) {
      if (split.length() < kLabTimeout + kFindingOut + lab_.withheld(split)) continue;
      return "calls went on after the ranks had been parted for " + seconds(split.length()) + "; ";
    }
    return "";
  }

  std::string what_is_wrong_with_errors() const {
    std::string why;
    for (size_t rank = 0; rank < lab_.ends.size(); ++rank) {
      const RankEnd& end = lab_.ends[rank];
      if (end.is_over) continue;
      if (was_parted_when_asked(end) && !names_a_cut(rank, end))
        why += name_of(rank) + " names nobody who was cut off; ";
      why += false_blame(end) + lateness(rank, end);
    }
    return why;
  }

  LabSpan before(const RankEnd& end) const { return {end.failed_at - kLabTimeout - kLabRecovery, end.failed_at}; }

  // Ranks ask each other who is silent in the last second before the timeout. When all can be reached again by then, an
  // error may name whoever is still late.
  bool was_parted_when_asked(const RankEnd& end) const {
    const std::vector<LabSpan> splits = oracle_.sure_splits();
    return std::any_of(splits.begin(), splits.end(), [&](const LabSpan& split) {
      return split.begin <= end.failed_at - kAsking && split.end >= end.failed_at;
    });
  }

  // Whoever reports, whoever found it out, and whoever is to blame: two of these were parted, for an error goes round
  // by whatever way there is, and ranks wait in chains.
  bool names_a_cut(size_t rank, const RankEnd& end) const {
    std::set<size_t> named = ranks_in(end.text);
    named.insert(rank);
    for (const size_t a : named) {
      for (const size_t b : named) {
        if (a < b && b < lab_.ends.size() && oracle_.were_parted(a, b, before(end))) return true;
      }
    }
    for (size_t cable = 0; cable < lab_.topology.graph.cables.size(); ++cable) {
      const bool is_named = end.text.find(lab_.topology.cable_name(cable)) != std::string::npos;
      if (is_named && oracle_.was_perhaps_cut(cable, before(end))) return true;
    }
    return false;
  }

  // Whoever is said to be silent was out of reach of the rank that says so.
  std::string false_blame(const RankEnd& end) const {
    static const std::regex author(R"(while rank (\d+) waited for)");
    static const std::regex silent(R"((ranks? [0-9, -]+) gives? no sign of life)");
    std::smatch who, whom;
    if (!std::regex_search(end.text, who, author) || !std::regex_search(end.text, whom, silent)) return "";
    const size_t asker = std::stoul(who[1]);
    std::string why;
    for (const size_t rank : ranks_in(whom[1])) {
      if (rank < lab_.ends.size() && !oracle_.were_parted(asker, rank, before(end))) {
        why += name_of(asker) + " could reach " + name_of(rank) + ", which it calls silent; ";
      }
    }
    return why;
  }

  // A split that surely lasted as long as calls wait ends them in time. Calls need all ranks, so nothing moves in it
  // unless something is mended.
  std::string lateness(size_t rank, const RankEnd& end) const {
    for (const LabSpan& split : oracle_.standstills(kLabRecovery)) {
      const LabTime latest = split.begin + kLabTimeout + kFindingOut;
      if (split.end < latest || end.failed_at < latest || end.failed_at < split.begin) continue;
      if (end.failed_at < latest + lab_.withheld({split.begin, end.failed_at})) continue;
      return name_of(rank) + " failed " + seconds(end.failed_at - split.begin) + " after the ranks were parted; ";
    }
    return "";
  }

  LabTime slowest_deed() const {
    LabTime slowest{0};
    for (const LabOutage& outage : lab_.outages) {
      slowest = std::max(slowest, outage.cut - outage.cut_begun);
      if (outage.mended != LabOutage::kNever) slowest = std::max(slowest, outage.mended - outage.mend_begun);
    }
    return slowest;
  }

  LabTime withheld_before_errors() const {
    LabTime most{0};
    for (const RankEnd& end : lab_.ends) {
      if (!end.is_over) most = std::max(most, lab_.withheld(before(end)));
    }
    return most;
  }

  const LabCase& lab_;
  const LabOracle oracle_;
  const LabOracle until_failure_;  // what was done later is no reason for it
};

}  // namespace

LabVerdict judge(const LabCase& lab) { return Judge(lab).verdict(); }

}  // namespace banyan::c
