#include "apps/compress/compress_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/report.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/utf8.h"
#include "banyan/picture/bars.h"

namespace banyan::app {
namespace {

// "3", "2.5".
std::string bits_text(double bits) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), bits).ptr};
}

std::string name_of(const tensor::CodecReport& each) {
  if (each.bits) return "rate:" + bits_text(*each.bits);
  return each.codec ? to_string(*each.codec) : "lossless";
}

// "1.21e-02", "0".
std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t each : shape) text += (text.empty() ? "" : " x ") + std::to_string(each);
  return "[" + text + "]";
}

std::string tensor_text(const CompressAnswer& answer) {
  return std::string(to_string(answer.type)) + " " + shape_text(answer.shape) + ", " +
         plural(answer.report.elements, "element") + ", " + Bytes(answer.report.bytes).to_string();
}

std::string share_text(uint64_t part, uint64_t all) {
  return format_percent(static_cast<double>(part) / static_cast<double>(all));
}

std::string codecs_table(const CompressAnswer& answer, const Terminal& terminal) {
  const bool has_nan = answer.report.not_finite > 0, has_rates = !answer.rates.empty();
  std::vector<std::string> heads = {"codec", "bytes", "ratio", "error", "error of 10", "greatest"};
  if (has_nan) heads.emplace_back("made NaN");
  if (has_rates) heads.emplace_back("encode (measured)");
  Table table(heads);
  for (size_t i = 0; i < answer.report.codecs.size(); ++i) {
    const tensor::CodecReport& each = answer.report.codecs[i];
    std::vector<std::string> row = {name_of(each),
                                    std::to_string(each.bytes),
                                    format_decimals(each.ratio, 2),
                                    error_text(each.error),
                                    each.error_of_mean ? error_text(*each.error_of_mean) : "-",
                                    error_text(each.greatest_error)};
    if (has_nan) row.push_back(std::to_string(each.not_finite));
    if (has_rates) row.push_back(format_rate(answer.rates[i]));
    table.add(row);
  }
  return table.format(terminal);
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json codec_json(const tensor::CodecReport& each) {
  return {{"codec", name_of(each)},
          {"bytes", each.bytes},
          {"ratio", each.ratio},
          {"error", each.error},
          {"error_of_mean", or_null(each.error_of_mean)},
          {"greatest_error", each.greatest_error},
          {"not_finite", each.not_finite}};
}

}  // namespace

std::string error_text(double error) {
  if (error == 0) return "0";
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.2e", error);
  return text.data();
}

std::string format_compress_text(const CompressAnswer& answer, const Terminal& terminal) {
  const tensor::TensorReport& report = answer.report;
  std::string text = labelled(terminal, "tensor",
                              harmless(answer.file) + (answer.tensor.empty() ? "" : " " + harmless(answer.tensor)) +
                                  ": " + tensor_text(answer));
  text += labelled(terminal, "not zero",
                   share_text(report.nonzero_elements, report.elements) + " of the elements, " +
                       share_text(report.nonzero_rows, report.rows) + " of " + plural(report.rows, "row") + " of " +
                       plural(answer.row_elements, "element"));
  if (report.not_finite > 0) {
    text += labelled(terminal, "not finite", plural(report.not_finite, "element") + ", left out of all that follows");
  }
  if (report.contiguous_skew) {
    text += labelled(terminal, "skew",
                     format_decimals(*report.contiguous_skew, 2) + " in " + plural(answer.ranks, "shard") +
                         " of neighbouring rows, " + format_decimals(*report.permuted_skew, 2) +
                         " of permuted ones (busiest over mean, of rows not zero)");
  }
  if (report.median_crest) {
    text +=
        labelled(terminal, "crest",
                 "median " + format_decimals(*report.median_crest, 2) + ", greatest " +
                     format_decimals(*report.greatest_crest, 2) + " (largest over root mean square, by blocks of 256)");
  }
  if (report.energy_of_largest) {
    text +=
        labelled(terminal, "energy", format_percent(*report.energy_of_largest) + " in the largest 1 % of the elements");
  }
  text += "\n" + codecs_table(answer, terminal) +
          "\nerror: root mean square, relative to that of the values; error of 10: of the mean of\n"
          "ten codings, each of which adds what the one before lost; greatest: of one value,\n"
          "absolute; encode: by one core of this machine\n";
  return text;
}

std::string format_compress_json(const CompressAnswer& answer) {
  const tensor::TensorReport& report = answer.report;
  Json codecs = Json::array();
  for (size_t i = 0; i < report.codecs.size(); ++i) {
    codecs.push_back(codec_json(report.codecs[i]));
    if (!answer.rates.empty()) codecs.back()["encode_bytes_per_second"] = answer.rates[i];
  }
  return format_json({{"banyan", "compress/1"},
                      {"file", answer.file},
                      {"tensor", answer.tensor.empty() ? Json(nullptr) : Json(answer.tensor)},
                      {"type", to_string(answer.type)},
                      {"shape", answer.shape},
                      {"elements", report.elements},
                      {"bytes", report.bytes},
                      {"nonzero_elements", report.nonzero_elements},
                      {"not_finite", report.not_finite},
                      {"row_elements", answer.row_elements},
                      {"rows", report.rows},
                      {"nonzero_rows", report.nonzero_rows},
                      {"ranks", answer.ranks},
                      {"contiguous_skew", or_null(report.contiguous_skew)},
                      {"permuted_skew", or_null(report.permuted_skew)},
                      {"median_crest", or_null(report.median_crest)},
                      {"greatest_crest", or_null(report.greatest_crest)},
                      {"energy_of_largest", or_null(report.energy_of_largest)},
                      {"codecs", codecs}});
}

std::string draw_compress(const CompressAnswer& answer) {
  const auto kilobytes = [](double bytes) { return Bytes(static_cast<uint64_t>(std::llround(bytes))).to_string(); };
  const auto power = [](double value) {
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.0e", value);
    return std::string(text.data());
  };
  picture::BarSeries bytes{.label = "bytes"}, once{.label = "one coding"}, often{.label = "mean of ten"};
  picture::BarChart chart{.title = std::filesystem::path(answer.file).filename().string() +
                                   (answer.tensor.empty() ? "" : " " + answer.tensor),
                          .subtitle = tensor_text(answer)};
  for (const tensor::CodecReport& each : answer.report.codecs) {
    chart.rows.push_back(name_of(each));
    bytes.values.push_back(static_cast<double>(each.bytes));
    bytes.texts.push_back(kilobytes(bytes.values.back()) + ", ratio " + format_decimals(each.ratio, 2));
    once.values.push_back(each.error);
    once.texts.push_back(error_text(each.error));
    often.values.push_back(each.error_of_mean.value_or(0));
    often.texts.push_back(each.error_of_mean ? error_text(*each.error_of_mean) : "-");
  }
  chart.panels = {{.title = "bytes", .series = {bytes}, .tick = kilobytes},
                  {.title = "relative error", .series = {once, often}, .tick = power}};
  return picture::draw_bars(chart);
}

}  // namespace banyan::app
