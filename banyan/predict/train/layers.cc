#include "banyan/predict/train/layers.h"

#include <algorithm>
#include <cmath>

namespace banyan::predict {
namespace {

// Sizes on one rank that all blocks are made of.
struct Sizes {
  explicit Sizes(const TrainConfig& config)
      : tokens(static_cast<uint64_t>(config.tokens())),
        h(config.model.hidden),
        heads(config.model.heads / config.tp),
        kv_heads(std::max(1u, config.model.kv_heads / config.tp)),
        head(config.model.head_size()),
        b(config.micro_batch),
        s(config.model.sequence),
        hidden(config.tokens() * config.model.hidden),
        // Norms, dropouts and residuals are split along the sequence where that is asked for.
        outer(hidden / (config.sequence_parallel ? config.tp : 1)),
        element(bytes_of(config.precision)) {}
  uint64_t tokens, h, heads, kv_heads, head, b, s;
  double hidden, outer;  // elements
  double element;        // bytes
};

// y = x W, forward and backward (dx = dy W', dW = x' dy).
void add_product(LayerBlock& block, const MatrixProduct& product) {
  block.forward.add(product);
  block.backward.add({.m = product.m, .n = product.k, .k = product.n, .batch = product.batch});
  block.backward.add({.m = product.k, .n = product.n, .k = product.m, .batch = product.batch});
}

// Gradients of a matrix are added to those of the micro-batches before: read, read, write.
void add_accumulation(LayerBlock& block, const TrainConfig& config, double parameters, uint32_t kernels) {
  block.backward.add_memory(parameters * (bytes_of(config.precision) + 2.0 * config.gradient_bytes()), kernels);
}

void add_norm(LayerBlock& block, const Sizes& sizes) {
  block.forward.add_memory(2 * sizes.element * sizes.outer);
  block.backward.add_memory(4 * sizes.element * sizes.outer, 2);
}

// Bias, dropout and residual in one kernel: reads input and residual, writes output and a mask of one byte.
void add_dropout_residual(LayerBlock& block, const Sizes& sizes) {
  block.forward.add_memory((3 * sizes.element + 1) * sizes.outer);
  block.backward.add_memory((3 * sizes.element + 1) * sizes.outer, 3);
}

Operator attention_core(const Sizes& sizes, bool fused) {
  const uint64_t batch = sizes.b * sizes.heads;
  const double scores = static_cast<double>(batch) * static_cast<double>(sizes.s) * static_cast<double>(sizes.s);
  Operator core;
  core.add(MatrixProduct{.m = sizes.s, .n = sizes.s, .k = sizes.head, .batch = batch});
  if (!fused) {
    core.add_memory(2 * sizes.element * scores);        // scale, mask, softmax
    core.add_memory((2 * sizes.element + 1) * scores);  // dropout, mask of one byte
  }
  core.add(MatrixProduct{.m = sizes.s, .n = sizes.head, .k = sizes.s, .batch = batch});
  return core;
}

Operator attention_core_backward(const Sizes& sizes, bool fused) {
  const uint64_t batch = sizes.b * sizes.heads;
  const double scores = static_cast<double>(batch) * static_cast<double>(sizes.s) * static_cast<double>(sizes.s);
  Operator core;
  for (int i = 0; i < 2; ++i) {
    core.add(MatrixProduct{.m = sizes.s, .n = sizes.head, .k = sizes.s, .batch = batch});
    core.add(MatrixProduct{
        .m = i == 0 ? sizes.head : sizes.s, .n = sizes.s, .k = i == 0 ? sizes.s : sizes.head, .batch = batch});
  }
  if (!fused) {
    core.add_memory(3 * sizes.element * scores);
    core.add_memory((2 * sizes.element + 1) * scores);
  }
  return core;
}

}  // namespace

LayerBlock attention_block(const TrainConfig& config) {
  const Sizes sizes(config);
  const double slice = sizes.hidden / config.tp;
  const uint64_t kv_width = sizes.kv_heads * sizes.head, width = sizes.heads * sizes.head;
  const uint64_t qkv = width + 2 * kv_width;
  const double qkv_elements = static_cast<double>(sizes.tokens) * static_cast<double>(qkv);
  LayerBlock block;
  add_norm(block, sizes);
  add_product(block, {.m = sizes.tokens, .n = qkv, .k = sizes.h});
  if (config.model.biases) {
    block.forward.add_memory(2 * sizes.element * qkv_elements);
    block.backward.add_memory(sizes.element * qkv_elements);
  }
  block.forward.add_memory(2 * sizes.element * qkv_elements, 3);  // heads apart
  block.backward.add_memory(2 * sizes.element * qkv_elements, 3);
  block.recompute_core = attention_core(sizes, config.fused_attention);
  block.forward.add(block.recompute_core);
  block.backward.add(attention_core_backward(sizes, config.fused_attention));
  block.forward.add_memory(2 * sizes.element * slice);  // heads together
  block.backward.add_memory(2 * sizes.element * slice);
  add_product(block, {.m = sizes.tokens, .n = sizes.h, .k = width});
  add_dropout_residual(block, sizes);
  add_accumulation(block, config, static_cast<double>(sizes.h) * static_cast<double>(qkv + width), 2);
  return block;
}

namespace {

// The matrices and the activation of an MLP that `tokens` pass through in `batch` equal parts (one part per expert).
void add_mlp(LayerBlock& block, const TrainConfig& config, uint64_t tokens, uint64_t batch) {
  const Sizes sizes(config);
  const uint64_t width = config.model.ffn / config.tp;
  const double inner = static_cast<double>(tokens) * static_cast<double>(batch) * static_cast<double>(width);
  const uint64_t first = config.model.gated ? 2 * width : width;
  add_product(block, {.m = tokens, .n = first, .k = sizes.h, .batch = batch});
  if (config.model.gated) {
    block.forward.add_memory(3 * sizes.element * inner);
    block.backward.add_memory(5 * sizes.element * inner);
  } else {
    block.forward.add_memory(2 * sizes.element * inner);      // bias and activation
    block.backward.add_memory(4 * sizes.element * inner, 2);  // its gradient, the bias's
  }
  add_product(block, {.m = tokens, .n = sizes.h, .k = width, .batch = batch});
  add_accumulation(block, config,
                   static_cast<double>(batch) * static_cast<double>(sizes.h) * static_cast<double>(first + width), 2);
}

}  // namespace

LayerBlock mlp_block(const TrainConfig& config) {
  const Sizes sizes(config);
  LayerBlock block;
  add_norm(block, sizes);
  add_mlp(block, config, sizes.tokens, 1);
  add_dropout_residual(block, sizes);
  return block;
}

LayerBlock router_block(const TrainConfig& config) {
  const Sizes sizes(config);
  const uint64_t tokens = std::max<uint64_t>(1, static_cast<uint64_t>(sizes.outer) / sizes.h);
  const double routed = static_cast<double>(dispatch_bytes(config));
  LayerBlock block;
  add_norm(block, sizes);
  add_product(block, {.m = tokens, .n = config.model.experts, .k = sizes.h});
  block.forward.add_memory(8 * static_cast<double>(tokens) * config.model.experts, 4);  // softmax, best k
  block.backward.add_memory(8 * static_cast<double>(tokens) * config.model.experts, 3);
  block.forward.add_memory(2 * routed, 2);  // tokens in the order of their experts
  block.backward.add_memory(2 * routed, 2);
  add_dropout_residual(block, sizes);
  return block;
}

LayerBlock experts_block(const TrainConfig& config) {
  const uint64_t here = config.model.experts / config.ep;
  // Each of the ep replicas sends a share of its tokens; in balance as many come as go. Tensor-parallel slices of an
  // expert see all tokens of the expert.
  const double tokens = config.tokens() * config.model.top_k;
  LayerBlock block;
  add_mlp(block, config, std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(tokens / static_cast<double>(here)))),
          here);
  return block;
}

LayerBlock embedding_block(const TrainConfig& config) {
  const Sizes sizes(config);
  LayerBlock block;
  // Look up and mask words, add positions, dropout; the gradient is added into the words' rows.
  block.forward.add_memory(8 * sizes.element * sizes.hidden, 6);
  block.backward.add_memory(6 * sizes.element * sizes.hidden, 6);
  block.backward.add_memory(embedding_slice(config) * 2 * config.gradient_bytes());
  return block;
}

LayerBlock head_block(const TrainConfig& config) {
  const Sizes sizes(config);
  const uint64_t words = config.vocabulary_slice();
  const double logits = static_cast<double>(sizes.tokens) * static_cast<double>(words);
  LayerBlock block;
  add_norm(block, sizes);
  add_product(block, {.m = sizes.tokens, .n = words, .k = sizes.h});
  // Cross entropy in fp32: convert (2 + 4 bytes), maximum (4), subtract (8), exponential and sum (8); backward: softmax
  // minus one (8), convert back (4 + 2).
  block.forward.add_memory((sizes.element + 4 + 4 + 8 + 8) * logits, 8);
  block.backward.add_memory((8 + 4 + sizes.element) * logits, 4);
  add_accumulation(block, config, static_cast<double>(words) * static_cast<double>(sizes.h), 1);
  return block;
}

uint64_t hidden_bytes(const TrainConfig& config) {
  return static_cast<uint64_t>(config.tokens() * config.model.hidden) * bytes_of(config.precision);
}

uint64_t dispatch_bytes(const TrainConfig& config) {
  return hidden_bytes(config) / (config.sequence_parallel ? config.tp : 1) * config.model.top_k;
}

double layer_dense_parameters(const TrainConfig& config) {
  const TrainModel& model = config.model;
  const double h = model.hidden, tp = config.tp;
  // Norms and the biases behind row-split matrices are on every tensor-parallel rank.
  const double norms = 2 * (model.biases ? 2.0 : 1.0) * h;
  const double output_bias = model.biases ? h : 0;
  const double attention = (model.attention_parameters() - norms - output_bias) / tp + norms + output_bias;
  if (model.experts > 0) return attention + model.router_parameters();
  return attention + (model.mlp_parameters() - output_bias) / tp + output_bias;
}

double layer_expert_parameters(const TrainConfig& config) {
  const TrainModel& model = config.model;
  return model.experts == 0 ? 0 : static_cast<double>(model.experts) / config.ep * model.mlp_parameters() / config.tp;
}

double embedding_slice(const TrainConfig& config) {
  const double h = config.model.hidden;
  return h * (config.vocabulary_slice() + (config.model.positions ? static_cast<double>(config.model.sequence) : 0));
}

StageParameters stage_parameters(const TrainConfig& config, uint32_t stage) {
  const TrainModel& model = config.model;
  const double layers = config.layers_of_stage(stage);
  StageParameters sum{layers * layer_dense_parameters(config), layers * layer_expert_parameters(config)};
  if (stage == 0) sum.dense += embedding_slice(config);
  if (stage + 1 == config.pp) {
    sum.dense += (model.biases ? 2.0 : 1.0) * model.hidden;
    // The last stage has a copy of a tied embedding, unless it is the first, too.
    if (!model.tied || config.pp > 1) sum.dense += static_cast<double>(config.vocabulary_slice()) * model.hidden;
  }
  return sum;
}

double optimizer_bytes_per_parameter(const TrainConfig& config) {
  return config.gradient_bytes() + 2 * 12 + (config.precision == Precision::fp32 ? 0 : bytes_of(config.precision)) + 2;
}

}  // namespace banyan::predict
