// Runs a schedule once on this machine: one process per participant, real bytes, a checked answer.
//
// The engine (engine.h) interprets the schedule and holds no algorithm; the transport (transport.h) carries slices
// between two processes. Both take what they need through constructors.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "banyan/schedule/schedule.h"

namespace banyan {

enum class DataType : uint8_t { int32, float32, float64 };
enum class ReduceOp : uint8_t { sum, min, max };
enum class TransportKind : uint8_t { shared_memory, tcp };

// Throw Error{invalid_input} with the known names: "float32", "sum", "shm".
DataType parse_data_type(std::string_view text);
ReduceOp parse_reduce_op(std::string_view text);
TransportKind parse_transport(std::string_view text);
std::string_view to_string(DataType type);
std::string_view to_string(ReduceOp op);
std::string_view to_string(TransportKind kind);
size_t size_of(DataType type);

struct LocalRunOptions {
  Bytes total{0};  // M; rounded down to whole elements, which must leave at least one
  DataType type = DataType::float32;
  ReduceOp op = ReduceOp::sum;
  TransportKind transport = TransportKind::shared_memory;
  Bytes slice{128 * 1024};                       // pipelining unit of a chunk
  uint32_t repeats = 5;                          // timed executions, after one that is checked and not timed
  std::chrono::milliseconds timeout{60'000};     // of the whole run; then every process is ended and it throws
};

struct LocalRunReport {
  uint64_t elements = 0;
  double median_seconds = 0, min_seconds = 0;  // of the slowest rank, per execution
  uint64_t wrong_elements = 0;                 // over all ranks, against a serially computed answer
  std::string first_wrong;                     // "rank 3 element 17: got 5, expected 6"; empty when none
  uint64_t bytes_sent = 0;                     // over all tree edges of one execution
};

// Forks one process per participant of the schedule, runs, checks each rank's result against a serially computed one
// (data depends on rank and position), joins. Throws Error{peer_lost} naming the rank when a process dies,
// Error{timed_out}, Error{io}; no process and no shared memory outlives the call. Must be called while the process has one thread.
LocalRunReport run_locally(const Schedule& schedule, const LocalRunOptions& options);

}  // namespace banyan
