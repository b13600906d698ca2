// banyan._core.Prediction: plans simulated by size, and what all predictions have in common.
#include <pybind11/stl.h>

#include "banyan/answer/predicted_plans.h"
#include "banyan/base/nearest.h"
#include "banyan/base/option_table.h"
#include "banyan/base/words.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"
#include "bindings/python/values.h"
#include "bindings/python/watch.h"

namespace banyan::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

py::list points_of(const std::vector<answer::NamedPlan>& named, const std::vector<answer::TimedSize>& sizes) {
  const py::object type = record("PredictedPlan");
  py::list points;
  for (const answer::TimedSize& size : sizes) {
    py::list plans;
    for (size_t p = 0; p < named.size(); ++p) {
      const answer::TimedPlan& plan = size.timed[p];
      plans.append(type("plan"_a = named[p].name, "bytes"_a = size.total.count(),
                        "time"_a = to_seconds(plan.simulation.time), "throughput"_a = plan.simulation.algbw,
                        "bus_throughput"_a = plan.simulation.busbw, "slice"_a = plan.slice.count(),
                        "messages"_a = plan.simulation.messages));
    }
    points.append(py::make_tuple(size.total.count(), size.best, plans));
  }
  return points;
}

// The prediction, and by size: bytes, the number of the best plan, all plans.
py::tuple predict_plans(const std::vector<std::pair<std::string, SharedPlan>>& plans,
                        const std::vector<uint64_t>& sizes, const std::map<std::string, OptionValue>& given,
                        const py::object& progress) {
  answer::TimingOptions options{.fold = read_truth(given.at("fold"))};
  if (given.contains("slice")) options.slice = read_bytes(given.at("slice"));
  if (given.contains("alpha")) options.alpha = read_duration(given.at("alpha"));
  if (given.contains("window")) options.window = read_duration(given.at("window"));
  std::vector<answer::NamedPlan> named;
  for (const auto& [name, plan] : plans) named.push_back(plan.named(name));
  std::vector<Bytes> totals;
  for (const uint64_t size : sizes) {
    totals.emplace_back(size);
    if (options.slice) answer::expect_few_pieces(totals.back(), *options.slice);
  }
  std::vector<answer::TimedSize> timed;
  Predicted made;
  {
    Watch watch(progress);
    options.observer = &watch;
    timed = time_sizes(named, totals, options);
    made.report = answer::report_of(named, timed, read_text(given.at("fabric")));
  }
  return py::make_tuple(std::move(made), points_of(named, timed));
}

py::list busiest_of(const Predicted& of, size_t most) {
  const Fabric& fabric = *of.report.fabric;
  return records(
      "BusyLink", busiest_links(of.report, most), [&](const py::object& type, const predict::LinkStanding& busy) {
        const Link& link = fabric.links()[busy.link];
        return type("source"_a = fabric.name(link.from), "target"_a = fabric.name(link.to), "full"_a = busy.full,
                    "load"_a = busy.load, "bytes"_a = of.report.prediction.links[busy.link].bytes);
      });
}

}  // namespace

void add_prediction(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<Predicted>(module, "Prediction")
      .def_property_readonly(
          "title", [](const Predicted& of) { return of.report.prediction.title; },
          "The name of the question: the work, and the fabric that it was simulated on.")
      .def_property_readonly(
          "summary", [](const Predicted& of) { return in_words(of.report); }, "The result in a few sentences.")
      .def("busiest_links", &busiest_of, "most"_a = 5,
           "The links that were a bottleneck longest; of plans under the best one, of a sweep for the largest size.")
      .def(
          "to_json", [](const Predicted& of) { return format_prediction(of.report); }, unlocked,
          "All of it in the form \"banyan\": \"prediction/1\".")
      .def(
          "to_html", [](const Predicted& of) { return html_report(of.report); }, unlocked,
          "A page with pictures, such as the fabric with its links coloured by load; it needs no other file.");
  module.def("predict", &predict_plans, "plans"_a, "sizes"_a, "options"_a, "progress"_a);
  module.def(
      "nearest_name",
      [](const std::string& name, const std::vector<std::string>& candidates) {
        NearestName nearest(name);
        for (const std::string& candidate : candidates) nearest.offer(candidate);
        return nearest.best();
      },
      "name"_a, "candidates"_a);
  module.def(
      "doubling_sizes",
      [](uint64_t from, uint64_t to) {
        std::vector<uint64_t> sizes;
        for (const Bytes size : answer::doubling_sizes(Bytes(from), Bytes(to))) sizes.push_back(size.count());
        return sizes;
      },
      "first"_a, "last"_a);
  module.def(
      "format_seconds", [](double seconds) { return format_seconds(seconds); }, "seconds"_a);
  module.def("format_rate", &format_rate, "bytes_per_second"_a);
  module.def("format_percent", &format_percent, "ratio"_a);
}

}  // namespace banyan::python
