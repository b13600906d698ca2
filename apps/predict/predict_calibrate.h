// `banyan predict calibrate FILE...`: curves of collectives, or rows of training steps, to what predictions are made
// with.
//
// The heading of a file tells which of both it holds. Curves give a file of collective costs (collective_cost.h), rows
// a file of devices (devices.h); either is written with -o. The output says how well the fit holds, above all on data
// that it has not seen.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"

namespace banyan::app {

struct CalibrateTexts {
  std::vector<std::string> files;
  std::vector<std::string> checks;  // files that are only predicted
  std::string output;
  bool json = false;
  // Curves.
  std::string ranks, collective, link;
  bool in_place = false;
  // Rows.
  std::string gpu = "a100-80g", devices, vocab, precision, recompute, box, scale_up, network;
  bool quick = false;
};

void declare_calibrate_options(CommandSyntax& command, CalibrateTexts& texts);
ExitCode run_calibrate(const Terminal& terminal, const CalibrateTexts& texts);

}  // namespace banyan::app
