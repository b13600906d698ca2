#include "banyan/predict/train/step_costs.h"

namespace banyan::predict {
namespace {

BlockCosts cost(const LayerBlock& block, const TrainConfig& config, const Device& device) {
  Operator backward = block.backward;
  if (config.recompute == Recompute::selective) backward.add(block.recompute_core);
  const OperatorTime forward = operator_time(block.forward, device, config.precision);
  return {.forward = forward.seconds(),
          .backward = operator_time(backward, device, config.precision).seconds(),
          .forward_flop = block.forward.flop(),
          .backward_flop = backward.flop(),
          .launch_bound = forward.launch_bound()};
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

double optimizer_seconds(const TrainConfig& config, const Device& device, double parameters) {
  Operator update;
  update.add_memory(parameters * optimizer_bytes_per_parameter(config), 2);
  return operator_time(update, device, config.precision).seconds();
}

}  // namespace banyan::predict
