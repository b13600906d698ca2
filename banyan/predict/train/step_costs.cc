#include "banyan/predict/train/step_costs.h"

namespace banyan::predict {
namespace {

PassCosts cost(const Operator& work, const TrainConfig& config, const Device& device) {
  const OperatorTime time = operator_time(work, device, config.precision);
  return {.seconds = time.seconds(), .fixed = time.fixed(), .flop = work.flop()};
}

BlockCosts cost(const LayerBlock& block, const TrainConfig& config, const Device& device) {
  Operator backward = block.backward;
  if (config.recompute == Recompute::selective) backward.add(block.recompute_core);
  return {.forward = cost(block.forward, config, device), .backward = cost(backward, config, device)};
}

}  // namespace

StepCosts step_costs(const TrainConfig& config, const Device& device) {
  const bool mixture = config.model.experts > 0;
  return {.attention = cost(attention_block(config), config, device),
          .mlp = cost(mixture ? router_block(config) : mlp_block(config), config, device),
          .experts = mixture ? cost(experts_block(config), config, device) : BlockCosts{},
          .embedding = cost(embedding_block(config), config, device),
          .head = cost(head_block(config), config, device)};
}

double updated_parameters(const TrainConfig& config, uint32_t stage) {
  const StageParameters parameters = stage_parameters(config, stage);
  if (config.zero == 0) return parameters.all();
  return parameters.dense / config.dp + parameters.experts / (static_cast<double>(config.dp) / config.ep);
}

PassCosts optimizer_costs(const TrainConfig& config, const Device& device, double parameters) {
  Operator update;
  update.add_memory(parameters * optimizer_bytes_per_parameter(config), 2);
  return cost(update, config, device);
}

}  // namespace banyan::predict
