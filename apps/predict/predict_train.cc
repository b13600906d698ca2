#include "apps/predict/predict_train.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "banyan/predict/train/layers.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMost = 1'000'000'000;

uint32_t count_or(const std::string& text, const char* option, uint32_t otherwise, CountRange range = {1, kMost}) {
  return text.empty() ? otherwise : static_cast<uint32_t>(parse_count(text, option, range));
}

// A named model, parts of which options change, or a GPT of free shape.
predict::TrainModel make_model(const TrainTexts& texts) {
  predict::TrainModel model;
  if (!texts.model.empty()) {
    model = parse_option("--model", [&] { return predict::train_model(texts.model); });
    model.hidden = count_or(texts.hidden, "--hidden", model.hidden);
    model.layers = count_or(texts.layers, "--layers", model.layers);
    model.vocabulary = count_or(texts.vocab, "--vocab", model.vocabulary);
    model.sequence = count_or(texts.seq, "--seq", model.sequence);
    if (!texts.heads.empty()) model.heads = model.kv_heads = count_or(texts.heads, "--heads", 0);
    if (!texts.hidden.empty() && texts.ffn.empty()) model.ffn = model.gated ? model.ffn : 4 * model.hidden;
  } else {
    if (texts.layers.empty() || texts.hidden.empty())
      throw Error(ErrorCode::invalid_input, "name a model (--model gpt3-175b), or give its --layers and --hidden");
    predict::GptShape shape;
    shape.layers = count_or(texts.layers, "--layers", 0);
    shape.hidden = count_or(texts.hidden, "--hidden", 0);
    shape.heads = count_or(texts.heads, "--heads", 0);
    shape.sequence = count_or(texts.seq, "--seq", shape.sequence);
    shape.vocabulary = count_or(texts.vocab, "--vocab", shape.vocabulary);
    model = gpt_model(shape);
  }
  model.kv_heads = count_or(texts.kv_heads, "--kv-heads", model.kv_heads);
  model.ffn = count_or(texts.ffn, "--ffn", model.ffn);
  model.experts = count_or(texts.experts, "--experts", model.experts, {0, kMost});
  if (model.experts > 0 && model.top_k == 0) model.top_k = std::min(2u, model.experts);
  model.top_k = count_or(texts.top_k, "--top-k", model.top_k);
  return model;
}

// --global-batch, or --accumulate micro-batches, or one.
uint64_t make_global_batch(const TrainTexts& texts, const predict::TrainConfig& config) {
  const uint64_t together = config.micro_batch * config.dp;
  if (texts.accumulate.empty())
    return texts.global_batch.empty() ? together
                                      : parse_count(texts.global_batch, "--global-batch", {1, uint64_t{1} << 40});
  const uint64_t all = together * parse_count(texts.accumulate, "--accumulate", {1, 1'000'000});
  if (!texts.global_batch.empty() && parse_count(texts.global_batch, "--global-batch", {1, uint64_t{1} << 40}) != all)
    throw Error(ErrorCode::invalid_input, "--accumulate " + texts.accumulate + " makes a global batch of " +
                                              std::to_string(all) + ", not " + texts.global_batch +
                                              "; give one of both");
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

void declare_train_options(CommandSyntax& command, TrainTexts& texts) {
  command.group("Model");
  command.option("--model", &texts.model, "NAME", "gpt3-175b, megatron-18.4b, llama3-405b, mixtral-8x7b, ...");
  command.option("--layers", &texts.layers, "N", "a GPT of free shape, or a named model with other layers");
  command.option("--hidden", &texts.hidden, "N", "hidden size");
  command.option("--heads", &texts.heads, "N", "attention heads (default: of 128, below a hidden size of 2048 of 64)");
  command.option("--kv-heads", &texts.kv_heads, "N", "heads of keys and values");
  command.option("--ffn", &texts.ffn, "N", "width of the MLP (default 4 * hidden)");
  command.option("--seq", &texts.seq, "N", "tokens of a sequence (default 2048)");
  command.option("--vocab", &texts.vocab, "N", "size of the vocabulary (default 50257)");
  command.option("--pad-vocab", &texts.pad_vocab, "N",
                 "make the vocabulary a multiple of N * tp (default 128, as Megatron-LM does; 1: as it is)");
  command.option("--experts", &texts.experts, "N", "experts of each layer");
  command.option("--top-k", &texts.top_k, "N", "experts that a token goes through (default 2)");
  command.group("Device");
  command.option("--gpu", &texts.gpu, "NAME",
                 "a100-80g, a100-40g, h100, h200, mi250, v100, tpu-v4 or one of --devices");
  command.option("--devices", &texts.devices, "FILE",
                 "devices that add to those built in; 'predict calibrate' writes one");
  command.group("Parallelism");
  command.option("--tp", &texts.tp, "N", "tensor parallel ranks (default 1)");
  command.option("--pp", &texts.pp, "N", "pipeline stages (default 1)");
  command.option("--dp", &texts.dp, "N", "data parallel replicas (default 1)");
  command.option("--ep", &texts.ep, "N", "replicas over which experts are spread (default: as many as possible)");
  command.option("--interleave", &texts.interleave, "N", "model chunks per stage (default 1)");
  command.flag("--sequence-parallel", texts.sequence_parallel, "norms and dropouts split along the sequence");
  command.group("Batch");
  command.option("--micro-batch", &texts.micro_batch, "N", "sequences that a replica processes at once (default 1)");
  command.option("--global-batch", &texts.global_batch, "N", "sequences in a step");
  command.option("--accumulate", &texts.accumulate, "N", "micro-batches in a step, instead of --global-batch");
  command.group("Memory and precision");
  command.option("--recompute", &texts.recompute, "WHAT", "activations: none, selective, full (default none)");
  command.option("--zero", &texts.zero, "0..3",
                 "what is sharded over dp: optimizer, gradients, parameters (default 0)");
  command.option("--precision", &texts.precision, "TYPE",
                 "fp16, bf16, fp32, fp8 (default bf16, or fp16 where there is none)");
  command.flag("--fused-attention", texts.fused_attention, "scores never go to memory (FlashAttention): the default");
  command.flag("--unfused-attention", texts.unfused_attention, "scores go to memory, as before FlashAttention");
  command.flag("--ignore-memory", texts.ignore_memory, "predict also what does not fit into memory");
  command.flag("--gradients-fp32", texts.gradients_fp32, "keep and reduce gradients in fp32");
  command.group("Communication");
  command.option("--bucket", &texts.bucket, "SIZE", "gradients that are reduced together (default 25MiB)");
  command.flag("--overlap-gradients", texts.overlap_gradients, "reduce gradients while the backward pass goes on");
  command.flag("--no-scatter-gather", texts.no_scatter_gather, "stages send whole activations from every tp rank");
  command.group("Options");
}

predict::DeviceTable load_devices(const std::string& path) {
  return path.empty() ? predict::DeviceTable::builtin() : parse_option("--devices", [&] {
    return predict::DeviceTable::read(path, predict::DeviceTable::builtin());
  });
}

TrainSetup make_train_setup(const TrainTexts& texts) {
  TrainSetup setup;
  const predict::DeviceTable devices = load_devices(texts.devices);
  setup.device = parse_option("--gpu", [&] { return devices.at(texts.gpu); });
  predict::TrainConfig& config = setup.config;
  config.model = make_model(texts);
  config.tp = count_or(texts.tp, "--tp", 1), config.pp = count_or(texts.pp, "--pp", 1),
  config.dp = count_or(texts.dp, "--dp", 1);
  uint32_t spread = 1;
  for (uint32_t ep = 1; ep <= std::min(config.dp, config.model.experts); ++ep) {
    if (config.dp % ep == 0 && config.model.experts % ep == 0) spread = ep;
  }
  config.ep = count_or(texts.ep, "--ep", spread);
  config.micro_batch = count_or(texts.micro_batch, "--micro-batch", 1);
  config.global_batch = make_global_batch(texts, config);
  config.interleave = count_or(texts.interleave, "--interleave", 1);
  if (!texts.recompute.empty())
    config.recompute = parse_option("--recompute", [&] { return predict::parse_recompute(texts.recompute); });
  config.zero = count_or(texts.zero, "--zero", 0, {0, 3});
  config.precision =
      setup.device.rate(predict::Precision::bf16) > 0 ? predict::Precision::bf16 : predict::Precision::fp16;
  if (!texts.precision.empty())
    config.precision = parse_option("--precision", [&] { return predict::parse_precision(texts.precision); });
  if (!texts.bucket.empty()) config.bucket = parse_option("--bucket", [&] { return Bytes::parse(texts.bucket); });
  if (texts.fused_attention && texts.unfused_attention)
    throw Error(ErrorCode::invalid_input, "--fused-attention and --unfused-attention exclude each other");
  config.sequence_parallel = texts.sequence_parallel, config.fused_attention = !texts.unfused_attention;
  config.overlap_gradients = texts.overlap_gradients, config.gradients_fp32 = texts.gradients_fp32;
  config.scatter_gather = !texts.no_scatter_gather;
  // 1 leaves it as it is; what tp does not divide then gives some ranks a word more.
  if (const uint64_t each = count_or(texts.pad_vocab, "--pad-vocab", 128, {1, 1'000'000}); each > 1) {
    const uint64_t multiple = each * config.tp;
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
    for (const job::JobNode& node : job.programs()[program].nodes) {
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
          {"parameters", config.model.parameters()},
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
