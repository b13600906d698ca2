// The options of a training step, as the command line, files of jobs and Python take them: one table of names, each
// with its meaning and its reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
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

// A row of the table: an option with a value, or a flag.
struct TrainOption {
  std::string_view group;  // heading under which a help shows it
  std::string_view name;   // "global-batch"
  std::string_view value;  // what stands for the value in a help; empty of a flag
  std::string_view help;
  void (*read)(TrainOptions& options, const std::string& text) = nullptr;  // null of a flag; throws Error
  bool& (*flag)(TrainOptions&) = nullptr;                                  // null of one with a value
  std::vector<std::string> (*values)() = nullptr;                          // those that it can have, where they are few

  bool is_flag() const { return flag != nullptr; }
};

// In the order of a help: groups stand together.
std::span<const TrainOption> train_options();
// Null for a name that no option has; in words: "has 'modle', which is no option of ... (did you mean 'model'?)".
const TrainOption* find_train_option(std::string_view name);
std::string unknown_train_option(std::string_view name);

// Throws Error{invalid_input} that names the option and the mend; a flag takes "true" and "false".
void set_train_option(TrainOptions& options, std::string_view name, const std::string& text);
// Attention is fused unless it is said not to be, so a false "fused-attention" counts, too.
void set_train_flag(TrainOptions& options, const TrainOption& flag, bool value);

}  // namespace banyan::predict
