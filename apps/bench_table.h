// What `banyan bench` prints and writes: the columns of nccl-tests, CSV, JSON.
#pragma once

#include <string>
#include <vector>

#include "apps/bench_measure.h"

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

}  // namespace banyan::app
