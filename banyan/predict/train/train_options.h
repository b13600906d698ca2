// The options of a training step, as the command line, files of jobs and Python take them: one table of names, each
// with its meaning and its reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/option_table.h"
#include "banyan/predict/train/config.h"

namespace banyan::predict {

// As the user gave them; nothing where that says something else than any value.
struct TrainOptions {
  TrainConfig config;  // options that are handed on as they are
  std::optional<TrainModel> model;
  std::string gpu;  // empty: what the fabric's name says, or the default
  std::string devices;
  std::string compress, codec_speed;
  std::optional<uint32_t> layers, hidden, heads, kv_heads, ffn, seq, vocab, experts, top_k, ep;
  uint32_t pad_vocab = 128;
  std::optional<uint64_t> global_batch, accumulate;
  std::optional<Precision> precision;
  bool fused_attention = false, unfused_attention = false, no_scatter_gather = false, ignore_memory = false;
};

inline TrainConfig& part_of(TrainOptions& options) { return options.config; }
using TrainOption = OptionRow<TrainOptions>;

// In the order of a help: groups stand together.
std::span<const TrainOption> train_options();
// "has 'modle', which is no option of 'banyan predict train' (did you mean 'model'?)".
std::string unknown_train_option(std::string_view name);

// Throws Error{invalid_input} that says the mend. Attention is fused unless it is said not to be, so a false
// "fused-attention" counts, too.
void set_train_option(TrainOptions& options, const TrainOption& option, const OptionValue& value);
// The same by its name, which errors begin with ("--tp: ..."); an unknown one is an error, too.
void set_train_option(TrainOptions& options, std::string_view name, const OptionValue& value);

}  // namespace banyan::predict
