// RevisionTalk: the texts of one rank while the ranks agree on going on without what is lost (revision.h).
//
// receive() may be called by any thread, everything else by one.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "banyan/run/execute/revision.h"

namespace banyan::run {

class RevisionTalk {
 public:
  // `send` brings a text to receive() of all ranks, this one too.
  RevisionTalk(uint32_t rank, uint32_t ranks, std::function<void(const std::string&)> send)
      : rank_(rank), send_(std::move(send)), revisions_(ranks) {}

  // False for a text that is about something else.
  bool receive(const std::string& text);

  // The last generation that this rank has reported on, or that is settled without.
  uint32_t generation() const { return generation_; }
  void settle(uint32_t generation) { generation_ = std::max(generation_, generation); }
  // The one to report on next, which others have begun.
  std::optional<uint32_t> called_to();
  // Tells all; adds this rank's number.
  void report(RevisionReport report);

  // Once all ranks have reported on the generation: what to adopt, the same on all, and why.
  struct Agreement {
    FabricUpdate update;
    RevisionDecision decision;
  };
  // `expect_possible` throws why an update cannot be adopted, Error{peer_lost} when there is no way without the cables
  // that it leaves unused: then some of them are used.
  std::optional<Agreement> agreement(const std::function<void(const FabricUpdate&)>& expect_possible);
  // The agreement has been carried out.
  void finish();

  // True if texts have come since the last call of this.
  bool has_news();
  // A rank that this one waits for.
  std::optional<uint32_t> missing() const { return revisions_.missing(generation_); }

 private:
  const uint32_t rank_;
  const std::function<void(const std::string&)> send_;
  Revisions revisions_;
  uint32_t generation_ = 0;
  uint64_t texts_seen_ = 0;
  std::atomic<bool> is_called_{false};
};

}  // namespace banyan::run
