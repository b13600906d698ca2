// Transformer models: their shape, and what follows from it in closed form (parameters, FLOPs).
//
// A layer is attention and an MLP (or experts), each with a norm in front and a residual around. Notation of the
// literature: l layers, h hidden, a heads, s sequence length, V vocabulary, B batch in sequences.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace banyan::predict {

struct TrainModel {
  std::string name;
  std::string source;  // where its shape is published
  uint32_t layers = 0, hidden = 0, heads = 0;
  uint32_t kv_heads = 0;  // fewer than heads: grouped queries
  uint32_t ffn = 0;       // width of the MLP, of one expert
  bool gated = false;     // three matrices (SwiGLU) in the MLP instead of two
  bool biases = true;     // of matrices and norms (GPT); LLaMA has none
  bool tied = true;       // the output matrix is the embedding's
  bool positions = true;  // learned positions: another s * h parameters
  uint32_t sequence = 0, vocabulary = 0;
  uint32_t experts = 0, top_k = 0;  // 0: a plain MLP

  uint32_t head_size() const { return hidden / heads; }
  uint32_t kv_width() const { return head_size() * kv_heads; }

  // Parameters of one layer: attention and norms; the MLP, or one expert; the router.
  double attention_parameters() const;
  double mlp_parameters() const;
  double router_parameters() const;
  double layer_parameters() const;      // all experts
  double embedding_parameters() const;  // words and positions
  double head_parameters() const;       // of an output matrix of its own, 0 when tied
  double parameters() const;
};

// A GPT of free shape: ffn = 4 h, heads of 64 or 128 when not given.
struct GptShape {
  uint32_t layers = 0, hidden = 0, heads = 0, sequence = 2048, vocabulary = 50257;
};
TrainModel gpt_model(const GptShape& shape);

std::span<const TrainModel> train_models();
// Without regard to case. Throws Error{not_found} with the nearest and all known names.
const TrainModel& train_model(std::string_view name);

// Throws Error{invalid_input} naming what does not fit together: zero sizes, hidden not a multiple of heads, and the
// like.
void check_model(const TrainModel& model);

}  // namespace banyan::predict
