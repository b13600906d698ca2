#include "banyan/predict/cost/curve_log.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"

namespace banyan::predict {
namespace {

constexpr size_t kMaxPoints = 1'000'000;
constexpr uint64_t kMaxBytes = uint64_t{1} << 50;

// "time(ns)", "time_us", "Size [MiB]" -> name "time", unit "ns".
struct Heading {
  std::string name, unit;
};
Heading parse_heading(std::string_view text) {
  Heading heading;
  const size_t bracket = text.find_first_of("([");
  std::string_view name = trim(text.substr(0, bracket));
  if (bracket != std::string_view::npos) {
    const std::string_view rest = text.substr(bracket + 1);
    heading.unit = std::string(trim(rest.substr(0, rest.find_first_of(")]"))));
  } else if (const size_t underscore = name.rfind('_'); underscore != std::string_view::npos) {
    heading.unit = std::string(name.substr(underscore + 1));
    name = name.substr(0, underscore);
  }
  heading.name = lower(name);
  return heading;
}

struct Scale {
  std::string_view unit;
  double factor;
};
constexpr std::array<Scale, 6> kTimes = {
    {{"ps", 1e-12}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"sec", 1}}};
constexpr std::array<Scale, 9> kSizes = {{{"B", 1},
                                          {"bytes", 1},
                                          {"KiB", 1024},
                                          {"MiB", 1024.0 * 1024},
                                          {"GiB", 1024.0 * 1024 * 1024},
                                          {"kB", 1e3},
                                          {"KB", 1e3},
                                          {"MB", 1e6},
                                          {"GB", 1e9}}};
template <size_t kCount>
double factor_of(const std::array<Scale, kCount>& scales, std::string_view unit) {
  for (const Scale& scale : scales) {
    if (scale.unit == unit) return scale.factor;
  }
  return 0;
}

bool is_size(const Heading& heading) {
  return heading.name == "size" || heading.name == "bytes" || heading.name == "message size" ||
         heading.name == "message_size";
}
bool is_time(const Heading& heading) {
  return heading.name == "time" || heading.name == "latency" || heading.name == "duration";
}

class Reader : LineReader {
 public:
  explicit Reader(const CurveLogOptions& options) : options_(options) {}

  void line(std::string_view text, size_t number) {
    line_ = number;
    text = trim(text);
    if (text.empty()) return;
    if (text.front() == '#') {
      comment(text.substr(1));
    } else if (text.find(',') != std::string_view::npos) {
      const std::vector<std::string_view> cells = split_cells(text);
      if (size_column_ < 0) return csv_heading(cells);
      row(cells);
    } else {
      plain(split_words(text));
    }
  }

  CurveLog finish() {
    if (log_.points.empty())
      throw invalid("holds no measurements; expected is what nccl-tests prints, or CSV headed like 'size(B),time(us)'");
    if (ranks_ > 1) log_.ranks = ranks_;
    return std::move(log_);
  }

 private:
  void comment(std::string_view text) {
    const std::vector<std::string_view> words = split_words(text);
    take_collective(text);
    if (words.size() > 2 && words[0] == "Rank") ++ranks_;
    int size = -1, time = -1, second_time = -1;
    for (size_t i = 0; i < words.size(); ++i) {
      if (size < 0 && (words[i] == "size" || words[i] == "bytes")) size = static_cast<int>(i);
      if (words[i] == "time") (time < 0 ? time : second_time) = static_cast<int>(i);
    }
    if (size >= 0 && time > size) {
      if (!log_.points.empty()) throw second_table();
      first_ranks_ = ranks_;
      size_column_ = size;
      time_column_ = options_.in_place && second_time >= 0 ? second_time : time;
      size_factor_ = 1, time_factor_ = 1e-6;  // what nccl-tests prints, should no line of units follow
      return;
    }
    if (size_column_ >= 0 && !words.empty() && words[0] == "(B)") take_units(words);
  }

  // Of which ranks each is, where the log says so.
  Error second_table() const {
    const std::string ranks =
        ranks_ > first_ranks_ && first_ranks_ > 0
            ? ", of " + plural(ranks_ - first_ranks_, "rank") + " where the first is of " + std::to_string(first_ranks_)
            : "";
    return bad("a second table begins here" + ranks + "; put each into a file of its own, which names its ranks");
  }

  void take_units(const std::vector<std::string_view>& words) {
    for (const std::string_view word : words) {
      const double factor = word.size() > 2 ? factor_of(kTimes, word.substr(1, word.size() - 2)) : 0;
      if (factor > 0) {
        time_factor_ = factor;
        return;
      }
    }
  }

  // From the name of a program: "all_reduce_perf".
  void take_collective(std::string_view text) {
    constexpr std::string_view kEnd = "_perf";
    for (size_t end = text.find(kEnd); end != std::string_view::npos; end = text.find(kEnd, end + 1)) {
      size_t begin = end;
      while (begin > 0 && (std::isalpha(static_cast<unsigned char>(text[begin - 1])) || text[begin - 1] == '_'))
        --begin;
      if (const auto kind = find_collective_kind(text.substr(begin, end - begin))) log_.collective = kind;
    }
  }

  void csv_heading(const std::vector<std::string_view>& cells) {
    int size = -1;
    std::vector<int> times;
    for (size_t i = 0; i < cells.size(); ++i) {
      const Heading heading = parse_heading(cells[i]);
      if (size < 0 && is_size(heading)) {
        size = static_cast<int>(i);
        size_factor_ = heading.unit.empty() ? 1 : factor_of(kSizes, heading.unit);
        if (size_factor_ == 0) throw bad("column '" + std::string(cells[i]) + "' has an unknown unit of size");
      } else if (is_time(heading)) {
        times.push_back(static_cast<int>(i));
        time_factor_ = factor_of(kTimes, heading.unit);
        if (time_factor_ == 0)
          throw bad("column '" + std::string(cells[i].substr(0, 40)) + "' needs a unit: time(us), or ns, ms, s");
      }
    }
    if (size < 0 || times.empty())
      throw bad("the heading has no columns of size and time; write it as in 'size(B),time(us)'");
    size_column_ = size;
    time_column_ = options_.in_place && times.size() > 1 ? times[1] : times[0];
  }

  void plain(const std::vector<std::string_view>& words) {
    for (const std::string_view word : words) take_collective(word);
    const bool is_row = !words.front().empty() && words.front().front() >= '0' && words.front().front() <= '9';
    if (size_column_ < 0 || !is_row) return;  // what a program printed besides
    row(words);
  }

  void row(const std::vector<std::string_view>& cells) {
    const size_t needed = static_cast<size_t>(std::max(size_column_, time_column_)) + 1;
    if (is_size(parse_heading(cells[std::min(static_cast<size_t>(size_column_), cells.size() - 1)])))
      throw second_table();
    if (cells.size() < needed)
      throw bad("has " + std::to_string(cells.size()) + " column(s) where the heading has " + std::to_string(needed) +
                " or more");
    const double bytes = number(cells, size_column_, "size") * size_factor_;
    const double seconds = number(cells, time_column_, "time") * time_factor_;
    if (bytes > static_cast<double>(kMaxBytes)) throw bad("a size above 1 PiB; check its unit");
    if (bytes < 1 || seconds <= 0) return;  // nccl-tests measures 0 bytes when asked to; it says nothing about a curve
    if (log_.points.size() == kMaxPoints) throw bad("is one measurement more than the 1,000,000 that are read");
    log_.points.push_back({static_cast<uint64_t>(std::llround(bytes)), seconds});
  }

  double number(const std::vector<std::string_view>& cells, int column, const char* what) const {
    const std::string_view text = cells[static_cast<size_t>(column)];
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
      throw bad("'" + std::string(text.substr(0, 40)) + "' is no " + what);
    return value;
  }

  const CurveLogOptions& options_;
  CurveLog log_;
  uint32_t ranks_ = 0, first_ranks_ = 0;  // named so far; above the first table
  int size_column_ = -1, time_column_ = -1;
  double size_factor_ = 1, time_factor_ = 1e-6;
};

}  // namespace

CurveLog parse_curve_log(std::string_view text, const CurveLogOptions& options) {
  Reader reader(options);
  for_each_line(text, [&](std::string_view line, size_t number) {
    reader.line(line, number);
    return true;
  });
  return reader.finish();
}

}  // namespace banyan::predict
