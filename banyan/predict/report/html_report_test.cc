#include "banyan/predict/report/html_report.h"

#include <nlohmann/json.hpp>

#include "banyan/base/file.h"
#include "banyan/predict/report/page_template.h"
#include "banyan/predict/report/test_predictions.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

const std::string kOpen = "<script type=\"application/json\" id=\"prediction\">";

std::string data_in(const std::string& page) {
  const size_t begin = page.find(kOpen) + kOpen.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

size_t count_of(const std::string& text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(HtmlReport, EmbedsThePageByteForByte) {
  EXPECT_EQ(report::page_template(), read_file(BANYAN_SOURCE_DIR "/banyan/predict/report/page/dist/report.html"));
  EXPECT_LT(report::page_template().size(), 300'000u);
}

TEST(HtmlReport, PutsTheDataIntoThePage) {
  const ReportInput input = sample::all_reduce_on_one_box();
  const auto data = nlohmann::json::parse(data_in(html_report(input)));
  EXPECT_EQ(data["title"], input.prediction.title);
  EXPECT_EQ(data["banyan"], "page/1");
}

TEST(HtmlReport, LetsNoNameBecomeMarkup) {
  const std::string page = html_report(sample::hostile_names());
  const std::string data = data_in(page);
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(data)["names"][0].get<std::string>().size() > 0, true);
  // As many elements as without any data.
  for (const char* tag : {"<script", "</script", "<!--", "<img", "<svg onload"}) {
    EXPECT_EQ(count_of(page, tag), count_of(html_report(sample::nothing()), tag)) << tag;
  }
}

TEST(HtmlReport, AsksForNothingFromTheNetwork) {
  const std::string page(report::page_template());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("href=\"http")));
  EXPECT_THAT(page, Not(HasSubstr("url(http")));
}

TEST(HtmlReport, StaysSmallWhateverIsPredicted) {
  const ReportInput input =
      sample::training_step({.fabric = "dgx-h100:2048", .stages = 16, .micro_batches = 4, .layers = 1});
  const size_t size = html_report(input).size();
  EXPECT_LT(size, 12'000'000u);
}

TEST(HtmlReport, IsTheSameForTheSameInput) {
  EXPECT_EQ(html_report(sample::three_jobs()), html_report(sample::three_jobs()));
}

}  // namespace
}  // namespace banyan::predict
