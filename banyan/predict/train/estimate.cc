#include "banyan/predict/train/estimate.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/train/layers.h"
#include "banyan/predict/train/pipeline.h"
#include "banyan/predict/train/step_costs.h"

namespace banyan::predict {
namespace {

struct Pass {
  double compute = 0, tensor = 0;
  double seconds() const { return compute + tensor; }
  Pass& operator+=(const Pass& other) {
    compute += other.compute, tensor += other.tensor;
    return *this;
  }
  Pass operator*(double factor) const { return {compute * factor, tensor * factor}; }
};

struct Both {
  Pass forward, backward;
};

// One model's step on one cluster.
class Estimator {
 public:
  Estimator(const TrainConfig& config, const Device& device, const ClusterShape& cluster)
      : config_(config), device_(device), cluster_(cluster), costs_(step_costs(config, device)) {}

  StepEstimate run() const {
    const Both layer = of_layer();
    std::vector<Both> chunks(config_.chunks());
    for (uint32_t chunk = 0; chunk < config_.chunks(); ++chunk) {
      chunks[chunk] = {layer.forward * config_.layers_of_chunk(chunk), layer.backward * config_.layers_of_chunk(chunk)};
      if (chunk > 0) add_input(chunks[chunk].forward);
      if (chunk + 1 < config_.chunks()) add_input(chunks[chunk].backward);
      if (chunk == 0) add_embedding(chunks[chunk]);
      if (chunk + 1 == config_.chunks()) add_head(chunks[chunk]);
    }
    const std::vector<double> ends = play(chunks);
    StepEstimate estimate;
    for (uint32_t stage = 0; stage < config_.pp; ++stage) {
      StepEstimate of_stage;
      for (uint32_t chunk = stage; chunk < config_.chunks(); chunk += config_.pp) {
        const double m = static_cast<double>(config_.micro_batches());
        of_stage.compute += m * (chunks[chunk].forward.compute + chunks[chunk].backward.compute);
        of_stage.tensor += m * (chunks[chunk].forward.tensor + chunks[chunk].backward.tensor);
      }
      of_stage.bubble = ends[stage] - of_stage.compute - of_stage.tensor;
      of_stage.gradients = gradients(stage, layer.backward.seconds() * config_.layers_of_chunk(stage));
      of_stage.optimizer = optimizer(stage);
      of_stage.seconds = ends[stage] + of_stage.gradients + of_stage.optimizer;
      if (of_stage.seconds > estimate.seconds) estimate = of_stage;
    }
    return estimate;
  }

 private:
  double collective(CollectiveKind kind, double bytes, const GroupShape& group) const {
    return collective_seconds(kind, bytes, group, cluster_, device_.links);
  }
  GroupShape tensor_group() const { return {config_.tp, 1}; }
  GroupShape data_group() const { return {config_.dp, config_.tp}; }
  double tensor(CollectiveKind kind, double bytes) const { return collective(kind, bytes, tensor_group()); }

  // The collectives around one block, in one pass.
  double around_block() const {
    const double bytes = static_cast<double>(hidden_bytes(config_));
    if (!config_.sequence_parallel) return tensor(CollectiveKind::all_reduce, bytes);
    return tensor(CollectiveKind::all_gather, bytes) + tensor(CollectiveKind::reduce_scatter, bytes);
  }
  double around_experts() const {
    const double sent = static_cast<double>(dispatch_bytes(config_));
    const double bytes = static_cast<double>(hidden_bytes(config_)) * config_.model.top_k;
    const double sum = config_.sequence_parallel
                           ? tensor(CollectiveKind::all_gather, bytes) + tensor(CollectiveKind::reduce_scatter, bytes)
                           : tensor(CollectiveKind::all_reduce, bytes);
    return 2 * collective(CollectiveKind::all_to_all, sent, {config_.ep, config_.tp}) + sum;
  }

  Both of_layer() const {
    const bool mixture = config_.model.experts > 0;
    Both layer;
    layer.forward.compute =
        costs_.attention.forward.seconds + costs_.mlp.forward.seconds + costs_.experts.forward.seconds;
    layer.backward.compute =
        costs_.attention.backward.seconds + costs_.mlp.backward.seconds + costs_.experts.backward.seconds;
    const double around = around_block() + (mixture ? around_experts() : around_block());
    layer.forward.tensor = layer.backward.tensor = around;
    if (config_.recompute == Recompute::full) layer.backward += layer.forward;
    if (config_.zero == 3) {
      // Gathering overlaps with the layer before; what is longer counts.
      const double gather = collective(CollectiveKind::all_gather,
                                       layer_dense_parameters(config_) * bytes_of(config_.precision), data_group());
      layer.forward.tensor += std::max(0.0, gather - layer.forward.seconds());
      layer.backward.tensor +=
          std::max(0.0, gather + reduction(layer_dense_parameters(config_)) - layer.backward.seconds());
    }
    return layer;
  }

  // Input that comes in shares is gathered within the tensor-parallel group.
  void add_input(Pass& pass) const {
    if (config_.scatter_gather && !config_.sequence_parallel)
      pass.tensor += tensor(CollectiveKind::all_gather, static_cast<double>(hidden_bytes(config_)));
  }

  void add_embedding(Both& chunk) const {
    const double bytes = static_cast<double>(hidden_bytes(config_));
    chunk.forward +=
        {costs_.embedding.forward.seconds,
         tensor(config_.sequence_parallel ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, bytes)};
    chunk.backward +=
        {costs_.embedding.backward.seconds, config_.sequence_parallel ? tensor(CollectiveKind::all_gather, bytes) : 0};
  }

  void add_head(Both& chunk) const {
    const double bytes = static_cast<double>(hidden_bytes(config_));
    const double enter = config_.sequence_parallel ? tensor(CollectiveKind::all_gather, bytes) : 0;
    chunk.forward +=
        {costs_.head.forward.seconds, enter + 3 * tensor(CollectiveKind::all_reduce, 4 * config_.tokens())};
    chunk.backward +=
        {costs_.head.backward.seconds,
         tensor(config_.sequence_parallel ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, bytes)};
  }

  double message() const {
    const bool share = config_.sequence_parallel || config_.scatter_gather;
    const double bytes = static_cast<double>(hidden_bytes(config_)) / (share ? config_.tp : 1);
    const bool leaves = config_.ranks() > cluster_.box;
    const double link = static_cast<double>((leaves ? cluster_.network : cluster_.scale_up).bytes_per_second());
    return static_cast<double>(device_.links.latency.count()) * 1e-12 +
           bytes / (link * (leaves ? device_.links.network : device_.links.scale_up));
  }

  // When each stage has done its last pass.
  std::vector<double> play(const std::vector<Both>& chunks) const {
    const PipelineShape shape{.stages = config_.pp,
                              .chunks = config_.interleave,
                              .micro_batches = static_cast<uint32_t>(config_.micro_batches())};
    std::vector<double> ends(config_.pp, 0);
    if (config_.pp == 1) {
      ends[0] = static_cast<double>(shape.micro_batches) * (chunks[0].forward.seconds() + chunks[0].backward.seconds());
      return ends;
    }
    std::vector<std::vector<PipelineStep>> orders;
    for (uint32_t stage = 0; stage < config_.pp; ++stage) orders.push_back(pipeline_order(shape, stage));
    const double hop = message();
    const size_t m = shape.micro_batches;
    std::vector<double> forward_done(config_.chunks() * m, NAN), backward_done(config_.chunks() * m, NAN);
    std::vector<size_t> next(config_.pp, 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t stage = 0; stage < config_.pp; ++stage) {
        for (; next[stage] < orders[stage].size(); ++next[stage]) {
          const PipelineStep& step = orders[stage][next[stage]];
          const size_t chunk = step.chunk * config_.pp + stage, at = chunk * m + step.micro_batch;
          double ready = 0;
          if (!step.backward && chunk > 0) ready = forward_done[at - m] + hop;
          if (step.backward && chunk + 1 < config_.chunks()) ready = backward_done[at + m] + hop;
          if (std::isnan(ready)) break;
          ends[stage] =
              std::max(ends[stage], ready) + (step.backward ? chunks[chunk].backward : chunks[chunk].forward).seconds();
          (step.backward ? backward_done : forward_done)[at] = ends[stage];
          moved = true;
        }
      }
    }
    for (uint32_t stage = 0; stage < config_.pp; ++stage) CHECK_EQ(next[stage], orders[stage].size());
    return ends;
  }

  double reduction(double parameters) const {
    return collective(config_.zero > 0 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                      parameters * config_.gradient_bytes(), data_group());
  }

  // Data-parallel collectives that the last backward pass, of `hiding` seconds, does not hide.
  double gradients(uint32_t stage, double hiding) const {
    const StageParameters parameters = stage_parameters(config_, stage);
    if (config_.zero == 3) return 0;  // in each layer
    const uint32_t expert_replicas = config_.dp / config_.ep;
    const double experts =
        collective(config_.zero > 0 ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce,
                   parameters.experts * config_.gradient_bytes(), {expert_replicas, config_.tp * config_.ep});
    const double all = reduction(parameters.dense) + experts;
    const double times = config_.zero == 2 ? static_cast<double>(config_.micro_batches()) : 1;
    if (!config_.overlap_gradients) return times * all;
    const double last =
        reduction(std::min(parameters.dense, static_cast<double>(config_.bucket.count()) / config_.gradient_bytes()));
    return times * std::max(last, all - hiding);
  }

  double optimizer(uint32_t stage) const {
    double seconds = optimizer_costs(config_, device_, updated_parameters(config_, stage)).seconds;
    const uint32_t together = config_.zero > 0 ? static_cast<uint32_t>(config_.ranks()) : config_.tp * config_.pp;
    seconds += collective(CollectiveKind::all_reduce, 8, {together, 1});
    if (config_.zero == 1 || config_.zero == 2)
      seconds += collective(CollectiveKind::all_gather,
                            stage_parameters(config_, stage).dense * bytes_of(config_.precision), data_group());
    if (config_.model.tied && config_.pp > 1)
      seconds +=
          collective(CollectiveKind::all_reduce,
                     static_cast<double>(config_.vocabulary_slice()) * config_.model.hidden * config_.gradient_bytes(),
                     {2, config_.tp * config_.dp * (config_.pp - 1)});
    return seconds;
  }

  const TrainConfig& config_;
  const Device& device_;
  const ClusterShape& cluster_;
  StepCosts costs_;
};

}  // namespace

double collective_seconds(CollectiveKind kind, double bytes, const GroupShape& group, const ClusterShape& cluster,
                          const LinkEfficiency& links) {
  if (group.ranks < 2 || bytes <= 0) return 0;
  const uint64_t here = std::min<uint64_t>(group.ranks, std::max<uint64_t>(1, cluster.box / group.stride));
  const double share = busbw_factor(kind, group.ranks) * bytes;
  const double latency = static_cast<double>(links.latency.count()) * 1e-12 * std::log2(group.ranks);
  const double inside = static_cast<double>(cluster.scale_up.bytes_per_second()) * links.scale_up;
  if (here == group.ranks) return latency + share / inside;
  const double outside =
      static_cast<double>(cluster.network.bytes_per_second()) * static_cast<double>(here) * links.network;
  // All-to-all sends to each rank outside by the sender's own NIC alone.
  if (kind == CollectiveKind::all_to_all)
    return latency + share / (static_cast<double>(cluster.network.bytes_per_second()) * links.network);
  return latency + share / std::min(inside, outside);
}

StepEstimate estimate_step(const TrainConfig& config, const Device& device, const ClusterShape& cluster) {
  check_config(config);
  return Estimator(config, device, cluster).run();
}

}  // namespace banyan::predict
