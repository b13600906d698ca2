#include "banyan/run/record/stall.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "banyan/base/rank_list.h"
#include "banyan/base/words.h"
#include "banyan/run/call/mismatch.h"
#include "banyan/run/record/message_stall.h"

namespace banyan::run {
namespace {

constexpr std::array<std::string_view, 15> kFindingNames = {
    "none", "mismatch", "dead",     "silent",    "left",     "missing",       "late",   "stuck",
    "lost", "circle",   "crossing", "straggler", "reported", "contradiction", "message"};

// Twice the calls it has finished, and one more while it is in the next.
uint64_t position(const RankState& state) { return 2 * state.sequence - (state.is_inside() ? 1 : 0); }

class Search {
 public:
  explicit Search(std::span<const RankState> states) {
    for (const RankState& state : states) states_[state.rank] = &state;
    for (const auto& [rank, state] : states_) {
      if (state->is_inside()) inside_.push_back(rank);
      if (state->is_inside() || state->awaited() != nullptr) waiting_.push_back(rank);
    }
  }

  Stall run() const {
    if (auto found = mismatch()) return *found;
    if (auto found = unhealthy(Health::dead, FindingKind::dead)) return *found;
    if (auto found = unhealthy(Health::silent, FindingKind::silent)) return *found;
    if (auto found = unhealthy(Health::left, FindingKind::left)) return *found;
    if (auto found = diagnose_messages(states_)) return *found;
    if (inside_.empty()) return {};
    if (auto end = best_end()) return judge(*end);
    return anybody_waits() ? circle() : least_advanced();
  }

 private:
  using Ranks = std::vector<uint32_t>;

  const RankState& at(uint32_t rank) const { return *states_.at(rank); }

  // Whom it waits for, if it does and that is one of the ranks given.
  std::optional<uint32_t> target(const RankState& state) const {
    const bool is_known = state.is_inside() && state.waits_for != state.rank && states_.contains(state.waits_for);
    return is_known ? std::optional(state.waits_for) : std::nullopt;
  }
  bool anybody_waits() const {
    return std::ranges::any_of(inside_, [&](uint32_t rank) { return target(at(rank)).has_value(); });
  }
  Ranks waiting_without(const Ranks& excluded) const {
    Ranks rest;
    std::set_difference(waiting_.begin(), waiting_.end(), excluded.begin(), excluded.end(), std::back_inserter(rest));
    return rest;
  }
  Stall blame(FindingKind kind, Ranks ranks, uint64_t sequence) const {
    Ranks waiting = waiting_without(ranks);
    return {.kind = kind, .ranks = std::move(ranks), .waiting = std::move(waiting), .sequence = sequence};
  }

  // The last step of a chain: `waiter` waits for `rank`, which does not wait on.
  struct End {
    uint32_t waiter = 0, rank = 0;
  };

  // Nothing where a chain runs into a circle or is none. Waiting for a later call than one's own is no chain. `ends`:
  // of all ranks that were met before.
  std::optional<End> follow(uint32_t start, std::map<uint32_t, std::optional<End>>& ends) const {
    Ranks chain;
    std::optional<End> end;
    uint32_t here = start;
    while (ends.try_emplace(here).second) {  // with nothing, which stays where the chain comes here again
      chain.push_back(here);
      const std::optional<uint32_t> next = target(at(here));
      if (!next) break;  // only at the start
      if (!target(at(*next)) || at(*next).sequence > at(here).sequence) {
        end = End{.waiter = here, .rank = *next};
        break;
      }
      here = *next;
    }
    if (!end) end = ends.at(here);
    for (const uint32_t each : chain) ends[each] = end;
    return end;
  }

  // The one furthest behind.
  std::optional<End> best_end() const {
    const auto key = [&](const End& end) {
      return std::pair(std::min(position(at(end.waiter)), position(at(end.rank))), end.rank);
    };
    std::optional<End> best;
    std::map<uint32_t, std::optional<End>> ends;
    for (const uint32_t rank : inside_) {
      const std::optional<End> end = follow(rank, ends);
      if (end && (!best || key(*end) < key(*best))) best = end;
    }
    return best;
  }

  Stall judge(const End& end) const {
    const RankState& state = at(end.rank);
    const uint64_t wanted = at(end.waiter).sequence;
    if (state.health == Health::unknown) return missing();
    if (state.is_inside() && state.sequence <= wanted) {
      return has_late(state.sequence) ? late(state.sequence) : stuck({end.rank});
    }
    return state.sequence < wanted ? late(wanted) : lost(end);
  }

  Stall least_advanced() const {
    for (const auto& [rank, state] : states_) {
      if (state->health == Health::unknown) return missing();
    }
    const auto place = [](const RankState& state) { return std::pair(position(state), state.step); };
    auto least = place(*states_.begin()->second);
    for (const auto& [rank, state] : states_) least = std::min(least, place(*state));
    Ranks ranks;
    uint64_t wanted = UINT64_MAX;
    for (const auto& [rank, state] : states_) {
      if (place(*state) == least) ranks.push_back(rank);
      if (state->is_inside()) wanted = std::min(wanted, state->sequence);
    }
    return at(ranks.front()).is_inside() ? stuck(ranks) : late(wanted);
  }

  // "allreduce #17 (1024 float32 sum)", or "call #17" where nobody's record is known.
  std::string words_of(uint64_t sequence) const {
    for (const auto& [rank, state] : states_) {
      if (state->operation == nullptr || state->operation->sequence != sequence) continue;
      const std::string more = details(*state->operation);
      return name(*state->operation) + (more.empty() ? "" : " (" + more + ")");
    }
    return "call #" + std::to_string(sequence);
  }

  // "its last was allreduce #16, finished 4.2 s before"
  static std::string last_words(const RankState& state) {
    if (state.sequence == 0) return "it has called nothing yet";
    const bool is_known = state.operation != nullptr;
    std::string text = "its last was " + (is_known ? name(*state.operation) : "#" + std::to_string(state.sequence));
    if (state.since > 0) {
      text += (state.is_inside() ? ", called " : ", finished ") + format_duration(state.since) + " before";
    }
    return text;
  }

  // "; ranks 0, 1 wait for it in allreduce #17 (1024 float32 sum)", "; rank 2 waits for message 20 of rank 1 (tag 0)"
  std::string waiting_words(const Stall& stall, bool name_call) const {
    if (stall.waiting.empty()) return "";
    const RankState& first = at(stall.waiting.front());
    if (name_call && !first.is_inside()) return "; rank " + std::to_string(first.rank) + " " + words_of_wait(first);
    return "; " + list_ranks(stall.waiting) + agree(stall.waiting, " wait for ", " waits for ") +
           agree(stall.ranks, "them", "it") + (name_call ? " in " + words_of(stall.sequence) : "");
  }

  std::optional<Stall> mismatch() const {
    std::vector<CallOfRank> calls;
    for (const auto& [rank, state] : states_) {
      if (state->operation == nullptr || !is_collective(state->operation->kind)) continue;
      calls.push_back({.rank = rank, .record = state->operation});
    }
    std::optional<Mismatch> found = find_mismatch(calls);
    if (!found) return std::nullopt;
    Stall stall = blame(FindingKind::mismatch, std::move(found->odd), found->sequence);
    stall.sentence = std::move(found->sentence);
    return stall;
  }

  // Whether a rank that waits can do without these ranks: in a call of all ranks it cannot.
  static bool needs_any(const RankState& state, const Ranks& ranks) {
    if (state.is_inside()) return true;
    const uint32_t peer = state.awaited()->peer;
    return std::ranges::binary_search(ranks, peer);
  }

  std::optional<Stall> unhealthy(Health health, FindingKind kind) const {
    Ranks ranks;
    for (const auto& [rank, state] : states_) {
      if (state->health == health) ranks.push_back(rank);
    }
    if (ranks.empty()) return std::nullopt;
    Stall found = blame(kind, std::move(ranks), 0);
    if (kind == FindingKind::left) {  // they said good-bye: all is over, but for who needs them
      std::erase_if(found.waiting, [&](uint32_t rank) { return !needs_any(at(rank), found.ranks); });
      if (found.waiting.empty()) return std::nullopt;
    }
    const RankState& first = at(found.ranks.front());
    found.sequence = found.waiting.empty() ? first.sequence : at(found.waiting.front()).sequence;
    found.sentence = list_ranks(found.ranks);
    if (kind == FindingKind::dead) found.sentence += agree(found.ranks, " are dead", " is dead");
    if (kind == FindingKind::silent) {
      found.sentence += agree(found.ranks, " give no sign of life", " gives no sign of life");
      found.sentence += " (stopped, or cut off)";
    }
    if (kind == FindingKind::left) found.sentence += agree(found.ranks, " have left", " has left");
    // What it has called may be known to nobody any more.
    if (found.ranks.size() == 1 && first.sequence > 0) found.sentence += "; " + last_words(first);
    found.sentence += waiting_words(found, true);
    return found;
  }

  Stall missing() const {
    Ranks ranks;
    for (const auto& [rank, state] : states_) {
      if (state->health == Health::unknown) ranks.push_back(rank);
    }
    Stall found = blame(FindingKind::missing, std::move(ranks), at(inside_.front()).sequence);
    found.sentence = "nothing is known of " + list_ranks(found.ranks);
    const uint64_t seen = at(found.ranks.front()).sequence;
    if (found.ranks.size() == 1 && seen > 0) {
      found.sentence += "; the last call that others saw of it is #" + std::to_string(seen);
    }
    found.sentence += waiting_words(found, true);
    return found;
  }

  static bool is_late(const RankState& state, uint64_t wanted) {
    return state.sequence < wanted && !state.is_inside() && state.health != Health::unknown;
  }

  // Ranks wait for several at a time and name one; so who has not called it may be named by nobody.
  bool has_late(uint64_t wanted) const {
    return std::ranges::any_of(states_, [&](const auto& entry) { return is_late(*entry.second, wanted); });
  }

  Stall late(uint64_t wanted) const {
    Ranks ranks;
    for (const auto& [rank, state] : states_) {
      if (is_late(*state, wanted) && state->awaited() == nullptr) ranks.push_back(rank);
    }
    for (const auto& [rank, state] : states_) {
      if (is_late(*state, wanted) && ranks.empty()) ranks.push_back(rank);
    }
    Stall found = blame(FindingKind::late, std::move(ranks), wanted);
    found.sentence = list_ranks(found.ranks) + agree(found.ranks, " have", " has") + " not called " + words_of(wanted);
    if (found.ranks.size() == 1) found.sentence += "; " + last_words(at(found.ranks.front()));
    found.sentence += waiting_words(found, false);
    return found;
  }

  // Several only where nobody says whom it waits for, and all have come as far.
  Stall stuck(Ranks ranks) const {
    const RankState& first = at(ranks.front());
    Stall found = blame(FindingKind::stuck, std::move(ranks), first.sequence);
    found.sentence = list_ranks(found.ranks) + agree(found.ranks, " are in ", " is in ") + words_of(first.sequence) +
                     agree(found.ranks, " and make no step", " and makes no step");
    if (first.since > 0) found.sentence += " for " + format_duration(first.since);
    found.sentence += " (step " + std::to_string(first.step) + ")";
    found.sentence += agree(found.ranks, "; they name nobody they wait for", "; it waits for nobody");
    found.sentence += waiting_words(found, false);
    return found;
  }

  // `rank` has sent all that `waiter` waits for.
  Stall lost(const End& end) const {
    const RankState& waiter = at(end.waiter);
    Stall found =
        blame(FindingKind::lost, {std::min(end.waiter, end.rank), std::max(end.waiter, end.rank)}, waiter.sequence);
    found.sentence = "rank " + std::to_string(end.waiter) + " is in " + words_of(waiter.sequence) +
                     " and waits for rank " + std::to_string(end.rank) +
                     ", which has finished that call: what it sent is lost";
    return found;
  }

  // All chains run in circles.
  Stall circle() const {
    Ranks members;
    uint32_t here = *std::ranges::find_if(inside_, [&](uint32_t rank) { return target(at(rank)).has_value(); });
    for (size_t i = 0; i < states_.size(); ++i) here = *target(at(here));  // now it is on the circle
    do {
      members.push_back(here);
      here = *target(at(here));
    } while (here != members.front());
    const auto last = std::ranges::min_element(
        members, [&](uint32_t a, uint32_t b) { return std::pair(at(a).step, a) < std::pair(at(b).step, b); });
    std::rotate(members.begin(), last, members.end());
    const RankState& least = at(members.front());
    if (has_late(least.sequence)) return late(least.sequence);
    const uint32_t sender = *target(least);
    Stall found =
        blame(FindingKind::circle, {std::min(least.rank, sender), std::max(least.rank, sender)}, least.sequence);
    constexpr size_t kShown = 8;
    found.sentence = "rank " + std::to_string(least.rank);
    for (size_t i = 1; i < std::min(members.size(), kShown); ++i) {
      found.sentence += " waits for rank " + std::to_string(members[i]) + ", which";
    }
    if (members.size() > kShown) found.sentence += " waits for others of a circle of " + std::to_string(members.size());
    found.sentence += (members.size() > kShown ? ", the last of which waits for rank " : " waits for rank ") +
                      std::to_string(least.rank) + ", in " + words_of(least.sequence) + "; rank " +
                      std::to_string(least.rank) + " has come least far (step " + std::to_string(least.step) +
                      "), so what rank " + std::to_string(sender) + " sends to it is late or lost";
    return found;
  }

  StatesByRank states_;
  Ranks inside_;   // of a call of all ranks
  Ranks waiting_;  // these, and those that wait for messages
};

}  // namespace

std::string_view to_string(FindingKind kind) { return kFindingNames[static_cast<size_t>(kind)]; }

Stall diagnose_stall(std::span<const RankState> states) { return Search(states).run(); }

}  // namespace banyan::run
