#include "banyan/testing/mscclpp_interpreter.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::testing {
namespace {

using Values = DeviceMemory::Values;

class Machine {
 public:
  Machine(const MscclppPlan& plan, const RankArrays& inputs, const MscclppRunOptions& options)
      : plan_(plan),
        shape_(shape_of(plan, options)),
        memory_(
            shape_, inputs, [this](uint32_t step) { return step_names_[step]; },
            "the threads of a block meet at nop and barrier only; GPUs by signal and wait") {
    const auto ranks = static_cast<uint32_t>(plan.gpus.size());
    size_t actors = ranks + plan.channels.size();
    for (const MscclppGpu& gpu : plan.gpus) actors += gpu.blocks.size();
    const VectorClock nothing(actors);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      step_names_.push_back("the caller on gpu " + std::to_string(rank) + " before or after the kernel");
    }
    for (const MscclppChannel& channel : plan.channels) {
      const bool known = channel.partner != MscclppChannel::kNone;
      CHECK(!known || plan.channels[channel.partner].partner != MscclppChannel::kNone);
      wires_.push_back({.put_clock = nothing, .puts = 0, .inbox = {}});
    }
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      VectorClock start = nothing;
      start.advance(rank, 1);
      memory_.caller_takes(rank, {rank, 1, rank}, start);
      gpus_.push_back({.barriers = {}, .semaphores = {}});
      for (const uint32_t value : plan.gpus[rank].semaphores) gpus_.back().semaphores.emplace_back(value, nothing);
      for (uint32_t b = 0; b < plan.gpus[rank].blocks.size(); ++b) add_block(rank, b, start);
    }
    for (uint32_t i = 0; i < blocks_.size(); ++i) {
      blocks_[i].actor = static_cast<uint32_t>(ranks + plan.channels.size()) + i;
    }
    interleaver_ = Interleaver(static_cast<uint32_t>(blocks_.size()), options.seed);
  }

  MscclppRun run() {
    const auto stuck = interleaver_.run([this](uint32_t block) { return attempt(blocks_[block]); });
    if (!stuck.empty()) {
      throw Error(ErrorCode::invalid_input,
                  describe_deadlock(stuck, [this](uint32_t b) { return wait_of(blocks_[b]); }));
    }
    expect_nothing_left();
    for (uint32_t rank = 0; rank < gpus_.size(); ++rank) end_kernel(rank);
    run_.outputs = memory_.outputs();
    return std::move(run_);
  }

 private:
  struct Wire {             // what belongs to one end of a connection
    VectorClock put_clock;  // port: what its puts so far have seen and done
    uint32_t puts = 0;
    std::deque<VectorClock> inbox;  // signals of the other end that nobody has waited for yet
  };
  struct Barrier {
    uint32_t arrived = 0;
    std::optional<VectorClock> gathering;
    std::vector<VectorClock> released;  // by round
  };
  struct Gpu {
    std::map<uint32_t, Barrier> barriers;
    std::vector<std::deque<VectorClock>> semaphores;  // one entry for each unit of its value
  };
  struct Block {
    const std::vector<MscclppOp>* ops = nullptr;
    uint32_t rank = 0, first_step = 0, actor = 0;
    uint32_t at = 0;
    VectorClock met;                      // what all threads know, since they met last
    std::vector<VectorClock> threads;     // what the first threads know; those that are not listed know `met`
    uint32_t time = 0;                    // of data operations, counted in meetings
    bool has_worked = false;              // since the threads met last
    std::optional<size_t> barrier_round;  // while it stands at one
  };

  void add_block(uint32_t rank, uint32_t number, const VectorClock& start) {
    const auto& ops = plan_.gpus[rank].blocks[number];
    blocks_.push_back({.ops = &ops,
                       .rank = rank,
                       .first_step = static_cast<uint32_t>(step_names_.size()),
                       .actor = 0,
                       .at = 0,
                       .met = start,
                       .threads = {},
                       .time = 0,
                       .has_worked = false,
                       .barrier_round = {}});
    for (size_t i = 0; i < ops.size(); ++i) {
      step_names_.push_back("gpu " + std::to_string(rank) + " block " + std::to_string(number) + " op " +
                            std::to_string(i) + " (" + ops[i].name + ")");
    }
  }

  // The keys that blocks wait with.
  static uint64_t inbox_key(uint32_t channel) { return uint64_t{channel} << 2; }
  static uint64_t barrier_key(uint32_t rank, uint32_t barrier) { return (uint64_t{rank} << 20 | barrier) << 2 | 1; }
  static uint64_t semaphore_key(uint32_t rank, uint32_t semaphore) {
    return (uint64_t{rank} << 20 | semaphore) << 2 | 2;
  }

  struct Lack {
    uint64_t key = 0;
    std::string what;
  };
  std::optional<Lack> lack_of(const Block& block, const MscclppOp& op) const {
    if (op.kind == MscclppKind::wait || op.kind == MscclppKind::relaxed_wait) {
      for (const uint32_t id : op.channels) {
        if (!wires_[id].inbox.empty()) continue;
        return Lack{inbox_key(id), "a signal on " + name_of(plan_.channels[id])};
      }
    } else if (op.kind == MscclppKind::acquire) {
      for (const uint32_t id : op.semaphores) {
        if (!gpus_[block.rank].semaphores[id].empty()) continue;
        return Lack{semaphore_key(block.rank, id), "semaphore " + std::to_string(id)};
      }
    } else if (op.kind == MscclppKind::barrier && block.barrier_round) {
      const Barrier& barrier = gpus_[block.rank].barriers.at(op.barrier);
      if (barrier.released.size() <= *block.barrier_round) {
        return Lack{barrier_key(block.rank, op.barrier), "barrier " + std::to_string(op.barrier) + ", where " +
                                                             std::to_string(barrier.arrived) + " of " +
                                                             std::to_string(op.barrier_blocks) + " blocks are"};
      }
    }
    return std::nullopt;
  }

  static std::string name_of(const MscclppChannel& channel) {
    return std::string(channel.port ? "port" : "memory") + " channel " + std::to_string(channel.number) + " from gpu " +
           std::to_string(channel.peer);
  }

  std::string wait_of(const Block& block) const {
    const auto lack = lack_of(block, (*block.ops)[block.at]);
    CHECK(lack.has_value());
    return step_names_[block.first_step + block.at] + " waits for " + lack->what;
  }

  Interleaver::Attempt attempt(Block& block) {
    if (block.at == block.ops->size()) return Interleaver::finished();
    const MscclppOp& op = (*block.ops)[block.at];
    if (op.kind == MscclppKind::barrier && !block.barrier_round) arrive(block, op);
    if (const auto lack = lack_of(block, op)) return Interleaver::waits_for(lack->key);
    execute(block, op);
    ++block.at;
    ++run_.operations;
    return Interleaver::moved();
  }

  void meet(Block& block) {
    for (const VectorClock& thread : block.threads) block.met.join(thread);
    block.threads.clear();
    if (block.has_worked) block.met.advance(block.actor, ++block.time);
    block.has_worked = false;
  }

  static VectorClock& thread(Block& block, size_t number) {
    while (block.threads.size() <= number) block.threads.push_back(block.met);
    return block.threads[number];
  }

  void arrive(Block& block, const MscclppOp& op) {
    meet(block);
    Barrier& barrier = gpus_[block.rank].barriers[op.barrier];
    block.barrier_round = barrier.released.size();
    if (!barrier.gathering) barrier.gathering = block.met;
    barrier.gathering->join(block.met);
    if (++barrier.arrived < op.barrier_blocks) return;
    barrier.released.push_back(*std::exchange(barrier.gathering, std::nullopt));
    barrier.arrived = 0;
    interleaver_.wake(barrier_key(block.rank, op.barrier));
  }

  void execute(Block& block, const MscclppOp& op) {
    switch (op.kind) {
      case MscclppKind::nop:
        meet(block);
        break;
      case MscclppKind::barrier:
        block.met.join(gpus_[block.rank].barriers.at(op.barrier).released[*block.barrier_round]);
        block.barrier_round.reset();
        break;
      case MscclppKind::signal:
      case MscclppKind::relaxed_signal:
        for (size_t i = 0; i < op.channels.size(); ++i)
          signal(block, i, op.channels[i], op.kind == MscclppKind::relaxed_signal);
        break;
      case MscclppKind::wait:
      case MscclppKind::relaxed_wait:
        for (size_t i = 0; i < op.channels.size(); ++i)
          wait(block, i, op.channels[i], op.kind == MscclppKind::relaxed_wait);
        break;
      case MscclppKind::flush:
        for (size_t i = 0; i < op.channels.size(); ++i) thread(block, i).join(wires_[op.channels[i]].put_clock);
        break;
      case MscclppKind::port_put:
        put(block, op);
        break;
      case MscclppKind::copy:
      case MscclppKind::reduce:
        work(block, op);
        break;
      case MscclppKind::acquire:
        for (size_t i = 0; i < op.semaphores.size(); ++i) {
          auto& semaphore = gpus_[block.rank].semaphores[op.semaphores[i]];
          thread(block, i).join(semaphore.front());
          semaphore.pop_front();
        }
        break;
      case MscclppKind::release:
        for (size_t i = 0; i < op.semaphores.size(); ++i) {
          gpus_[block.rank].semaphores[op.semaphores[i]].push_back(thread(block, i));
          interleaver_.wake(semaphore_key(block.rank, op.semaphores[i]));
        }
        break;
    }
  }

  void signal(Block& block, size_t by, uint32_t channel, bool relaxed) {
    const VectorClock& known = thread(block, by);
    VectorClock message(known);
    if (relaxed)
      message = started_of(known);
    else if (plan_.channels[channel].port)
      message.join(wires_[channel].put_clock);
    const uint32_t other = plan_.channels[channel].partner;
    wires_[other].inbox.push_back(std::move(message));
    interleaver_.wake(inbox_key(other));
  }

  void wait(Block& block, size_t by, uint32_t channel, bool relaxed) {
    auto& inbox = wires_[channel].inbox;
    thread(block, by).join(relaxed ? started_of(inbox.front()) : inbox.front());
    inbox.pop_front();
  }

  // Of all that is known, only which kernels have started: the callers are the first actors.
  VectorClock started_of(const VectorClock& known) const {
    VectorClock started(plan_.gpus.size() + plan_.channels.size() + blocks_.size());
    started.join_first(known, plan_.gpus.size());
    return started;
  }

  void put(Block& block, const MscclppOp& op) {
    for (size_t i = 0; i < op.channels.size(); ++i) {
      const uint32_t channel = op.channels[i];
      Wire& wire = wires_[channel];
      wire.put_clock.join(thread(block, i));
      const Touch touch{static_cast<uint32_t>(plan_.gpus.size()) + channel, ++wire.puts, block.first_step + block.at};
      transfer({op.sources[i]}, {op.destinations[i]}, touch, wire.put_clock);
      wire.put_clock.advance(touch.actor, touch.time);
      if (op.signals) signal(block, i, channel, false);
      if (op.flushes) thread(block, i).join(wire.put_clock);
    }
  }

  void work(Block& block, const MscclppOp& op) {
    block.has_worked = true;
    const Touch touch{block.actor, block.time + 1, block.first_step + block.at};
    if (op.kind == MscclppKind::reduce) {
      transfer(op.sources, op.destinations, touch, block.met);
      return;
    }
    for (size_t i = 0; i < op.sources.size(); ++i) transfer({op.sources[i]}, {op.destinations[i]}, touch, block.met);
  }

  // The sum of all sources, chunk by chunk, into each destination.
  void transfer(const std::vector<MscclppRange>& sources, const std::vector<MscclppRange>& destinations,
                const Touch& touch, const VectorClock& clock) {
    for (uint32_t chunk = 0; chunk < sources[0].count; ++chunk) {
      const auto cell = [&](const MscclppRange& range) {
        return DeviceMemory::Cell{range.rank, range.buffer, range.first + chunk, 0};
      };
      Values sum = memory_.read(cell(sources[0]), touch, clock);
      for (size_t i = 1; i < sources.size(); ++i) {
        const Values term = memory_.read(cell(sources[i]), touch, clock);
        for (size_t e = 0; e < sum.size(); ++e) sum[e] += term[e];
      }
      for (const MscclppRange& range : destinations) memory_.write(cell(range), sum, touch, clock);
    }
  }

  void expect_nothing_left() const {
    for (uint32_t id = 0; id < wires_.size(); ++id) {
      if (wires_[id].inbox.empty()) continue;
      throw Error(ErrorCode::invalid_input,
                  "gpu " + std::to_string(plan_.channels[id].rank) + " does not wait for the last " +
                      std::to_string(wires_[id].inbox.size()) + " signals on " + name_of(plan_.channels[id]) +
                      "; the next launch would take them for its own");
    }
    for (uint32_t rank = 0; rank < gpus_.size(); ++rank) {
      for (size_t id = 0; id < gpus_[rank].semaphores.size(); ++id) {
        const size_t value = gpus_[rank].semaphores[id].size(), first = plan_.gpus[rank].semaphores[id];
        if (value == first) continue;
        throw Error(ErrorCode::invalid_input, "gpu " + std::to_string(rank) + " semaphore " + std::to_string(id) +
                                                  " ends at " + std::to_string(value) + ", but begins at " +
                                                  std::to_string(first));
      }
    }
  }

  // The caller may do what it likes with a rank's memory as soon as the rank's own blocks have ended.
  void end_kernel(uint32_t rank) {
    VectorClock end(plan_.gpus.size() + plan_.channels.size() + blocks_.size());
    end.advance(rank, 1);
    for (Block& block : blocks_) {
      if (block.rank != rank) continue;
      meet(block);
      end.join(block.met);
    }
    memory_.caller_takes(rank, {rank, 2, rank}, end);
  }

  const MscclppPlan& plan_;
  const MemoryShape shape_;
  Interleaver interleaver_{0, 0};
  DeviceMemory memory_;
  std::vector<Wire> wires_;  // by channel. Actors of the clocks are the callers, the channels' puts, then the blocks.
  std::vector<Gpu> gpus_;
  std::vector<Block> blocks_;
  std::vector<std::string> step_names_;
  MscclppRun run_;
};

}  // namespace

MemoryShape shape_of(const MscclppPlan& plan, const MscclppRunOptions& options) {
  MemoryShape shape{.kind = plan.kind,
                    .ranks = static_cast<uint32_t>(plan.gpus.size()),
                    .root = options.root,
                    .total_chunks = plan.total_chunks,
                    .chunk_elements = options.chunk_elements,
                    .in_place = plan.in_place};
  for (const MscclppGpu& gpu : plan.gpus) shape.scratch_chunks.push_back(gpu.scratch_chunks);
  return shape;
}

MscclppRun run_mscclpp(const MscclppPlan& plan, const RankArrays& inputs, const MscclppRunOptions& options) {
  CHECK(options.root < plan.gpus.size());
  return Machine(plan, inputs, options).run();
}

void check_mscclpp(std::string_view json, const MscclppCheckOptions& options) {
  const MscclppPlan plan = parse_mscclpp(json);
  for (uint32_t seed = 0; seed < options.seeds; ++seed) {
    const MscclppRunOptions run{.seed = seed, .root = options.root};
    try {
      const MemoryShape shape = shape_of(plan, run);
      const RankArrays inputs = inputs_for(shape, seed);
      expect_outputs(shape, run_mscclpp(plan, inputs, run).outputs, outputs_for(shape, inputs));
    } catch (const Error& error) {
      throw error.within("seed " + std::to_string(seed));
    }
  }
}

}  // namespace banyan::testing
