#include "banyan/answer/train_step.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "banyan/answer/step_compression.h"
#include "banyan/base/option.h"
#include "banyan/base/words.h"
#include "banyan/predict/train/layers.h"

namespace banyan::answer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDefaultDevice = "a100-80g";

// A named model, parts of which options change, or a GPT of free shape.
predict::TrainModel make_model(const predict::TrainOptions& options) {
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
      throw invalid("name a model (--model gpt3-175b), or give its --layers and --hidden");
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
uint64_t make_global_batch(const predict::TrainOptions& options, const predict::TrainConfig& config) {
  const uint64_t together = config.micro_batch * config.dp;
  if (!options.accumulate) return options.global_batch.value_or(together);
  const uint64_t all = together * *options.accumulate;
  if (options.global_batch.value_or(all) != all)
    throw invalid("--accumulate " + std::to_string(*options.accumulate) + " makes a global batch of " +
                  std::to_string(all) + ", not " + std::to_string(*options.global_batch) + "; give one of both");
  return all;
}

// The device in the name of a generated fabric, as h100 in "dgx-h100:64"; null when there is none.
const predict::Device* device_of(std::string_view fabric, const predict::DeviceTable& devices) {
  std::string_view box = fabric.substr(0, fabric.find_first_of(":@"));
  if (box.starts_with("dgx-")) box.remove_prefix(4);
  return devices.find(box);
}

std::string mends_in_words(const predict::MemoryReport& memory) {
  constexpr size_t kMostShown = 6;
  std::string text;
  for (size_t i = 0; i < std::min(memory.mends.size(), kMostShown); ++i) {
    text += (i == 0 ? "" : ", or ") + memory.mends[i].option;
  }
  return text;
}

Json compression_json(const StepCompression& compression) {
  Json tried = Json::array(), buckets = Json::array();
  for (const TriedCompression& each : compression.tried)
    tried.push_back({{"name", each.name}, {"time_ps", each.time.count()}});
  for (const CompressedBucket& bucket : compression.buckets)
    buckets.push_back({{"stage", bucket.gradients.stage},
                       {"ranks", bucket.gradients.ranks},
                       {"bytes", bucket.gradients.bytes},
                       {"codec", bucket.codec ? Json(to_string(*bucket.codec)) : Json(nullptr)},
                       {"is_between_boxes", bucket.is_between_boxes},
                       {"wire_bytes", bucket.wire_bytes},
                       {"dense_seconds", bucket.dense_seconds},
                       {"coded_seconds", bucket.coded_seconds}});
  Json cuts = Json::array();
  for (const CutBuckets& cut : compression.cuts)
    cuts.push_back({{"code", cut.code},
                    {"bucket_bytes", cut.bytes},
                    {"bucket_cap_mb", cut.cap.count() >> 20},
                    {"as_they_were_ps", cut.as_they_were.count()},
                    {"with_cap_ps", cut.with_cap.count()},
                    {"anew_ps", cut.anew.count()}});
  return {{"chosen", compression.tried[compression.best].name},
          {"why", compression.why},
          {"tried", tried},
          {"buckets", buckets},
          {"cuts", cuts}};
}

}  // namespace

predict::DeviceTable load_devices(const std::string& path) {
  return path.empty() ? predict::DeviceTable::builtin() : parse_option("--devices", [&] {
    return predict::DeviceTable::read(path, predict::DeviceTable::builtin());
  });
}

TrainSetup make_train_setup(const predict::TrainOptions& options, std::string_view fabric) {
  TrainSetup setup;
  const predict::DeviceTable devices = load_devices(options.devices);
  if (!options.gpu.empty()) {
    setup.device = parse_option("--gpu", [&] { return devices.at(options.gpu); });
  } else if (const predict::Device* const of_fabric = device_of(fabric, devices)) {
    setup.device = *of_fabric;
  } else {
    setup.device = devices.at(kDefaultDevice);
    if (!fabric.empty()) {
      setup.notes.push_back("the device is " + setup.device.name + ", as nothing says another one; see --gpu");
    }
  }
  predict::TrainConfig& config = setup.config;
  config = options.config;
  config.model = make_model(options);
  uint32_t spread = 1;
  for (uint32_t ep = 1; ep <= std::min(config.dp, config.model.experts); ++ep) {
    if (config.dp % ep == 0 && config.model.experts % ep == 0) spread = ep;
  }
  config.ep = options.ep.value_or(spread);
  config.global_batch = make_global_batch(options, config);
  config.precision = options.precision.value_or(
      setup.device.rate(predict::Precision::bf16) > 0 ? predict::Precision::bf16 : predict::Precision::fp16);
  if (options.fused_attention && options.unfused_attention)
    throw invalid("--fused-attention and --unfused-attention exclude each other");
  config.fused_attention = !options.unfused_attention;
  config.scatter_gather = !options.no_scatter_gather;
  // 1 leaves it as it is; what tp does not divide then gives some ranks a word more.
  if (options.pad_vocab > 1) {
    const uint64_t multiple = uint64_t{options.pad_vocab} * config.tp;
    const uint64_t padded = (config.model.vocabulary + multiple - 1) / multiple * multiple;
    if (padded <= UINT32_MAX) config.model.vocabulary = static_cast<uint32_t>(padded);
  }
  check_config(config);
  if (!options.compress.empty()) {
    setup.compress = parse_option("--compress", [&] { return parse_codec_wish(options.compress); });
    if (setup.compress->choice == CodecWish::Choice::quickest)
      throw Error(ErrorCode::invalid_input, "takes one code, none or auto", "--compress");
  }
  if (!options.codec_speed.empty()) {
    if (options.compress.empty()) throw Error(ErrorCode::invalid_input, "needs --compress", "--codec-speed");
    setup.codec_speed = parse_option("--codec-speed", [&] { return predict::parse_codec_speed(options.codec_speed); });
  }
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

StepRates step_rates(const TrainSetup& setup, double seconds) {
  const double rate = model_flop(setup.config) / seconds / static_cast<double>(setup.config.ranks());
  return {.flops_a_device = rate,
          .of_peak = rate / setup.device.rate(setup.config.precision),
          .tokens_a_second = static_cast<double>(setup.config.global_batch) * setup.config.model.sequence / seconds};
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

std::vector<std::pair<std::string, std::string>> train_facts(const TrainSetup& setup, const Job& job,
                                                             const predict::MemoryReport& memory, double seconds) {
  const StepRates rates = step_rates(setup, seconds);
  const predict::TrainConfig& config = setup.config;
  return {{"Model FLOPs utilisation", format_percent(rates.of_peak)},
          {"Each device", format_decimals(rates.flops_a_device * 1e-12, 1) + " TFLOP/s"},
          {"Tokens", format_decimals(rates.tokens_a_second, 0) + " a second"},
          {"Memory", (memory.fits ? "fits: " : "does not fit: ") + format_gibibytes(memory.stages[memory.worst].all()) +
                         " of " + format_gibibytes(static_cast<double>(memory.available.count())) + " GiB"},
          {"Launches and gaps between kernels", format_percent(launch_share(job)) + " of computing"},
          {"Parameters", format_decimals(config.model.parameters() * 1e-9, 2) + " billion"},
          {"Device", setup.device.name + ", " + format_decimals(setup.device.rate(config.precision) * 1e-12, 0) +
                         " TFLOP/s at its peak: " + setup.device.description}};
}

std::string misfit(const TrainSetup& setup, const predict::MemoryReport& memory) {
  const double needed = memory.stages[memory.worst].all(), available = static_cast<double>(memory.available.count());
  std::string text = "does not fit into memory: a rank of stage " + std::to_string(memory.worst) + " needs " +
                     format_gibibytes(needed) + " GiB, " + format_gibibytes(needed - available) +
                     " GiB more than the " + format_gibibytes(available) + " GiB that " + setup.device.name +
                     " has for it; ";
  text += memory.mends.empty() ? "use more devices" : "it fits with " + mends_in_words(memory);
  return text + " (--ignore-memory predicts it anyway)";
}

std::string training_json(const TrainSetup& setup, const predict::MemoryReport& memory,
                          const StepCompression* compression) {
  const predict::TrainConfig& config = setup.config;
  Json stages = Json::array(), mends = Json::array();
  for (const predict::StageMemory& of : memory.stages)
    stages.push_back({{"parameters_bytes", of.parameters},
                      {"gradients_bytes", of.gradients},
                      {"optimizer_bytes", of.optimizer},
                      {"activations_bytes", of.activations}});
  for (const predict::MemoryMend& mend : memory.mends) mends.push_back(mend.option);
  Json json = {{"training", describe(config)},
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
  if (compression != nullptr) json["compression"] = compression_json(*compression);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace banyan::answer
