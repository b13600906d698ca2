#include "apps/bench_table.h"

#include <array>
#include <cstdarg>
#include <cstdio>

#include "apps/report.h"

namespace banyan::app {
namespace {

std::string printed(const char* format, ...) {
  std::array<char, 256> buffer;
  va_list arguments;
  va_start(arguments, format);
  const int size = std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  va_end(arguments);
  return {buffer.data(), std::min(static_cast<size_t>(std::max(size, 0)), buffer.size() - 1)};
}

// Types and operations by the names that nccl-tests prints.
std::string type_name(DataType type) {
  switch (type) {
    case DataType::float16:
      return "half";
    case DataType::float32:
      return "float";
    case DataType::float64:
      return "double";
    default:
      return std::string(to_string(type));
  }
}

std::string op_name(const BenchCase& what) { return reduces(what.kind) ? std::string(to_string(what.op)) : "none"; }
int root_of(const BenchCase& what) { return is_rooted(what.kind) ? static_cast<int>(what.root) : -1; }

// As many decimals as seven columns hold.
std::string format_time(double microseconds) {
  return printed(microseconds >= 10'000 ? "%7.0f" : microseconds >= 100 ? "%7.1f" : "%7.2f", microseconds);
}

std::string format_cell(const std::optional<BenchCell>& cell) {
  if (!cell) return printed("  %7s  %6s  %6s  %6s", "-", "-", "-", "-");
  const std::string wrong = cell->wrong ? std::to_string(*cell->wrong) : "N/A";
  return "  " + format_time(cell->microseconds) +
         printed("  %6.2f  %6.2f  %6s", cell->algbw, cell->busbw, wrong.c_str());
}

template <typename Use>
void each_cell(const std::vector<BenchRow>& rows, Use use) {
  for (const BenchRow& row : rows) {
    if (row.out_of_place) use(row, *row.out_of_place, false);
    if (row.in_place) use(row, *row.in_place, true);
  }
}

}  // namespace

std::string bench_heads() {
  return printed("#%51s%-35s%s\n", "", "          out-of-place", "            in-place") +
         printed("#%11s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root") +
         printed("  %7s  %6s  %6s  %6s", "time", "algbw", "busbw", "#wrong") +
         printed("  %7s  %6s  %6s  %6s\n", "time", "algbw", "busbw", "#wrong") +
         printed("#%11s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "") +
         printed("  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "") +
         printed("  %7s  %6s  %6s  %6s\n", "(us)", "(GB/s)", "(GB/s)", "");
}

std::string format_bench_row(const BenchRow& row) {
  const BenchCase& what = row.what;
  return printed("%12llu  %12llu  %8s  %6s  %6d", static_cast<unsigned long long>(row.bytes),
                 static_cast<unsigned long long>(what.count), type_name(what.type).c_str(), op_name(what).c_str(),
                 root_of(what)) +
         format_cell(row.out_of_place) + format_cell(row.in_place) + "\n";
}

uint64_t wrong_elements(const std::vector<BenchRow>& rows) {
  uint64_t wrong = 0;
  each_cell(rows, [&](const BenchRow&, const BenchCell& cell, bool) { wrong += cell.wrong.value_or(0); });
  return wrong;
}

std::string format_bench_end(const std::vector<BenchRow>& rows) {
  double sum = 0;
  size_t cells = 0;
  each_cell(rows, [&](const BenchRow&, const BenchCell& cell, bool) {
    sum += cell.busbw;
    ++cells;
  });
  const uint64_t wrong = wrong_elements(rows);
  return "# Out of bounds values : " + std::to_string(wrong) + (wrong == 0 ? " OK" : " FAILED") + "\n" +
         printed("# Avg bus bandwidth    : %g\n#\n", cells == 0 ? 0 : sum / static_cast<double>(cells));
}

std::string format_bench_csv(const std::vector<BenchRow>& rows, uint32_t ranks) {
  std::string text = "collective,ranks,bytes,count,type,redop,root,in_place,time_us,algbw_GBps,busbw_GBps,wrong\n";
  each_cell(rows, [&](const BenchRow& row, const BenchCell& cell, bool in_place) {
    text += std::string(to_string(row.what.kind)) + "," + std::to_string(ranks) + "," + std::to_string(row.bytes) +
            "," + std::to_string(row.what.count) + "," + std::string(to_string(row.what.type)) + "," +
            op_name(row.what) + "," + std::to_string(root_of(row.what)) + "," + (in_place ? "1" : "0") +
            printed(",%.4f,%.6f,%.6f,", cell.microseconds, cell.algbw, cell.busbw) +
            (cell.wrong ? std::to_string(*cell.wrong) : "") + "\n";
  });
  return text;
}

std::string format_bench_json(const std::vector<BenchRow>& rows, uint32_t ranks) {
  Json measured = Json::array();
  each_cell(rows, [&](const BenchRow& row, const BenchCell& cell, bool in_place) {
    measured.push_back({{"collective", to_string(row.what.kind)},
                        {"bytes", row.bytes},
                        {"count", row.what.count},
                        {"type", to_string(row.what.type)},
                        {"redop", op_name(row.what)},
                        {"root", root_of(row.what)},
                        {"in_place", in_place},
                        {"time_us", cell.microseconds},
                        {"algbw_GBps", cell.algbw},
                        {"busbw_GBps", cell.busbw},
                        {"wrong", cell.wrong ? Json(*cell.wrong) : Json(nullptr)}});
  });
  const Json document{{"banyan", "bench/1"}, {"ranks", ranks}, {"wrong", wrong_elements(rows)}, {"rows", measured}};
  return document.dump(2) + "\n";
}

}  // namespace banyan::app
