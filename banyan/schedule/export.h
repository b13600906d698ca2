// Hands a schedule to GPU runtimes, in files that fit the runtimes' limits.
//
// One exporter per format, in files of their own; this header is the manual of both. Every chunk of the schedule
// becomes one or more chunks of the format, so the format's chunk is the largest unit that divides all shares. The
// runtimes use a file only for counts of elements that its number of chunks divides; ChunkCount says how it is chosen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

enum class ExportFormat : uint8_t { msccl, mscclpp };
ExportFormat parse_export_format(std::string_view text);  // Error{invalid_input} with the known names

enum class ChunkCount : uint8_t {
  power_of_two,  // shares are rounded (export_shares.h), with the fewest chunks that cost at most kRoundingLoss, or
                 // with the number of chunks that costs least among those that fit the runtime
  exact,         // shares as planned
};
constexpr double kRoundingLoss = 0.01;  // of the throughput

struct ExportOptions {
  ChunkCount chunks = ChunkCount::power_of_two;
  std::string name = "banyan";            // the algorithm's name in the file
  bool in_place = false;                  // else out of place
  uint64_t min_bytes = 0, max_bytes = 0;  // the sizes the runtime may use it for; 0: no limit
  bool any_routes = false;                // also of a plan whose routes the runtime does not take (export_routes.h)
};

// The file's needs of the runtime, next to the runtime's limits. Reported also for files that fit.
struct ExportFit {
  struct Row {
    std::string limit;  // "thread blocks per GPU"
    uint64_t needed = 0, allowed = 0;
  };
  std::vector<Row> rows;
  bool fits() const;
};

// The sizes that the runtime takes the file for: counts of elements that `divisor` divides. The count is what the
// collective's call is given: of each rank for an allgather or reduce-scatter, of what each rank has for another in an
// all-to-all, else of the whole buffer.
struct ExportSizes {
  uint64_t divisor = 1;
  uint64_t exact_divisor = 1;  // with shares as planned
  double loss = 0;             // of throughput, by rounding the shares: 0.01 is 1 %
  bool per_rank = false;
  std::string in_words() const;  // "element counts per rank that 64 divides: all powers of two from 64 on"
};

struct Export {
  std::string text;
  ExportFit fit;
  ExportSizes sizes = {};
  // Needs of the machine besides, which no limit of the runtime tells: for MSCCL++, whose files have memory channels
  // only, memory that GPUs of different boxes (fabric/boxes.h) can reach.
  std::vector<std::string> needs = {};
};

// Throws Error{unsupported} for routes that no runtime takes (export_routes.h), and for what the runtimes do not know:
// shards or pairs of unequal size, an all-to-all in place, switches as nodes of trees, but for MSCCL++ the one of an
// allreduce in one box; and when the plan cannot fit, naming the limit, by how much, and the number of trees per rank
// that would: "needs 91 thread blocks on gpu3, MSCCL has 64; plan with --trees 2".
Export export_schedule(const Schedule& schedule, ExportFormat format, const ExportOptions& options = {});

}  // namespace banyan::schedule
