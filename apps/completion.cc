#include "apps/completion.h"

#include "banyan/base/error.h"

namespace banyan::app {

Shell parse_shell(std::string_view name) {
  if (name == "bash") return Shell::bash;
  if (name == "zsh") return Shell::zsh;
  if (name == "fish") return Shell::fish;
  throw Error(ErrorCode::invalid_input, "unknown shell " + in_quotes(std::string(name)) + " (known: bash, zsh, fish)",
              "SHELL");
}

std::string format_completion(const CommandSyntax& program, Shell shell) {
  switch (shell) {
    case Shell::bash:
      return bash_completion(program);
    case Shell::zsh:
      return zsh_completion(program);
    case Shell::fish:
      return fish_completion(program);
  }
  return {};
}

std::vector<const CommandSyntax*> shown_commands(const CommandSyntax& command) {
  std::vector<const CommandSyntax*> shown;
  for (const CommandSyntax& each : command.commands()) {
    if (!each.is_hidden()) shown.push_back(&each);
  }
  return shown;
}

std::vector<const CommandSyntax*> all_commands(const CommandSyntax& program) {
  std::vector<const CommandSyntax*> all = {&program};
  for (size_t i = 0; i < all.size(); ++i) {
    for (const CommandSyntax* const each : shown_commands(*all[i])) all.push_back(each);
  }
  return all;
}

std::vector<const OptionSyntax*> words_of(const CommandSyntax& command) {
  std::vector<const OptionSyntax*> words;
  for (const OptionSyntax& option : command.options()) {
    if (option.is_word()) words.push_back(&option);
  }
  return words;
}

std::vector<const OptionSyntax*> options_of(const CommandSyntax& command) {
  std::vector<const OptionSyntax*> options;
  for (const OptionSyntax& option : command.options()) {
    if (!option.is_word()) options.push_back(&option);
  }
  return options;
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

}  // namespace banyan::app
