#include "banyan/predict/collective/schedule_simulation.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/collective/transfer_engine.h"
#include "banyan/predict/cost/operators.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kMessagesBetweenLooks = 4096;

// One TransferGraph with a network to itself.
class Run : private TransferEngine::Carrier {
 public:
  Run(const TransferGraph& graph, const ScheduleSimulationOptions& options)
      : graph_(graph),
        observer_(options.observer),
        network_(std::vector<double>(graph.capacities().begin(), graph.capacities().end()), {.window = options.window}),
        engine_(*this) {
    for (const FoldedTransfer& transfer : graph.transfers()) {
      if (transfer.stands_for > 0) messages_ += transfer.slices;
    }
  }

  // Returns whether it came to its end.
  bool carry_out() {
    const uint32_t run = engine_.add(graph_);
    engine_.begin(run);
    while (engine_.messages_done() < messages_) {
      const Picoseconds time = std::min(network_.next(), engine_.next());
      if (time >= FluidNetwork::kNever) throw endless();
      sent_.clear();
      for (const FluidEnd& end : network_.advance(time)) sent_.push_back(static_cast<uint32_t>(end.tag));
      for (const uint32_t transfer : sent_) engine_.sent({run, transfer}, time);
      engine_.advance(time);
      if (observer_ != nullptr && engine_.messages_done() > next_look_ && !look()) return false;
    }
    return true;
  }

  FluidNetwork& network() { return network_; }
  uint64_t messages_done() const { return engine_.messages_done(); }

 private:
  // Times end after 53 days. Messages one after the other, each over its slowest link alone, last longer than any
  // schedule: where they would not last that long, it is a bug that some never arrive.
  Error endless() const {
    double seconds = 0;
    for (uint32_t i = 0; i < graph_.transfers().size(); ++i) {
      const FoldedTransfer& transfer = graph_.transfers()[i];
      double slowest = std::chrono::duration<double>(transfer.alpha).count();
      for (const FluidHop& hop : graph_.hops(i)) {
        slowest += transfer.bytes * hop.coefficient / graph_.capacities()[hop.link];
      }
      seconds += slowest * static_cast<double>(transfer.slices);
    }
    CHECK(2 * seconds > std::chrono::duration<double>(FluidNetwork::kNever).count())
        << messages_ - engine_.messages_done() << " slices never arrive; at " << network_.now().count() << " ps";
    return longer_than_time();
  }

  void carry(TransferEngine::Message message) override {
    const FoldedTransfer& transfer = graph_.transfers()[message.transfer];
    network_.start({.hops = graph_.hops(message.transfer),
                    .bytes = transfer.bytes,
                    .latency = transfer.alpha,
                    .tag = message.transfer});
  }

  bool look() {
    next_look_ = engine_.messages_done() + kMessagesBetweenLooks;
    observer_->progress(static_cast<double>(engine_.messages_done()) / static_cast<double>(messages_), network_.now());
    return !observer_->stop();
  }

  const TransferGraph& graph_;
  SimulationObserver* observer_;
  FluidNetwork network_;
  TransferEngine engine_;
  std::vector<uint32_t> sent_;
  uint64_t messages_ = 0, next_look_ = 0;
};

// By node; of those that take part.
std::vector<size_t> participant_numbers(const Schedule& schedule) {
  std::vector<size_t> numbers(schedule.fabric().nodes().size(), 0);
  const auto participants = schedule.collective().participants();
  for (size_t i = 0; i < participants.size(); ++i) numbers[index(participants[i])] = i;
  return numbers;
}

std::pair<uint64_t, uint64_t> elements_of(const Schedule& schedule, std::span<const size_t> participants, size_t chunk,
                                          uint64_t elements) {
  const Collective& collective = schedule.collective();
  if (!collective.is_personal()) return schedule.element_range(chunk, elements);
  const size_t from = participants[index(schedule.chunk(chunk).root)], to = participants[index(schedule.target(chunk))];
  return schedule.block_range(chunk, collective.block_elements(from, to, elements));
}

SliceWork work_of(const CodecCost& codec) {
  const double nanoseconds = 1e9 / codec.share();  // for a second a byte of float32
  return {.encode = codec.speed.encode * nanoseconds,
          .decode = codec.speed.decode * nanoseconds,
          .decode_add = codec.speed.decode_add * nanoseconds};
}

}  // namespace

Error longer_than_time() {
  return Error(ErrorCode::unsupported,
               "takes longer than the 53 days of virtual time that are simulated; check the units of sizes and "
               "bandwidths");
}

std::vector<uint64_t> exact_link_bytes(const Schedule& schedule, uint64_t elements, uint64_t element_bytes) {
  std::vector<uint64_t> bytes(schedule.fabric().links().size());
  const std::vector<size_t> participants = participant_numbers(schedule);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    const auto [begin, end] = elements_of(schedule, participants, i, elements);
    for (const std::span<const RouteId> tree : {chunk.in_tree, chunk.out_tree}) {
      for (const RouteId edge : tree) {
        for (const LinkId link : schedule.route(edge).links) bytes[index(link)] += (end - begin) * element_bytes;
      }
    }
  }
  return bytes;
}

ScheduleSimulation simulate_schedule(const Schedule& schedule, const ScheduleSimulationOptions& options) {
  TransferGraph::Options of_graph{
      .total = options.total, .slice = options.slice, .alpha = options.alpha, .fold = options.fold};
  if (options.codec) {
    of_graph.total = options.codec->coded(options.total);
    of_graph.work = work_of(*options.codec);
  }
  const TransferGraph graph = TransferGraph::of(schedule, of_graph);
  Run run(graph, options);
  ScheduleSimulation result;
  result.complete = run.carry_out();
  FluidNetwork& network = run.network();
  result.time = network.now();
  if (result.time > Picoseconds(0)) {
    result.algbw = static_cast<double>(options.total.count()) / (static_cast<double>(result.time.count()) * 1e-12);
    result.busbw =
        result.algbw * busbw_factor(schedule.collective().kind(), schedule.collective().participants().size());
  }
  for (const uint32_t kind : graph.kind_of_link()) {
    result.link_bytes.push_back(kind == TransferGraph::kUnused ? 0 : network.bytes_carried(kind));
    result.link_full.push_back(kind == TransferGraph::kUnused ? Picoseconds(0) : network.time_full(kind));
  }
  for (const FoldedTransfer& transfer : graph.transfers()) {
    if (!transfer.is_work) result.messages += transfer.stands_for * transfer.slices;
  }
  for (size_t core = graph.first_core(); core < graph.capacities().size(); ++core) {
    const double seconds = network.bytes_carried(static_cast<uint32_t>(core)) / kCoreRate;
    result.core_busy = std::max(result.core_busy, to_picoseconds(seconds));
  }
  result.messages_simulated = run.messages_done();
  result.window = network.window_error();
  return result;
}

}  // namespace banyan::predict
