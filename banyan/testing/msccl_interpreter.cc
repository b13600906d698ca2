#include "banyan/testing/msccl_interpreter.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::testing {
namespace {

using Values = DeviceMemory::Values;

bool sends(MscclType type) {
  return type == MscclType::send || type == MscclType::receive_copy_send || type == MscclType::receive_reduce_send ||
         type == MscclType::receive_reduce_copy_send;
}

bool receives(MscclType type) {
  return type != MscclType::send && type != MscclType::copy && type != MscclType::reduce;
}

bool reads_source(MscclType type) { return type != MscclType::receive && type != MscclType::receive_copy_send; }

bool writes_destination(MscclType type) { return type != MscclType::send && type != MscclType::receive_reduce_send; }

void add(Values& sum, const Values& term) {
  CHECK_EQ(sum.size(), term.size());
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += term[i];
}

class Machine {
 public:
  Machine(const MscclProgram& program, const RankArrays& inputs, const MscclRunOptions& options)
      : program_(program),
        options_(options),
        shape_(shape_of(program, options)),
        interleaver_(0, 0),
        memory_(
            shape_, inputs, [this](uint32_t step) { return step_names_[step]; }, "depid and deps order blocks") {
    std::unordered_map<uint64_t, uint32_t> fifo_ids;
    const auto fifo_of = [&](uint64_t from, uint64_t to, uint64_t channel) {
      const uint64_t key = ((from * program.gpus.size()) + to) * program.channels + channel;
      return fifo_ids.try_emplace(key, static_cast<uint32_t>(fifo_ids.size())).first->second;
    };
    for (uint32_t gpu = 0; gpu < program.gpus.size(); ++gpu) {
      const auto first = static_cast<uint32_t>(blocks_.size());
      for (uint32_t b = 0; b < program.gpus[gpu].blocks.size(); ++b) {
        const MscclBlock& code = program.gpus[gpu].blocks[b];
        Block block{.code = &code,
                    .gpu = gpu,
                    .number = b,
                    .first_of_gpu = first,
                    .first_step = static_cast<uint32_t>(step_names_.size())};
        if (code.send_peer >= 0) block.out = fifo_of(gpu, static_cast<uint64_t>(code.send_peer), code.channel);
        if (code.receive_peer >= 0) block.in = fifo_of(static_cast<uint64_t>(code.receive_peer), gpu, code.channel);
        for (const MscclStep& step : code.steps) {
          step_names_.push_back("gpu " + std::to_string(gpu) + " block " + std::to_string(b) + " step " +
                                std::to_string(step.number));
        }
        blocks_.push_back(std::move(block));
      }
    }
    fifos_.resize(fifo_ids.size());
    clocks_.assign(blocks_.size(), VectorClock(blocks_.size()));
    interleaver_ = Interleaver(static_cast<uint32_t>(blocks_.size()), options.seed);
  }

  MscclRun run() {
    const auto stuck = interleaver_.run([this](uint32_t block) { return attempt(block); });
    if (!stuck.empty()) {
      throw Error(ErrorCode::invalid_input, describe_deadlock(stuck, [this](uint32_t b) { return wait_of(b); }));
    }
    for (const auto& fifo : fifos_) CHECK(fifo.empty()) << "the parser matches sends with receives";
    run_.outputs = memory_.outputs();
    return std::move(run_);
  }

 private:
  struct Message {
    std::vector<Values> chunks;
    VectorClock clock;
  };

  struct Block {
    const MscclBlock* code = nullptr;
    uint32_t gpu = 0, number = 0;
    uint32_t first_of_gpu = 0, first_step = 0;  // into blocks_ and step_names_
    uint32_t in = 0, out = 0;                   // fifos, where the block has peers
    uint32_t loop = 0, step = 0, chunk = 0;     // where it stands; chunk: how much of the step's count is done
    uint32_t time = 0;
    std::unordered_map<uint64_t, VectorClock> flags = {};  // by loop and step number: what its readers may rely on
  };

  static uint64_t flag_key(uint32_t block) { return uint64_t{block} * 3; }
  static uint64_t data_key(uint32_t fifo) { return uint64_t{fifo} * 3 + 1; }
  static uint64_t room_key(uint32_t fifo) { return uint64_t{fifo} * 3 + 2; }
  static uint64_t moment(uint32_t loop, uint32_t step) { return uint64_t{loop} << 32 | step; }

  // What the block's next step still lacks, if anything.
  struct Lack {
    uint64_t key = 0;
    std::string what;
  };
  std::optional<Lack> lack_of(const Block& block, const MscclStep& step) const {
    for (const MscclStep::Dependency& wanted : step.waits_for) {
      const uint32_t other = block.first_of_gpu + wanted.block;
      if (blocks_[other].flags.contains(moment(block.loop, wanted.step))) continue;
      return Lack{flag_key(other), "block " + std::to_string(wanted.block) + " step " + std::to_string(wanted.step)};
    }
    if (receives(step.type) && fifos_[block.in].empty()) {
      return Lack{data_key(block.in), "a message from gpu " + std::to_string(block.code->receive_peer) +
                                          " on channel " + std::to_string(block.code->channel)};
    }
    if (sends(step.type) && fifos_[block.out].size() >= options_.slots) {
      return Lack{room_key(block.out), "room to send to gpu " + std::to_string(block.code->send_peer) + " on channel " +
                                           std::to_string(block.code->channel)};
    }
    return std::nullopt;
  }

  std::string wait_of(uint32_t number) const {
    const Block& block = blocks_[number];
    const auto lack = lack_of(block, block.code->steps[block.step]);
    CHECK(lack.has_value());
    return step_names_[block.first_step + block.step] + " waits for " + lack->what;
  }

  Interleaver::Attempt attempt(uint32_t number) {
    Block& block = blocks_[number];
    if (block.loop == options_.loops || block.code->steps.empty()) return Interleaver::finished();
    const MscclStep& step = block.code->steps[block.step];
    if (const auto lack = lack_of(block, step)) return Interleaver::waits_for(lack->key);
    execute(number, block, step);
    if (block.chunk == step.count) finish_step(number, block, step);
    return Interleaver::moved();
  }

  // The part of a step that travels as one message; local steps have one part.
  void execute(uint32_t number, Block& block, const MscclStep& step) {
    VectorClock& clock = clocks_[number];
    const bool travels = sends(step.type) || receives(step.type);
    const uint32_t count = travels ? std::min(options_.chunks_per_message, step.count - block.chunk) : step.count;
    for (const MscclStep::Dependency& wanted : step.waits_for) {
      clock.join(blocks_[block.first_of_gpu + wanted.block].flags.at(moment(block.loop, wanted.step)));
    }
    std::vector<Values> values;
    if (receives(step.type)) {
      Message message = std::move(fifos_[block.in].front());
      fifos_[block.in].pop_front();
      interleaver_.wake(room_key(block.in));
      CHECK_EQ(message.chunks.size(), count);
      clock.join(message.clock);
      values = std::move(message.chunks);
    }
    clock.advance(number, ++block.time);
    const Touch touch{number, block.time, block.first_step + block.step};
    const auto cell = [&](const MscclPlace& place, uint32_t i) {
      return DeviceMemory::Cell{block.gpu, place.buffer, place.offset + block.chunk + i, block.loop};
    };
    // All reads of the step come before its writes: reductions that fused write once.
    if (step.type == MscclType::reduce) {
      for (uint32_t i = 0; i < count; ++i) values.push_back(memory_.read(cell(step.destination, i), touch, clock));
    }
    for (const MscclPlace& source : step.sources) {
      for (uint32_t i = 0; reads_source(step.type) && i < count; ++i) {
        Values read = memory_.read(cell(source, i), touch, clock);
        if (i < values.size())
          add(values[i], read);
        else
          values.push_back(std::move(read));
      }
    }
    for (uint32_t i = 0; writes_destination(step.type) && i < count; ++i) {
      memory_.write(cell(step.destination, i), values[i], touch, clock);
    }
    if (sends(step.type)) {
      fifos_[block.out].push_back({std::move(values), clock});
      interleaver_.wake(data_key(block.out));
      ++run_.messages;
    }
    block.chunk += count;
  }

  void finish_step(uint32_t number, Block& block, const MscclStep& step) {
    if (step.raises_flag) {
      block.flags.emplace(moment(block.loop, step.number), clocks_[number]);
      interleaver_.wake(flag_key(number));
    }
    ++run_.steps;
    block.chunk = 0;
    if (++block.step < block.code->steps.size()) return;
    block.step = 0;
    ++block.loop;
  }

  const MscclProgram& program_;
  const MscclRunOptions options_;
  const MemoryShape shape_;
  Interleaver interleaver_;
  DeviceMemory memory_;
  std::vector<Block> blocks_;
  std::vector<VectorClock> clocks_;  // by block
  std::vector<std::deque<Message>> fifos_;
  std::vector<std::string> step_names_;
  MscclRun run_;
};

}  // namespace

MemoryShape shape_of(const MscclProgram& program, const MscclRunOptions& options) {
  MemoryShape shape{.kind = program.kind,
                    .ranks = static_cast<uint32_t>(program.gpus.size()),
                    .root = options.root,
                    .total_chunks = program.chunks_per_loop,
                    .chunk_elements = options.chunk_elements,
                    .slices = options.loops,
                    .in_place = options.in_place};
  for (const MscclGpu& gpu : program.gpus) shape.scratch_chunks.push_back(gpu.scratch_chunks);
  return shape;
}

MscclRun run_msccl(const MscclProgram& program, const RankArrays& inputs, const MscclRunOptions& options) {
  CHECK(options.slots > 0 && options.chunks_per_message > 0 && options.root < program.gpus.size());
  if (!(options.in_place ? program.in_place : program.out_of_place)) {
    throw Error(ErrorCode::mismatch,
                std::string("the program is not for runs ") + (options.in_place ? "in" : "out of") + " place");
  }
  return Machine(program, inputs, options).run();
}

void check_msccl(std::string_view xml, const MscclCheckOptions& options) {
  const MscclProgram program = parse_msccl(xml);
  for (uint32_t seed = 0; seed < options.seeds; ++seed) {
    MscclRunOptions run{
        .seed = seed, .slots = options.fewest_slots + seed % 3, .loops = 1 + seed / 3 % 3, .root = options.root};
    if (seed % 2 == 1) run.chunks_per_message = 1;
    for (const bool in_place : {false, true}) {
      if (!(in_place ? program.in_place : program.out_of_place)) continue;
      run.in_place = in_place;
      try {
        const MemoryShape shape = shape_of(program, run);
        const RankArrays inputs = inputs_for(shape, seed);
        expect_outputs(shape, run_msccl(program, inputs, run).outputs, outputs_for(shape, inputs));
      } catch (const Error& error) {
        throw error.within(std::string(in_place ? "in place" : "out of place") + ", seed " + std::to_string(seed) +
                           ", slots " + std::to_string(run.slots) + ", loops " + std::to_string(run.loops));
      }
    }
  }
}

}  // namespace banyan::testing
