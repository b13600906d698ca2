#include "banyan/service/view/findings.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/base/rank_list.h"
#include "banyan/base/text.h"
#include "banyan/base/words.h"

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
  explicit Examination(const CommunicatorView& communicator)
      : communicator_(communicator), end_of_chain_(communicator.ranks.size()) {
    for (size_t i = 0; i < communicator.ranks.size(); ++i) follow_chain(i);
    for (const RankView& each : communicator.ranks) {
      if (is_in_call(each) && each.call_seconds >= seconds(kLate) && !belongs_to_a_call_that_moves(each)) {
        waiting_.push_back(&each);
      }
    }
    std::stable_sort(waiting_.begin(), waiting_.end(),
                     [](const RankView* a, const RankView* b) { return a->calls_over > b->calls_over; });
  }

  std::vector<FindingView> findings() const {
    std::vector<FindingView> found = not_begun();
    if (found.empty()) found = awaited_by_all();
    if (found.empty()) found = stalled();
    return found;
  }

 private:
  static constexpr size_t kNobody = SIZE_MAX;

  size_t awaited_by(size_t i) const {
    const std::vector<RankView>& ranks = communicator_.ranks;
    const uint32_t wanted = *ranks[i].waiting_for;
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), wanted,
                                        [](const RankView& each, uint32_t rank) { return each.rank < rank; });
    return found != ranks.end() && found->rank == wanted ? static_cast<size_t>(found - ranks.begin()) : kNobody;
  }

  // Whether it waits for another rank. In shared memory nobody waits for a rank that has ended the call already: who
  // says so was stopped before it could say otherwise.
  bool waits(size_t i) const {
    const RankView& rank = communicator_.ranks[i];
    if (!rank.waiting_for) return false;
    const size_t awaited = awaited_by(i);
    return !communicator_.is_direct || awaited == kNobody || communicator_.ranks[awaited].calls_over <= rank.calls_over;
  }

  // Marks the whole chain of waiting from `start` with its end: a rank that waits for nobody; kNobody for one of which
  // nothing is known, and for circles.
  void follow_chain(size_t start) {
    std::vector<size_t> chain;
    size_t at = start;
    while (at != kNobody && !end_of_chain_[at]) {
      end_of_chain_[at] = kNobody;  // until its end is known: who comes here again has gone round
      chain.push_back(at);
      if (!waits(at)) break;
      at = awaited_by(at);
    }
    if (chain.empty()) return;
    const bool is_end = at == chain.back() && !waits(at);
    const size_t end = is_end ? at : at == kNobody ? kNobody : *end_of_chain_[at];
    for (const size_t each : chain) end_of_chain_[each] = end;
  }

  const RankView* end_of_chain(const RankView& rank) const {
    const size_t end = *end_of_chain_[static_cast<size_t>(&rank - communicator_.ranks.data())];
    return end == kNobody ? nullptr : &communicator_.ranks[end];
  }

  // Itself, or the rank at the end of its chain, is in its call and goes on there: then it does not wait for anybody
  // who has not come.
  bool belongs_to_a_call_that_moves(const RankView& rank) const {
    const RankView* const end = end_of_chain(rank);
    return end != nullptr && end->calls_begun > rank.calls_over && is_in_call(*end) &&
           end->stalled_seconds < seconds(kLate);
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

  // The one rank at which all chains of waiting end.
  std::vector<FindingView> awaited_by_all() const {
    const RankView* awaited = nullptr;
    const RankView* longest = nullptr;
    size_t count = 0;
    for (const RankView& each : communicator_.ranks) {
      if (!is_in_call(each) || !each.waiting_for || each.stalled_seconds < seconds(kLate)) continue;
      const RankView* const end = end_of_chain(each);
      if (end == &each) continue;  // it does not wait any more
      if (end == nullptr || !is_in_call(*end) || (awaited != nullptr && end != awaited)) return {};
      awaited = end;
      ++count;
      if (longest == nullptr || each.stalled_seconds > longest->stalled_seconds) longest = &each;
    }
    if (awaited == nullptr) return {};
    const bool is_same = awaited->calls_over >= longest->calls_over;
    return {finding("late rank",
                    title(*awaited) + " is late: " + plural(count, "rank") + (count == 1 ? " waits" : " wait") +
                        " for it in " + longest->call + " for " + in_words(longest->stalled_seconds) + ", it is " +
                        (is_same ? "in this call, too," : "still in " + awaited->call) + " and waits for nobody")};
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
  std::vector<std::optional<size_t>> end_of_chain_;  // by place in communicator_.ranks
  std::vector<const RankView*> waiting_;             // for others, as far as anybody knows; the latest call first
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
