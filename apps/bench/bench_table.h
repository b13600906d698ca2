// The output of `banyan bench`: the columns of nccl-tests, CSV, JSON, and the curves of its picture, with those of
// earlier runs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/bench/bench_measure.h"
#include "apps/syntax.h"
#include "apps/terminal.h"
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

// The figures of one run. `ranks_in_words` begins with our version, and names the host of each rank.
struct BenchResult {
  const std::vector<BenchRow>& rows;
  const std::vector<BenchKind>& kinds;
  uint32_t ranks;
  std::string ranks_in_words;
};

class BenchOutput {
 public:
  // This object must outlive the command.
  void declare(CommandSyntax& command);
  // Reads the files of earlier runs. Throws Error when one is none, or when a file could not be written.
  void check();

  // False where standard output has something else.
  bool has_table() const;
  void write(const Terminal& terminal, const BenchResult& result) const;

 private:
  picture::CurvePlot plot_of(const BenchResult& result) const;

  bool json_ = false;
  std::string output_, csv_, plot_;
  BenchAxis axis_ = BenchAxis::busbw;
  std::vector<std::string> against_;
  std::vector<picture::Curve> earlier_;  // of these files
};

}  // namespace banyan::app
