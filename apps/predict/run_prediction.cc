#include "apps/predict/run_prediction.h"

#include <nlohmann/json.hpp>

#include "apps/plan/watched_simulation.h"
#include "banyan/base/check.h"
#include "banyan/base/text.h"

namespace banyan::app {
namespace {

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

std::string signed_percent(double ratio) { return (ratio < 0 ? "" : "+") + format_decimals(100 * ratio, 1) + " %"; }

}  // namespace

RunPrediction predict_run(const Schedule& schedule, uint64_t bytes, const run::LocalRunReport& report,
                          Picoseconds alpha, Progress& progress) {
  CHECK(report.elements > 0 && bytes % report.elements == 0) << bytes << " bytes of " << report.elements << " elements";
  WatchedSimulation watch(progress);
  return {.alpha = alpha,
          .timed = answer::time_plan(schedule, Bytes(bytes),
                                     {.slice = Bytes(report.slice_bytes), .alpha = alpha, .observer = &watch}),
          .link_bytes = predict::exact_link_bytes(schedule, report.elements, bytes / report.elements)};
}

LinkAgreement compare_links(std::span<const uint64_t> sent, std::span<const uint64_t> predicted) {
  CHECK_EQ(sent.size(), predicted.size());
  LinkAgreement agreement{.links = sent.size()};
  for (uint32_t link = 0; link < sent.size(); ++link) {
    if (sent[link] == predicted[link]) {
      ++agreement.agreeing;
    } else if (!agreement.first_other) {
      agreement.first_other = LinkId{link};
    }
  }
  return agreement;
}

std::optional<double> prediction_error(const run::LocalRunReport& report, const RunPrediction& prediction) {
  if (report.median_seconds <= 0 || !prediction.timed.simulation.complete) return std::nullopt;
  return seconds_of(prediction.timed.simulation.time) / report.median_seconds - 1;
}

Json run_prediction_json(const Fabric& fabric, const run::LocalRunReport& report, const RunPrediction& prediction) {
  const predict::ScheduleSimulation& simulation = prediction.timed.simulation;
  const LinkAgreement agreement = compare_links(report.link_bytes, prediction.link_bytes);
  const std::optional<double> error = prediction_error(report, prediction);
  Json object = {{"alpha_ps", prediction.alpha.count()},
                 {"slice", prediction.timed.slice.count()},
                 {"complete", simulation.complete},
                 {"seconds", seconds_of(simulation.time)},
                 {"error_percent", error ? Json(100 * *error) : Json(nullptr)},
                 {"links", agreement.links},
                 {"links_agreeing", agreement.agreeing},
                 {"first_other", nullptr}};
  if (agreement.first_other) {
    const LinkId link = *agreement.first_other;
    object["first_other"] = {{"link", index(link)},
                             {"from", fabric.name(fabric.link(link).from)},
                             {"to", fabric.name(fabric.link(link).to)},
                             {"sent", report.link_bytes[index(link)]},
                             {"predicted", prediction.link_bytes[index(link)]}};
  }
  return object;
}

std::string format_run_prediction(const Terminal& terminal, const Fabric& fabric, const run::LocalRunReport& report,
                                  const RunPrediction& prediction) {
  const predict::ScheduleSimulation& simulation = prediction.timed.simulation;
  std::string time = format_seconds(simulation.time);
  if (!simulation.complete) time = "more than " + time + ": interrupted";
  if (const std::optional<double> error = prediction_error(report, prediction)) {
    time += " for " + format_seconds(report.median_seconds) + " measured, error " + signed_percent(*error);
  }
  time += "\nthe fabric's links are not this machine's";
  const LinkAgreement agreement = compare_links(report.link_bytes, prediction.link_bytes);
  std::string links =
      "as predicted on " + std::to_string(agreement.agreeing) + " of " + plural(agreement.links, "link");
  if (agreement.first_other) {
    const LinkId link = *agreement.first_other;
    links += "; first other: " + link_name(fabric, fabric.link(link)) + " (link " + std::to_string(index(link)) +
             ") carried " + std::to_string(report.link_bytes[index(link)]) + ", predicted " +
             std::to_string(prediction.link_bytes[index(link)]);
  }
  const bool all = !agreement.first_other;
  return labelled(terminal, "predicted", time) +
         labelled(terminal, "bytes", terminal.styled(all ? Terminal::Style::good : Terminal::Style::bad, links));
}

}  // namespace banyan::app
