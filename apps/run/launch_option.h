// The options by which `banyan run ... -- PROGRAM` starts a program.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/run/launch_plan.h"
#include "apps/run/launcher.h"
#include "apps/terminal.h"

namespace banyan::app {

class LaunchOption {
 public:
  static constexpr const char* kGroup = "Starting a program";

  void declare(CommandSyntax& command);
  // Throws Error{invalid_input} when there are no words.
  void take_program(std::vector<std::string> words);
  bool has_program() const { return !program_.empty(); }
  // Starts it, `processes` times, or as often as the hosts have slots when that is 0. The exit code is the program's.
  ExitCode run(const Terminal& terminal, uint32_t processes, bool json) const;

 private:
  std::vector<std::string> program_;
  std::string hosts_;
  LaunchOptions options_;
};

}  // namespace banyan::app
