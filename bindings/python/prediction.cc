// banyan._core.Prediction: plans simulated by size, and the report about them.
#include <pybind11/stl.h>

#include "banyan/answer/predicted_plans.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"
#include "bindings/python/values.h"
#include "bindings/python/watch.h"

namespace banyan::python {
namespace {

namespace py = pybind11;

struct Predicted {
  predict::ReportInput report;
  std::vector<answer::TimedSize> sizes;  // empty of a prediction that was read from a file
};

Predicted predict_plans(const std::vector<std::pair<std::string, SharedPlan>>& plans,
                        const std::vector<uint64_t>& sizes, const std::string& fabric_name, const std::string& slice,
                        const std::string& alpha, const std::string& window, bool fold, const py::object& progress) {
  Watch watch(progress);
  const py::gil_scoped_release unlocked;
  answer::TimingOptions options{.fold = fold, .observer = &watch};
  if (!slice.empty()) options.slice = Bytes::parse(slice);
  if (!alpha.empty()) options.alpha = parse_duration(alpha);
  if (!window.empty()) options.window = parse_duration(window);
  std::vector<answer::NamedPlan> named;
  for (const auto& [name, plan] : plans) named.push_back(plan.named(name));
  std::vector<Bytes> totals;
  for (const uint64_t size : sizes) {
    totals.emplace_back(size);
    if (options.slice) answer::expect_few_pieces(totals.back(), *options.slice);
  }
  Predicted made{.report = {.prediction = {}}, .sizes = time_sizes(named, totals, options)};
  made.report = answer::report_of(named, made.sizes, fabric_name);
  return made;
}

// By size: bytes, the number of the best plan, and of each plan seconds, algbw, busbw, slice, messages.
py::list points_of(const Predicted& of) {
  py::list points;
  for (const answer::TimedSize& size : of.sizes) {
    py::list timed;
    for (const answer::TimedPlan& plan : size.timed) {
      timed.append(py::make_tuple(to_seconds(plan.simulation.time), plan.simulation.algbw, plan.simulation.busbw,
                                  plan.slice.count(), plan.simulation.messages));
    }
    points.append(py::make_tuple(size.total.count(), size.best, timed));
  }
  return points;
}

// Number, part of the time that it was full, part of its capacity that was used, bytes.
py::list busiest_of(const Predicted& of, size_t most) {
  py::list links;
  for (const predict::LinkStanding& link : busiest_links(of.report, most))
    links.append(py::make_tuple(link.link, link.full, link.load, of.report.prediction.links[link.link].bytes));
  return links;
}

}  // namespace

void add_prediction(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<Predicted>(module, "Prediction")
      .def("title", [](const Predicted& of) { return of.report.prediction.title; })
      .def("fabric", [](const Predicted& of) { return of.report.fabric; })
      .def("points", &points_of)
      .def("busiest_links", &busiest_of, py::arg("most"))
      .def("in_words", [](const Predicted& of) { return in_words(of.report); })
      .def(
          "to_json", [](const Predicted& of) { return format_prediction(of.report); }, unlocked)
      .def(
          "to_html", [](const Predicted& of) { return html_report(of.report); }, unlocked);
  module.def("predict", &predict_plans, py::arg("plans"), py::arg("sizes"), py::arg("fabric_name"), py::arg("slice"),
             py::arg("alpha"), py::arg("window"), py::arg("fold"), py::arg("progress"));
  module.def(
      "doubling_sizes",
      [](uint64_t from, uint64_t to) {
        std::vector<uint64_t> sizes;
        for (const Bytes size : answer::doubling_sizes(Bytes(from), Bytes(to))) sizes.push_back(size.count());
        return sizes;
      },
      py::arg("first"), py::arg("last"));
  module.def(
      "short_time",
      [](double seconds) { return predict::short_time(Picoseconds(static_cast<int64_t>(seconds * 1e12))); },
      py::arg("seconds"));
}

}  // namespace banyan::python
