// banyan._core.JobPrediction and StepPrediction: jobs and training steps simulated, and their options.
#include <pybind11/stl.h>

#include "banyan/answer/read_jobs.h"
#include "banyan/answer/step_answer.h"
#include "banyan/base/words.h"
#include "banyan/predict/report/chrome_trace.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"
#include "bindings/python/values.h"
#include "bindings/python/watch.h"

namespace banyan::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

// The fabric and its name in titles.
using NamedFabric = std::pair<Fabric, std::string>;
// Options by name with their values, in the order in which they were given.
using Given = std::vector<std::pair<std::string, OptionValue>>;

struct PredictedJobs : Predicted {};

struct PredictedStep : PredictedJobs {
  answer::TrainSetup setup;
  predict::MemoryReport memory;
  std::optional<answer::StepCompression> compression;
  double launches = 0;  // part of the computing

  answer::StepRates rates() const { return step_rates(setup, to_seconds(report.prediction.time)); }
  std::string code() const { return compression ? compression->tried[compression->best].name : ""; }
  std::string ending() const { return compression ? ", gradients as " + code() : ""; }
};

PredictedJobs predict_job(const NamedFabric& on, const std::string& trace, const Given& given,
                          const py::object& progress) {
  Watch watch(progress);
  answer::JobsOnFabric asked{.source = {.goal = trace}, .fabric = on.first, .fabric_name = on.second};
  answer::JobOptions options;
  for (const auto& [name, value] : given) {
    if (find_option(answer::source_options(), name) != nullptr) {
      set_option(asked.source, answer::source_options(), name, value);
    } else {
      set_option(options, answer::job_options(), name, value);
    }
  }
  const answer::JobQuestion question = read_jobs(asked, options);
  return {{.report = report_of(question, simulate_question(question, options, watch))}};
}

// The one training step of a file of jobs.
answer::JobEntry read_step(const std::string& path) {
  std::vector<answer::JobEntry> jobs = answer::read_jobs_file(path);
  if (jobs.size() != 1 || !jobs.front().train) {
    throw Error(ErrorCode::invalid_input, "has more than one training step, or a trace; predict_job() takes it", path);
  }
  if (jobs.front().start.count() != 0) {
    throw Error(ErrorCode::invalid_input, "has a step with a start, which counts among several jobs only; leave it out",
                path);
  }
  return std::move(jobs.front());
}

PredictedStep predict_step(const NamedFabric& on, const std::string& jobs_file, const Given& given,
                           const py::object& progress) {
  Watch watch(progress);
  answer::JobEntry entry;
  if (!jobs_file.empty()) entry = read_step(jobs_file);
  predict::TrainOptions train = entry.train.value_or(predict::TrainOptions());
  answer::JobOptions options;
  for (const auto& [name, value] : given) {
    if (find_option(answer::job_options(), name) != nullptr) {
      set_option(options, answer::job_options(), name, value);
    } else {
      set_train_option(train, name, value);
    }
  }
  answer::StepAnswer step = answer::predict_step({.setup = answer::make_train_setup(train, on.second),
                                                  .ignore_memory = train.ignore_memory,
                                                  .fabric = on.first,
                                                  .fabric_name = on.second,
                                                  .place = std::move(entry.place),
                                                  .options = std::move(options)},
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

// Seconds of a part of the time, the mean over all ranks.
template <double predict::TimeShares::*kPart>
py::object mean_of(const PredictedJobs& of) {
  return py::cast(time_shares(of.report.prediction).*kPart * to_seconds(of.report.prediction.time));
}

py::object ranks_of(const PredictedJobs& of) {
  return records("StepParts", of.report.prediction.ranks,
                 [](const py::object& type, const predict::PredictedRank& rank) {
                   return type("rank"_a = rank.name, "compute"_a = to_seconds(rank.compute),
                               "exposed"_a = to_seconds(rank.exposed), "waiting"_a = to_seconds(rank.waiting),
                               "host"_a = to_seconds(rank.host), "bubble"_a = to_seconds(rank.bubble));
                 });
}

py::object jobs_of(const PredictedJobs& of) {
  return records("PredictedJob", of.report.prediction.jobs,
                 [](const py::object& type, const predict::PredictedJob& job) {
                   return type("name"_a = job.name, "tenant"_a = job.tenant, "begin"_a = to_seconds(job.begin),
                               "end"_a = to_seconds(job.end), "alone"_a = to_seconds(job.alone),
                               "failed_at"_a = to_seconds(job.failed_at));
                 });
}

py::object what_if_of(const PredictedJobs& of) {
  return records("WhatIf", of.report.what_if, [](const py::object& type, const predict::WhatIf& row) {
    return type("resource"_a = row.resource, "time"_a = to_seconds(row.time), "gain"_a = row.gain);
  });
}

std::string json_of(const PredictedJobs& of, bool spans) {
  if (spans) return format_prediction(of.report);
  predict::ReportInput report = of.report;
  report.prediction.spans.clear();
  return format_prediction(report);
}

std::string trace_of(const PredictedJobs& of) { return chrome_trace(of.report); }

void save(const py::object& of, const py::object& path) {
  const auto text = py::module_::import("os").attr("fspath")(path).cast<std::string>();
  const char* format = "to_json";
  if (text.ends_with(".trace")) format = "to_trace";
  if (text.ends_with(".html") || text.ends_with(".htm")) format = "to_html";
  py::module_::import("banyan._words").attr("write")(path, of.attr(format)());
}

std::string in_text(const PredictedJobs& of) { return of.report.prediction.title + "\n" + in_words(of.report); }

py::object stages_of(const PredictedStep& step) {
  return records("StageMemory", step.memory.stages, [](const py::object& type, const predict::StageMemory& stage) {
    return type("parameters"_a = stage.parameters, "gradients"_a = stage.gradients, "optimizer"_a = stage.optimizer,
                "activations"_a = stage.activations);
  });
}

py::object compression_of(const PredictedStep& step) {
  if (!step.compression) return py::none();
  const answer::StepCompression& found = *step.compression;
  const py::list tried =
      records("TriedCompression", found.tried, [](const py::object& type, const answer::TriedCompression& each) {
        return type("name"_a = each.name, "time"_a = to_seconds(each.time));
      });
  const py::list buckets =
      records("CompressedBucket", found.buckets, [](const py::object& type, const answer::CompressedBucket& bucket) {
        return type("stage"_a = bucket.gradients.stage, "ranks"_a = bucket.gradients.ranks,
                    "bytes"_a = bucket.gradients.bytes, "code"_a = bucket.codec ? to_string(*bucket.codec) : "none",
                    "between_boxes"_a = bucket.is_between_boxes, "wire_bytes"_a = bucket.wire_bytes,
                    "dense_seconds"_a = bucket.dense_seconds, "coded_seconds"_a = bucket.coded_seconds);
      });
  return record("StepCompression")("choice"_a = step.code(), "why"_a = found.why, "tried"_a = tried,
                                   "buckets"_a = buckets);
}

// A property that cannot be set, with its documentation.
template <typename Of>
struct Property {
  const char* name;
  py::object (*value)(const Of& of);
  const char* text;
};

using Jobs = PredictedJobs;
using Shares = predict::TimeShares;
constexpr Property<Jobs> kOfJobs[] = {
    {"time", [](const Jobs& of) { return py::cast(to_seconds(of.report.prediction.time)); },
     "Seconds until all is done; of a training step those of the step."},
    {"compute", mean_of<&Shares::compute>,
     "Seconds of it in which ranks compute, the mean over all. This and the next four add up to the time."},
    {"exposed", mean_of<&Shares::exposed>, "Seconds in which they move data that no computation hides."},
    {"waiting", mean_of<&Shares::waiting>, "Seconds in which they wait for other ranks."},
    {"host", mean_of<&Shares::host>,
     "Seconds in which their hosts hold them up, besides the launches that count as computing."},
    {"bubble", mean_of<&Shares::bubble>, "Seconds in which they have nothing to do."},
    {"ranks", ranks_of, "The same for each rank, in the order of the jobs and their ranks."},
    {"jobs", jobs_of, "Each job, in the order of the file."},
    {"notes", [](const Jobs& of) { return py::cast(of.report.notes); }, "Notes that one should know, a line each."},
    {"what_if", what_if_of, "The resources that would help, where the prediction was asked for them."},
};

using Step = PredictedStep;
constexpr Property<Step> kOfStep[] = {
    {"alone", [](const Step& of) { return py::cast(to_seconds(of.report.prediction.jobs.front().alone)); },
     "The seconds that the step takes without events, if it was asked with some."},
    {"failed_at", [](const Step& of) { return py::cast(to_seconds(of.report.prediction.jobs.front().failed_at)); },
     "The time at which a failed link ended the step, with on_failure=\"fail\", or None."},
    {"training", [](const Step& of) { return py::cast(describe(of.setup.config) + of.ending()); },
     "The training in words, with the code of the gradients, where one was asked for."},
    {"compression", compression_of,
     "The code of the gradients, with what was tried and the table of buckets; None where none was asked for "
     "(compress=\"int8\", compress=\"auto\")."},
    {"device", [](const Step& of) { return py::cast(of.setup.device.name); }, "The name of the device."},
    {"memory", stages_of, "The bytes that each rank needs, by pipeline stage."},
    {"memory_available", [](const Step& of) { return py::cast(of.memory.available.count()); },
     "Bytes that a device has for it."},
    {"fits", [](const Step& of) { return py::cast(of.memory.fits); },
     "True if it fits into the memory of the devices; false is possible with ignore_memory only."},
    {"utilisation", [](const Step& of) { return py::cast(of.rates().of_peak); },
     "The model's FLOPs, recomputation not counted, over what the devices could do in that time (MFU): 0 to 1."},
    {"flops_per_device", [](const Step& of) { return py::cast(of.rates().flops_a_device); },
     "The model's FLOPs on each device per second."},
    {"tokens_per_second", [](const Step& of) { return py::cast(of.rates().tokens_a_second); },
     "The tokens of all devices together."},
    {"model_flop", [](const Step& of) { return py::cast(answer::model_flop(of.setup.config)); },
     "The FLOPs that the model needs for a step."},
    {"launches", [](const Step& of) { return py::cast(of.launches); },
     "The part of the computing that are launches and gaps between kernels, which no faster device shortens."},
};

std::string in_one_line(const Jobs& of, const char* type, const std::string& more) {
  const Prediction& prediction = of.report.prediction;
  return std::string("<banyan.") + type + " " + prediction.title + ": " + format_seconds(to_seconds(prediction.time)) +
         more + ">";
}

std::string step_in_one_line(const Step& of) {
  return in_one_line(of, "StepPrediction", ", " + format_percent(of.rates().of_peak) + " of the peak" + of.ending());
}

// The name of each row, what stands for the value ("" of a flag), the meaning.
template <typename Options>
py::list rows_of(std::span<const OptionRow<Options>> rows) {
  py::list list;
  for (const OptionRow<Options>& row : rows) list.append(py::make_tuple(row.name, row.value, row.help));
  return list;
}

}  // namespace

void add_jobs(py::module_& module) {
  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<Jobs, Predicted> jobs(module, "JobPrediction",
                                   "The time of jobs on a fabric, and where it goes. It cannot be changed.");
  jobs.def("to_json", &json_of, py::kw_only(), "spans"_a = true, unlocked,
           "All of it in the form \"banyan\": \"prediction/1\". Without `spans` it leaves the timeline out, which is "
           "the most of it: that is what `banyan predict train --json` prints.");
  jobs.def("to_trace", &trace_of, unlocked, "The timeline for Perfetto or chrome://tracing.");
  jobs.def("save", &save, "path"_a,
           "Writes to_html() to a file that ends in .html, to_trace() to one that ends in .trace, to_json() to any "
           "other.");
  jobs.def("__str__", &in_text);
  jobs.def("__repr__", [](const Jobs& of) { return in_one_line(of, "JobPrediction", ""); });
  for (const Property<Jobs>& each : kOfJobs) jobs.def_property_readonly(each.name, each.value, each.text);
  py::class_<Step, Jobs> step(
      module, "StepPrediction",
      "The time of a training step on a fabric, where it goes, and the memory that it needs. It "
      "cannot be changed.");
  for (const Property<Step>& each : kOfStep) step.def_property_readonly(each.name, each.value, each.text);
  step.def("__repr__", &step_in_one_line);
  module.def("predict_job", &predict_job, "on"_a, "trace"_a, "options"_a, "progress"_a);
  module.def("predict_step", &predict_step, "on"_a, "jobs_file"_a, "options"_a, "progress"_a);
  module.def("list_train_options", [] { return rows_of(predict::train_options()); });
  module.def("list_job_options", [] { return rows_of(answer::job_options()); });
  module.def("list_source_options", [] { return rows_of(answer::source_options()); });
}

}  // namespace banyan::python
