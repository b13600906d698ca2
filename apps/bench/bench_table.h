// The output of `banyan bench`: the columns of nccl-tests, CSV, JSON, and the curves of its picture.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/bench_measure.h"
#include "banyan/picture/curves.h"

namespace banyan::app {

// The lines above the rows, each beginning with '#'.
std::string bench_heads();
// One line: size, count, type, redop, root, and time, algbw, busbw, #wrong out of place and in place.
std::string format_bench_row(const BenchRow& row);
// "# Out of bounds values : 0 OK" and "# Avg bus bandwidth    : 1.23".
std::string format_bench_end(const std::vector<BenchRow>& rows);

// Wrong elements, of all rows.
uint64_t wrong_elements(const std::vector<BenchRow>& rows);

// A line for each cell: collective,ranks,bytes,count,type,redop,root,in_place,time_us,algbw_GBps,busbw_GBps,wrong.
std::string format_bench_csv(const std::vector<BenchRow>& rows, uint32_t ranks);
std::string format_bench_json(const std::vector<BenchRow>& rows, uint32_t ranks);

enum class BenchAxis : uint8_t { busbw, time };

// One curve for each collective, out of place and in place.
std::vector<picture::Curve> curves_of(const std::vector<BenchRow>& rows, BenchAxis axis, const std::string& prefix);

// Those in a CSV of an earlier run, their labels after `name`. Throws Error{invalid_input} naming the line.
std::vector<picture::Curve> read_bench_csv(std::string_view text, BenchAxis axis, const std::string& name);

}  // namespace banyan::app
