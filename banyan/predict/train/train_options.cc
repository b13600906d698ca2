#include "banyan/predict/train/train_options.h"

#include <type_traits>

#include "banyan/base/check.h"
#include "banyan/base/nearest.h"
#include "banyan/base/option.h"
#include "banyan/predict/codes/codec_cost.h"
#include "banyan/predict/cost/devices.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kMostCount = 1'000'000'000;

// A member of the options, or of their configuration.
template <auto kMember>
auto& member(TrainOptions& options) {
  if constexpr (std::is_invocable_v<decltype(kMember), TrainOptions&>) {
    return options.*kMember;
  } else {
    return options.config.*kMember;
  }
}

template <auto kMember, uint64_t kLeast = 1, uint64_t kMost = kMostCount>
void count(TrainOptions& options, const std::string& text) {
  auto& target = member<kMember>(options);
  using Number = typename std::remove_reference_t<decltype(std::optional(target))>::value_type;
  target = static_cast<Number>(parse_count(text, "", {kLeast, kMost}));
}

template <auto kMember, auto kRead>
void with(TrainOptions& options, const std::string& text) {
  member<kMember>(options) = kRead(text);
}

template <auto kMember>
void text_of(TrainOptions& options, const std::string& text) {
  member<kMember>(options) = text;
}

template <auto kMember>
bool& flag(TrainOptions& options) {
  return member<kMember>(options);
}

using Names = std::vector<std::string>;

Names models() {
  Names names;
  for (const TrainModel& model : train_models()) names.push_back(model.name);
  return names;
}

Names devices() {
  Names names;
  for (const Device& device : DeviceTable::builtin().devices()) names.push_back(device.name);
  return names;
}

Names recomputes() { return {"none", "selective", "full"}; }
Names zeros() { return {"0", "1", "2", "3"}; }
Names precisions() { return {"fp16", "bf16", "fp32", "fp8"}; }

Names compressions() {
  Names names{"none", "auto"};
  for (const codec::Codec& codec : codecs_by_loss()) names.push_back(to_string(codec));
  return names;
}

using O = TrainOptions;
using C = TrainConfig;

constexpr TrainOption kOptions[] = {
    {"Model", "model", "NAME", "gpt3-175b, megatron-18.4b, llama3-405b, mixtral-8x7b, ...",
     with<&O::model, train_model>, nullptr, models},
    {"Model", "layers", "N", "a GPT of free shape, or a named model with other layers", count<&O::layers>},
    {"Model", "hidden", "N", "hidden size", count<&O::hidden>},
    {"Model", "heads", "N", "attention heads (default: of 128, below a hidden size of 2048 of 64)", count<&O::heads>},
    {"Model", "kv-heads", "N", "heads of keys and values", count<&O::kv_heads>},
    {"Model", "ffn", "N", "width of the MLP (default 4 * hidden)", count<&O::ffn>},
    {"Model", "seq", "N", "tokens of a sequence (default 2048)", count<&O::seq>},
    {"Model", "vocab", "N", "size of the vocabulary (default 50257)", count<&O::vocab>},
    {"Model", "pad-vocab", "N",
     "make the vocabulary a multiple of N * tp (default 128, as Megatron-LM does; 1: as it is)",
     count<&O::pad_vocab, 1, 1'000'000>},
    {"Model", "experts", "N", "experts of each layer", count<&O::experts, 0>},
    {"Model", "top-k", "N", "experts that a token goes through (default 2)", count<&O::top_k>},
    {"Device", "gpu", "NAME",
     "a100-80g, a100-40g, h100, h200, mi250, v100, tpu-v4 or one of --devices (default: that of the fabric, as h100 of "
     "dgx-h100, or a100-80g)",
     text_of<&O::gpu>, nullptr, devices},
    {"Device", "devices", "FILE", "devices that add to those built in; 'predict calibrate' writes one",
     text_of<&O::devices>},
    {"Parallelism", "tp", "N", "tensor parallel ranks (default 1)", count<&C::tp>},
    {"Parallelism", "pp", "N", "pipeline stages (default 1)", count<&C::pp>},
    {"Parallelism", "dp", "N", "data parallel replicas (default 1)", count<&C::dp>},
    {"Parallelism", "ep", "N", "replicas over which experts are spread (default: as many as possible)", count<&O::ep>},
    {"Parallelism", "interleave", "N", "model chunks per stage (default 1)", count<&C::interleave>},
    {"Parallelism", "sequence-parallel", "", "norms and dropouts split along the sequence", nullptr,
     flag<&C::sequence_parallel>},
    {"Batch", "micro-batch", "N", "sequences that a replica processes at once (default 1)", count<&C::micro_batch>},
    {"Batch", "global-batch", "N", "sequences in a step", count<&O::global_batch, 1, uint64_t{1} << 40>},
    {"Batch", "accumulate", "N", "micro-batches in a step, instead of --global-batch",
     count<&O::accumulate, 1, 1'000'000>},
    {"Memory and precision", "recompute", "WHAT", "activations: none, selective, full (default none)",
     with<&C::recompute, parse_recompute>, nullptr, recomputes},
    {"Memory and precision", "zero", "0..3", "what is sharded over dp: optimizer, gradients, parameters (default 0)",
     count<&C::zero, 0, 3>, nullptr, zeros},
    {"Memory and precision", "precision", "TYPE", "fp16, bf16, fp32, fp8 (default bf16, or fp16 where there is none)",
     with<&O::precision, parse_precision>, nullptr, precisions},
    {"Memory and precision", "fused-attention", "", "scores never go to memory (FlashAttention): the default", nullptr,
     flag<&O::fused_attention>},
    {"Memory and precision", "unfused-attention", "", "scores go to memory, as before FlashAttention", nullptr,
     flag<&O::unfused_attention>},
    {"Memory and precision", "ignore-memory", "", "predict also what does not fit into memory", nullptr,
     flag<&O::ignore_memory>},
    {"Memory and precision", "gradients-fp32", "", "keep and reduce gradients in fp32", nullptr,
     flag<&C::gradients_fp32>},
    {"Communication", "bucket", "SIZE", "gradients that are reduced together (default 25MiB)",
     with<&C::bucket, Bytes::parse>},
    {"Communication", "overlap-gradients", "", "reduce gradients while the backward pass goes on", nullptr,
     flag<&C::overlap_gradients>},
    {"Communication", "compress", "CODEC",
     "gradients in this code, such as int8, over the replicas; auto: a code for each bucket where that pays, or none",
     text_of<&O::compress>, nullptr, compressions},
    {"Communication", "codec-speed", "RATES",
     "float32 that a device encodes, decodes, decodes and adds a second: 500GB/s, or three rates (default: what its "
     "memory allows)",
     text_of<&O::codec_speed>},
    {"Communication", "no-scatter-gather", "", "stages send whole activations from every tp rank", nullptr,
     flag<&O::no_scatter_gather>},
};

}  // namespace

std::span<const TrainOption> train_options() { return kOptions; }

const TrainOption* find_train_option(std::string_view name) {
  for (const TrainOption& option : kOptions) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string unknown_train_option(std::string_view name) {
  NearestName nearest(name);
  for (const TrainOption& option : kOptions) nearest.offer(option.name);
  return "has '" + std::string(name.substr(0, 60)) + "', which is no option of 'banyan predict train'" + nearest.hint();
}

void set_train_option(TrainOptions& options, std::string_view name, const std::string& text) {
  const TrainOption* const option = find_train_option(name);
  if (option == nullptr) throw invalid(unknown_train_option(name));
  parse_option("--" + std::string(name), [&] {
    if (!option->is_flag()) return option->read(options, text);
    if (text != "true" && text != "false") throw invalid(in_quotes(text) + " is not true or false");
    set_train_flag(options, *option, text == "true");
  });
}

void set_train_flag(TrainOptions& options, const TrainOption& flag, bool value) {
  CHECK(flag.is_flag()) << flag.name;
  flag.flag(options) = value;
  if (&flag.flag(options) == &options.fused_attention) options.unfused_attention = !value;
}

}  // namespace banyan::predict
