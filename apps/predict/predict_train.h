// The question of `banyan predict train`, and its answers before and beside the simulation: the configuration,
// whether it fits into memory, the estimate in closed form.
//
// The command declares these options, then makes a TrainSetup of them, whose `config` and `device` the generator takes.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/report.h"
#include "apps/syntax.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"
#include "banyan/predict/train/estimate.h"
#include "banyan/predict/train/memory.h"

namespace banyan::app {

// As the user gave them; nothing where that says something else than any value.
struct TrainOptions {
  std::optional<predict::TrainModel> model;
  std::string gpu = "a100-80g", devices;
  std::optional<uint32_t> layers, hidden, heads, kv_heads, ffn, seq, vocab, experts, top_k, ep;
  uint32_t tp = 1, pp = 1, dp = 1, micro_batch = 1, interleave = 1, zero = 0, pad_vocab = 128;
  std::optional<uint64_t> global_batch, accumulate;
  std::optional<predict::Recompute> recompute;
  std::optional<predict::Precision> precision;
  std::optional<Bytes> bucket;
  bool sequence_parallel = false, fused_attention = false, overlap_gradients = false, gradients_fp32 = false;
  bool no_scatter_gather = false, unfused_attention = false, ignore_memory = false;
};

struct TrainSetup {
  predict::TrainConfig config;  // checked
  predict::Device device;
  std::vector<std::string> notes;  // what a person should know, a line each
};

void declare_train_options(CommandSyntax& command, TrainOptions& options);

// Throws Error that names the option where some do not go together.
TrainSetup make_train_setup(const TrainOptions& options);

// The table that is compiled in, with what the file at `path` changes; an empty path is no file.
predict::DeviceTable load_devices(const std::string& path);

// "does not fit into memory: a rank of stage 0 needs 97.3 GiB, 21.3 GiB more than ...; it fits with --recompute full".
std::string misfit(const TrainSetup& setup, const predict::MemoryReport& memory);

// Lines of "label  text" and a table by stage. That it does not fit comes first.
std::string format_train_setup(const Terminal& terminal, const TrainSetup& setup, const predict::MemoryReport& memory);
Json train_setup_json(const TrainSetup& setup, const predict::MemoryReport& memory);

// FLOPs that the model needs for a step, recomputation not counted: what utilisation (MFU) is of.
double model_flop(const predict::TrainConfig& config);
// "12.3 s a step, 45.6 % of the peak in model FLOPs".
std::string format_step(const TrainSetup& setup, double seconds);
// The part of the computing time that launches by the host and gaps between kernels take, from 0 to 1, and in words.
double launch_share(const Job& job);
std::string format_launches(const Job& job);
// The rates of a step, memory and the device, in pairs for the page of a report.
std::vector<std::pair<std::string, std::string>> train_facts(const TrainSetup& setup, const Job& job,
                                                             const predict::MemoryReport& memory, double seconds);

std::string format_estimate(const Terminal& terminal, const TrainSetup& setup, const predict::StepEstimate& estimate);
Json estimate_json(const predict::StepEstimate& estimate);

}  // namespace banyan::app
