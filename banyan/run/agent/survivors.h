// Survivors: those left of a group agree on who they are, while more of them may be dying.
//
// Each calls Agent::agree with the same epoch and the same candidates. The outcome, if there is one, is the same list
// for all who are on it, and each has given its consent to just this list before anybody is told that it holds.
//
// The algorithm is single-decree Paxos (Lamport, "Paxos made simple", 2001) with another quorum. Any candidate may
// propose, under a ballot that is its own; the lowest that lives does at once, the others when those below them are
// gone or late. Prepare asks all candidates for their promise, their opinion and their card. Dead processes
// (suspicion.h) do not come back, so a quorum is *everybody who lives* instead of a majority.
// After at most `patience` the proposer goes on without those who have not come: they are left out and told so when
// they ask. Accept carries the list, Decide says that all on it have accepted. The proposer itself returns only when
// all have received Decide, so that others can overrule one that fell silent before. A rank that was only concluded to
// be dead, and may live behind a fence (hub.h), is left out, but what it may have decided counts: see agreement.h.
//
// A rule says which lists there may be. While agents can reach each other, a list needs more than half (or half, with
// the lowest) of those whose agents answer, so that one who gave up on the old group early does not found a group
// alone. With SurvivorRule `any` that is all: when the network is cut in two for longer than `patience`, each half goes
// on without the other. With `majority` every list has more than half of the candidates, dead or alive, so of two lists
// at most one can come about, whatever is cut off from whom; a minority gets Error{peer_lost}. `at_least` k candidates
// are safe in the same way when k is more than half of them. If ranks have different rules the strictest counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace banyan::run {

struct SurvivorRule {
  enum class Kind : uint8_t { any, majority, at_least };
  Kind kind = Kind::any;
  uint32_t count = 1;  // of at_least

  // "any", "majority", or a number of ranks. Throws Error{invalid_input}.
  static SurvivorRule parse(std::string_view text);
  // The least number of survivors that there must be of so many candidates.
  uint32_t least_of(size_t candidates) const;
};

struct SurvivorQuestion {
  uint64_t epoch = 0;  // what is being agreed on; the same number at all candidates, used once in a world
  std::vector<uint32_t> candidates{};        // world ranks, ascending, this one among them; the same at all
  std::vector<uint32_t> excluded{};          // whom this rank wants left out; the wishes of all count
  std::string card{};                        // what the others should know of this one; at most 16 KiB
  std::chrono::milliseconds patience{1500};  // with candidates that do not come and are not known to be dead
  // Patience with those that have come, and do not answer; no more than `patience`.
  std::chrono::milliseconds answer_time{1500};
  SurvivorRule rule{};
  std::chrono::steady_clock::time_point deadline{};
};

// The outcome of an agreement.
struct Survivors {
  std::vector<uint32_t> ranks;     // world ranks, ascending
  std::vector<std::string> cards;  // in the same order
};

}  // namespace banyan::run
