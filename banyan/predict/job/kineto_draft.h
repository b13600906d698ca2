// A rank on its way from trace to program: what its GPUs did, where its host threads launched and waited, and what it
// asked of others. kineto_draft makes it of one rank's traces, kineto_match puts in what other ranks prove missing,
// kineto_emit writes the program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/predict/job/kineto.h"
#include "banyan/predict/job/kineto_comm.h"
#include "banyan/predict/job/kineto_trace.h"
#include "banyan/predict/job/pytorch_host.h"

namespace banyan {

constexpr uint32_t kNoIndex = UINT32_MAX;

// One thing on a GPU's stream, or a communication of the host.
struct DraftWork {
  enum class Kind : uint8_t { compute, memory, comm };

  int64_t start = 0, end = 0;  // ns of the rank's clock
  int64_t launched = 0;        // when the host asked for it
  uint32_t thread = kNoIndex;  // whose point `point` it was launched at
  uint32_t point = kNoIndex;
  uint32_t lane = 0;        // into RankDraft::lanes
  uint32_t name = 0;        // into RankDraft::names
  uint32_t first_call = 0;  // into RankDraft::calls
  uint16_t calls = 0;
  Kind kind = Kind::compute;
  bool inserted = false;  // by kineto_match
  int32_t order = 0;      // among works of one lane that start at once
  uint64_t bytes = 0;     // of memory
  uint64_t event = 0;     // number in the file
};

struct DraftCall {
  CommCall call;
  uint32_t group = kNoIndex;  // of kineto_match
  uint32_t root = 0;
  std::optional<uint64_t> bytes = std::nullopt;
  uint32_t peer = kNoIndex;  // send, receive: the other's index among the drafts; kNoIndex - 1: itself
};

// A communication that the host asked for and of which no kernel was found.
struct DraftLostCall {
  CommCall call;
  uint32_t thread = kNoIndex, point = kNoIndex;
  int64_t time = 0;
  bool used = false;
};

// Where the host's thread launches or waits. The time from the point before up to `begin` is compute.
struct DraftPoint {
  enum class Kind : uint8_t { launch, stream, device, event, work, gap };
  Kind kind = Kind::launch;
  int64_t begin = 0, end = 0;  // of launch: equal
  uint32_t name = 0;           // the operator that held the time before
  uint32_t lane = kNoIndex;    // that is waited for; kNoIndex: not said
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
  uint32_t lane = kNoIndex;                        // that waits; kNoIndex: not said
  uint32_t source = kNoIndex;                      // that is waited for; kNoIndex: not said
  std::optional<int64_t> recorded = std::nullopt;  // when the host recorded the event
  uint32_t thread = kNoIndex;                      // the host's
};

struct DraftRecord {
  int64_t time = 0;
  uint32_t thread = kNoIndex;
};

struct DraftLane {
  std::string label;
  int64_t device = 0;
  bool host = false;  // communications of the host: any number at once
};

struct RankDraft {
  uint32_t rank = 0;
  std::optional<uint32_t> world_size;
  std::string source, host_source;
  int64_t origin = 0;  // the first moment
  std::vector<std::string> names;
  std::vector<DraftLane> lanes;
  std::vector<DraftWork> works;
  std::vector<DraftCall> calls;
  std::vector<DraftLostCall> lost;
  std::vector<DraftThread> threads;
  std::vector<DraftWait> waits;
  std::vector<DraftRecord> records;  // ascending
  std::vector<KinetoGroup> groups;   // the host's table first
  LinkCounts counts;
  std::vector<std::string> notes;

  uint32_t add_name(std::string_view name);
  void note(std::string text) {
    if (notes.size() < 20) notes.push_back(std::move(text));
  }
};

RankDraft make_rank_draft(KinetoTrace trace, std::optional<HostTrace> host, const KinetoOptions& options);

// Finds the groups of all calls, aligns their sequences between the ranks and puts back what was lost. Returns the
// groups, whose ranks are indices of `drafts`. Sets clock offsets (ns to be taken off a rank's times).
std::vector<JobGroup> match_ranks(std::vector<RankDraft>& drafts, std::vector<int64_t>& offsets);

// Adds the draft's program and rank to the builder. `start_late`: how much later than the first rank its trace begins.
void emit_rank(RankDraft& draft, const std::vector<JobGroup>& groups, uint32_t self, int64_t start_late,
               const KinetoOptions& options, Job::Builder& builder);

}  // namespace banyan
