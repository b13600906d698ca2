#include "banyan/predict/train/train_options.h"

#include <type_traits>

#include "banyan/base/nearest.h"
#include "banyan/predict/codes/codec_cost.h"
#include "banyan/predict/cost/devices.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kMostCount = 1'000'000'000;

template <auto kMember, uint64_t kLeast = 1, uint64_t kMost = kMostCount>
void count(TrainOptions& options, const OptionValue& value) {
  auto& target = member_of<kMember>(options);
  using Number = typename std::remove_reference_t<decltype(std::optional(target))>::value_type;
  target = static_cast<Number>(read_count(value, {kLeast, kMost}));
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
     read_into<&O::model, train_model>, nullptr, models},
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
     "one that 'predict --list' shows, or one of --devices (default: that of the fabric, as h100 of dgx-h100, or "
     "a100-80g)",
     read_into<&O::gpu, read_text>, nullptr, devices},
    {"Device", "devices", "FILE", "devices that add to those built in; 'predict calibrate' writes one",
     read_into<&O::devices, read_text>},
    {"Parallelism", "tp", "N", "tensor parallel ranks (default 1)", count<&C::tp>},
    {"Parallelism", "pp", "N", "pipeline stages (default 1)", count<&C::pp>},
    {"Parallelism", "dp", "N", "data parallel replicas (default 1)", count<&C::dp>},
    {"Parallelism", "ep", "N", "replicas over which experts are spread (default: as many as possible)", count<&O::ep>},
    {"Parallelism", "interleave", "N", "model chunks per stage (default 1)", count<&C::interleave>},
    {"Parallelism", "sequence-parallel", "", "norms and dropouts split along the sequence", nullptr,
     flag_in<&C::sequence_parallel>},
    {"Batch", "micro-batch", "N", "sequences that a replica processes at once (default 1)", count<&C::micro_batch>},
    {"Batch", "global-batch", "N", "sequences in a step", count<&O::global_batch, 1, uint64_t{1} << 40>},
    {"Batch", "accumulate", "N", "micro-batches in a step, instead of --global-batch",
     count<&O::accumulate, 1, 1'000'000>},
    {"Memory and precision", "recompute", "WHAT", "activations: none, selective, full (default none)",
     read_into<&C::recompute, parse_recompute>, nullptr, recomputes},
    {"Memory and precision", "zero", "0..3", "what is sharded over dp: optimizer, gradients, parameters (default 0)",
     count<&C::zero, 0, 3>, nullptr, zeros},
    {"Memory and precision", "precision", "TYPE", "fp16, bf16, fp32, fp8 (default bf16, or fp16 where there is none)",
     read_into<&O::precision, parse_precision>, nullptr, precisions},
    {"Memory and precision", "fused-attention", "", "scores never go to memory (FlashAttention): the default", nullptr,
     flag_in<&O::fused_attention>},
    {"Memory and precision", "unfused-attention", "", "scores go to memory, as before FlashAttention", nullptr,
     flag_in<&O::unfused_attention>},
    {"Memory and precision", "ignore-memory", "", "predict also what does not fit into memory", nullptr,
     flag_in<&O::ignore_memory>},
    {"Memory and precision", "gradients-fp32", "", "keep and reduce gradients in fp32", nullptr,
     flag_in<&C::gradients_fp32>},
    {"Communication", "bucket", "SIZE", "gradients that are reduced together (default 25MiB)",
     read_into<&C::bucket, read_bytes>},
    {"Communication", "overlap-gradients", "", "reduce gradients while the backward pass goes on", nullptr,
     flag_in<&C::overlap_gradients>},
    {"Communication", "compress", "CODEC",
     "gradients in this code, such as int8, over the replicas; auto: a code for each bucket where that pays, or none",
     read_into<&O::compress, read_text>, nullptr, compressions},
    {"Communication", "codec-speed", "RATES",
     "float32 that a device encodes, decodes, decodes and adds a second: 500GB/s, or three rates (default: what its "
     "memory allows)",
     read_into<&O::codec_speed, read_text>},
    {"Communication", "no-scatter-gather", "", "stages send whole activations from every tp rank", nullptr,
     flag_in<&O::no_scatter_gather>},
};

}  // namespace

std::span<const TrainOption> train_options() { return kOptions; }

std::string unknown_train_option(std::string_view name) {
  NearestName nearest(name);
  for (const TrainOption& option : kOptions) nearest.offer(option.name);
  return "has '" + std::string(name.substr(0, 60)) + "', which is no option of 'banyan predict train'" + nearest.hint();
}

void set_train_option(TrainOptions& options, const TrainOption& option, const OptionValue& value) {
  option.set(options, value);
  if (option.name == "fused-attention") options.unfused_attention = !options.fused_attention;
}

void set_train_option(TrainOptions& options, std::string_view name, const OptionValue& value) {
  const TrainOption* const option = find_option(train_options(), name);
  if (option == nullptr) throw banyan::invalid(unknown_train_option(name));
  parse_option("--" + std::string(name), [&] { set_train_option(options, *option, value); });
}

}  // namespace banyan::predict
