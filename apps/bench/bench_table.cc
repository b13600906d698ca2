#include "apps/bench/bench_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/command.h"
#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"

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
std::string type_name(const BenchCase& what) {
  if (what.codec) return "as " + to_string(*what.codec);
  switch (what.type) {
    case element::DataType::float16:
      return "half";
    case element::DataType::float32:
      return "float";
    case element::DataType::float64:
      return "double";
    default:
      return std::string(to_string(what.type));
  }
}

std::string op_name(const BenchCase& what) {
  return bench_traits(what.kind).reduces ? std::string(to_string(what.op)) : "none";
}
int root_of(const BenchCase& what) { return bench_traits(what.kind).is_rooted ? static_cast<int>(what.root) : -1; }

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
                 static_cast<unsigned long long>(what.count), type_name(what).c_str(), op_name(what).c_str(),
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
    text += std::string(bench_traits(row.what.kind).name) + "," + std::to_string(ranks) + "," +
            std::to_string(row.bytes) + "," + std::to_string(row.what.count) + "," + to_string(row.what.wire_type()) +
            "," + op_name(row.what) + "," + std::to_string(root_of(row.what)) + "," + (in_place ? "1" : "0") +
            printed(",%.4f,%.6f,%.6f,", cell.microseconds, cell.algbw, cell.busbw) +
            (cell.wrong ? std::to_string(*cell.wrong) : "") + "\n";
  });
  return text;
}

std::string format_bench_json(const std::vector<BenchRow>& rows, uint32_t ranks) {
  Json measured = Json::array();
  each_cell(rows, [&](const BenchRow& row, const BenchCell& cell, bool in_place) {
    measured.push_back({{"collective", bench_traits(row.what.kind).name},
                        {"bytes", row.bytes},
                        {"count", row.what.count},
                        {"type", to_string(row.what.wire_type())},
                        {"redop", op_name(row.what)},
                        {"root", root_of(row.what)},
                        {"in_place", in_place},
                        {"time_us", cell.microseconds},
                        {"algbw_GBps", cell.algbw},
                        {"busbw_GBps", cell.busbw},
                        {"wrong", cell.wrong ? Json(*cell.wrong) : Json(nullptr)}});
  });
  const Json document{{"banyan", "bench/1"}, {"ranks", ranks}, {"wrong", wrong_elements(rows)}, {"rows", measured}};
  return format_json(document);
}

namespace {

picture::Curve& curve_of(std::vector<picture::Curve>& curves, const std::string& label) {
  const auto found =
      std::find_if(curves.begin(), curves.end(), [&](const picture::Curve& each) { return each.label == label; });
  if (found != curves.end()) return *found;
  curves.push_back({.label = label, .points = {}});
  return curves.back();
}

picture::Curve::Point point_of(double bytes, const BenchCell& cell, BenchAxis axis) {
  return {.bytes = bytes,
          .value = axis == BenchAxis::busbw ? cell.busbw : cell.microseconds,
          .note = Bytes(static_cast<uint64_t>(std::max(bytes, 0.0))).to_string() +
                  printed(", %.4g us, %.4g GB/s", cell.microseconds, cell.busbw)};
}

}  // namespace

std::vector<picture::Curve> curves_of(const std::vector<BenchRow>& rows, BenchAxis axis, const std::string& prefix) {
  std::vector<picture::Curve> curves;
  const auto add = [&](const BenchRow& row, const std::optional<BenchCell>& cell, const char* suffix) {
    if (!cell) return;
    const std::string label = prefix + std::string(bench_traits(row.what.kind).name) + suffix;
    curve_of(curves, label).points.push_back(point_of(static_cast<double>(row.bytes), *cell, axis));
  };
  for (const BenchRow& row : rows) {
    add(row, row.out_of_place, "");
    add(row, row.in_place, ", in place");
  }
  return curves;
}

std::vector<picture::Curve> read_bench_csv(std::string_view text, BenchAxis axis, const std::string& name) {
  std::vector<picture::Curve> curves;
  std::map<std::string, size_t> columns;
  size_t number_of_line = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number_of_line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string_view> fields = split(line, ',');
    if (columns.empty()) {
      for (size_t i = 0; i < fields.size(); ++i) columns.emplace(std::string(fields[i]), i);
      for (const char* needed : {"collective", "bytes", "ranks"}) {
        if (columns.contains(needed)) continue;
        throw Error(ErrorCode::invalid_input,
                    std::string("has no column '") + needed + "' in its first line; give a CSV of 'banyan bench'",
                    name);
      }
      continue;
    }
    const auto field = [&](const char* column) -> std::string {
      const auto found = columns.find(column);
      return std::string(found == columns.end() || found->second >= fields.size() ? "" : fields[found->second]);
    };
    const auto value = [&](const char* column) {
      const std::string word = field(column);
      double result = 0;
      const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), result);
      if (error != std::errc() || rest != word.data() + word.size() || !std::isfinite(result)) {
        throw Error(ErrorCode::invalid_input, "'" + word.substr(0, 40) + "' is no number for " + column,
                    name + " line " + std::to_string(number_of_line));
      }
      return result;
    };
    // The comparison with other libraries (bench/) writes medians of each of its series.
    const bool is_compared = columns.contains("series");
    const std::string label = is_compared
                                  ? field("series") + " " + field("collective")
                                  : name + " " + field("collective") + (field("in_place") == "1" ? ", in place" : "");
    const double bytes = value("bytes"), time = value(is_compared ? "median_us" : "time_us");
    const double factor =
        bench_busbw_factor(parse_bench_kind(field("collective")), static_cast<uint32_t>(value("ranks")));
    const double algbw = bytes / time * 1e-3;
    curve_of(curves, label)
        .points.push_back(
            point_of(bytes, {.microseconds = time, .algbw = algbw, .busbw = algbw * factor, .wrong = {}}, axis));
  }
  return curves;
}

void BenchOutput::declare(CommandSyntax& command) {
  command.group("Output");
  command.flag("--json", json_, "print one JSON object instead of the table");
  command.option("--output", &output_, "FILE", "write all figures as JSON");
  command.option("--csv", &csv_, "FILE", "write all figures as CSV");
  command.option("--plot", &plot_, "FILE", "draw the curves as SVG");
  const auto take_axis = [this](const std::string& text) {
    if (text != "busbw" && text != "time") throw invalid(in_quotes(text) + " is neither busbw nor time");
    axis_ = text == "time" ? BenchAxis::time : BenchAxis::busbw;
  };
  command.option("--axis", take_axis, "WHAT", "of the picture: busbw or time (default busbw)").values = {"busbw",
                                                                                                         "time"};
  command.option("--against", &against_, "FILE", "draw these curves, too: CSV files of earlier runs").takes_rest = true;
}

void BenchOutput::check() {
  for (const std::string& path : against_) {
    const std::string name = std::filesystem::path(path).stem().string();
    for (picture::Curve& curve : read_bench_csv(read_plain_text(path).text, axis_, name))
      earlier_.push_back(std::move(curve));
  }
  for (const std::string& path : {csv_, plot_, output_}) check_output_place(path, json_);
}

bool BenchOutput::has_table() const { return !json_ && output_ != "-" && csv_ != "-" && plot_ != "-"; }

void BenchOutput::write(const Terminal& terminal, const BenchResult& result) const {
  if (json_) terminal.print(format_bench_json(result.rows, result.ranks));
  if (!output_.empty()) write_output(terminal, output_, format_bench_json(result.rows, result.ranks));
  if (!csv_.empty()) write_output(terminal, csv_, format_bench_csv(result.rows, result.ranks));
  if (!plot_.empty()) write_output(terminal, plot_, picture::draw_curves(plot_of(result)));
}

picture::CurvePlot BenchOutput::plot_of(const BenchResult& result) const {
  const std::string& who = result.ranks_in_words;
  std::string kinds;
  for (const BenchKind kind : result.kinds) kinds += std::string(bench_traits(kind).name) + ", ";
  if (result.kinds.size() > 3) kinds = plural(result.kinds.size(), "collective") + ", ";
  std::set<std::string> hosts;
  for (size_t at = who.find(" on "); at != std::string::npos; at = who.find(" on ", at + 1)) {
    hosts.insert(who.substr(at + 4, who.find('\n', at) - at - 4));
  }
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M UTC", &day);
  const std::string version = who.substr(2, who.find(',') - 2);
  std::vector<picture::Curve> curves = curves_of(result.rows, axis_, earlier_.empty() ? "" : "now: ");
  curves.insert(curves.end(), earlier_.begin(), earlier_.end());
  return {.title = kinds + plural(result.ranks, "rank"),
          .subtitle = version + " on " + (hosts.size() == 1 ? *hosts.begin() : plural(hosts.size(), "host")) + ", " +
                      date.data(),
          .value = axis_ == BenchAxis::busbw ? "bus bandwidth (GB/s)" : "time (us)",
          .curves = std::move(curves)};
}

}  // namespace banyan::app
