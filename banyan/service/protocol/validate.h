// The checks of a daemon before it carries out a call of a client.
//
// validate() is pure: it sees a private copy of the submission, the rules of its session and the client's regions, and
// gives a call that cannot touch anything but these regions, or says in words why not. It allocates no more than four
// numbers for each rank, and never trusts a number before it has compared it. The lists of counts, which it reads from
// memory of the client, it copies first, too.
//
// A refused submission ends its session, and nothing else: the ranks of a communicator have to make the same calls, so
// there is nothing to go on with.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

// The rules of one session; known to the daemon, whatever its client writes.
struct SessionRules {
  uint32_t rank = 0, size = 1;
  uint64_t next_sequence = 1;
  uint64_t most_bytes = uint64_t{1} << 40;               // of either buffer of a call
  std::chrono::milliseconds longest_timeout{3'600'000};  // longer ones are cut
};

// A call with all that it points to. Fields that the kind does not use are as in a Call that nobody has touched,
// buffers of no bytes are null, and displacements of no elements are 0.
struct ValidCall {
  ValidCall() = default;
  ValidCall(ValidCall&&) = default;  // not copied: the spans of `call` look into `lists`
  ValidCall& operator=(ValidCall&&) = default;

  run::Call call;
  std::array<std::vector<size_t>, 4> lists;  // send_counts, send_displacements, recv_counts, recv_displacements
  std::shared_ptr<const Region> send, recv;  // kept while the call is under way
  uint64_t bytes = 0;                        // of both buffers: what it weighs
};

// Why a submission is refused. `reason` is one of a few, for counters; `words` for people, in one line.
struct Refusal {
  enum class Reason : uint8_t { version, kind, sequence, numbers, buffer, overlap, limit };
  Reason reason = Reason::version;
  std::string words;
};
inline constexpr size_t kRefusalReasons = 7;
// "version", "kind", ...
const char* to_string(Refusal::Reason reason);

// Copies the lists of counts out of a region that its client may write to at the same time. Overlaps of send and recv
// are those of addresses: a client that offers the same memory twice deceives nobody but itself.
std::variant<ValidCall, Refusal> validate(const Submission& submission, const SessionRules& rules,
                                          const RegionTable& regions);

}  // namespace banyan::service
