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

predict::JobSimulationOptions options_of(const JobQuestion& question, const JobWords& words) {
  predict::JobSimulationOptions options;
  options.message_latency = question.communication.links.latency;
  options.link_efficiency =
      link_efficiencies(question.fabric, question.communication.links, !question.communication.measured.empty());
  options.fold = !words.unfolded;
  options.eager = eager_of(words);
  options.collectives = parse_option("--collectives", [&] { return predict::parse_collectives_as(words.collectives); });
  if (!words.window.empty()) options.window = parse_option("--window", [&] { return parse_duration(words.window); });
  for (const std::string& text : words.events) {
    const auto events = parse_option("--event", [&] { return predict::parse_link_events(question.fabric, text); });
    options.events.insert(options.events.end(), events.begin(), events.end());
  }
  options.on_failure = parse_option("--on-failure", [&] { return predict::parse_on_failure(words.on_failure); });
  return options;
}

bool has_failed(const predict::PredictedJob& job) { return job.failed_at.has_value(); }

}  // namespace

Bytes eager_of(const JobWords& words) {
  return words.eager.empty() ? job::kEager : parse_option("--eager", [&] { return Bytes::parse(words.eager); });
}

std::vector<predict::CollectiveCost> load_costs(const JobWords& words) {
  if (words.costs.empty()) return {};
  return parse_option("--costs", [&] { return predict::read_collective_costs(words.costs); });
}

std::vector<NodeId> take_places(predict::Placement& free, const Fabric& fabric, uint32_t ranks, const JobPlace& place,
                                const JobWords& words) {
  if (place.ranks.empty()) {
    const auto rule = [&] {
      return parse_option("--placement", [&] { return predict::parse_placement_rule(words.placement); });
    };
    const auto seed = [&] { return words.seed.empty() ? 1 : parse_count(words.seed, "--seed", {0, UINT64_MAX}); };
    return free.take(ranks, place.placement ? *place.placement : rule(), place.seed ? *place.seed : seed());
  }
  std::vector<NodeId> nodes;
  for (const std::string& name : place.ranks) nodes.push_back(fabric.at(name));
  if (nodes.size() != ranks)
    throw invalid("\"ranks\" has " + plural(nodes.size(), "name") + " for a job of " + plural(ranks, "rank"));
  free.take(nodes);
  return nodes;
}

predict::PlacedJob place_job(const Job& job, const Fabric& fabric, const JobPlace& place, const JobWords& words) {
  predict::Placement free(fabric);
  predict::PlacedJob placed{.job = &job, .nodes = take_places(free, fabric, job.rank_count(), place, words)};
  placed.name = job.name();
  return placed;
}

JobAnswer simulate_question(const JobQuestion& question, const JobWords& words, JobObserver& observer) {
  observer.begins("simulating");
  const predict::PlansFor plans_for = plans_of(question.communication);
  const auto plans = plans_for(question.fabric, 1);
  predict::JobSimulationOptions options = options_of(question, words);
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
  if (words.what_if && std::none_of(prediction.jobs.begin(), prediction.jobs.end(), has_failed)) {
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
