// Stall diagnosis: which rank keeps a communicator from going on, as far as a few facts about each rank tell.
//
// For a rank whose timeout has passed and that has asked its peers, or looked at their recorders; for `banyan doctor`
// afterwards (diagnosis.h); for operators of the service (service/view). Pure: no clock, no memory of its own.
//
// The diagnosis is the first of these that applies:
//   1. two ranks called different things under one number;
//   2. a rank is dead, silent, or has left while others wait;
//   3. a rank waits for a message that its peer has not sent, or to send one that its peer does not receive, and that
//      peer waits for something else, or for nothing; or ranks wait so for each other (message_stall.h);
//   4. a rank that waits names whom it waits for: the rank at the end of such a chain is to blame. It has not called it
//      (late), or is in it and waits for nobody (stuck), or is past it (then what it sent is lost), or nothing is known
//      of it (missing). Chains without an end are a circle. If one is stuck, or in a circle, in an operation that
//      others have not called, those others are late: a rank that waits for several names only one of them. If no rank
//      names another, those that have come least far are to blame.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/call/operation.h"
#include "banyan/run/record/health.h"
#include "banyan/run/record/message_book.h"

namespace banyan::run {

struct RankState {
  uint32_t rank = 0;
  uint64_t sequence = 0;                        // of its newest collective; 0: none yet
  OperationState state = OperationState::done;  // of that collective
  uint32_t step = 0;                            // in it
  uint32_t waits_for = kNoRank;                 // in it, if that is known
  Health health = Health::alive;
  int64_t since = 0;  // ns since it ended, or since it was called if it is under way; 0 unknown
  const OperationRecord* operation = nullptr;  // its record, if that is known; borrowed
  const MessageRecords* messages = nullptr;    // of messages, if that is known; borrowed
  int64_t now = 0;                             // on the clock of `messages`

  // Called, but not over; one that failed was in it until it gave up.
  bool is_inside() const { return sequence > 0 && state != OperationState::done; }
  // The first message that somebody waits for; null: there is none.
  const MessageRecord* awaited() const;
  // Since when, in ns; 0: nobody waits.
  int64_t awaited_for() const;
};

// The cause that keeps a communicator from going on, or another finding of the records. Crossing to contradiction come
// from records of several ranks only (diagnosis.h): crossing: ranks wait for each other in several communicators.
// straggler: slow but moving. reported: a rank reports an error that nothing else explains. contradiction: the records
// do not belong together.
enum class FindingKind : uint8_t {
  none,
  mismatch,
  dead,
  silent,
  left,
  missing,
  late,
  stuck,
  lost,
  circle,
  crossing,
  straggler,
  reported,
  contradiction,
  message
};
std::string_view to_string(FindingKind kind);

struct Stall {
  FindingKind kind = FindingKind::none;
  std::vector<uint32_t> ranks;      // ascending
  std::vector<uint32_t> waiting{};  // ranks that wait, directly or not; ascending
  uint64_t sequence = 0;            // of the call in question
  std::string sentence{};           // without a full stop; empty when nothing stalls
};

// One state per rank, in any order. Waiting for a rank not given counts as waiting for nobody. O(ranks log ranks) where
// nobody waits for a message.
Stall diagnose_stall(std::span<const RankState> states);

}  // namespace banyan::run
