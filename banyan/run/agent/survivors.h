// Survivors: those left of a group agree on who they are, while more of them may be dying.
//
// Each calls Agent::agree with the same epoch and the same candidates. The outcome, if there is one, is the same list
// for all who are on it, and each has given its consent to just this list before anybody is told that it holds.
//
// How: single-decree Paxos (Lamport, "Paxos made simple", 2001) with another quorum. Any candidate may propose, under a
// ballot that is its own; the lowest that lives does at once, the others when those below them are gone or late.
// Prepare asks all candidates for their promise, their opinion and their card. Who refuses the call, or whose
// connection breaks, is dead: processes do not come back, so a quorum is *everybody who lives* instead of a majority.
// After at most `patience` the proposer goes on without those who have not come: they are left out and told so when
// they ask. Accept carries the list, Decide says that all on it have accepted. The proposer itself returns only when
// all have heard Decide, so that others can overrule one that fell silent before. What a majority protects from, two
// groups that both go on, can happen when the network is cut in two for longer than `patience`: each half then regards
// the other as gone. It cannot happen while agents can reach each other: a list needs more than half (or half, with the
// lowest) of those whose agents answer, so that one who gave up on the old group early does not found a group alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace banyan::run {

struct SurvivorQuestion {
  uint64_t epoch = 0;  // what is being agreed on; the same number at all candidates, used once in a world
  std::vector<uint32_t> candidates{};        // world ranks, ascending, this one among them; the same at all
  std::vector<uint32_t> excluded{};          // whom this rank wants left out; the wishes of all count
  std::string card{};                        // what the others should know of this one; at most 16 KiB
  std::chrono::milliseconds patience{1500};  // with candidates that do not come and are not known to be dead
  std::chrono::steady_clock::time_point deadline{};
};

// What came out.
struct Survivors {
  std::vector<uint32_t> ranks;     // world ranks, ascending
  std::vector<std::string> cards;  // in the same order
};

}  // namespace banyan::run
