// PlanRevision: what one rank does in a revision of plans (revision.h): it notices a loss, stops, reports, and begins
// again by what all ranks conclude. For NetExecutor.
//
// (1) From the stop to the restart nothing moves: neither calls nor messages. Each step of a revision happens once for
//     its generation, and a later generation begins again with the first.
// (2) Generations that this rank reports on grow, and are above those that are settled.
// (3) Nothing is repeated before all ranks have stopped and reported; then all draw the same conclusion.
// (4) Rounds that found no loss may fail again for the same reason: after kQuickRounds of them each waits longer, until
//     a call ends.
//
// receive(), reroutes() and suspensions() may be called by any thread, everything else by that of the executor. While
// nothing is lost, nothing is allocated and no lock is taken but by look_at_lanes(), every kLookAfter.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "banyan/run/execute/flights.h"
#include "banyan/run/execute/revision_talk.h"
#include "banyan/run/execute/work_done.h"
#include "banyan/run/net/message_streams.h"

namespace banyan::run {

class PlanRevision {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr uint32_t kQuickRounds = 3;
  static constexpr std::chrono::milliseconds kFirstRest{100}, kLongestRest{2000};
  static constexpr std::chrono::milliseconds kLookAfter{250}, kGoodBye{50};  // lanes, again; and of broken connections

  // These are stopped and begin again; they belong to the caller, and outlive this.
  struct Parts {
    PlansInForce& plans;
    MessageStreams& messages;
    Flights& flights;
    WorkDone& work;
  };
  PlanRevision(RankAndSize own, const NetOptions& options, const Parts& parts)
      : options_(options), parts_(parts), talk_(own.rank, own.ranks, options.send) {}

  // False for a text that is about something else.
  bool receive(const std::string& text) { return talk_.receive(text); }
  // Stops if another rank has begun a revision.
  void answer();
  // Stops if this connection was lost and its rank may live: others are made. If not, returns false; when a rank is
  // dead, the agents tell all.
  bool stop_after(const Error& error);
  // Stops if lanes were lost, and tries lost paths. To be called when this rank waits.
  void look_at_lanes();
  // Stops if a connection that carries messages has been broken for kGoodBye: a rank that leaves may reset connections,
  // and says so over another one a little later. To be called while has_seen_break(), and now and then.
  void look_at_messages();
  bool has_seen_break() const { return broken_since_.has_value(); }
  // Goes on with the revision under way; true if anything has moved.
  bool advance();
  // A call has ended.
  void call_ended() { rounds_in_vain_ = 0; }
  // This generation is settled without a revision.
  void settle(uint32_t generation) { talk_.settle(generation); }

  // Calls and messages stand still.
  bool is_under_way() const { return parts_.flights.are_stopped(); }
  // A rank that this one waits for.
  std::optional<uint32_t> missing() const { return talk_.missing(); }
  // All have agreed, and advance() begins again when the time has come.
  bool is_agreed() const { return agreement_.has_value(); }
  // Has a thread that waits wake when advance() or look_at_lanes() has something to do.
  void prepare(WaitSet& set) const;
  // The numbers of revisions that were carried out, and of those that were begun.
  uint32_t reroutes() const { return reroutes_.load(std::memory_order_relaxed); }
  uint32_t suspensions() const { return suspensions_.load(std::memory_order_relaxed); }

 private:
  uint32_t next_generation() const { return std::max(talk_.generation(), parts_.plans.changes().latest()) + 1; }
  bool is_lost(const LaneHealth& lane) const;
  void stop_for(uint32_t generation);
  RevisionReport report(uint32_t generation) const;
  void pace_rounds(const RevisionDecision& decision);
  void restart(const RevisionTalk::Agreement& agreement);

  const NetOptions& options_;
  const Parts parts_;
  RevisionTalk talk_;
  std::optional<RevisionTalk::Agreement> agreement_;  // to be carried out at restart_at_
  Clock::time_point restart_at_;
  uint32_t rounds_in_vain_ = 0;                    // one after the other, since a call ended
  Clock::time_point looked_at_;                    // at the lanes
  std::optional<Clock::time_point> broken_since_;  // a connection that carries messages
  std::atomic<uint32_t> reroutes_{0}, suspensions_{0};
};

}  // namespace banyan::run
