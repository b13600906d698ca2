// The syntax of a command as data: its words, options, subcommands and examples. The parser (parse.h), the help
// (help.h), the manual pages (manual.h) and the completions of shells (completion.h) are made from it.
//
//   CommandSyntax& plan = program.command("plan", "plan a collective");
//   plan.word("FABRIC", fabric, "a file or a spec").is_required = true;
//   plan.option("-o,--output", output, "FILE", "write the plan");
//   plan.flag("--json", json, "one JSON object on standard output");
//
// The text of a value goes to the variable that the option points at, or to a reader, which makes something of it: a
// Setter. The variables must outlive the syntax. References to options and subcommands stay valid while more are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace banyan::app {

// A word ("FABRIC"), an option with a value ("-o,--output") or a flag ("--json").
struct OptionSyntax {
  // Takes the text of a value. Throws Error when it is none; who calls says of which option.
  using Setter = std::function<void(const std::string&)>;
  using Target = std::variant<bool*, std::string*, std::vector<std::string>*, Setter>;

  std::string names;             // with commas
  std::string placeholder = {};  // of the value; empty for words and flags
  std::string help;
  std::string group;  // the heading under which the help shows it
  Target target;
  bool is_required = false;
  bool may_be_empty = false;               // of a text: "" means something else than leaving it out
  bool takes_rest = false;                 // of a list: one mention takes all values up to the next option
  std::vector<std::string> excludes = {};  // options that cannot be given beside this one
  std::string needs = {};                  // an option without which this one means nothing
  // For completions: values that it can have, of which those that end in ':' go on; and files or folders.
  std::vector<std::string> values = {};
  bool is_list = false;  // several values with commas between them
  enum class Paths : uint8_t { none, files, folders };
  Paths paths = Paths::none;
  std::vector<size_t> places = {};  // where on the command line it was given; filled in by the parser

  bool is_given() const { return !places.empty(); }
  bool is_word() const { return !names.starts_with("-"); }
  bool is_flag() const { return std::holds_alternative<bool*>(target); }
  void set(const std::string& value) const;    // of one that takes one value
  std::vector<std::string> all_names() const;  // "-o", "--output"
  std::string name() const;                    // the last of them, which is the long one
};

// A row of a manual page: an exit code, a variable of the environment, or a file, and what it means.
struct Meaning {
  std::string name, text;
};

class CommandSyntax {
 public:
  static constexpr const char* kOwnGroup = "Options";  // the heading where no other was set

  CommandSyntax(std::string name, std::string summary) : name_(std::move(name)), summary_(std::move(summary)) {}
  CommandSyntax(const CommandSyntax&) = delete;
  CommandSyntax& operator=(const CommandSyntax&) = delete;

  OptionSyntax& word(std::string name, OptionSyntax::Target target, std::string help);
  // A word that must be given and is the path of a file.
  OptionSyntax& file_word(std::string name, std::string& path, std::string help);
  OptionSyntax& option(std::string names, OptionSyntax::Target target, std::string placeholder, std::string help);
  OptionSyntax& flag(std::string names, bool& target, std::string help);
  // The heading of the options that are added after this.
  void group(std::string heading) { group_ = std::move(heading); }
  CommandSyntax& command(const std::string& name, std::string summary);
  // Command lines, each with a remark of its own after "#" where it needs one.
  void examples(std::vector<std::string> lines) { examples_ = std::move(lines); }
  // Paragraphs, which the help wraps.
  void notes(std::vector<std::string> paragraphs) { notes_ = std::move(paragraphs); }
  // Those that differ from what holds for all commands: 0 success, 2 bad input. The help names them, too.
  void exit_codes(std::vector<Meaning> codes) { exit_codes_ = std::move(codes); }
  void environment(std::vector<Meaning> variables) { environment_ = std::move(variables); }
  void files(std::vector<Meaning> files) { files_ = std::move(files); }
  // Help for the words after "--", which are no options of ours: "-- PROGRAM [ARGUMENT...]".
  void takes_program() { takes_program_ = true; }
  // Left out of the help, of manual pages and of completions.
  void hide() { is_hidden_ = true; }

  const std::string& name() const { return name_; }  // "banyan lab up"
  std::string verb() const;                          // "up"
  const std::string& summary() const { return summary_; }
  const std::deque<OptionSyntax>& options() const { return options_; }
  std::deque<OptionSyntax>& options() { return options_; }
  const std::deque<CommandSyntax>& commands() const { return commands_; }
  std::deque<CommandSyntax>& commands() { return commands_; }
  const std::vector<std::string>& examples() const { return examples_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<Meaning>& exit_codes() const { return exit_codes_; }
  const std::vector<Meaning>& environment() const { return environment_; }
  const std::vector<Meaning>& files() const { return files_; }
  bool has_program() const { return takes_program_; }
  bool is_hidden() const { return is_hidden_; }

  const OptionSyntax* find(std::string_view name) const;  // "--output" or "-o"; nullptr when there is none
  bool is_given(std::string_view name) const;             // of a known option
  CommandSyntax* find_command(std::string_view verb);
  bool takes_words() const;

  // True if the command line named this command; it may have named subcommands of it, too.
  bool was_chosen() const { return was_chosen_; }
  void choose() { was_chosen_ = true; }

 private:
  std::string name_, summary_, group_ = kOwnGroup;
  std::deque<OptionSyntax> options_;
  std::deque<CommandSyntax> commands_;
  std::vector<std::string> examples_, notes_;
  std::vector<Meaning> exit_codes_, environment_, files_;
  bool takes_program_ = false, is_hidden_ = false, was_chosen_ = false;
};

}  // namespace banyan::app
