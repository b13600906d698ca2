// The configuration of a training run: degrees of parallelism, batches, what is recomputed and sharded. A value that
// check_config has passed can be turned into operators, a memory report, a Job.
//
// Ranks are in Megatron's order: tensor parallel fastest, then data parallel, then pipeline:
//   rank = (stage * dp + replica) * tp + slice
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "banyan/base/units.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/model.h"

namespace banyan::predict {

// The activations of the forward pass that are computed again before the backward pass, not kept (Korthikanti et al.
// 2022): none; those of the attention core (scores, softmax, dropout, context); all but each layer's input.
enum class Recompute : uint8_t { none, selective, full };
std::string_view to_string(Recompute recompute);
Recompute parse_recompute(std::string_view text);  // throws Error{invalid_input} with the known ones

struct TrainConfig {
  TrainModel model;
  uint32_t tp = 1, pp = 1, dp = 1;
  uint32_t ep = 1;                 // expert parallel: divides dp; the experts of a layer are spread over ep replicas
  uint64_t micro_batch = 1;        // sequences
  uint64_t global_batch = 1;       // sequences of a step: micro_batch * dp * number of micro-batches
  uint32_t interleave = 1;         // model chunks per stage (virtual pipeline)
  bool sequence_parallel = false;  // with tp: norms and dropouts split along the sequence
  bool fused_attention = false;    // scores never leave the multiprocessor (FlashAttention)
  Recompute recompute = Recompute::none;
  uint32_t zero = 0;  // 0: nothing sharded over dp; 1: optimizer states; 2: gradients, too; 3: parameters, too
  Precision precision = Precision::bf16;
  Bytes bucket{25 << 20};          // of gradients, reduced together
  bool overlap_gradients = false;  // reduce buckets while the backward pass goes on
  bool gradients_fp32 = false;     // kept and reduced in fp32 (Megatron-LM); else in the parameters' precision
  bool scatter_gather = true;      // between stages, each tensor-parallel rank sends its share (Narayanan et al., 4.1)

  uint64_t ranks() const { return uint64_t{tp} * pp * dp; }
  uint64_t micro_batches() const { return global_batch / (micro_batch * dp); }
  uint32_t chunks() const { return pp * interleave; }
  // Chunk 0 .. chunks() - 1 of the model. Layers that the chunks cannot share evenly are missing at the ends,
  // where embedding and output layer are: one layer less in the last chunk, then in the first, the last but one, ...
  // (Llama team 2024, section 3.3.2).
  uint32_t layers_of_chunk(uint32_t chunk) const;
  uint32_t layers_of_stage(uint32_t stage) const;
  double tokens() const { return static_cast<double>(micro_batch) * model.sequence; }  // of a micro-batch
  uint32_t gradient_bytes() const { return gradients_fp32 ? 4 : bytes_of(precision); }
  // Words of the vocabulary on one tensor-parallel rank. If it does not divide evenly, the first ranks hold one word
  // more; this is the number of the others.
  uint32_t vocabulary_slice() const { return model.vocabulary / tp; }
};

// Throws Error{invalid_input} naming the option that does not fit and the mend.
void check_config(const TrainConfig& config);

// "gpt3-175b, 512 ranks: tp 8, pp 8, dp 8; micro-batch 1, global batch 1536 (192 micro-batches)".
std::string describe(const TrainConfig& config);

}  // namespace banyan::predict
