// Completions of shells. Each shell has one script, in completions/, which asks the program for what can stand at the
// cursor:
//
//   PROGRAM __complete WORD...
//
// The words are those behind the program's name, up to the cursor; the last one may be empty. The answer has a line
// for each candidate, which stands in place of the last word. A tab and a description may follow it. Lines that begin
// with a colon say what else is there:
//
//   :open             a candidate may go on, so that no blank follows
//   :files PREFIX     names of files, behind a part of the last word; a tab stands before it
//   :folders PREFIX   the same of folders
//   :program          words of a program of the user, which has a completion of its own
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/syntax.h"

namespace banyan::app {

// The answer to a command line that asks, and nothing for all others.
std::optional<std::string> answer_completion(CommandSyntax& program, const std::vector<std::string>& words);

enum class Shell : uint8_t { bash, zsh, fish };

// Throws Error{invalid_input} with the names of all.
Shell parse_shell(std::string_view name);

// The script that completes a program of this name, which is a word of letters.
std::string completion_script(Shell shell, const std::string& program);

// The scripts, in which @PROGRAM@ stands for the name of the program.
std::string_view bash_script();
std::string_view zsh_script();
std::string_view fish_script();

}  // namespace banyan::app
