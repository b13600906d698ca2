#include "banyan/predict/report/html_report.h"

#include "banyan/base/check.h"
#include "banyan/predict/report/page_data.h"
#include "banyan/predict/report/page_template.h"

namespace banyan::predict {
namespace {

constexpr std::string_view kPlace = "@BANYAN_PREDICTION@";

// JSON for the inside of a <script> element, which ends at the first "</script" and changes its grammar at "<!--": in
// JSON a '<' can only stand in a text, where it may as well be escaped.
std::string inside_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size() + json.size() / 64);
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string html_report(const ReportInput& input, const ReportLimits& limits) {
  const std::string_view page = report::page_template();
  const size_t place = page.find(kPlace);
  CHECK(place != std::string_view::npos && page.find(kPlace, place + 1) == std::string_view::npos);
  std::string html(page.substr(0, place));
  html += inside_script(report::page_data(input, limits));
  html += page.substr(place + kPlace.size());
  return html;
}

}  // namespace banyan::predict
