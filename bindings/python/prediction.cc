// banyan._core.Prediction and Step: plans simulated by size, a training step, and the reports about them.
#include <pybind11/stl.h>

#include "banyan/answer/predicted_plans.h"
#include "banyan/answer/step_answer.h"
#include "banyan/base/nearest.h"
#include "banyan/base/option.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/words.h"
#include "banyan/predict/report/chrome_trace.h"
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

struct PredictedStep : Predicted {
  answer::TrainSetup setup;
  predict::MemoryReport memory;
  std::optional<answer::StepCompression> compression;
  double launches = 0;  // part of the computing
};

// The one training step of a file of jobs.
answer::JobEntry read_step(const std::string& path) {
  constexpr uint64_t kMostBytes = 64 << 20;
  const std::string text = read_plain_text(path, kMostBytes).text;
  std::vector<answer::JobEntry> jobs = parse_option(path, [&] { return answer::parse_jobs_file(text); });
  if (jobs.size() != 1 || !jobs.front().train) {
    throw Error(ErrorCode::invalid_input, "has more than one training step, or a trace; 'banyan predict job' takes it",
                path);
  }
  if (jobs.front().start.count() != 0) {
    throw Error(ErrorCode::invalid_input, "has a step with a start, which counts among several jobs only; leave it out",
                path);
  }
  return std::move(jobs.front());
}

PredictedStep predict_step(const Fabric& fabric, const std::string& fabric_name, const std::string& jobs_file,
                           const std::vector<std::pair<std::string, std::string>>& options,
                           const answer::JobWords& words, const py::object& progress) {
  Watch watch(progress);
  const py::gil_scoped_release unlocked;
  answer::JobEntry entry;
  if (!jobs_file.empty()) entry = read_step(jobs_file);
  predict::TrainOptions train = entry.train.value_or(predict::TrainOptions());
  for (const auto& [name, text] : options) set_train_option(train, name, text);
  answer::StepAnswer step = answer::predict_step({.setup = make_train_setup(train, fabric_name),
                                                  .ignore_memory = train.ignore_memory,
                                                  .fabric = fabric,
                                                  .fabric_name = fabric_name,
                                                  .place = std::move(entry.place),
                                                  .words = words},
                                                 watch);
  if (step.is_refused()) throw Error(ErrorCode::unsupported, misfit(step.setup, step.memory));
  PredictedStep made;
  made.report = report_of(step);
  made.launches = answer::launch_share(*step.job);
  made.setup = std::move(step.setup);
  made.memory = std::move(step.memory);
  made.compression = std::move(step.compression);
  return made;
}

using Parts = std::tuple<double, double, double, double, double>;

// Seconds of compute, exposed communication, waiting, host and bubble: the mean over all ranks.
Parts parts_of(const PredictedStep& step) {
  const predict::TimeShares shares = time_shares(step.report.prediction);
  const double time = to_seconds(step.report.prediction.time);
  return {shares.compute * time, shares.exposed * time, shares.waiting * time, shares.host * time,
          shares.bubble * time};
}

py::list ranks_of(const PredictedStep& step) {
  py::list ranks;
  for (const predict::PredictedRank& rank : step.report.prediction.ranks) {
    ranks.append(py::make_tuple(rank.name, to_seconds(rank.compute), to_seconds(rank.exposed), to_seconds(rank.waiting),
                                to_seconds(rank.host), to_seconds(rank.bubble)));
  }
  return ranks;
}

// By stage: bytes of parameters, gradients, optimizer and activations.
py::list stages_of(const PredictedStep& step) {
  py::list stages;
  for (const predict::StageMemory& stage : step.memory.stages)
    stages.append(py::make_tuple(stage.parameters, stage.gradients, stage.optimizer, stage.activations));
  return stages;
}

// The choice, why, what was tried with its seconds, and of each bucket: stage, ranks, bytes, code, whether it is coded
// between boxes only, bytes in the code, seconds without and with it. None where no code was asked for.
py::object compression_of(const PredictedStep& step) {
  if (!step.compression) return py::none();
  const answer::StepCompression& found = *step.compression;
  py::list tried, buckets;
  for (const answer::TriedCompression& each : found.tried)
    tried.append(py::make_tuple(each.name, to_seconds(each.time)));
  for (const answer::CompressedBucket& bucket : found.buckets) {
    buckets.append(py::make_tuple(bucket.gradients.stage, bucket.gradients.ranks, bucket.gradients.bytes,
                                  bucket.codec ? to_string(*bucket.codec) : "none", bucket.is_between_boxes,
                                  bucket.wire_bytes, bucket.dense_seconds, bucket.coded_seconds));
  }
  return py::make_tuple(found.tried[found.best].name, found.why, tried, buckets);
}

py::list what_if_of(const PredictedStep& step) {
  py::list rows;
  for (const predict::WhatIf& row : step.report.what_if)
    rows.append(py::make_tuple(row.resource, to_seconds(row.time), row.gain));
  return rows;
}

std::optional<double> seconds_or_none(const std::optional<Picoseconds>& time) {
  return time ? std::optional(to_seconds(*time)) : std::nullopt;
}

std::string json_of(const Predicted& of, bool spans) {
  if (spans) return format_prediction(of.report);
  predict::ReportInput report = of.report;
  report.prediction.spans.clear();
  return format_prediction(report);
}

// Number, part of the time that it was full, part of its capacity that was used, bytes.
py::list busiest_of(const Predicted& of, size_t most) {
  py::list links;
  for (const predict::LinkStanding& link : busiest_links(of.report, most))
    links.append(py::make_tuple(link.link, link.full, link.load, of.report.prediction.links[link.link].bytes));
  return links;
}

void add_step(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  using Step = PredictedStep;
  py::class_<answer::JobWords>(module, "JobWords")
      .def(py::init([](std::string placement, std::string seed, std::string window, std::string costs,
                       std::string algorithm, std::string collectives, std::vector<std::string> events,
                       std::string on_failure, std::string eager, bool what_if, bool fold) {
             return answer::JobWords{.placement = std::move(placement),
                                     .seed = std::move(seed),
                                     .window = std::move(window),
                                     .costs = std::move(costs),
                                     .algorithm = std::move(algorithm),
                                     .collectives = std::move(collectives),
                                     .events = std::move(events),
                                     .on_failure = std::move(on_failure),
                                     .eager = std::move(eager),
                                     .what_if = what_if,
                                     .unfolded = !fold};
           }),
           py::arg("placement"), py::arg("seed"), py::arg("window"), py::arg("costs"), py::arg("algorithm"),
           py::arg("collectives"), py::arg("events"), py::arg("on_failure"), py::arg("eager"), py::arg("what_if"),
           py::arg("fold"));
  py::class_<Step, Predicted>(module, "Step")
      .def("time", [](const Step& step) { return to_seconds(step.report.prediction.time); })
      .def("parts", &parts_of)
      .def("ranks", &ranks_of)
      .def("alone", [](const Step& step) { return seconds_or_none(step.report.prediction.jobs.front().alone); })
      .def("failed_at", [](const Step& step) { return seconds_or_none(step.report.prediction.jobs.front().failed_at); })
      .def("training", [](const Step& step) { return describe(step.setup.config); })
      .def("device", [](const Step& step) { return step.setup.device.name; })
      .def("notes", [](const Step& step) { return step.report.notes; })
      .def("stages", &stages_of)
      .def("available", [](const Step& step) { return step.memory.available.count(); })
      .def("fits", [](const Step& step) { return step.memory.fits; })
      .def("model_flop", [](const Step& step) { return answer::model_flop(step.setup.config); })
      .def("rates",
           [](const Step& step) {
             const answer::StepRates rates = step_rates(step.setup, to_seconds(step.report.prediction.time));
             return std::tuple(rates.flops_a_device, rates.of_peak, rates.tokens_a_second);
           })
      .def("launches", [](const Step& step) { return step.launches; })
      .def("compression", &compression_of)
      .def("what_if", &what_if_of)
      .def(
          "to_trace", [](const Step& step) { return chrome_trace(step.report); }, unlocked);
  module.def("predict_step", &predict_step, py::arg("fabric"), py::arg("fabric_name"), py::arg("jobs_file"),
             py::arg("options"), py::arg("words"), py::arg("progress"));
  // Group, name, what stands for the value ("" of a switch) and the meaning.
  module.def("list_train_options", [] {
    std::vector<std::tuple<std::string, std::string, std::string, std::string>> options;
    for (const predict::TrainOption& option : predict::train_options())
      options.emplace_back(option.group, option.name, option.value, option.help);
    return options;
  });
  module.def(
      "nearest_name",
      [](const std::string& name, const std::vector<std::string>& candidates) {
        NearestName nearest(name);
        for (const std::string& candidate : candidates) nearest.offer(candidate);
        return nearest.best();
      },
      py::arg("name"), py::arg("candidates"));
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
      .def("to_json", &json_of, py::arg("spans"), unlocked)
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
  add_step(module);
  module.def(
      "format_seconds", [](double seconds) { return format_seconds(seconds); }, py::arg("seconds"));
  module.def("format_rate", &format_rate, py::arg("bytes_per_second"));
  module.def("format_percent", &format_percent, py::arg("ratio"));
}

}  // namespace banyan::python
