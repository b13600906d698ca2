// Hands a schedule to GPU runtimes, in files that fit the runtimes' limits.
//
// One exporter per format, in files of their own; this header is the manual of both. Every chunk of the schedule
// becomes one or more chunks of the format, so the format's chunk is the largest unit that divides all shares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan {

enum class ExportFormat : uint8_t { msccl, mscclpp };
ExportFormat parse_export_format(std::string_view text);  // Error{invalid_input} with the known names

struct ExportOptions {
  std::string name = "banyan";            // the algorithm's name in the file
  bool in_place = false;                  // else out of place
  uint64_t min_bytes = 0, max_bytes = 0;  // the sizes the runtime may use it for; 0: no limit
};

// What the file needs of the runtime, next to what the runtime has. Reported also for files that fit.
struct ExportFit {
  struct Row {
    std::string limit;  // "thread blocks per GPU"
    uint64_t needed = 0, allowed = 0;
  };
  std::vector<Row> rows;
  bool fits() const;
};

struct Export {
  std::string text;
  ExportFit fit;
};

// Throws Error{unsupported} when the plan cannot fit, naming the limit, by how much, and the number of trees per rank
// that would: "needs 91 thread blocks on gpu3, MSCCL has 64; plan with --trees 2".
Export export_schedule(const Schedule& schedule, ExportFormat format, const ExportOptions& options = {});

}  // namespace banyan
