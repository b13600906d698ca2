#include "apps/predict/job_prediction.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/predict/planned_footprints.h"
#include "apps/plan/timed_plan.h"
#include "banyan/base/file.h"
#include "banyan/predict/collective/costed_plans.h"
#include "banyan/predict/report/chrome_trace.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"

namespace banyan::app {
namespace {

constexpr size_t kLinksShown = 5, kJobsShown = 20;

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

predict::PlansFor plans_of(const Going& going) {
  return [going](const Fabric& fabric, double latency) {
    predict::LinkEfficiency links = going.links;
    std::vector<predict::CollectiveCost> measured = going.measured;
    const auto scale = [&](Picoseconds& time) {
      time = Picoseconds(static_cast<int64_t>(static_cast<double>(time.count()) * latency));
    };
    scale(links.latency);
    for (predict::CollectiveCost& cost : measured) {
      for (predict::CollectiveCostPiece& piece : cost.pieces) scale(piece.alpha);
    }
    return make_costed_plans(make_plans_by(going.algorithm, fabric), links, std::move(measured));
  };
}

predict::JobSimulationOptions options_of(const JobQuestion& question, const JobTexts& texts) {
  predict::JobSimulationOptions options;
  options.message_latency = question.going.links.latency;
  options.link_efficiency = link_efficiencies(question.fabric, question.going.links, !question.going.measured.empty());
  options.fold = !texts.unfolded;
  options.collectives = parse_option("--collectives", [&] { return predict::parse_collectives_as(texts.collectives); });
  if (!texts.window.empty()) options.window = parse_option("--window", [&] { return parse_duration(texts.window); });
  for (const std::string& text : texts.events) {
    const auto events = parse_option("--event", [&] { return predict::parse_link_events(question.fabric, text); });
    options.events.insert(options.events.end(), events.begin(), events.end());
  }
  options.on_failure = parse_option("--on-failure", [&] { return predict::parse_on_failure(texts.on_failure); });
  return options;
}

bool has_failed(const predict::PredictedJob& job) { return job.failed_at.has_value(); }

predict::ReportInput report_input(const JobQuestion& question, JobAnswer& answer) {
  return {
      .prediction = answer.simulation.prediction, .fabric = question.fabric, .points = {}, .what_if = answer.what_if};
}

}  // namespace

void declare_job_options(CommandSyntax& command, JobTexts& texts) {
  command.group("Fabric and placement");
  command.option("--fabric", &texts.fabric, "FABRIC", "the fabric: a spec such as dgx-a100:64, a file, or text");
  command.option("--placement", &texts.placement, "RULE", "packed, random or round-robin over boxes (default packed)");
  command.option("--seed", &texts.seed, "N", "seed of random placement (default 1)");
  command.group("Links that change");
  command.option("--event", &texts.events, "EVENT",
                 "what happens to a cable: '10ms a-b=10GB/s', '10ms a-b fail' or '20ms a-b returns' (repeatable)");
  command.option("--on-failure", &texts.on_failure, "WHAT",
                 "what transfers on a failed cable do: stop until it returns, move to other paths, or fail with their "
                 "job (default stop)");
  command.group("Collectives and accuracy");
  command.option("--costs", &texts.costs, "FILE", "measured collectives, as 'predict calibrate' writes them");
  command.option("--algorithm", &texts.algorithm, "NAME",
                 "algorithm of collectives: rings (default), forest, or a baseline of 'plan --compare'");
  command.option(
      "--collectives", &texts.collectives, "HOW",
      "flow: a collective is one flow (default); messages: all that its plan sends, which is slower, folds no ranks "
      "and takes no --costs");
  command.option("--window", &texts.window, "TIME",
                 "treat flows that end within TIME of each other as ending together: faster, less exact");
  command.flag("--unfolded", texts.unfolded, "simulate every rank, without merging identical ones");
  command.group("Output");
  command.flag("--what-if", texts.what_if, "simulate again with each resource doubled: what would help");
  command.option("--html", &texts.html, "FILE", "write a page with pictures, in one file");
  command.option("--trace", &texts.trace, "FILE", "write a trace for Perfetto or chrome://tracing");
  command.option("-o,--output", &texts.output, "FILE", "write the prediction as JSON");
  command.flag("--json", texts.json, "print one JSON object");
  command.group("Options");
}

std::vector<predict::CollectiveCost> load_costs(const JobTexts& texts) {
  if (texts.costs.empty()) return {};
  return parse_option("--costs", [&] { return predict::read_collective_costs(texts.costs); });
}

JobAnswer simulate_question(const JobQuestion& question, const JobTexts& texts, const Terminal& terminal) {
  for (const std::string* path : {&texts.output, &texts.html, &texts.trace}) {
    if (!path->empty()) check_output_place(*path);
  }
  Progress progress(terminal, "simulating");
  WatchedSimulation watch(progress);
  const predict::PlansFor plans_for = plans_of(question.going);
  const auto plans = plans_for(question.fabric, 1);
  predict::JobSimulationOptions options = options_of(question, texts);
  options.plans = plans.get();
  options.plans_for = [&](const Fabric& left) { return plans_for(left, 1); };
  options.observer = &watch;
  JobAnswer answer{.simulation = simulate_jobs(question.fabric, question.jobs, options), .what_if = {}};
  Prediction& prediction = answer.simulation.prediction;
  prediction.title = question.title;
  if (!prediction.complete) return answer;
  if (question.jobs.size() > 1) {
    progress.say("simulating each job alone");
    predict::JobSimulationOptions alone = options;
    alone.most_spans = 0;
    for (size_t j = 0; j < question.jobs.size() && prediction.complete; ++j) {
      const Prediction own = simulate_jobs(question.fabric, {question.jobs[j]}, alone).prediction;
      if (own.complete && !has_failed(own.jobs.front()) && !has_failed(prediction.jobs[j]))
        prediction.jobs[j].alone = own.jobs.front().end - own.jobs.front().begin;
    }
  }
  if (texts.what_if && std::none_of(prediction.jobs.begin(), prediction.jobs.end(), has_failed)) {
    progress.say("asking what would help");
    answer.what_if = what_if(question.fabric, question.jobs, options, plans_for, prediction.time);
  }
  return answer;
}

std::string write_reports(const JobQuestion& question, JobAnswer& answer, const JobTexts& texts,
                          const Terminal& terminal) {
  std::string text;
  const predict::ReportInput input = report_input(question, answer);
  if (!texts.output.empty()) {
    write_file(texts.output, format_prediction(input));
    text += labelled(terminal, "written", texts.output);
  }
  if (!texts.html.empty()) {
    write_file(texts.html, html_report(input));
    text += labelled(terminal, "written", texts.html);
  }
  if (!texts.trace.empty()) {
    write_file(texts.trace, chrome_trace(input));
    text += labelled(terminal, "written", texts.trace);
  }
  return text;
}

std::string format_answer(const JobQuestion& question, const JobAnswer& answer, const Terminal& terminal) {
  const Prediction& prediction = answer.simulation.prediction;
  const predict::ReportInput input{.prediction = prediction, .fabric = question.fabric, .points = {}, .what_if = answer.what_if};
  std::string text =
      labelled(terminal, "time",
               format_seconds(seconds_of(prediction.time)) + (prediction.complete ? "" : ", when it was interrupted"));
  text += labelled(terminal, "in words", in_words(input));
  const predict::TimeShares shares = time_shares(prediction);
  text += labelled(terminal, "ranks",
                   format_percent(shares.compute) + " computing, " + format_percent(shares.exposed) +
                       " exposed communication, " + format_percent(shares.waiting) + " waiting, " +
                       format_percent(shares.bubble) + " bubble");
  text += labelled(terminal, "simulated",
                   std::to_string(answer.simulation.nodes_simulated) + " nodes of " +
                       counted(answer.simulation.rank_kinds, "kind") + " of ranks for " +
                       std::to_string(answer.simulation.nodes) + " of " + counted(prediction.ranks.size(), "rank") +
                       (answer.simulation.collective_messages == 0
                            ? ""
                            : ", " + counted(answer.simulation.collective_messages, "message") + " of collectives"));
  if (prediction.window.bytes > 0) {
    text += labelled(terminal, "window", "sizes are off by " + format_percent(prediction.window.of_all) + " in all");
  }
  size_t failed_shown = 0;
  for (const predict::PredictedJob& job : prediction.jobs) {
    if (!has_failed(job) || ++failed_shown > kJobsShown) continue;
    text += labelled(terminal, "failed",
                     job.name + " at " + format_seconds(seconds_of(*job.failed_at)) + ", with a link that it used");
  }
  if (prediction.jobs.size() > 1) {
    Table table({"job", "tenant", "begins", "ends", "takes", "slower than alone"});
    for (size_t j = 0; j < std::min(kJobsShown, prediction.jobs.size()); ++j) {
      const predict::PredictedJob& job = prediction.jobs[j];
      const double takes = seconds_of(job.end - job.begin);
      table.add({job.name, job.tenant.empty() ? "-" : job.tenant, format_seconds(seconds_of(job.begin)),
                 format_seconds(seconds_of(job.end)), format_seconds(takes),
                 has_failed(job) ? "failed"
                 : job.alone     ? format_decimals(takes / seconds_of(*job.alone), 3) + " times"
                                 : "?"});
    }
    text += "\n" + table.format(terminal);
  }
  Table links({"busiest links", "bandwidth", "used", "full"});
  for (const predict::LinkStanding& standing : busiest_links(input, kLinksShown)) {
    const Link& link = question.fabric.links()[standing.link];
    links.add({question.fabric.name(link.from) + " -> " + question.fabric.name(link.to), link.bandwidth.to_string(),
               format_percent(standing.load), format_percent(standing.full)});
  }
  text += "\n" + links.format(terminal);
  if (!answer.what_if.empty()) {
    Table table({"if doubled", "time", "gain"});
    for (const predict::WhatIf& row : answer.what_if) {
      table.add({row.resource, format_seconds(seconds_of(row.time)), format_decimals(100 * row.gain, 1) + " %"});
    }
    text += "\n" + table.format(terminal);
  }
  return text;
}

Json answer_json(const JobQuestion& question, const JobAnswer& answer) {
  const Prediction& prediction = answer.simulation.prediction;
  const predict::ReportInput input{.prediction = prediction, .fabric = question.fabric, .points = {}, .what_if = answer.what_if};
  const predict::TimeShares shares = time_shares(prediction);
  Json jobs = Json::array();
  for (const predict::PredictedJob& job : prediction.jobs) {
    Json row = {
        {"name", job.name}, {"tenant", job.tenant}, {"begin_ps", job.begin.count()}, {"end_ps", job.end.count()}};
    if (job.failed_at) row["failed_at_ps"] = job.failed_at->count();
    if (job.alone) {
      row["alone_ps"] = job.alone->count();
      row["slow_down"] = seconds_of(job.end - job.begin) / seconds_of(*job.alone);
    }
    jobs.push_back(row);
  }
  Json links = Json::array();
  for (const predict::LinkStanding& standing : busiest_links(input, SIZE_MAX)) {
    const Link& link = question.fabric.links()[standing.link];
    links.push_back({{"from", question.fabric.name(link.from)},
                     {"to", question.fabric.name(link.to)},
                     {"bytes", prediction.links[standing.link].bytes},
                     {"utilisation", standing.load},
                     {"full", standing.full}});
  }
  Json what_if = Json::array();
  for (const predict::WhatIf& row : answer.what_if) {
    what_if.push_back({{"resource", row.resource}, {"time_ps", row.time.count()}, {"gain", row.gain}});
  }
  Json json = {{"title", prediction.title},
               {"time_ps", prediction.time.count()},
               {"complete", prediction.complete},
               {"in_words", in_words(input)},
               {"shares",
                {{"compute", shares.compute},
                 {"exposed", shares.exposed},
                 {"waiting", shares.waiting},
                 {"bubble", shares.bubble}}},
               {"ranks", prediction.ranks.size()},
               {"rank_kinds", answer.simulation.rank_kinds},
               {"nodes", answer.simulation.nodes},
               {"nodes_simulated", answer.simulation.nodes_simulated},
               {"window_error", prediction.window.of_all},
               {"jobs", jobs},
               {"links", links},
               {"what_if", what_if}};
  if (answer.simulation.collective_messages > 0) json["collective_messages"] = answer.simulation.collective_messages;
  return json;
}

}  // namespace banyan::app
