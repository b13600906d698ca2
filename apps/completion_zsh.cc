#include <algorithm>

#include "apps/completion.h"

namespace banyan::app {
namespace {

constexpr const char* kZshBegin = R"zsh(#compdef banyan
# Completion of banyan for zsh. Made by 'banyan completion zsh'.

_banyan_open_words() {  # words that go on, such as torus:
  compadd -S '' -- "$@"
}

)zsh";

// The words after "--" are a program of the user, with a completion of its own.
constexpr const char* kZshEnd = R"zsh(
if [[ ${funcstack[1]} == _banyan ]]; then
  if (( ${words[(i)--]} < CURRENT )); then
    (( CURRENT -= ${words[(i)--]} ))
    shift ${words[(i)--]} words
    _normal
  else
    _banyan_program
  fi
else
  compdef '_banyan_program' banyan
fi
)zsh";

std::string function_name(const CommandSyntax& command, const CommandSyntax& program) {
  if (&command == &program) return "_banyan_program";
  std::string name = "_" + command.name();
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

// As descriptions stand in the specifications of _arguments.
std::string described(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string words_action(const OptionSyntax& option) {
  if (option.is_list) return "_sequence compadd -- " + joined(option.values);
  std::vector<std::string> closed, open;
  for (const std::string& value : option.values) (value.ends_with(':') ? open : closed).push_back(value);
  std::string action;
  if (!closed.empty()) action = "compadd -- " + joined(closed);
  if (!open.empty()) action += (action.empty() ? "" : "; ") + ("_banyan_open_words " + joined(open));
  return action;
}

// ":message:action", in which a colon has a backslash before it.
std::string zsh_action(const OptionSyntax& option) {
  std::string action;
  if (!option.values.empty()) action = words_action(option);
  if (option.paths != OptionSyntax::Paths::none) {
    const std::string files = option.paths == OptionSyntax::Paths::folders ? "_files -/"
                              : option.is_list                             ? "_sequence _files"
                                                                           : "_files";
    action += (action.empty() ? "" : "; ") + files;
  }
  const std::string& message = option.is_word() ? option.names : option.placeholder;
  return ":" + described(message) + ":" + (action.empty() ? " " : "{ " + described(action) + " }");
}

// 'names[help]:VALUE:action'. An option may come again where a mention takes one of several values.
std::vector<std::string> option_specs(const OptionSyntax& option) {
  const std::vector<std::string> names = option.all_names();
  const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.target);
  std::vector<std::string> specs;
  for (const std::string& name : names) {
    std::string spec = repeats ? "*" : "(" + joined(names) + ")";
    spec += name;
    if (!option.is_flag()) spec += name.starts_with("--") ? "=" : "+";
    spec += "[" + described(option.help) + "]";
    if (!option.is_flag()) spec += zsh_action(option);
    specs.push_back(spec);
  }
  return specs;
}

std::string function_for(const CommandSyntax& command, const CommandSyntax& program) {
  std::string text = function_name(command, program) + "() {\n";
  const std::vector<const CommandSyntax*> below = shown_commands(command);
  if (!below.empty()) {
    text += "  if (( CURRENT > 2 )); then\n    case $words[2] in\n";
    for (const CommandSyntax* const each : below) {
      text += "      " + each->verb() + ") shift words; (( CURRENT-- )); " + function_name(*each, program) +
              "; return ;;\n";
    }
    text += "    esac\n  fi\n  local -a commands=(\n";
    for (const CommandSyntax* const each : below) {
      text += "    " + shell_quoted(each->verb() + ":" + each->summary()) + "\n";
    }
    text += "  )\n";
  }
  text += "  _arguments -s \\\n    '(-h --help)'{-h,--help}'[show the help]'";
  for (const OptionSyntax* const option : options_of(command)) {
    for (const std::string& spec : option_specs(*option)) text += " \\\n    " + shell_quoted(spec);
  }
  const std::vector<const OptionSyntax*> words = words_of(command);
  if (!below.empty()) {
    std::string action = "_describe -t commands command commands";
    if (!words.empty())
      action += "; " + (words.front()->values.empty() ? "_files" : words_action(*words.front()) + "; _files");
    text += " \\\n    " + shell_quoted("1:command:{ " + described(action) + " }");
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const bool is_taken = i == 0 && !below.empty();
    if (is_taken && !words[i]->takes_rest) continue;
    const std::string place = words[i]->takes_rest ? "*" : std::to_string(i + 1);
    text += " \\\n    " + shell_quoted(place + zsh_action(*words[i]));
  }
  return text + "\n}\n\n";
}

}  // namespace

std::string zsh_completion(const CommandSyntax& program) {
  std::string text = kZshBegin;
  for (const CommandSyntax* const command : all_commands(program)) text += function_for(*command, program);
  return text + std::string(kZshEnd + 1);
}

}  // namespace banyan::app
