#include "apps/predict/predict_train.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/lists.h"
#include "banyan/predict/train/layers.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMost = 1'000'000'000;

// Reads a whole number into `target`.
template <typename Number>
OptionSyntax::Setter count_into(Number& target, CountRange range = {1, kMost}) {
  return [&target, range](const std::string& text) {
    target = static_cast<typename std::remove_reference_t<decltype(std::optional(target))>::value_type>(
        parse_count(text, "", range));
  };
}

template <typename Value, typename Parse>
OptionSyntax::Setter parse_into(std::optional<Value>& target, Parse parse) {
  return [&target, parse](const std::string& text) { target = parse(text); };
}

// A named model, parts of which options change, or a GPT of free shape.
predict::TrainModel make_model(const TrainOptions& options) {
  predict::TrainModel model;
  if (options.model) {
    model = *options.model;
    model.hidden = options.hidden.value_or(model.hidden);
    model.layers = options.layers.value_or(model.layers);
    model.vocabulary = options.vocab.value_or(model.vocabulary);
    model.sequence = options.seq.value_or(model.sequence);
    if (options.heads) model.heads = model.kv_heads = *options.heads;
    if (options.hidden && !options.ffn) model.ffn = model.gated ? model.ffn : 4 * model.hidden;
  } else {
    if (!options.layers || !options.hidden)
      throw Error(ErrorCode::invalid_input, "name a model (--model gpt3-175b), or give its --layers and --hidden");
    predict::GptShape shape;
    shape.layers = *options.layers;
    shape.hidden = *options.hidden;
    shape.heads = options.heads.value_or(0);
    shape.sequence = options.seq.value_or(shape.sequence);
    shape.vocabulary = options.vocab.value_or(shape.vocabulary);
    model = gpt_model(shape);
  }
  model.kv_heads = options.kv_heads.value_or(model.kv_heads);
  model.ffn = options.ffn.value_or(model.ffn);
  model.experts = options.experts.value_or(model.experts);
  if (model.experts > 0 && model.top_k == 0) model.top_k = std::min(2u, model.experts);
  model.top_k = options.top_k.value_or(model.top_k);
  return model;
}

// --global-batch, or --accumulate micro-batches, or one.
uint64_t make_global_batch(const TrainOptions& options, const predict::TrainConfig& config) {
  const uint64_t together = config.micro_batch * config.dp;
  if (!options.accumulate) return options.global_batch.value_or(together);
  const uint64_t all = together * *options.accumulate;
  if (options.global_batch.value_or(all) != all)
    throw Error(ErrorCode::invalid_input, "--accumulate " + std::to_string(*options.accumulate) +
                                              " makes a global batch of " + std::to_string(all) + ", not " +
                                              std::to_string(*options.global_batch) + "; give one of both");
  return all;
}

std::string format_flop(double flop) {
  return flop < 1e15 ? format_decimals(flop * 1e-12, 1) + " TFLOP" : format_decimals(flop * 1e-15, 1) + " PFLOP";
}

std::string gibibytes(double bytes) { return format_decimals(bytes / (1 << 30), 1); }

std::string mends_in_words(const predict::MemoryReport& memory) {
  constexpr size_t kMostShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(memory.mends.size(), kMostShown); ++i) {
    text += (i == 0 ? "" : ", or ") + memory.mends[i].option;
  }
  return text;
}

}  // namespace

void declare_train_options(CommandSyntax& command, TrainOptions& options) {
  command.group("Model");
  command
      .option("--model", parse_into(options.model, predict::train_model), "NAME",
              "gpt3-175b, megatron-18.4b, llama3-405b, mixtral-8x7b, ...")
      .values = model_names();
  command.option("--layers", count_into(options.layers), "N",
                 "a GPT of free shape, or a named model with other layers");
  command.option("--hidden", count_into(options.hidden), "N", "hidden size");
  command.option("--heads", count_into(options.heads), "N",
                 "attention heads (default: of 128, below a hidden size of 2048 of 64)");
  command.option("--kv-heads", count_into(options.kv_heads), "N", "heads of keys and values");
  command.option("--ffn", count_into(options.ffn), "N", "width of the MLP (default 4 * hidden)");
  command.option("--seq", count_into(options.seq), "N", "tokens of a sequence (default 2048)");
  command.option("--vocab", count_into(options.vocab), "N", "size of the vocabulary (default 50257)");
  command.option("--pad-vocab", count_into(options.pad_vocab, {1, 1'000'000}), "N",
                 "make the vocabulary a multiple of N * tp (default 128, as Megatron-LM does; 1: as it is)");
  command.option("--experts", count_into(options.experts, {0, kMost}), "N", "experts of each layer");
  command.option("--top-k", count_into(options.top_k), "N", "experts that a token goes through (default 2)");
  command.group("Device");
  command
      .option("--gpu", &options.gpu, "NAME", "a100-80g, a100-40g, h100, h200, mi250, v100, tpu-v4 or one of --devices")
      .values = device_names();
  command.option("--devices", &options.devices, "FILE",
                 "devices that add to those built in; 'predict calibrate' writes one");
  command.group("Parallelism");
  command.option("--tp", count_into(options.tp), "N", "tensor parallel ranks (default 1)");
  command.option("--pp", count_into(options.pp), "N", "pipeline stages (default 1)");
  command.option("--dp", count_into(options.dp), "N", "data parallel replicas (default 1)");
  command.option("--ep", count_into(options.ep), "N",
                 "replicas over which experts are spread (default: as many as possible)");
  command.option("--interleave", count_into(options.interleave), "N", "model chunks per stage (default 1)");
  command.flag("--sequence-parallel", options.sequence_parallel, "norms and dropouts split along the sequence");
  command.group("Batch");
  command.option("--micro-batch", count_into(options.micro_batch), "N",
                 "sequences that a replica processes at once (default 1)");
  command.option("--global-batch", count_into(options.global_batch, {1, uint64_t{1} << 40}), "N",
                 "sequences in a step");
  command.option("--accumulate", count_into(options.accumulate, {1, 1'000'000}), "N",
                 "micro-batches in a step, instead of --global-batch");
  command.group("Memory and precision");
  command
      .option("--recompute", parse_into(options.recompute, predict::parse_recompute), "WHAT",
              "activations: none, selective, full (default none)")
      .values = {"none", "selective", "full"};
  command
      .option("--zero", count_into(options.zero, {0, 3}), "0..3",
              "what is sharded over dp: optimizer, gradients, parameters (default 0)")
      .values = {"0", "1", "2", "3"};
  command
      .option("--precision", parse_into(options.precision, predict::parse_precision), "TYPE",
              "fp16, bf16, fp32, fp8 (default bf16, or fp16 where there is none)")
      .values = {"fp16", "bf16", "fp32", "fp8"};
  command.flag("--fused-attention", options.fused_attention, "scores never go to memory (FlashAttention): the default");
  command.flag("--unfused-attention", options.unfused_attention, "scores go to memory, as before FlashAttention");
  command.flag("--ignore-memory", options.ignore_memory, "predict also what does not fit into memory");
  command.flag("--gradients-fp32", options.gradients_fp32, "keep and reduce gradients in fp32");
  command.group("Communication");
  command.option("--bucket", parse_into(options.bucket, Bytes::parse), "SIZE",
                 "gradients that are reduced together (default 25MiB)");
  command.flag("--overlap-gradients", options.overlap_gradients, "reduce gradients while the backward pass goes on");
  command.flag("--no-scatter-gather", options.no_scatter_gather, "stages send whole activations from every tp rank");
  command.group("Options");
}

predict::DeviceTable load_devices(const std::string& path) {
  return path.empty() ? predict::DeviceTable::builtin() : parse_option("--devices", [&] {
    return predict::DeviceTable::read(path, predict::DeviceTable::builtin());
  });
}

TrainSetup make_train_setup(const TrainOptions& options) {
  TrainSetup setup;
  const predict::DeviceTable devices = load_devices(options.devices);
  setup.device = parse_option("--gpu", [&] { return devices.at(options.gpu); });
  predict::TrainConfig& config = setup.config;
  config.model = make_model(options);
  config.tp = options.tp, config.pp = options.pp, config.dp = options.dp;
  uint32_t spread = 1;
  for (uint32_t ep = 1; ep <= std::min(config.dp, config.model.experts); ++ep) {
    if (config.dp % ep == 0 && config.model.experts % ep == 0) spread = ep;
  }
  config.ep = options.ep.value_or(spread);
  config.micro_batch = options.micro_batch;
  config.global_batch = make_global_batch(options, config);
  config.interleave = options.interleave;
  config.recompute = options.recompute.value_or(config.recompute);
  config.zero = options.zero;
  config.precision = options.precision.value_or(
      setup.device.rate(predict::Precision::bf16) > 0 ? predict::Precision::bf16 : predict::Precision::fp16);
  config.bucket = options.bucket.value_or(config.bucket);
  if (options.fused_attention && options.unfused_attention)
    throw Error(ErrorCode::invalid_input, "--fused-attention and --unfused-attention exclude each other");
  config.sequence_parallel = options.sequence_parallel, config.fused_attention = !options.unfused_attention;
  config.overlap_gradients = options.overlap_gradients, config.gradients_fp32 = options.gradients_fp32;
  config.scatter_gather = !options.no_scatter_gather;
  // 1 leaves it as it is; what tp does not divide then gives some ranks a word more.
  if (options.pad_vocab > 1) {
    const uint64_t multiple = uint64_t{options.pad_vocab} * config.tp;
    const uint64_t padded = (config.model.vocabulary + multiple - 1) / multiple * multiple;
    if (padded <= UINT32_MAX) config.model.vocabulary = static_cast<uint32_t>(padded);
  }
  check_config(config);
  if (const std::string note = borrowed_figures(setup.device); !note.empty()) setup.notes.push_back(note);
  if (const uint32_t slice = config.vocabulary_slice(); slice % 8 != 0 && setup.device.efficiency.unaligned < 1)
    setup.notes.push_back("a rank has " + std::to_string(slice) +
                          " words, no multiple of 8, which slows the output layer; see --pad-vocab");
  return setup;
}

double model_flop(const predict::TrainConfig& config) {
  predict::TrainConfig plain = config;
  plain.recompute = predict::Recompute::none;
  const auto both = [](const predict::LayerBlock& block) { return block.forward.flop() + block.backward.flop(); };
  double layer = both(attention_block(plain));
  layer += plain.model.experts == 0 ? both(mlp_block(plain)) : both(router_block(plain)) + both(experts_block(plain));
  // Slices of the vocabulary are rounded down; the whole is counted.
  const double head =
      both(head_block(plain)) * plain.model.vocabulary / (static_cast<double>(plain.vocabulary_slice()) * plain.tp);
  const double of_micro_batch = (layer * plain.model.layers + head) * plain.tp;
  return of_micro_batch * static_cast<double>(plain.micro_batches()) * plain.dp;
}

namespace {

struct StepRates {
  double flops_a_device = 0, of_peak = 0, tokens = 0;
};

StepRates step_rates(const TrainSetup& setup, double seconds) {
  const double rate = model_flop(setup.config) / seconds / static_cast<double>(setup.config.ranks());
  return {.flops_a_device = rate,
          .of_peak = rate / setup.device.rate(setup.config.precision),
          .tokens = static_cast<double>(setup.config.global_batch) * setup.config.model.sequence / seconds};
}

}  // namespace

std::string format_step(const TrainSetup& setup, double seconds) {
  const StepRates rates = step_rates(setup, seconds);
  return format_seconds(seconds) + " a step: " + format_decimals(rates.flops_a_device * 1e-12, 1) +
         " TFLOP/s a device, " + format_percent(rates.of_peak) + " of its peak in model FLOPs; " +
         format_decimals(rates.tokens, 0) + " tokens/s";
}

double launch_share(const Job& job) {
  std::vector<uint64_t> ranks_of(job.programs().size(), 0);
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) ++ranks_of[job.program_number(rank)];
  double fixed = 0, all = 0;
  for (size_t program = 0; program < ranks_of.size(); ++program) {
    for (const job::Node& node : job.programs()[program].nodes) {
      fixed += static_cast<double>(node.fixed.count()) * static_cast<double>(ranks_of[program]);
      all += static_cast<double>(node.duration.count()) * static_cast<double>(ranks_of[program]);
    }
  }
  return all > 0 ? fixed / all : 0;
}

std::string format_launches(const Job& job) {
  return format_percent(launch_share(job)) +
         " of the computing are launches and gaps between kernels, which a faster device does not shorten";
}

std::vector<std::pair<std::string, std::string>> train_facts(const TrainSetup& setup, const Job& job,
                                                             const predict::MemoryReport& memory, double seconds) {
  const StepRates rates = step_rates(setup, seconds);
  const predict::TrainConfig& config = setup.config;
  return {{"Model FLOPs utilisation", format_percent(rates.of_peak)},
          {"Each device", format_decimals(rates.flops_a_device * 1e-12, 1) + " TFLOP/s"},
          {"Tokens", format_decimals(rates.tokens, 0) + " a second"},
          {"Memory", (memory.fits ? "fits: " : "does not fit: ") + gibibytes(memory.stages[memory.worst].all()) +
                         " of " + gibibytes(static_cast<double>(memory.available.count())) + " GiB"},
          {"Launches and gaps between kernels", format_percent(launch_share(job)) + " of computing"},
          {"Parameters", format_decimals(config.model.parameters() * 1e-9, 2) + " billion"},
          {"Device", setup.device.name + ", " + format_decimals(setup.device.rate(config.precision) * 1e-12, 0) +
                         " TFLOP/s at its peak: " + setup.device.description}};
}

std::string format_train_setup(const Terminal& terminal, const TrainSetup& setup, const predict::MemoryReport& memory) {
  const predict::TrainConfig& config = setup.config;
  std::string text;
  if (!memory.fits) text += labelled(terminal, "memory", terminal.styled(Terminal::Style::bad, misfit(setup, memory)));
  text += labelled(terminal, "training", describe(config));
  text += labelled(terminal, "",
                   format_decimals(config.model.parameters() * 1e-9, 2) + " billion parameters, " +
                       format_flop(model_flop(config)) + " a step");
  text += labelled(terminal, "device", setup.device.name + ": " + setup.device.description);
  for (const std::string& note : setup.notes) text += labelled(terminal, "note", note);
  text += "\n";
  Table table({"GiB on a rank of stage", "parameters", "gradients", "optimizer", "activations", "all"});
  for (size_t stage = 0; stage < memory.stages.size(); ++stage) {
    const bool shown =
        memory.stages.size() <= 8 || stage < 3 || stage + 2 >= memory.stages.size() || stage == memory.worst;
    if (!shown) continue;
    const predict::StageMemory& of = memory.stages[stage];
    table.add({std::to_string(stage), gibibytes(of.parameters), gibibytes(of.gradients), gibibytes(of.optimizer),
               gibibytes(of.activations), gibibytes(of.all())});
  }
  text += table.format(terminal) + "\n";
  if (memory.fits) {
    text += labelled(terminal, "memory",
                     "fits: " + gibibytes(memory.stages[memory.worst].all()) + " of the " +
                         gibibytes(static_cast<double>(memory.available.count())) + " GiB that a device has for them");
  }
  return text;
}

std::string misfit(const TrainSetup& setup, const predict::MemoryReport& memory) {
  const double needed = memory.stages[memory.worst].all(), available = static_cast<double>(memory.available.count());
  std::string text = "does not fit into memory: a rank of stage " + std::to_string(memory.worst) + " needs " +
                     gibibytes(needed) + " GiB, " + gibibytes(needed - available) + " GiB more than the " +
                     gibibytes(available) + " GiB that " + setup.device.name + " has for it; ";
  text += memory.mends.empty() ? "use more devices" : "it fits with " + mends_in_words(memory);
  return text + " (--ignore-memory predicts it anyway)";
}

Json train_setup_json(const TrainSetup& setup, const predict::MemoryReport& memory) {
  const predict::TrainConfig& config = setup.config;
  Json stages = Json::array(), mends = Json::array();
  for (const predict::StageMemory& of : memory.stages)
    stages.push_back({{"parameters_bytes", of.parameters},
                      {"gradients_bytes", of.gradients},
                      {"optimizer_bytes", of.optimizer},
                      {"activations_bytes", of.activations}});
  for (const predict::MemoryMend& mend : memory.mends) mends.push_back(mend.option);
  return {{"training", describe(config)},
          {"model", config.model.name},
          {"parameters", static_cast<uint64_t>(config.model.parameters())},
          {"model_flop", model_flop(config)},
          {"device", setup.device.name},
          {"ranks", config.ranks()},
          {"tp", config.tp},
          {"pp", config.pp},
          {"dp", config.dp},
          {"ep", config.ep},
          {"micro_batch", config.micro_batch},
          {"global_batch", config.global_batch},
          {"memory",
           {{"fits", memory.fits},
            {"available_bytes", memory.available.count()},
            {"worst_stage", memory.worst},
            {"stages", stages},
            {"fits_with", mends}}},
          {"notes", setup.notes}};
}

std::string format_estimate(const Terminal& terminal, const TrainSetup& setup, const predict::StepEstimate& estimate) {
  std::string text = labelled(terminal, "estimate", format_step(setup, estimate.seconds));
  Table table({"of the slowest stage", "time", "share"});
  const auto add = [&](const char* what, double seconds) {
    if (seconds > 0) table.add({what, format_seconds(seconds), format_percent(seconds / estimate.seconds)});
  };
  add("compute", estimate.compute);
  add("tensor-parallel collectives", estimate.tensor);
  add("bubble", estimate.bubble);
  add("gradients, not hidden", estimate.gradients);
  add("optimizer", estimate.optimizer);
  return text + table.format(terminal, "  ");
}

Json estimate_json(const predict::StepEstimate& estimate) {
  return {{"seconds", estimate.seconds},
          {"compute_seconds", estimate.compute},
          {"tensor_seconds", estimate.tensor},
          {"bubble_seconds", estimate.bubble},
          {"gradients_seconds", estimate.gradients},
          {"optimizer_seconds", estimate.optimizer}};
}

}  // namespace banyan::app
