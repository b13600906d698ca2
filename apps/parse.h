// From the words of a command line to what a CommandSyntax points at. The one user of CLI11.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/syntax.h"
#include "banyan/base/error.h"

namespace banyan::app {

struct Parsed {
  CommandSyntax* command = nullptr;
  bool wants_help = false;  // by -h or --help, which every command has; required words may then be missing
  std::optional<std::vector<std::string>> program = {};  // the words after "--": a program of the user and its options
};
// Follows the commands that the first words name, marks them as chosen, and fills in the options of the last one.
// Throws Error{invalid_input} that names the culprit, the option or command that was probably meant, and where to look.
Parsed parse_command_line(CommandSyntax& program, std::vector<std::string> words);

// "unknown command 'staus' (did you mean 'status'?); see 'banyan lab --help'".
Error unknown_command(const CommandSyntax& command, const std::string& word);

}  // namespace banyan::app
