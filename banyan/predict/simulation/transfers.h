// JobTransfers: collectives of jobs that are carried out message by message.
//
// Each is a run of the TransferEngine, whose messages are flows among all others: at the weight of their job, stopped
// and moved as links change (flows.h). A message that its plan sends over a link that is down goes round it, from rank
// to rank, where flows move and there is a way; the plan stays what it is. Graphs are kept while they are under way.
// Private to job_simulation.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/predict/collective/transfer_engine.h"
#include "banyan/predict/simulation/flows.h"
#include "banyan/predict/simulation/links.h"

namespace banyan::predict {

class JobTransfers : private TransferEngine::Carrier {
 public:
  // A collective whose last message has arrived.
  struct Ended {
    uint32_t call = 0;
    Picoseconds begin{0};
  };

  // Both outlive it. `efficiency`: of what its links would allow a message.
  JobTransfers(JobFlows& flows, JobLinks& links, double efficiency)
      : flows_(flows), links_(links), efficiency_(efficiency), engine_(*this) {}

  void start(uint32_t call, uint32_t job, TransferGraph graph);
  // The flow of a message has ended.
  void sent(JobFlows::Owner message) { engine_.sent({message.number, message.part}, flows_.now()); }
  // The arrival time of the next message that only the latency of links still delays.
  Picoseconds next() const { return engine_.next(); }
  void advance() { engine_.advance(flows_.now()); }
  std::vector<Ended> take_ended();
  // Forgets what is under way of a job, whose flows have been taken away.
  void stop(uint32_t job);

  // The load of a message that begins now, or goes on. Good until the next call.
  JobLoad load_of(JobFlows::Owner message);

  uint64_t messages_done() const { return engine_.messages_done(); }

 private:
  struct Running {
    std::unique_ptr<const TransferGraph> graph;  // nullptr: the number is free
    uint32_t call = 0, job = 0;
    Picoseconds begin{0};
  };

  void carry(TransferEngine::Message message) override;

  JobFlows& flows_;
  JobLinks& links_;
  const double efficiency_;
  TransferEngine engine_;
  std::vector<Running> running_;  // by run
  std::vector<FluidHop> hops_;
};

}  // namespace banyan::predict
