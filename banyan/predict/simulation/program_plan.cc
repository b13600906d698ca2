#include "banyan/predict/simulation/program_plan.h"

#include <utility>

namespace banyan::predict {

ProgramPlan::ProgramPlan(const job::Program& program)
    : waits_for(program.nodes.size()), of_stream(program.streams.size()) {
  const auto turn_round = [&](Lists& lists, auto list_of) {
    // Counted first, then filled in: the lists of all nodes stand in one array.
    std::vector<uint64_t> start(program.nodes.size() + 1, 0);
    for (uint32_t node = 0; node < program.nodes.size(); ++node) {
      for (const uint32_t other : list_of(node)) ++start[other + 1];
      waits_for[node] += static_cast<uint32_t>(list_of(node).size());
    }
    for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
    if (start.back() == 0) return;
    lists.all.resize(start.back());
    std::vector<uint64_t> at(start.begin(), start.end() - 1);
    for (uint32_t node = 0; node < program.nodes.size(); ++node) {
      for (const uint32_t other : list_of(node)) lists.all[at[other]++] = node;
    }
    lists.start = std::move(start);
  };
  turn_round(ended, [&](uint32_t node) { return program.needs(node); });
  turn_round(started, [&](uint32_t node) { return program.follows(node); });
  for (uint32_t node = 0; node < program.nodes.size(); ++node) {
    const uint16_t stream = program.nodes[node].stream;
    if (program.streams[stream].order == job::Stream::Order::program) of_stream[stream].push_back(node);
  }
}

}  // namespace banyan::predict
