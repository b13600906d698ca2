#include "banyan/answer/step_answer.h"

#include "banyan/predict/train/generate.h"

namespace banyan::answer {
namespace {

// The codes that were asked for, or nothing when the observer has ended a simulation.
std::optional<ChosenCompression> compress(const StepQuestion& question, const StepAnswer& step, JobObserver& observer) {
  const predict::TrainingStep dense = generate_compressed_step(step.setup.config, step.setup.device, {});
  const predict::PlacedJob placed = place_job(dense.job, question.fabric, question.place, question.words);
  JobWords words = question.words;
  words.what_if = false;
  const auto alone = collectives_alone(question.fabric, step.question.communication);
  const CompressionModel model{
      .line =
          [&](const predict::ReducedGradients& gradients) {
            std::vector<NodeId> members;
            for (const uint32_t rank : dense.job.groups()[gradients.group].ranks) members.push_back(placed.nodes[rank]);
            return alone({.kind = gradients.is_scattered ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                          .members = members,
                          .bytes = gradients.bytes});
          },
      .simulate = [&](const predict::GradientPlan& plan) -> std::optional<Picoseconds> {
        const predict::TrainingStep coded = generate_compressed_step(step.setup.config, step.setup.device, plan);
        JobQuestion of_job = step.question;
        of_job.jobs = {placed};
        of_job.jobs.front().job = &coded.job;
        const JobAnswer answer = simulate_question(of_job, words, observer);
        if (answer.is_interrupted) return std::nullopt;
        return answer.simulation.prediction.time;
      }};
  return choose_compression(step.setup, dense, model);
}

}  // namespace

StepAnswer predict_step(StepQuestion question, JobObserver& observer) {
  TrainSetup& setup = question.setup;
  const predict::MemoryReport memory = memory_report(setup.config, setup.device);
  JobQuestion of_job{.title = describe(setup.config) + " on " + question.fabric_name,
                     .fabric = question.fabric,
                     .jobs = {},
                     .communication = {.links = setup.device.links,
                                       .measured = load_costs(question.words),
                                       .algorithm = question.words.algorithm},
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
  step.question.jobs = {place_job(*step.job, question.fabric, question.place, question.words)};
  step.answer = simulate_question(step.question, question.words, observer);
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
