#include "banyan/service/view/findings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/base/rank_list.h"
#include "banyan/base/text.h"
#include "banyan/base/words.h"
#include "banyan/run/record/stall.h"

namespace banyan::service {
namespace {

constexpr size_t kMostNamed = 4;  // of late ranks of one communicator in a sentence each

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

std::string in_words(double seconds) {
  constexpr double kMost = 1e9;  // some 30 years
  return format_duration(std::llround(std::min(seconds, kMost) * 1e9));
}

bool is_in_call(const RankView& rank) { return rank.error.empty() && rank.calls_begun > rank.calls_over; }

// One communicator. Calls of all ranks have numbers, from 0: a rank that is in a call is in number calls_over, and a
// rank has begun all numbers below calls_begun.
class Examination {
 public:
  explicit Examination(const CommunicatorView& communicator) : communicator_(communicator) {
    for (const RankView& each : communicator.ranks) {
      if (is_in_call(each) && each.call_seconds >= seconds(kLate) && !moves(each)) waiting_.push_back(&each);
    }
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const RankView* a, const RankView* b) { return a->calls_over > b->calls_over; });
  }

  std::vector<FindingView> findings() const {
    if (waiting_.empty()) return {};
    const run::Stall stall = run::diagnose_stall(states());
    std::vector<FindingView> found;
    if (stall.kind == run::FindingKind::stuck) found = awaited(stall);
    if (found.empty() && !goes_on(stall)) found = not_begun();
    if (found.empty()) found = awaited(stall);
    return found.empty() ? stalled() : found;
  }

 private:
  const RankView* find(uint32_t wanted) const {
    const auto found = std::lower_bound(communicator_.ranks.begin(), communicator_.ranks.end(), wanted,
                                        [](const RankView& each, uint32_t rank) { return each.rank < rank; });
    return found != communicator_.ranks.end() && found->rank == wanted ? &*found : nullptr;
  }

  // In shared memory nobody waits for a rank that has ended the call already: who says so was stopped before it could
  // say otherwise.
  std::optional<uint32_t> awaited_by(const RankView& rank) const {
    const RankView* const awaited = rank.waiting_for ? find(*rank.waiting_for) : nullptr;
    const bool is_past = communicator_.is_direct && awaited != nullptr && awaited->calls_over > rank.calls_over;
    return is_past ? std::nullopt : rank.waiting_for;
  }
  // It goes on in its call, and waits for nobody who has not come.
  bool moves(const RankView& rank) const {
    return is_in_call(rank) && rank.stalled_seconds < seconds(kLate) && !awaited_by(rank);
  }

  // As the diagnosis takes them. A rank that moves counts as one that has ended its call: nobody waits for it in vain.
  // A rank that waits in a message counts as in the call that it has not begun. Nothing is known of ranks that have
  // failed.
  std::vector<run::RankState> states() const {
    std::vector<run::RankState> states;
    for (const RankView& each : communicator_.ranks) {
      if (!each.error.empty()) continue;
      const bool has_called = is_in_call(each) || each.waiting_for;
      const bool is_inside = has_called && !moves(each);
      states.push_back({.rank = each.rank,
                        .sequence = each.calls_over + (has_called ? 1 : 0),
                        .state = is_inside ? run::OperationState::running : run::OperationState::done});
      const std::optional<uint32_t> awaited = is_inside ? awaited_by(each) : std::nullopt;
      if (!awaited) continue;
      states.back().waits_for = *awaited;
      const RankView* const known = find(*awaited);
      if (known != nullptr && known->error.empty()) continue;
      states.push_back({.rank = *awaited, .sequence = states.back().sequence, .health = run::Health::unknown});
    }
    return states;
  }

  // A rank waits for one that moves in the same call or a later one.
  bool goes_on(const run::Stall& stall) const {
    if (stall.kind != run::FindingKind::lost) return false;
    const RankView *const one = find(stall.ranks.front()), *const other = find(stall.ranks.back());
    return is_in_call(*one) && is_in_call(*other) && (moves(*one) || moves(*other));
  }

  // For how long it has begun no call, when others may wait for one; nothing while it is in one, or waits for others
  // in a message.
  static std::optional<double> quiet_seconds(const RankView& rank) {
    if (!rank.error.empty() || rank.calls_begun > rank.calls_over || rank.waiting_for) return std::nullopt;
    const double quiet = rank.call.empty() ? rank.idle_seconds : rank.call_seconds;
    return quiet >= seconds(kLate) ? std::optional(quiet) : std::nullopt;
  }

  // Those in a call that `rank` has not begun are the first of waiting_.
  size_t count_waiting_for(const RankView& rank) const {
    const auto end = std::partition_point(waiting_.begin(), waiting_.end(),
                                          [&](const RankView* each) { return each->calls_over >= rank.calls_begun; });
    return static_cast<size_t>(end - waiting_.begin());
  }

  // "15 ranks wait in allreduce of 4 MiB for 1.2 s": of the first `count` of waiting_.
  std::string who_waits(size_t count) const {
    const RankView* longest = waiting_.front();
    for (size_t i = 0; i < count; ++i) {
      if (waiting_[i]->call_seconds > longest->call_seconds) longest = waiting_[i];
    }
    return plural(count, "rank") + (count == 1 ? " waits in " : " wait in ") + longest->call + " for " +
           in_words(longest->call_seconds);
  }

  std::string title(const RankView& rank) const {
    return "rank " + std::to_string(rank.rank) + " of " + in_quotes(communicator_.name) + " (host " + rank.host +
           ", process " + std::to_string(rank.process) + ")";
  }

  FindingView finding(std::string kind, std::string words) const {
    return {.kind = std::move(kind), .communicator = communicator_.id, .words = std::move(words)};
  }

  // Ranks that others wait for in a call that they have not begun.
  std::vector<FindingView> not_begun() const {
    std::vector<const RankView*> late;
    for (const RankView& each : communicator_.ranks) {
      if (quiet_seconds(each) && count_waiting_for(each) > 0) late.push_back(&each);
    }
    if (late.size() > kMostNamed) return {all_of(late)};
    std::vector<FindingView> found;
    for (const RankView* const each : late) {
      const std::string doing = each->call.empty() ? "" : "; it is in " + each->call;
      found.push_back(finding("late rank", title(*each) + " is late: " + who_waits(count_waiting_for(*each)) +
                                               ", it has begun no call for " + in_words(*quiet_seconds(*each)) +
                                               doing));
    }
    return found;
  }

  FindingView all_of(const std::vector<const RankView*>& late) const {
    std::vector<uint32_t> ranks;
    double least = *quiet_seconds(*late.front());
    size_t most = 0;
    for (const RankView* const each : late) {
      ranks.push_back(each->rank);
      least = std::min(least, *quiet_seconds(*each));
      most = std::max(most, count_waiting_for(*each));
    }
    return finding("late rank", list_ranks(ranks) + " of " + in_quotes(communicator_.name) +
                                    " are late: " + who_waits(most) + ", they have begun no call for " +
                                    in_words(least) + " or longer");
  }

  // One rank that others wait for in a call, while it is in this one or an earlier one.
  std::vector<FindingView> awaited(const run::Stall& stall) const {
    const RankView* const rank = stall.ranks.size() == 1 ? find(stall.ranks.front()) : nullptr;
    if (rank == nullptr || !is_in_call(*rank)) return {};
    const RankView* longest = nullptr;
    size_t count = 0;
    for (const RankView* const each : waiting_) {
      if (each == rank || each->stalled_seconds < seconds(kLate)) continue;
      ++count;
      if (longest == nullptr || each->stalled_seconds > longest->stalled_seconds) longest = each;
    }
    if (count == 0) return {};
    const bool is_same = rank->calls_over >= longest->calls_over;
    return {finding("late rank",
                    title(*rank) + " is late: " + plural(count, "rank") + (count == 1 ? " waits" : " wait") +
                        " for it in " + longest->call + " for " + in_words(longest->stalled_seconds) + ", it is " +
                        (is_same ? "in this call, too," : "still in " + rank->call) + " and waits for nobody")};
  }

  // "rank 3 waits for rank 5, rank 5 for rank 3".
  std::string who_waits_for_whom() const {
    constexpr size_t kMostShown = 3;
    std::string words;
    size_t shown = 0;
    for (const RankView& each : communicator_.ranks) {
      if (!each.waiting_for) continue;
      if (shown == kMostShown) return words + " and so on";
      words += (shown == 0 ? ": rank " : ", rank ") + std::to_string(each.rank) + (shown == 0 ? " waits" : "") +
               " for rank " + std::to_string(*each.waiting_for);
      ++shown;
    }
    return words;
  }

  // "; nothing is known of 2 ranks", or nothing.
  std::string who_is_missing() const {
    const size_t known = communicator_.ranks.size();
    return known >= communicator_.size ? "" : "; nothing is known of " + plural(communicator_.size - known, "rank");
  }

  std::vector<FindingView> stalled() const {
    const RankView* shortest = nullptr;
    size_t count = 0;
    for (const RankView& each : communicator_.ranks) {
      if (!each.error.empty()) continue;
      const bool has_come_lately = !is_in_call(each) && each.call.empty() && each.idle_seconds < seconds(kLate);
      if (has_come_lately || (is_in_call(each) && each.stalled_seconds < seconds(kStalled))) return {};
      if (!is_in_call(each)) continue;
      ++count;
      if (shortest == nullptr || each.stalled_seconds < shortest->stalled_seconds) shortest = &each;
    }
    if (shortest == nullptr) return {};
    return {finding("stalled", shortest->call + " of " + in_quotes(communicator_.name) + " has not moved for " +
                                   in_words(shortest->stalled_seconds) + " at " + plural(count, "rank") +
                                   who_waits_for_whom() + who_is_missing())};
  }

  const CommunicatorView& communicator_;
  std::vector<const RankView*> waiting_;  // for others, as far as anybody knows; the latest call first
};

}  // namespace

std::vector<FindingView> find_wrong(const std::vector<CommunicatorView>& communicators,
                                    const std::vector<UnreachableHost>& unreachable) {
  std::vector<FindingView> all;
  for (const CommunicatorView& each : communicators) {
    for (FindingView& found : Examination(each).findings()) all.push_back(std::move(found));
  }
  for (const UnreachableHost& each : unreachable) {
    all.push_back({.kind = "unreachable host",
                   .communicator = {},
                   .words = "host " + each.host + " is unreachable: " + each.why});
  }
  return all;
}

}  // namespace banyan::service
