#include "banyan/predict/simulation/transfers.h"

#include <utility>

namespace banyan::predict {

void JobTransfers::start(uint32_t call, uint32_t job, TransferGraph graph) {
  auto owned = std::make_unique<const TransferGraph>(std::move(graph));
  const uint32_t run = engine_.add(*owned);
  if (run == running_.size()) running_.emplace_back();
  running_[run] = {.graph = std::move(owned), .call = call, .job = job, .begin = flows_.now()};
  engine_.begin(run);
}

void JobTransfers::carry(TransferEngine::Message message) {
  const JobFlows::Owner owner{JobFlows::Owner::Kind::transfer, message.run, message.transfer};
  flows_.start(owner, running_[message.run].job, 1, load_of(owner));
}

JobLoad JobTransfers::load_of(JobFlows::Owner message) {
  const TransferGraph& graph = *running_[message.number].graph;
  const FoldedTransfer& transfer = graph.transfers()[message.part];
  hops_.clear();
  if (transfer.bytes > 0) {
    for (const FluidHop& hop : graph.hops(message.part)) {
      hops_.push_back({graph.first_links()[hop.link], hop.coefficient});
    }
  }
  // The plan stays what it is. Only this message goes round the failed link, if there is a way.
  if (links_.rerouting() != nullptr && links_.is_blocked(hops_)) {
    std::vector<FluidHop> round;
    for (const LinkId link : links_.way(NodeId{transfer.from}, NodeId{transfer.to})) round.push_back({index(link), 1});
    if (!links_.is_blocked(round)) hops_ = std::move(round);
  }
  return {.hops = hops_, .bytes = transfer.bytes, .efficiency = efficiency_, .latency = transfer.alpha};
}

std::vector<JobTransfers::Ended> JobTransfers::take_ended() {
  std::vector<Ended> ended;
  for (const uint32_t run : engine_.take_ended()) {
    ended.push_back({running_[run].call, running_[run].begin});
    running_[run] = {};
  }
  return ended;
}

void JobTransfers::stop(uint32_t job) {
  for (uint32_t run = 0; run < running_.size(); ++run) {
    if (running_[run].graph == nullptr || running_[run].job != job) continue;
    engine_.stop(run);
    running_[run] = {};
  }
}

}  // namespace banyan::predict
