#include "banyan/predict/train/memory.h"

#include <algorithm>
#include <functional>

#include "banyan/base/error.h"
#include "banyan/predict/train/layers.h"
#include "banyan/predict/train/pipeline.h"

namespace banyan::predict {
namespace {

PipelineShape shape_of(const TrainConfig& config) {
  return {
      .stages = config.pp, .chunks = config.interleave, .micro_batches = static_cast<uint32_t>(config.micro_batches())};
}

// Activations of one layer per token and element size 2, in multiples of h; scores apart. `split`: held once per
// tensor-parallel group; `whole`: on each rank of it, unless the sequence is split.
struct Tensors {
  double whole = 0, split = 0;  // bytes per token
  double scores = 0;            // bytes per token, split
};

Tensors layer_tensors(const TrainConfig& config) {
  const TrainModel& model = config.model;
  const double h = model.hidden, e = bytes_of(config.precision), kv = model.kv_width(), f = model.ffn;
  const bool dropout = model.biases;  // GPT has dropouts, LLaMA none
  Tensors tensors;
  // Inputs of both norms; inputs of the first matrices of both blocks; masks of both dropouts.
  tensors.whole = 2 * e * h + 2 * e * h + (dropout ? 2 * h : 0);
  tensors.split = e * (h + 2 * kv) + e * h;  // queries, keys, values; context, the input of the output matrix
  const double copies = model.experts > 0 ? model.top_k : 1;
  tensors.split += copies * e * (model.gated ? 3 * f : 2 * f);  // around the activation
  if (model.experts > 0) tensors.split += copies * e * h;       // tokens dispatched
  // Softmax's output, dropout's mask and output, for each head and token before.
  if (!config.fused_attention)
    tensors.scores = static_cast<double>(model.heads) * model.sequence * (e + (dropout ? 1 + e : 0));
  return tensors;
}

double kept_bytes(const TrainConfig& config, bool scores) {
  const Tensors tensors = layer_tensors(config);
  const double whole = tensors.whole / (config.sequence_parallel ? config.tp : 1);
  return config.tokens() * (whole + (tensors.split + (scores ? tensors.scores : 0)) / config.tp);
}

double last_stage_bytes(const TrainConfig& config) {
  const double outer = config.sequence_parallel ? config.tp : 1;
  const double e = bytes_of(config.precision), h = config.model.hidden;
  // Inputs of the last norm and of the output matrix; logits in fp32 (Korthikanti et al., 4.3: 4 s b h / t (1 + v /
  // h)).
  return config.tokens() * (2 * e * h / outer + 4.0 * config.vocabulary_slice());
}

}  // namespace

double layer_activation_bytes(const TrainConfig& config) {
  if (config.recompute == Recompute::full) return static_cast<double>(hidden_bytes(config));
  return kept_bytes(config, config.recompute == Recompute::none);
}

StageMemory stage_memory(const TrainConfig& config, uint32_t stage) {
  const StageParameters parameters = stage_parameters(config, stage);
  const double replicas = config.dp, expert_replicas = static_cast<double>(config.dp) / config.ep;
  const auto sharded = [&](uint32_t from_zero) {
    return config.zero >= from_zero ? parameters.dense / replicas + parameters.experts / expert_replicas
                                    : parameters.all();
  };
  StageMemory memory;
  memory.parameters = bytes_of(config.precision) * sharded(3);
  memory.gradients = config.gradient_bytes() * sharded(2);
  memory.optimizer = (config.precision == Precision::fp32 ? 8 : 12) * sharded(1);
  const double layers =
      static_cast<double>(config.layers_of_stage(stage)) / config.interleave;  // of a chunk, on average
  const double in_flight = most_in_flight(shape_of(config), stage);
  memory.activations = in_flight * layers * layer_activation_bytes(config);
  // While a layer is computed again, all of its own are there.
  if (config.recompute == Recompute::full) memory.activations += kept_bytes(config, true);
  if (config.recompute == Recompute::selective)
    memory.activations += kept_bytes(config, true) - kept_bytes(config, false);
  const double h = config.model.hidden, outer = config.sequence_parallel ? config.tp : 1;
  if (stage == 0 && config.model.biases)
    memory.activations += std::min<double>(in_flight, config.pp) * config.tokens() * h / outer;
  if (stage + 1 == config.pp) memory.activations += last_stage_bytes(config);
  return memory;
}

namespace {

struct Need {
  std::vector<StageMemory> stages;
  uint32_t worst = 0;
};

Need need_of(const TrainConfig& config) {
  Need need;
  for (uint32_t stage = 0; stage < config.pp; ++stage) {
    need.stages.push_back(stage_memory(config, stage));
    if (need.stages[stage].all() > need.stages[need.worst].all()) need.worst = stage;
  }
  return need;
}

bool fits_with(const TrainConfig& config, double available) {
  try {
    check_config(config);
  } catch (const Error&) {
    return false;
  }
  const Need need = need_of(config);
  return need.stages[need.worst].all() <= available;
}

// Single changes, mildest first: those that cost no time, then those that compute again, then other splits.
std::vector<MemoryMend> find_mends(const TrainConfig& config, double available) {
  std::vector<MemoryMend> mends;
  const auto offer = [&](const std::string& words, const std::function<void(TrainConfig&)>& change) {
    TrainConfig changed = config;
    change(changed);
    if (fits_with(changed, available)) mends.push_back({words, changed});
  };
  if (!config.sequence_parallel) offer("--sequence-parallel", [](TrainConfig& to) { to.sequence_parallel = true; });
  for (uint32_t zero = config.zero + 1; zero <= 3; ++zero)
    offer("--zero " + std::to_string(zero), [&](TrainConfig& to) { to.zero = zero; });
  if (!config.fused_attention) offer("--fused-attention", [](TrainConfig& to) { to.fused_attention = true; });
  if (config.recompute == Recompute::none)
    offer("--recompute selective", [](TrainConfig& to) { to.recompute = Recompute::selective; });
  if (config.recompute != Recompute::full)
    offer("--recompute full", [](TrainConfig& to) { to.recompute = Recompute::full; });
  for (uint64_t micro = config.micro_batch / 2; micro >= 1; micro /= 2)
    offer("--micro-batch " + std::to_string(micro), [&](TrainConfig& to) { to.micro_batch = micro; });
  for (uint32_t factor = 2; factor <= 16; factor *= 2) {
    if (config.dp % factor == 0) {
      const uint32_t dp = config.dp / factor;
      offer("--tp " + std::to_string(config.tp * factor) + " --dp " + std::to_string(dp),
            [&](TrainConfig& to) { to.tp *= factor, to.dp = dp, to.ep = 1; });
      offer("--pp " + std::to_string(config.pp * factor) + " --dp " + std::to_string(dp),
            [&](TrainConfig& to) { to.pp *= factor, to.dp = dp, to.ep = 1; });
    }
    offer("--tp " + std::to_string(config.tp * factor) + ", on " + std::to_string(factor) + " times the devices",
          [&](TrainConfig& to) { to.tp *= factor; });
    offer("--pp " + std::to_string(config.pp * factor) + ", on " + std::to_string(factor) + " times the devices",
          [&](TrainConfig& to) { to.pp *= factor; });
  }
  if (mends.empty())
    offer("--zero 1 --recompute full --micro-batch 1 together",
          [](TrainConfig& to) { to.zero = std::max(to.zero, 1u), to.recompute = Recompute::full, to.micro_batch = 1; });
  return mends;
}

}  // namespace

MemoryReport memory_report(const TrainConfig& config, const Device& device) {
  const double available = static_cast<double>(device.memory.count()) * (1 - kMemoryKeptBack);
  Need need = need_of(config);
  MemoryReport report{std::move(need.stages), need.worst, Bytes(static_cast<uint64_t>(available)), false, {}};
  report.fits = report.stages[report.worst].all() <= available;
  if (!report.fits) report.mends = find_mends(config, available);
  return report;
}

}  // namespace banyan::predict
