// PyTorch traces to a Job: per rank a Kineto trace (what ran when), with or without the host trace that says what
// operators were given (ExecutionTraceObserver). No converter in between: files are read and linked here, what is
// broken in them is mended where the traces themselves prove how, and every mend is counted in a LinkReport.
//
// From events to nodes
//   kernel, memcpy, memset   a node on its (device, stream), in the order of time. A memcpy or memset is a memory node
//   NCCL kernel              a collective, send or receive. Its size, type and group stand in its own args, in those of
//                            the record_param_comms around its launch, or in the host trace. Several kernels of one
//                            call (all-to-all) are one node; one kernel of several calls (coalesced) is a node for each
//   host thread              a stream of compute nodes: the host's time between two launches, so that what the host
//                            held up in the trace is held up in the prediction
//   launch                   the kernel needs the host's node that ends with the launching call: by correlation, else
//                            by External id, else by arrow (ac2g)
//   cudaStreamSynchronize, DeviceSynchronize, EventSynchronize, blocking copies
//                            the host waits for the last work that was launched to the stream before; its time in the
//                            call does not count as compute
//   cudaStreamWaitEvent      the stream's next work needs the last one of the other stream before the record
//   a thread idle for long   waits for what another thread did last meanwhile (autograd's thread and the main one)
//   Gloo                     collectives on a stream of their own, where the trace has none of NCCL
//
// Between ranks, the n-th collective of a group on one rank is the n-th on all others. If a rank has fewer, the
// sequences are aligned, by time if that leaves a choice, and the calls that a rank's trace lost are put back. Traces
// that contradict each other are an error.
//
// Times. A node lasts as long as in the trace; up to 20 us between the moment when nothing held a kernel back any more
// and its start (launch latency) count to it. A longer pause that nothing explains is a node of its own ("idle").
//
// Memory: 80 bytes an event of the rank that is being read, some 50 more while it is linked, and 120 bytes for what is
// kept of an event that becomes a node. Texts stream through. Complexity O(events log events).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/job/job.h"

namespace banyan::job::kineto {

// The files of one rank, plain or gzip.
struct RankTraces {
  std::string kineto;
  std::string host;                             // may be empty
  std::optional<uint32_t> rank = std::nullopt;  // else as distributedInfo says, else its place in the list
};

// The same, from memory: tests, fuzzers. The texts are borrowed.
struct RankTraceTexts {
  std::string_view kineto;
  std::string_view host;  // empty: none
  std::optional<uint32_t> rank = std::nullopt;
};

struct Options {
  std::string name = "trace";
  // Only what is launched within ProfilerStep#N.
  std::optional<uint64_t> step = std::nullopt;
  // Keep pauses that nothing in the trace explains. Without them a prediction is a lower bound.
  bool keep_idle = true;
  // A thread that did nothing for so long waited for another one, if that did something meanwhile.
  std::chrono::nanoseconds handoff{200'000};
};

// Events that are of no category that is known, and so are left out.
struct UnknownCategory {
  static constexpr size_t kMost = 16;  // that are named; further ones are "others"

  std::string name = {};
  uint64_t events = 0;
  bool on_device = false;  // a device or stream is said
  int64_t ns = 0;          // that they lasted, all together

  void add_time(int64_t more);
  // Into the row of this category.
  void add_to(std::vector<UnknownCategory>& rows) const;
};

// Counts of one rank, or of all. lines() says what they mean.
struct LinkCounts {
  uint64_t events = 0, operators = 0, kernels = 0, memory = 0, collectives = 0, messages = 0;

  uint64_t launched_by_correlation = 0, launched_by_external_id = 0, launched_by_arrow = 0, launched_by_order = 0;
  uint64_t linked_by_record_id = 0, linked_by_index = 0, linked_by_name = 0;
  uint64_t host_alone = 0, kineto_alone = 0, contradicted_links = 0, links_taken_back = 0;
  uint64_t comm_by_kernel = 0, comm_by_operator = 0, comm_by_host = 0, comm_by_order = 0, comm_by_peers = 0;
  uint64_t syncs = 0, waits = 0, handoffs = 0;

  uint64_t without_time = 0, without_end = 0, ends_alone = 0, mended_text = 0, cut_files = 0, unknown_events = 0;
  uint64_t missing_parents = 0, repeated_nodes = 0;
  uint64_t without_launcher = 0, repeated_correlations = 0, without_gpu_time = 0, before_launch = 0, clocks_shifted = 0;
  uint64_t overlaps = 0, cycles_broken = 0, syncs_inferred = 0, waits_inferred = 0, waits_unknown = 0,
           waits_against_time = 0;
  uint64_t kernels_folded = 0, calls_coalesced = 0, sizes_unfit = 0, groups_assumed = 0, roots_assumed = 0, uneven = 0;
  uint64_t calls_without_kernel = 0, inserted = 0, inserted_head = 0, inserted_tail = 0;
  int64_t idle_ns = 0, latency_ns = 0, overlap_ns = 0;

  LinkCounts& operator+=(const LinkCounts& other);
  // To idle_ns, latency_ns or overlap_ns. Damaged traces may hold more than counts: the sum stays at its most then.
  void add_time(int64_t LinkCounts::*sum, int64_t ns);
  // Everything above that is a mend, a guess or a loss rather than a plain reading.
  uint64_t repairs() const;
};

struct RankLinkReport {
  uint32_t rank = 0;
  std::string kineto, host;
  LinkCounts counts;
  std::vector<UnknownCategory> unknown;
  // Ahead of the first rank's, from the ends of collectives; 0 where the two have none in common.
  std::chrono::nanoseconds clock_offset{0};
  std::vector<std::string> notes;  // the first repairs by name, for a person to look at
};

struct LinkReport {
  std::vector<RankLinkReport> ranks;

  LinkCounts total() const;
  // One thing a line: first all ranks together, then what is particular to a rank. Counts of zero are left out.
  std::vector<std::string> lines() const;

 private:
  std::vector<std::string> unknown_lines() const;
};

struct LinkedJob {
  Job job;
  LinkReport report;
};

// Ranks in any order; the Job's ranks are theirs, ascending, without gaps.
// Throws Error{not_found, io} for files; Error{invalid_input} with file, event and mend for what is no trace, for a
// communication whose size or group nobody knows, a group with a member that has no trace; Error{mismatch} for traces
// that are not of one run, with ranks, group and events.
LinkedJob read_job(std::span<const RankTraces> ranks, const Options& options = {});
LinkedJob read_job(std::span<const RankTraceTexts> ranks, const Options& options = {});

}  // namespace banyan::job::kineto
