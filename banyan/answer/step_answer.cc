#include "banyan/answer/step_answer.h"

#include <algorithm>
#include <set>

#include "banyan/fabric/boxes.h"
#include "banyan/predict/train/generate.h"

namespace banyan::answer {
namespace {

// How many consecutive ranks of a job, which stand on these nodes, are in one box, where all boxes that it is in have
// as many; 0 where they have not, or each rank has a box of its own, or all are in one.
uint32_t ranks_in_box(const Fabric& fabric, const std::vector<NodeId>& nodes) {
  const fabric::Boxes boxes = find_boxes(fabric);
  std::vector<uint32_t> counts;
  std::set<uint32_t> seen;
  uint32_t last = fabric::Boxes::kNone;
  for (const NodeId node : nodes) {
    const uint32_t box = boxes.box_of[index(node)];
    if (box != last) {
      if (!seen.insert(box).second) return 0;
      counts.push_back(0);
      last = box;
    }
    ++counts.back();
  }
  const bool are_alike = std::all_of(counts.begin(), counts.end(), [&](uint32_t n) { return n == counts.front(); });
  return are_alike && counts.size() > 1 && counts.front() > 1 ? counts.front() : 0;
}

// The codes that were asked for, or nothing when the observer has ended a simulation.
std::optional<ChosenCompression> compress(const StepQuestion& question, const StepAnswer& step, JobObserver& observer) {
  predict::TrainingStep dense = generate_compressed_step(step.setup.config, step.setup.device, {});
  const predict::PlacedJob placed = place_job(dense.job, question.fabric, question.place, question.options);
  const uint32_t box_ranks = ranks_in_box(question.fabric, placed.nodes);
  dense = generate_compressed_step(step.setup.config, step.setup.device, {.box_ranks = box_ranks});
  JobOptions options = question.options;
  options.what_if = false;
  const auto alone = collectives_alone(question.fabric, step.question.communication);
  const CompressionModel model{.line =
                                   [&](CollectiveKind kind, const RankGroups& groups, uint64_t bytes) {
                                     std::vector<std::vector<NodeId>> members;
                                     for (const std::vector<uint32_t>& group : groups) {
                                       members.emplace_back();
                                       for (const uint32_t rank : group) members.back().push_back(placed.nodes[rank]);
                                     }
                                     std::vector<predict::CollectiveCall> calls;
                                     for (const std::vector<NodeId>& each : members)
                                       calls.push_back({.kind = kind, .members = each, .bytes = bytes});
                                     return alone(calls);
                                   },
                               .simulate = [&](const predict::GradientPlan& plan) -> std::optional<Picoseconds> {
                                 const predict::TrainingStep coded =
                                     generate_compressed_step(step.setup.config, step.setup.device, plan);
                                 JobQuestion of_job = step.question;
                                 of_job.jobs = {placed};
                                 of_job.jobs.front().job = &coded.job;
                                 const JobAnswer answer = simulate_question(of_job, options, observer);
                                 if (answer.is_interrupted) return std::nullopt;
                                 return answer.simulation.prediction.time;
                               },
                               .box_ranks = box_ranks};
  return choose_compression(step.setup, dense, model);
}

}  // namespace

StepAnswer predict_step(StepQuestion question, JobObserver& observer) {
  TrainSetup& setup = question.setup;
  {  // a fabric that is too small is said first: what is wrong with it matters more than memory
    predict::Placement free(question.fabric);
    take_places(free, static_cast<uint32_t>(setup.config.ranks()), question.place, question.options);
  }
  const predict::MemoryReport memory = memory_report(setup.config, setup.device);
  JobQuestion of_job{.title = describe(setup.config) + " on " + question.fabric_name,
                     .fabric = question.fabric,
                     .jobs = {},
                     .communication = {.links = setup.device.links,
                                       .measured = load_costs(question.options),
                                       .algorithm = question.options.algorithm},
                     .notes = setup.notes,
                     .training = training_json(setup, memory)};
  if (!memory.fits) of_job.notes.insert(of_job.notes.begin(), misfit(setup, memory));
  StepAnswer step{.setup = std::move(setup), .memory = memory, .question = std::move(of_job)};
  if (!memory.fits && !question.ignore_memory) return step;
  predict::GradientPlan plan;
  if (step.setup.compress) {
    std::optional<ChosenCompression> chosen = compress(question, step, observer);
    if (chosen) {
      plan = std::move(chosen->plan);
      step.question.training = training_json(step.setup, memory, &chosen->table);
      step.compression = std::move(chosen->table);
    }
  }
  step.job = std::make_shared<const Job>(generate_compressed_step(step.setup.config, step.setup.device, plan).job);
  step.question.jobs = {place_job(*step.job, question.fabric, question.place, question.options)};
  step.answer = simulate_question(step.question, question.options, observer);
  const Prediction& prediction = step.answer.simulation.prediction;
  if (prediction.complete) {
    step.question.facts =
        train_facts(step.setup, *step.job, memory, std::chrono::duration<double>(prediction.time).count());
  }
  return step;
}

predict::ReportInput report_of(const StepAnswer& step) {
  if (!step.is_refused()) return report_of(step.question, step.answer);
  predict::ReportInput report{.prediction = {}, .fabric = step.question.fabric, .notes = step.question.notes};
  report.prediction.title = step.question.title;
  report.prediction.complete = false;
  report.training = step.question.training;
  return report;
}

}  // namespace banyan::answer
