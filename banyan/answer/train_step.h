// A training step before it is simulated: its configuration, whether it fits into memory, and what its time means in
// FLOPs and tokens.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/answer/codec_choice.h"
#include "banyan/job/job.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"
#include "banyan/predict/train/memory.h"
#include "banyan/predict/train/train_options.h"

namespace banyan::answer {

struct TrainSetup {
  predict::TrainConfig config;  // checked
  predict::Device device;
  std::optional<CodecWish> compress = {};               // of gradients
  std::optional<predict::CodecSpeed> codec_speed = {};  // nothing: as the device's memory allows
  std::vector<std::string> notes = {};                  // what a person should know, a line each
};

// `fabric` as the user names it; without an option for it, "dgx-h100:64" says the device. Throws Error that names the
// option where some do not go together.
TrainSetup make_train_setup(const predict::TrainOptions& options, std::string_view fabric = {});

// The table that is compiled in, with what the file at `path` changes; an empty path is no file.
predict::DeviceTable load_devices(const std::string& path);

// "does not fit into memory: a rank of stage 0 needs 97.3 GiB, 21.3 GiB more than ...; it fits with --recompute full".
std::string misfit(const TrainSetup& setup, const predict::MemoryReport& memory);

// FLOPs that the model needs for a step, recomputation not counted: what utilisation (MFU) is of.
double model_flop(const predict::TrainConfig& config);

struct StepRates {
  double flops_a_device = 0;   // model FLOPs a second
  double of_peak = 0;          // the same over the device's peak, from 0 to 1: MFU
  double tokens_a_second = 0;  // of all devices
};
StepRates step_rates(const TrainSetup& setup, double seconds);

// The part of the computing time that launches by the host and gaps between kernels take, from 0 to 1.
double launch_share(const Job& job);

// The rates of a step, memory and the device, in pairs for the page of a report.
std::vector<std::pair<std::string, std::string>> train_facts(const TrainSetup& setup, const Job& job,
                                                             const predict::MemoryReport& memory, double seconds);
struct StepCompression;  // step_compression.h
// The object "training" of a prediction (docs/formats/prediction.md).
std::string training_json(const TrainSetup& setup, const predict::MemoryReport& memory,
                          const StepCompression* compression = nullptr);

}  // namespace banyan::answer
