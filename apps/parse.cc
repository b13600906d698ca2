#include "apps/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <utility>

#include "apps/command.h"
#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/utf8.h"

namespace banyan::app {
namespace {

Error refused(const CommandSyntax& command, const std::string& what) {
  return invalid(what + "; see '" + command.name() + " --help'");
}

// What other tools call options of ours; too unlike them to be found by their letters.
constexpr std::pair<std::string_view, std::string_view> kOthersSay[] = {
    {"--size", "--bytes"}, {"--message-size", "--bytes"}, {"--msg-size", "--bytes"}, {"--payload", "--bytes"}};

std::string nearest_command(const CommandSyntax& command, const std::string& word) {
  NearestName meant(word);
  for (const CommandSyntax& each : command.commands()) {
    if (!each.is_hidden()) meant.offer(each.verb());
  }
  return meant.hint();
}

// A file may be called like anything; other words that nearly name a subcommand were probably meant to.
void expect_no_mistyped_command(const CommandSyntax& command, const std::vector<std::string>& words) {
  if (command.commands().empty() || words.empty() || words.front().starts_with("-")) return;
  const std::string& word = words.front();
  std::error_code ignored;
  if (command.takes_words() && (nearest_command(command, word).empty() || std::filesystem::exists(word, ignored))) {
    return;
  }
  throw unknown_command(command, word);
}

// One command as CLI11 sees it. CLI11 takes the words apart; requirements and all texts are ours.
class Parser {
 public:
  Parser(CommandSyntax& command, const CommandSyntax& all, bool has_program)
      : command_(command), all_(all), has_program_(has_program) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.add_flag("-h,--help", wants_help_);
    for (OptionSyntax& option : command.options()) options_[declare(option)] = &option;
  }

  bool parse(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    try {
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      throw explain(error);
    }
    if (wants_help_) return true;
    expect_nothing_left();
    size_t place = 0;
    for (const CLI::Option* each : app_.parse_order()) {
      if (const auto known = options_.find(each); known != options_.end()) known->second->places.push_back(place++);
    }
    for (const OptionSyntax& option : command_.options()) expect_fits(option);
    for (const auto& each : texts_) {  // no bindings, which clang 14 does not capture
      const OptionSyntax& option = *each.first;
      if (option.is_given()) parse_option(option.name(), [&] { option.set(each.second); });
    }
    return false;
  }

 private:
  CLI::Option* declare(OptionSyntax& option) {
    if (bool* const* flag = std::get_if<bool*>(&option.target)) return app_.add_flag(option.names, **flag);
    if (std::string* const* text = std::get_if<std::string*>(&option.target)) {
      return app_.add_option(option.names, **text);
    }
    if (std::holds_alternative<OptionSyntax::Setter>(option.target)) {
      return app_.add_option(option.names, texts_.emplace_back(&option, "").second);
    }
    CLI::Option* const list = app_.add_option(option.names, *std::get<std::vector<std::string>*>(option.target));
    if (!option.takes_rest) list->allow_extra_args(false);
    return list;
  }

  // Of values, CLI11 says what its types are, and not what the option is for.
  Error explain(const CLI::ParseError& error) const {
    for (const auto& [declared, option] : options_) {
      if (!std::string_view(error.what()).starts_with(declared->get_name())) continue;
      if (declared->count() > 1) return refused(command_, option->name() + " is given more than once");
      if (option->is_flag()) return refused(command_, option->name() + " takes no value");
      return refused(command_, option->name() + " needs a value: " + option->name() + " " + option->placeholder);
    }
    return refused(command_, error.what());
  }

  void expect_nothing_left() const {
    const std::vector<std::string> left = app_.remaining();
    if (left.empty()) return;
    const auto is_option = [](const std::string& word) { return word.size() > 1 && word.front() == '-'; };
    const auto culprit = std::find_if(left.begin(), left.end(), is_option);
    if (culprit == left.end()) {
      throw refused(command_, in_quotes(left.front()) + " is one word too many for '" + command_.name() + "'" +
                                  what_it_names(left.front()) + where_programs_go());
    }
    const std::string name = culprit->substr(0, culprit->find('='));
    throw refused(command_, "unknown option " + in_quotes(name) + what_was_meant(name) + where_programs_go());
  }

  // Where things have names, a word is probably one: `banyan lab down nc2`.
  std::string what_it_names(const std::string& word) const {
    return command_.find("--name") == nullptr ? "" : "; say --name " + harmless(word);
  }

  // The nearest name, or the command that has the option. Letters are all near to each other.
  std::string what_was_meant(const std::string& name) const {
    if (!name.starts_with("--")) return "";
    for (const auto& [others, ours] : kOthersSay) {
      if (name == others && command_.find(ours) != nullptr) return " (did you mean '" + std::string(ours) + "'?)";
    }
    for (const CommandSyntax& other : all_.commands()) {
      if (other.find(name) != nullptr && !other.is_hidden()) return " ('" + other.name() + "' has it)";
    }
    NearestName meant(name);
    for (const OptionSyntax& option : command_.options()) {
      if (option.is_word()) continue;
      for (const std::string& known : option.all_names()) meant.offer(known);
    }
    return meant.hint();
  }

  std::string where_programs_go() const {
    if (!command_.has_program() || has_program_) return "";
    return "; a program and its options go after '--': " + command_.name() + " [OPTIONS] -- PROGRAM";
  }

  void expect_fits(const OptionSyntax& option) const {
    if (option.is_required && !option.is_given()) throw refused(command_, option.name() + " is required");
    if (!option.is_given()) return;
    if (is_empty(option) && !option.may_be_empty) {
      throw refused(command_,
                    option.name() + " is empty" + (option.is_word() ? "" : "; leave it out to mean the default"));
    }
    for (const std::string& other : option.excludes) {
      if (!command_.is_given(other)) continue;
      throw refused(command_, option.name() + " and " + other + " exclude each other; give one of them");
    }
    if (!option.needs.empty() && !command_.is_given(option.needs)) {
      throw refused(command_, option.name() + " means nothing without " + option.needs);
    }
  }

  // True of an option with one value if that is an empty text.
  bool is_empty(const OptionSyntax& option) const {
    if (const auto* const text = std::get_if<std::string*>(&option.target)) return (*text)->empty();
    const auto found =
        std::find_if(texts_.begin(), texts_.end(), [&](const auto& each) { return each.first == &option; });
    return found != texts_.end() && found->second.empty();
  }

  CommandSyntax& command_;
  const CommandSyntax& all_;
  const bool has_program_;  // after "--"
  CLI::App app_;
  std::map<const CLI::Option*, OptionSyntax*> options_;
  std::deque<std::pair<const OptionSyntax*, std::string>> texts_;  // of options with a Setter
  bool wants_help_ = false;
};

}  // namespace

Error unknown_command(const CommandSyntax& command, const std::string& word) {
  return refused(command, "unknown command " + in_quotes(word) + nearest_command(command, word));
}

Parsed parse_command_line(CommandSyntax& program, std::vector<std::string> words) {
  CommandSyntax* command = &program;
  command->choose();
  std::optional<std::vector<std::string>> users;
  if (const auto end = std::find(words.begin(), words.end(), "--"); end != words.end()) {
    users.emplace(end + 1, words.end());
    words.erase(end, words.end());
  }
  while (!words.empty()) {
    CommandSyntax* const next = command->find_command(words.front());
    if (next == nullptr) break;
    command = next;
    command->choose();
    words.erase(words.begin());
  }
  expect_no_mistyped_command(*command, words);
  const bool wants_help = Parser(*command, program, users.has_value()).parse(std::move(words));
  if (!wants_help && !command->commands().empty() && !command->takes_words() && command != &program) {
    std::string verbs;
    for (const CommandSyntax& each : command->commands()) verbs += (verbs.empty() ? "" : ", ") + each.verb();
    throw refused(*command, "'" + command->name() + "' needs a command: " + verbs);
  }
  return {.command = command, .wants_help = wants_help, .program = std::move(users)};
}

}  // namespace banyan::app
