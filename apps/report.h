// Words and JSON that several commands print: tables, fabrics, bounds, schedules. Words of times and rates are in
// base/words.h.
//
// algbw is the total buffer over the time, in GB/s of 10^9 bytes; where exactness matters it is also given in bytes per
// second as a fraction, "numerator/denominator".
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/terminal.h"
#include "banyan/base/words.h"
#include "banyan/fabric/describe.h"
#include "banyan/plan/bound/bound.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule.h"

namespace banyan::app {

using Json = nlohmann::ordered_json;

// Indented by two, with a line break at the end. Bytes that are no UTF-8 are replaced.
std::string format_json(const Json& object);

double algbw_gigabytes(const Fraction& seconds_per_byte);
std::string format_algbw(const Fraction& seconds_per_byte);  // "457.14 GB/s"
std::string exact_algbw(const Fraction& seconds_per_byte);

// Ranks in their order, neighbours drawn together: "gpu0-gpu7, gpu12". Can be given back as --ranks without the spaces.
std::string name_ranges(const std::vector<NodeId>& ranks, const Fabric& fabric);

Json names_json(std::span<const NodeId> nodes, const Fabric& fabric);
std::string link_name(const Fabric& fabric, const Link& link);  // "gpu0 -> ib0"

struct FabricCounts {
  uint64_t ranks = 0, switches = 0, links = 0;
};
FabricCounts count(const Fabric& fabric);
Json counts_json(const Fabric& fabric);

// The caller adds "seconds".
Json bound_json(const Bound& bound, const Fabric& fabric, const Collective& collective);
// "cpu0-cpu1 (6 GB/s) assumed; say ...", with the options that settle it; empty where no link of the proof is assumed.
std::string assumed_in_words(const Bound& bound, const Fabric& fabric, const Collective& collective);
// The lines "bound", with why, and "schedule", with how near it comes.
std::string bound_text(const Terminal& terminal, const Bound& bound, const Fabric& fabric,
                       const Collective& collective);
std::string schedule_text(const Terminal& terminal, const Fraction& seconds_per_byte, const Bound& bound);
Json schedule_json(const Schedule& schedule, const Fraction& seconds_per_byte, const Bound& bound);

// "optimal", "98.4 % of the bound".
std::string describe_distance(const Fraction& seconds_per_byte, const Bound& bound);

// Columns as wide as their widest cell. Numbers stand at the right; the first column and texts at the left.
class Table {
 public:
  explicit Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // A row may be shorter than the heads; its last cell then runs on to the right.
  std::string format(const Terminal& terminal, const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "label      text", with the lines after the first indented alike.
std::string labelled(const Terminal& terminal, const std::string& label, const std::string& text);
// "written    FILE"; nothing where no file was written: no path, or "-".
std::string written(const Terminal& terminal, const std::string& path);

}  // namespace banyan::app
