// Completions of shells from the syntax of commands: commands, options, and the values that options and words can have.
// A completion is a script of the shell that asks nothing of the program; it belongs to the version that wrote it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/syntax.h"

namespace banyan::app {

enum class Shell : uint8_t { bash, zsh, fish };

// Throws Error{invalid_input} with the names of all.
Shell parse_shell(std::string_view name);

std::string format_completion(const CommandSyntax& program, Shell shell);

std::string bash_completion(const CommandSyntax& program);  // completion_bash.cc
std::string zsh_completion(const CommandSyntax& program);   // completion_zsh.cc
std::string fish_completion(const CommandSyntax& program);  // completion_fish.cc

// For the three of them.

// The program and all commands below it that the help shows, each before those below it.
std::vector<const CommandSyntax*> all_commands(const CommandSyntax& program);
std::vector<const CommandSyntax*> shown_commands(const CommandSyntax& command);
std::vector<const OptionSyntax*> words_of(const CommandSyntax& command);
// Without words; -h and --help, which every command has, are not among them.
std::vector<const OptionSyntax*> options_of(const CommandSyntax& command);
// The text in single quotes, as POSIX shells read it.
std::string shell_quoted(std::string_view text);
std::string joined(const std::vector<std::string>& words, const char* between = " ");

}  // namespace banyan::app
