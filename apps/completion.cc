#include "apps/completion.h"

#include <set>

#include "banyan/base/error.h"

namespace banyan::app {
namespace {

// The words before the cursor, as far as they decide what can follow.
struct Before {
  const CommandSyntax* command = nullptr;
  const OptionSyntax* option = nullptr;  // whose value the next word is
  std::set<const OptionSyntax*> given = {};
  size_t plain_words = 0;
  bool is_program = false;  // "--" was there
};

const OptionSyntax* find_option(const CommandSyntax& command, const std::string& word) {
  return word.starts_with('-') ? command.find(word.substr(0, word.find('='))) : nullptr;
}

Before follow(CommandSyntax& program, const std::vector<std::string>& words) {
  CommandSyntax* command = &program;
  size_t at = 0;
  for (; at < words.size(); ++at) {
    CommandSyntax* const next = command->find_command(words[at]);
    if (next == nullptr) break;
    command = next;
  }
  Before before{.command = command};
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (before.option != nullptr) {
      before.option = nullptr;
    } else if (word == "--") {
      before.is_program = true;
      break;
    } else if (const OptionSyntax* const option = find_option(*command, word)) {
      before.given.insert(option);
      if (!option->is_flag() && word.find('=') == std::string::npos) before.option = option;
    } else if (!word.starts_with('-')) {
      ++before.plain_words;
    }
  }
  return before;
}

// The answer, line by line.
class Answer {
 public:
  explicit Answer(std::string begun) : begun_(std::move(begun)) {}

  void candidate(const std::string& text, const std::string& description) {
    if (!text.starts_with(begun_)) return;
    text_ += text + (description.empty() ? "" : "\t" + description) + "\n";
  }

  // Values of an option or a word, which stand behind `prefix` in the word that has begun.
  void values(const OptionSyntax& option, std::string prefix) {
    const size_t comma = begun_.rfind(','), list = prefix.size();
    if (option.is_list && comma != std::string::npos && comma >= prefix.size()) prefix = begun_.substr(0, comma + 1);
    for (const std::string& value : option.values) {
      if (option.is_list && ("," + prefix.substr(list)).find("," + value + ",") != std::string::npos) continue;
      candidate(prefix + value, "");
    }
    if (option.is_list && !option.values.empty()) text_ += ":open\n";
    if (option.paths == OptionSyntax::Paths::files) text_ += ":files\t" + prefix + "\n";
    if (option.paths == OptionSyntax::Paths::folders) text_ += ":folders\t" + prefix + "\n";
  }

  // All but those that were given and cannot be given again.
  void options(const Before& before) {
    candidate("-h", "show the help");
    candidate("--help", "show the help");
    for (const OptionSyntax& option : before.command->options()) {
      const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.target);
      if (option.is_word() || (before.given.contains(&option) && !repeats)) continue;
      for (const std::string& name : option.all_names()) candidate(name, option.help);
    }
  }

  void commands(const CommandSyntax& command) {
    for (const CommandSyntax& each : command.commands()) {
      if (!each.is_hidden()) candidate(each.verb(), each.summary());
    }
  }

  // The word of this number; one that takes the rest has all later numbers, too.
  void word(const CommandSyntax& command, size_t number) {
    size_t at = 0;
    for (const OptionSyntax& option : command.options()) {
      if (!option.is_word()) continue;
      if (at == number || (at < number && option.takes_rest)) values(option, "");
      ++at;
    }
  }

  const std::string& text() const { return text_; }

 private:
  const std::string begun_;
  std::string text_;
};

std::string answer(CommandSyntax& program, std::vector<std::string> words) {
  const std::string begun = words.empty() ? "" : words.back();
  if (!words.empty()) words.pop_back();
  const Before before = follow(program, words);
  if (before.is_program) return ":program\n";
  Answer answer(begun);
  const size_t equals = begun.starts_with("--") ? begun.find('=') : std::string::npos;
  if (before.option != nullptr) {
    answer.values(*before.option, "");
  } else if (equals != std::string::npos) {
    const OptionSyntax* const option = find_option(*before.command, begun);
    if (option != nullptr) answer.values(*option, begun.substr(0, equals + 1));
  } else if (begun.starts_with('-')) {
    answer.options(before);
  } else {
    if (before.plain_words == 0) answer.commands(*before.command);
    answer.word(*before.command, before.plain_words);
  }
  return answer.text();
}

}  // namespace

std::optional<std::string> answer_completion(CommandSyntax& program, const std::vector<std::string>& words) {
  if (words.empty() || words.front() != "__complete") return std::nullopt;
  return answer(program, {words.begin() + 1, words.end()});
}

Shell parse_shell(std::string_view name) {
  if (name == "bash") return Shell::bash;
  if (name == "zsh") return Shell::zsh;
  if (name == "fish") return Shell::fish;
  throw Error(ErrorCode::invalid_input, "unknown shell " + in_quotes(std::string(name)) + " (known: bash, zsh, fish)",
              "SHELL");
}

std::string completion_script(Shell shell, const std::string& program) {
  constexpr std::string_view kName = "@PROGRAM@";
  std::string script(shell == Shell::bash ? bash_script() : shell == Shell::zsh ? zsh_script() : fish_script());
  for (size_t at = 0; (at = script.find(kName, at)) != std::string::npos;) script.replace(at, kName.size(), program);
  return script;
}

}  // namespace banyan::app
