// banyan_report_samples FOLDER: a page of every sample prediction, as FOLDER/NAME.html, for the test in a browser.
#include <cstdio>
#include <exception>
#include <string>

#include "banyan/base/file.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/test_predictions.h"

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: banyan_report_samples FOLDER\n");
    return 2;
  }
  try {
    for (const auto& [name, input] : banyan::predict::sample::all_samples()) {
      const std::string path = std::string(arguments[1]) + "/" + name + ".html";
      const std::string page = banyan::predict::html_report(input);
      banyan::write_file(path, page);
      std::printf("%s: %zu bytes, %zu spans\n", path.c_str(), page.size(), input.prediction.spans.size());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "banyan_report_samples: %s\n", error.what());
    return 1;
  }
  return 0;
}
