// Runs a schedule on this machine: one process per participant, real bytes, a checked answer.
//
// The processes are forked (processes.h). They join a communicator as those of any program do, and call it with data
// whose answer is known (known_data.h); it follows the schedule.
//
// "Rank 3" in reports and errors is the participant with that number, in the order of the collective.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/element/data_type.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/schedule/schedule.h"

namespace banyan::run {

// Throws Error{invalid_input} with the known names, "shm" and "tcp". Shared memory is `automatic`, which alone follows
// plans there.
Communicator::Transports parse_transport(std::string_view text);
std::string_view to_string(Communicator::Transports transport);

struct LocalRunOptions {
  Bytes total{0};  // M; rounded down to whole elements, which must leave at least one
  element::DataType type = element::DataType::float32;
  element::ReduceOp op = element::ReduceOp::sum;  // premul_sum: with KnownData::factor
  Communicator::Transports transport = Communicator::Transports::automatic;
  Bytes slice{128 * 1024};                    // pipelining unit of a chunk; rounded down to elements, at most 64 MiB
  uint32_t repeats = 5;                       // timed executions, after one that is not timed
  std::chrono::milliseconds timeout{60'000};  // of the whole run; then every process is ended and it throws
};

struct LocalRunReport {
  uint64_t elements = 0;
  uint64_t slice_bytes = 0;  // as it was rounded
  // The time of one execution, from the start of the first rank to the end of the last. Zero without repeats.
  double median_seconds = 0, min_seconds = 0;
  uint64_t wrong_elements = 0;  // over all ranks and both checks, against a serially computed answer
  std::string first_wrong;      // "rank 3 element 17: got 5, expected 6"; empty when none. Counted in the whole buffer.
  // Bytes of elements, in one execution; counted by the ranks as their bytes go out (lane_meter.h), not taken from the
  // plan.
  uint64_t bytes_sent = 0;                // along all routes
  std::vector<uint64_t> link_bytes = {};  // by link of the fabric: of all routes that cross it
};

// Forks one process per participant of the schedule, runs, checks the first and the last execution of every rank
// against a serially computed answer (data depends on rank and position), joins.
//
// Throws Error{invalid_input} when the schedule is not what its collective asks, the total holds no element or the
// slice none, or the type cannot be reduced by the op (expect_reducible), Error{unsupported} when the buffers exceed
// this machine's memory, Error{peer_lost} naming the rank when a process dies, Error{timed_out}, Error{io}. However it
// ends, no process and no shared memory outlives the call. It forks: see processes.h about other threads.
LocalRunReport run_locally(const Schedule& schedule, const LocalRunOptions& options);

}  // namespace banyan::run
