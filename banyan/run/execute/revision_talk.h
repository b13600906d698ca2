// RevisionTalk: what one rank says and hears while the ranks agree on other plans (revision.h): its reports, the wishes
// of its operator, its votes.
//
// hear() and propose() may be called by any thread, everything else by one.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "banyan/run/execute/revision.h"

namespace banyan::run {

class RevisionTalk {
 public:
  // `tell` brings a text to hear() of all ranks, this one too.
  RevisionTalk(uint32_t rank, uint32_t ranks, std::function<void(const std::string&)> tell)
      : rank_(rank), tell_(std::move(tell)), revisions_(ranks) {}

  // False for a text that is about something else.
  bool hear(const std::string& text);
  void propose(const FabricUpdate& wish);
  // All wishes, when there are others than were returned last: they are told to rank 0, which fulfils them while calls
  // go on (plan_switch.h). A revision that comes first fulfils them, too.
  std::optional<FabricUpdate> untold_wish();
  // This was fulfilled or refused.
  void forget_wish(const FabricUpdate& wish);

  // The last generation that this rank has reported on, or that is settled without.
  uint32_t generation() const { return generation_; }
  void settle(uint32_t generation) { generation_ = generation; }
  // The one to report on next, which others have begun.
  std::optional<uint32_t> called_to();
  // Tells all; adds this rank's number and its wish.
  void report(RevisionReport report);

  // Once all ranks agree on the generation: what to adopt, and why.
  struct Agreement {
    FabricUpdate update;
    RevisionDecision decision;
  };
  // Votes, when it is time to; `expect_possible` throws why this rank cannot adopt an update, Error{peer_lost} when
  // there is no way without the lost cables: then some of them are used again.
  std::optional<Agreement> agreement(const std::function<void(const FabricUpdate&)>& expect_possible);
  // The agreement has been carried out.
  void finish();

  // Whether texts have come since this was asked last.
  bool has_news();
  // A rank that this one waits for.
  std::optional<uint32_t> missing() const { return revisions_.missing(generation_); }

 private:
  void vote(const FabricUpdate& wished, const std::function<void(const FabricUpdate&)>& expect_possible);

  const uint32_t rank_;
  const std::function<void(const std::string&)> tell_;
  Revisions revisions_;
  uint32_t generation_ = 0, voted_on_ = 0;
  uint64_t texts_seen_ = 0;
  FabricUpdate reported_wish_;
  std::mutex mutex_;   // protects wish_
  FabricUpdate wish_;  // not yet decided
  std::atomic<bool> is_called_{false}, has_wish_{false};
};

}  // namespace banyan::run
