// `banyan predict calibrate FILE...`: curves of collectives, or rows of training steps, to what predictions are made
// with.
//
// The heading of a file tells which of both it holds. Curves give a file of collective costs (collective_cost.h), rows
// a file of devices (devices.h); either is written with -o. The output says how well the fit holds, above all on data
// that it has not seen.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "banyan/base/collective_kind.h"
#include "banyan/predict/train/config.h"

namespace banyan::app {

struct CalibrateOptions {
  std::vector<std::string> files;
  std::vector<std::string> checks;  // files that are only predicted
  std::string output;
  bool json = false;
  // Curves.
  std::optional<uint32_t> ranks;             // where the log does not say
  std::optional<CollectiveKind> collective;  // also of one that says another
  Bandwidth link;                            // 0: as measured
  bool in_place = false;
  // Rows.
  std::string gpu = "a100-80g", devices;
  uint32_t vocabulary = 50'257;
  predict::Precision precision = predict::Precision::fp16;
  std::optional<predict::Recompute> recompute;  // absent: the one that fits best
  std::optional<uint32_t> box;                  // this and the next two: else those of the device
  std::optional<Bandwidth> scale_up, network;
  bool quick = false;
};

void declare_calibrate_options(CommandSyntax& command, CalibrateOptions& options);
ExitCode run_calibrate(const Terminal& terminal, const CalibrateOptions& options);

}  // namespace banyan::app
