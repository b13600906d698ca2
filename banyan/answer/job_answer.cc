#include "banyan/answer/job_answer.h"

#include <algorithm>
#include <map>
#include <memory>

#include "banyan/answer/planned_collectives.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/predict/collective/costed_plans.h"

namespace banyan::answer {
namespace {

predict::PlansFor plans_of(const CommunicationModel& communication) {
  return [communication](const Fabric& fabric, double latency) {
    predict::LinkEfficiency links = communication.links;
    std::vector<predict::CollectiveCost> measured = communication.measured;
    const auto scale = [&](Picoseconds& time) {
      time = Picoseconds(static_cast<int64_t>(static_cast<double>(time.count()) * latency));
    };
    scale(links.latency);
    for (predict::CollectiveCost& cost : measured) {
      for (predict::CollectiveCostPiece& piece : cost.pieces) scale(piece.alpha);
    }
    return make_costed_plans(fabric, make_plans_by(communication.algorithm, fabric), links, std::move(measured));
  };
}

predict::JobSimulationOptions simulation_options(const JobQuestion& question, const JobOptions& asked) {
  const CommunicationModel& communication = question.communication;
  predict::JobSimulationOptions options = asked.simulation;
  options.message_latency = communication.links.latency;
  options.link_efficiency = link_efficiencies(question.fabric, communication.links, !communication.measured.empty());
  options.fold = !asked.unfolded;
  for (const std::string& text : asked.events) {
    const auto events = parse_option("--event", [&] { return predict::parse_link_events(question.fabric, text); });
    options.events.insert(options.events.end(), events.begin(), events.end());
  }
  return options;
}

bool has_failed(const predict::PredictedJob& job) { return job.failed_at.has_value(); }

}  // namespace

std::vector<predict::CollectiveCost> load_costs(const JobOptions& options) {
  if (options.costs.empty()) return {};
  return parse_option("--costs", [&] { return predict::read_collective_costs(options.costs); });
}

std::vector<NodeId> take_places(predict::Placement& free, uint32_t ranks, const JobPlace& place,
                                const JobOptions& options) {
  if (place.ranks.empty())
    return free.take(ranks, place.placement.value_or(options.placement), place.seed.value_or(options.seed));
  std::vector<NodeId> nodes;
  for (const std::string& name : place.ranks) nodes.push_back(free.fabric().at(name));
  if (nodes.size() != ranks)
    throw invalid("\"ranks\" has " + plural(nodes.size(), "name") + " for a job of " + plural(ranks, "rank"));
  free.take(nodes);
  return nodes;
}

predict::PlacedJob place_job(const Job& job, const Fabric& fabric, const JobPlace& place, const JobOptions& options) {
  predict::Placement free(fabric);
  return {.job = &job, .nodes = take_places(free, job.rank_count(), place, options), .name = job.name()};
}

JobAnswer simulate_question(const JobQuestion& question, const JobOptions& asked, JobObserver& observer) {
  observer.begins("simulating");
  const predict::PlansFor plans_for = plans_of(question.communication);
  const auto plans = plans_for(question.fabric, 1);
  predict::JobSimulationOptions options = simulation_options(question, asked);
  options.plans = plans.get();
  options.plans_for = [&](const Fabric& left) { return plans_for(left, 1); };
  options.observer = &observer;
  JobAnswer answer{.simulation = simulate_jobs(question.fabric, question.jobs, options)};
  Prediction& prediction = answer.simulation.prediction;
  prediction.title = question.title;
  answer.is_interrupted = !prediction.complete;
  if (answer.is_interrupted) return answer;
  if (question.jobs.size() > 1 || !options.events.empty()) {
    observer.begins("simulating each job alone");
    predict::JobSimulationOptions alone = options;
    alone.most_spans = 0;
    alone.events.clear();
    for (size_t j = 0; j < question.jobs.size() && !answer.is_interrupted; ++j) {
      const Prediction own = simulate_jobs(question.fabric, {question.jobs[j]}, alone).prediction;
      answer.is_interrupted = !own.complete;
      if (own.complete && !has_failed(own.jobs.front()) && !has_failed(prediction.jobs[j]))
        prediction.jobs[j].alone = own.jobs.front().end - own.jobs.front().begin;
    }
  }
  if (asked.what_if && std::none_of(prediction.jobs.begin(), prediction.jobs.end(), has_failed)) {
    observer.begins("asking what would help");
    answer.what_if = what_if(question.fabric, question.jobs, options, plans_for, prediction.time);
    answer.is_interrupted = answer.is_interrupted || observer.stop();
  }
  return answer;
}

std::function<CollectiveLine(std::span<const predict::CollectiveCall>)> collectives_alone(
    const Fabric& fabric, const CommunicationModel& communication) {
  // Shared by copies of what is returned, which a std::function wants to make.
  const std::shared_ptr<predict::CollectivePlans> plans = plans_of(communication)(fabric, 1);
  const std::vector<double> efficiency =
      link_efficiencies(fabric, communication.links, !communication.measured.empty());
  const fabric::Boxes boxes = find_boxes(fabric);
  return [&fabric, plans, efficiency, boxes](std::span<const predict::CollectiveCall> calls) {
    CollectiveLine line;
    std::map<uint32_t, double> seconds;  // by link
    double busiest = 0;
    for (const predict::CollectiveCall& call : calls) {
      const predict::Footprint footprint = plans->footprint(call);
      line.fixed = std::max(line.fixed, std::chrono::duration<double>(footprint.latency).count());
      for (const predict::FluidHop& hop : footprint.hops) {
        const Link& link = fabric.links()[hop.link];
        const double rate = static_cast<double>(link.bandwidth.bytes_per_second()) *
                            (efficiency.empty() ? 1 : efficiency[hop.link]) * footprint.efficiency;
        if ((seconds[hop.link] += hop.coefficient / rate) <= busiest) continue;
        busiest = seconds[hop.link];
        const uint32_t box = boxes.box_of[index(link.from)];
        line.is_in_box = box != fabric::Boxes::kNone && box == boxes.box_of[index(link.to)];
      }
    }
    line.per_byte = busiest / static_cast<double>(calls.front().bytes);
    return line;
  };
}

predict::ReportInput report_of(const JobQuestion& question, const JobAnswer& answer) {
  const predict::JobSimulation& simulation = answer.simulation;
  return {.prediction = simulation.prediction,
          .fabric = question.fabric,
          .points = {},
          .what_if = answer.what_if,
          .notes = question.notes,
          .simulated = predict::SimulatedCounts{.nodes = simulation.nodes,
                                                .nodes_simulated = simulation.nodes_simulated,
                                                .rank_kinds = simulation.rank_kinds,
                                                .messages = simulation.collective_messages},
          .training = question.training,
          .facts = question.facts};
}

}  // namespace banyan::answer
