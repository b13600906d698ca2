#include "apps/completion.h"

namespace banyan::app {
namespace {

// __banyan_at COMMAND [N]: whether the words before the cursor name this command, and N plain words follow it.
constexpr const char* kFishBegin = R"fish(# Completion of banyan for fish. Made by 'banyan completion fish'.

function __banyan_at
    set -l words (commandline -opc)
    set -e words[1]
    contains -- -- $words
    and return 1
    set -l command banyan
    while set -q words[1]; and contains -- "$command $words[1]" $__banyan_commands
        set command "$command $words[1]"
        set -e words[1]
    end
    test "$command" = $argv[1]
    or return 1
    set -q argv[2]
    or return 0
    set -l plain 0
    set -l takes_value 0
    for word in $words
        if test $takes_value = 1
            set takes_value 0
        else if contains -- "$command $word" $__banyan_takes_value
            set takes_value 1
        else if not string match -q -- '-*' $word
            set plain (math $plain + 1)
        end
    end
    test $plain = $argv[2]
    or begin
        test "$argv[3]" = more
        and test $plain -gt $argv[2]
    end
end

function __banyan_list --description 'the values after the last comma of the word before the cursor'
    set -l before (string replace -r '[^,]*$' '' -- (commandline -ct | string replace -r '^--[^=]*=' ''))
    for value in $argv
        string match -q -- "*,$value,*" ",$before"
        or echo $before$value
    end
end

function __banyan_program --description 'the words after --, a program of the user'
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    or return 1
    set -e words[1..$at]
    string join ' ' -- (string escape -- $words) (commandline -ct)
end

)fish";

constexpr const char* kFishEnd = R"fish(
complete -c banyan -n 'contains -- -- (commandline -opc)' -x -a '(complete -C (__banyan_program))'
)fish";

// In fish, a backslash and a quote have a backslash before them inside of single quotes.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string values_for(const OptionSyntax& option) {
  if (option.values.empty()) return "";
  const std::string words = joined(option.values);
  return " -a " + fish_quoted(option.is_list ? "(__banyan_list " + words + ")" : words);
}

std::string paths_for(const OptionSyntax& option) {
  switch (option.paths) {
    case OptionSyntax::Paths::files:
      return " -F";
    case OptionSyntax::Paths::folders:
      return " -a '(__fish_complete_directories)'";
    case OptionSyntax::Paths::none:
      break;
  }
  return "";
}

std::string line_at(const std::string& condition) {
  return "complete -c banyan -n " + fish_quoted("__banyan_at " + condition);
}

std::string lines_for(const CommandSyntax& command) {
  const std::string name = fish_quoted(command.name());
  std::string text = "\n" + line_at(name) + " -s h -l help -d 'show the help'\n";
  for (const CommandSyntax* const each : shown_commands(command)) {
    text += line_at(name + " 0") + " -a " + each->verb() + " -d " + fish_quoted(each->summary()) + "\n";
  }
  const std::vector<const OptionSyntax*> words = words_of(command);
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string offers = values_for(*words[i]) + paths_for(*words[i]);
    if (offers.empty()) continue;
    text += line_at(name + " " + std::to_string(i) + (words[i]->takes_rest ? " more" : "")) + offers + " -d " +
            fish_quoted(words[i]->names) + "\n";
  }
  for (const OptionSyntax* const option : options_of(command)) {
    text += line_at(name);
    for (const std::string& each : option->all_names()) {
      text += each.starts_with("--") ? " -l " + each.substr(2) : " -s " + each.substr(1);
    }
    if (!option->is_flag()) {
      text += (option->paths == OptionSyntax::Paths::files ? " -r" : " -x") + values_for(*option) + paths_for(*option);
    }
    text += " -d " + fish_quoted(option->help) + "\n";
  }
  return text;
}

}  // namespace

std::string fish_completion(const CommandSyntax& program) {
  std::string commands = "set -g __banyan_commands", with_value = "set -g __banyan_takes_value", lines;
  for (const CommandSyntax* const command : all_commands(program)) {
    if (command != &program) commands += " " + fish_quoted(command->name());
    for (const OptionSyntax* const option : options_of(*command)) {
      if (option->is_flag()) continue;
      for (const std::string& name : option->all_names()) with_value += " " + fish_quoted(command->name() + " " + name);
    }
    lines += lines_for(*command);
  }
  return kFishBegin + commands + "\n" + with_value + "\n\ncomplete -c banyan -f\n" + lines + kFishEnd;
}

}  // namespace banyan::app
