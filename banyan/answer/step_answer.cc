#include "banyan/answer/step_answer.h"

#include "banyan/predict/train/generate.h"

namespace banyan::answer {

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
  step.job = std::make_shared<const Job>(generate_training_step(step.setup.config, step.setup.device));
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
