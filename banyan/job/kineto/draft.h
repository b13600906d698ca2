// A rank on its way from trace to program: what its GPUs did, where its host threads launched and waited, and what it
// asked of others. make_rank_draft makes it of one rank's traces; kineto/match.h puts in what other ranks prove
// missing; kineto/emit.h writes the program.
//
// A draft is made in parts: which call launched what (kineto/launch.h), which operator of the host trace is which
// (kineto/link.h), what operators say of communications (kineto/comm_operators.h), what ran on GPUs (kineto/gpu.h),
// communications of the host (kineto/host_comms.h), where host threads launched and waited (kineto/threads.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/job/kineto/comm.h"
#include "banyan/job/kineto/group_table.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/job/kineto/pytorch_host.h"
#include "banyan/job/kineto/trace.h"
#include "banyan/job/name_table.h"

namespace banyan::job::kineto {

constexpr uint32_t kNoIndex = UINT32_MAX;

// The place in a host's thread at which something was asked for.
struct DraftPlace {
  uint32_t thread = kNoIndex;  // into RankDraft::threads
  uint32_t point = kNoIndex;   // into its points; kNoIndex: it has none for this
};

// One thing on a GPU's stream, or a communication of the host.
struct DraftWork {
  enum class Kind : uint8_t { compute, memory, comm };

  int64_t start = 0, end = 0;  // ns of the rank's clock
  int64_t launched = 0;        // when the host asked for it
  DraftPlace launch;           // and where
  uint32_t track = 0;          // into RankDraft::tracks
  uint32_t name = 0;           // into RankDraft::names
  uint32_t first_call = 0;     // into RankDraft::calls
  uint32_t calls = 0;
  Kind kind = Kind::compute;
  bool inserted = false;  // other ranks prove it
  int64_t order = 0;      // among works of one track that start at once, no two alike
  uint64_t bytes = 0;     // of memory
  uint64_t event = 0;     // number in the file
};

struct DraftCall {
  static constexpr uint32_t kItself = kNoIndex - 1;

  CommCall call;
  uint32_t group = kNoIndex;  // of those that find_groups gives
  uint32_t root = 0;
  std::optional<uint64_t> bytes = std::nullopt;
  uint32_t peer = kNoIndex;  // send, receive: the other's index among the drafts; kItself: a message to oneself
};

// A communication that the host asked for and of which no kernel was found.
struct DraftLostCall {
  CommCall call;
  DraftPlace launch;
  int64_t time = 0;
  uint32_t group = kNoIndex;  // as of DraftCall, where it is known
};

// A point at which the host's thread launches or waits. The time from the point before up to `begin` is compute.
struct DraftPoint {
  enum class Kind : uint8_t { launch, stream, device, event, work, gap };
  Kind kind = Kind::launch;
  int64_t begin = 0, end = 0;  // of launch: equal; of the gap before a thread's first event, begin is INT64_MIN
  uint32_t name = 0;           // the operator that held the time before
  uint32_t track = kNoIndex;   // that is waited for; kNoIndex: not said
  int64_t before = 0;          // what was launched before that time is waited for
  uint32_t work = kNoIndex;
};

struct DraftThread {
  std::string label;
  std::vector<DraftPoint> points;  // ascending
};

// A stream that waits for another one.
struct DraftWait {
  int64_t time = 0;                                // of the call
  uint32_t track = kNoIndex;                       // that waits; kNoIndex: not said
  uint32_t source = kNoIndex;                      // that is waited for; kNoIndex: not said
  std::optional<int64_t> recorded = std::nullopt;  // when the host recorded the event
  uint32_t thread = kNoIndex;                      // the host's; kNoIndex: it launched nothing
};

struct DraftRecord {
  int64_t time = 0;
  uint32_t thread = kNoIndex;
};

struct DraftTrack {
  std::string label;
  int64_t device = 0, stream = 0;
  bool host = false;  // communications of the host: any number at once
};

struct RankDraft {
  uint32_t rank = 0;
  std::optional<uint32_t> world_size;
  std::string source, host_source;
  int64_t origin = 0;  // the first moment; for a rank whose trace begins late, the first of all ranks
  NameTable names;
  std::vector<DraftTrack> tracks;
  std::vector<DraftWork> works;
  std::vector<DraftCall> calls;
  std::vector<DraftLostCall> lost;  // as they were called
  std::vector<DraftThread> threads;
  std::vector<DraftWait> waits;
  std::vector<DraftRecord> records;               // ascending
  std::vector<ProcessGroup> groups;               // the host's table first
  std::vector<std::vector<uint32_t>> rank_lists;  // what CommCall::ranks means
  LinkCounts counts;
  std::vector<std::string> notes;
  std::vector<UnknownCategory> unknown;

  // Only the first few are kept.
  void note(std::string text) {
    if (notes.size() < 20) notes.push_back(std::move(text));
  }
  // Gives a work its calls, and counts them.
  void set_calls(DraftWork& work, std::vector<CommCall> given);
  // A name for a person, in quotes.
  std::string in_words(const DraftWork& work) const { return "'" + names[work.name].substr(0, 60) + "'"; }
  std::string where(const DraftWork& work) const { return source + " event " + std::to_string(work.event); }
};

// Throws Error{invalid_input} or Error{not_found}, with the file, for a trace that is of no run, or has not the step.
// Complexity O(events log events).
RankDraft make_rank_draft(Trace trace, std::optional<HostTrace> host, const Options& options);

}  // namespace banyan::job::kineto
