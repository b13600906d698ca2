#include "banyan/predict/train/rows.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "banyan/base/error.h"
#include "banyan/base/text.h"

namespace banyan::predict {
namespace {

constexpr size_t kMaxRows = 100'000;

enum Column : size_t {
  kTime,
  kRanks,
  kGlobal,
  kMicro,
  kHidden,
  kHeads,
  kLayers,
  kSequence,
  kTp,
  kDp,
  kPp,
  kVocabulary,
  kRecompute,
  kZero,
  kInterleave,
  kSequenceParallel,
  kFusedAttention,
  kColumns
};
struct ColumnRow {
  std::string_view words, names;  // names of headings: lower case letters only, a blank between them
};
constexpr ColumnRow kRows[kColumns] = {
    {"time", "time iterationtime steptime"},
    {"GPUs", "gpus ranks devices"},
    {"global batch", "globalbatch globalbatchsize"},
    {"micro batch", "microbatch microbatchsize"},
    {"hidden size", "hidden hiddensize"},
    {"attention heads", "heads attentionheads"},
    {"layers", "layers numlayers"},
    {"sequence length", "sequencelength sequence seq seqlen"},
    {"tensor parallelism", "tp tensorparallelism tensorparallel"},
    {"data parallelism", "dp dataparallelism dataparallel"},
    {"pipeline parallelism", "pp pipelineparallelism pipelineparallel"},
    {"vocabulary", "vocabulary vocab vocabsize"},
    {"recompute", "recompute recomputation"},
    {"zero", "zero zerostage"},
    {"interleave", "interleave"},
    {"sequence parallel", "sequenceparallel sequenceparallelism"},
    {"fused attention", "fusedattention flashattention"},
};

// kColumns where there is none of that name.
size_t column_called(std::string_view name) {
  size_t column = 0;
  for (; column < kColumns; ++column) {
    const std::vector<std::string_view> names = split(kRows[column].names, ' ');
    if (std::ranges::find(names, name) != names.end()) break;
  }
  return column;
}

Error invalid_row(uint32_t line, const std::string& message) {
  return Error(ErrorCode::invalid_input, message, "line " + std::to_string(line));
}

std::string letters(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') result += static_cast<char>(c + 32);
    if (c >= 'a' && c <= 'z') result += c;
  }
  return result;
}

std::string column_name(std::string_view heading) { return letters(heading.substr(0, heading.find('('))); }

class Reader {
 public:
  explicit Reader(const TrainConfig& base) : base_(base) { places_.fill(-1); }

  void line(std::string_view text, uint32_t number) {
    line_ = number;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
    const std::vector<std::string_view> cells = split_cells(text);
    if (places_[kTime] < 0) return heading(cells);
    if (rows_.size() == kMaxRows) throw invalid_row(line_, "is one row more than the 100,000 that are read");
    row(cells);
  }

  std::vector<TrainRow> finish() {
    if (rows_.empty())
      throw Error(ErrorCode::invalid_input,
                  "holds no rows; expected is CSV with a heading such as 'global batch,micro batch,"
                  "hidden size,attention heads,layers,sequence length,tp,dp,pp,time (ms)'");
    return std::move(rows_);
  }

 private:
  void heading(const std::vector<std::string_view>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const size_t bracket = cells[i].find('(');
      const size_t column = column_called(column_name(cells[i]));
      if (column == kColumns || places_[column] >= 0) continue;
      places_[column] = static_cast<int>(i);
      if (column == kTime) time_unit(cells[i], bracket);
    }
    for (const Column column : {kTime, kGlobal, kMicro, kHidden, kHeads, kLayers, kSequence}) {
      if (places_[column] < 0)
        throw invalid_row(line_, "the heading has no column '" + std::string(kRows[column].words) + "'");
    }
  }

  void time_unit(std::string_view cell, size_t bracket) {
    const std::string unit = bracket == std::string_view::npos ? "" : letters(cell.substr(bracket));
    time_factor_ = unit == "ms" ? 1e-3 : unit == "s" ? 1 : unit == "us" ? 1e-6 : 0;
    if (time_factor_ == 0)
      throw invalid_row(line_, "column '" + std::string(cell.substr(0, 40)) + "' needs a unit: time (ms), or s, us");
  }

  std::string_view cell(const std::vector<std::string_view>& cells, Column column) const {
    const size_t place = static_cast<size_t>(places_[column]);
    if (place >= cells.size()) throw invalid_row(line_, "has no column '" + std::string(kRows[column].words) + "'");
    return cells[place];
  }

  template <typename Number>
  Number number(const std::vector<std::string_view>& cells, Column column) const {
    const std::string_view text = cell(cells, column);
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw invalid_row(line_, "'" + std::string(text.substr(0, 40)) + "' in column '" +
                                   std::string(kRows[column].words) + "' is no number that fits");
    return value;
  }

  uint32_t number_or(const std::vector<std::string_view>& cells, Column column, uint32_t otherwise) const {
    return places_[column] < 0 ? otherwise : number<uint32_t>(cells, column);
  }

  bool flag_or(const std::vector<std::string_view>& cells, Column column, bool otherwise) const {
    if (places_[column] < 0) return otherwise;
    const std::string_view text = cell(cells, column);
    for (const std::string_view yes : {"1", "true", "yes", "True"}) {
      if (text == yes) return true;
    }
    for (const std::string_view no : {"0", "false", "no", "False"}) {
      if (text == no) return false;
    }
    throw invalid_row(line_, "'" + std::string(text.substr(0, 40)) + "' in column '" +
                                 std::string(kRows[column].words) + "' is neither true nor false");
  }

  void row(const std::vector<std::string_view>& cells) {
    TrainRow row{.config = base_, .line = line_};
    TrainConfig& config = row.config;
    config.model = gpt_model({.layers = number<uint32_t>(cells, kLayers),
                              .hidden = number<uint32_t>(cells, kHidden),
                              .heads = number<uint32_t>(cells, kHeads),
                              .sequence = number<uint32_t>(cells, kSequence),
                              .vocabulary = number_or(cells, kVocabulary, base_.model.vocabulary)});
    config.tp = number_or(cells, kTp, 1), config.dp = number_or(cells, kDp, 1), config.pp = number_or(cells, kPp, 1);
    config.global_batch = number<uint64_t>(cells, kGlobal), config.micro_batch = number<uint64_t>(cells, kMicro);
    if (places_[kRecompute] >= 0) {
      row.says_recompute = true;
      config.recompute = parse_recompute(cell(cells, kRecompute));
    }
    config.zero = number_or(cells, kZero, base_.zero);
    config.interleave = number_or(cells, kInterleave, base_.interleave);
    config.sequence_parallel = flag_or(cells, kSequenceParallel, base_.sequence_parallel);
    config.fused_attention = flag_or(cells, kFusedAttention, base_.fused_attention);
    row.seconds = number<double>(cells, kTime) * time_factor_;
    if (!(row.seconds > 0) || !std::isfinite(row.seconds)) throw invalid_row(line_, "a step takes no time");
    try {
      check_config(config);
    } catch (const Error& error) {
      throw invalid_row(line_, error.message());
    }
    if (const uint32_t ranks = number_or(cells, kRanks, static_cast<uint32_t>(config.ranks())); ranks != config.ranks())
      throw invalid_row(
          line_, "says " + std::to_string(ranks) + " GPUs, and tp * dp * pp is " + std::to_string(config.ranks()));
    rows_.push_back(std::move(row));
  }

  const TrainConfig& base_;
  std::vector<TrainRow> rows_;
  std::array<int, kColumns> places_{};
  double time_factor_ = 0;
  uint32_t line_ = 0;
};

}  // namespace

std::vector<TrainRow> parse_train_rows(std::string_view csv, const TrainConfig& base) {
  Reader reader(base);
  uint32_t number = 0;
  while (!csv.empty()) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    reader.line(csv.substr(0, end), ++number);
    csv.remove_prefix(std::min(end + 1, csv.size()));
  }
  return reader.finish();
}

std::vector<std::string> unknown_train_columns(std::string_view csv) {
  std::vector<std::string> unknown;
  csv.remove_prefix(std::min(csv.find_first_not_of(" \t\r\n"), csv.size()));
  for (const std::string_view heading : split_cells(csv.substr(0, csv.find('\n')))) {
    if (column_called(column_name(heading)) == kColumns) unknown.emplace_back(heading);
  }
  return unknown;
}

}  // namespace banyan::predict
