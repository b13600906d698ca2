// The operators of a transformer on one rank: what each block of a layer computes and moves in memory, and what it
// sends to its tensor-parallel peers around it.
//
// A block is what lies between two collectives: attention (norm, queries keys values, scores, softmax, context, output,
// dropout and residual) and the MLP (norm, two or three matrices, activation, dropout and residual). Matrices are split
// as in Megatron-LM (Shoeybi et al. 2019): the first of a block by columns, the last by rows. Matrix products carry all
// FLOPs that the literature counts; elementwise kernels are counted by the bytes that they read and write: table of
// docs/predict-costs.md. The backward pass of a product is two of its size.
//
// With unfused attention the scores go to memory and back for the product, softmax and dropout, as in Megatron-LM
// before FlashAttention; they are a third of the time of small models.
//
// Pure.
#pragma once

#include "banyan/predict/cost/operators.h"
#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct LayerBlock {
  Operator forward;
  Operator backward;        // without what is recomputed
  Operator recompute_core;  // selective: what of the forward pass is computed again
};

LayerBlock attention_block(const TrainConfig& config);
LayerBlock mlp_block(const TrainConfig& config);     // the dense one
LayerBlock router_block(const TrainConfig& config);  // experts: norm, router, and sorting tokens by expert
LayerBlock experts_block(
    const TrainConfig& config);  // experts of this rank, with as many tokens as balanced routing gives
LayerBlock embedding_block(const TrainConfig& config);
LayerBlock head_block(const TrainConfig& config);  // last norm, output matrix, loss

// Bytes that a micro-batch's hidden state takes: s * b * h elements.
uint64_t hidden_bytes(const TrainConfig& config);
// Bytes that a rank gives into the all-to-all of a layer with experts: each token, top_k times.
uint64_t dispatch_bytes(const TrainConfig& config);

// Parameters on one rank of a stage (0 .. pp - 1): those replicated over dp, and those of experts, which are replicated
// over dp / ep only.
struct StageParameters {
  double dense = 0, experts = 0;
  double all() const { return dense + experts; }
};
double layer_dense_parameters(const TrainConfig& config);  // of one layer on one rank
double layer_expert_parameters(const TrainConfig& config);
StageParameters stage_parameters(const TrainConfig& config, uint32_t stage);
// Words and positions on one tensor-parallel rank.
double embedding_slice(const TrainConfig& config);

// Adam in mixed precision reads gradient, fp32 master, momentum and variance and writes all but the gradient, and the
// parameter. Bytes per parameter of this rank's share.
double optimizer_bytes_per_parameter(const TrainConfig& config);

}  // namespace banyan::predict
