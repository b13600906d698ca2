// The columns, sums and pictures of `banyan bench`, from figures that nobody measured.
#include "apps/bench/bench_table.h"

#include <nlohmann/json.hpp>

#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

const std::vector<BenchRow> kRows{
    {.what = {.kind = CollectiveKind::all_reduce, .count = 2},
     .bytes = 8,
     .out_of_place = BenchCell{.microseconds = 0.5, .algbw = 0.016, .busbw = 0.024, .wrong = 0},
     .in_place = BenchCell{.microseconds = 123.4, .algbw = 0.1, .busbw = 0.15, .wrong = 3}},
    {.what = {.kind = CollectiveKind::broadcast, .type = element::DataType::float16, .root = 2, .count = 1'000'000},
     .bytes = 2'000'000,
     .out_of_place = BenchCell{.microseconds = 54321.9, .algbw = 12.5, .busbw = 12.5, .wrong = {}},
     .in_place = {}}};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

TEST(BenchTable, HasTheColumnsOfNcclTests) {
  EXPECT_THAT(words_of(format_bench_row(kRows[0])),
              ElementsAre("8", "2", "float", "sum", "-1", "0.50", "0.02", "0.02", "0", "123.4", "0.10", "0.15", "3"));
  EXPECT_THAT(words_of(format_bench_row(kRows[1])), ElementsAre("2000000", "1000000", "half", "none", "2", "54322",
                                                                "12.50", "12.50", "N/A", "-", "-", "-", "-"));
  // Heads stand above their columns.
  std::istringstream heads(bench_heads());
  std::string groups, names, units;
  std::getline(heads, groups);
  std::getline(heads, names);
  std::getline(heads, units);
  EXPECT_EQ(names.size(), format_bench_row(kRows[0]).size() - 1);
  EXPECT_EQ(units.size(), names.size());
  EXPECT_THAT(groups, AllOf(HasSubstr("out-of-place"), HasSubstr("in-place")));
}

TEST(BenchTable, EndsWithTheSumAndTheMean) {
  EXPECT_EQ(wrong_elements(kRows), 3u);
  EXPECT_THAT(format_bench_end(kRows), HasSubstr("# Out of bounds values : 3 FAILED"));
  EXPECT_THAT(format_bench_end({kRows[1]}), AllOf(HasSubstr(": 0 OK"), HasSubstr("# Avg bus bandwidth    : 12.5")));
}

TEST(BenchTable, CountsAreOfEachRankWhereTheCallTakesThemSo) {
  EXPECT_EQ(BenchCase::count_of(CollectiveKind::all_gather, element::DataType::float32, 100, 3), 8u);
  EXPECT_EQ((BenchCase{.kind = CollectiveKind::all_gather, .count = 8}.bytes(3)), 96u);
  EXPECT_EQ(BenchCase::count_of(CollectiveKind::all_reduce, element::DataType::float64, 100, 3), 12u);
}

TEST(BenchTable, FilesGiveBackTheFigures) {
  const auto json = nlohmann::json::parse(format_bench_json(kRows, 4));
  EXPECT_EQ(json["rows"][1]["wrong"], 3);
  EXPECT_TRUE(json["rows"][2]["wrong"].is_null());
  const std::vector<picture::Curve> curves = read_bench_csv(format_bench_csv(kRows, 4), BenchAxis::time, "old");
  ASSERT_EQ(curves.size(), 3u);
  EXPECT_EQ(curves[0].label, "old allreduce");
  EXPECT_EQ(curves[1].label, "old allreduce, in place");
  EXPECT_DOUBLE_EQ(curves[2].points[0].value, 54321.9);
  EXPECT_NEAR(read_bench_csv(format_bench_csv(kRows, 4), BenchAxis::busbw, "old")[0].points[0].value,
              8 / 0.5 * 1e-3 * 1.5, 1e-9);
}

TEST(BenchPlot, DrawsEveryPointAndNamesBrokenLines) {
  const std::vector<picture::Curve> curves = curves_of(kRows, BenchAxis::busbw, "");
  const std::string svg =
      picture::draw_curves({.title = "t", .subtitle = "s", .value = "bus bandwidth (GB/s)", .curves = curves});
  EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), HasSubstr("allreduce, in place"), HasSubstr("bus bandwidth (GB/s)")));
  const auto refusal = [](const std::string& text) {
    try {
      read_bench_csv(text, BenchAxis::busbw, "x.csv");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("a,b\n1,2\n"), HasSubstr("has no column 'collective'"));
  EXPECT_THAT(refusal("collective,ranks,bytes,time_us\nallreduce,2,8,x\n"),
              HasSubstr("x.csv line 2: 'x' is no number"));
  EXPECT_EQ(refusal("ranks,collective,bytes,series,median_us\n2,allgather,8,gloo,3.5\n"), "accepted");
}

}  // namespace
}  // namespace banyan::app
