// banyan: plans, verifies, exports, draws and runs collective communication. See docs/cli.md.
#include <algorithm>
#include <csignal>
#include <new>

#include "apps/command.h"
#include "apps/completion.h"
#include "apps/help.h"
#include "apps/parse.h"

namespace banyan::app {
namespace {

int refuse(const Terminal& terminal, const Error& error) {
  terminal.note(std::string("banyan: ") + error.what() + "\n");
  return static_cast<int>(ExitCode::bad_input);
}

struct Entry {
  std::unique_ptr<Command> command;
  const CommandSyntax* syntax = nullptr;
};

// The whole command line of `banyan`, which points into `entries` and this object.
class Program {
 public:
  Program() {
    syntax_.flag("-V,--version", wants_version_, "print the version");
    for (auto make : {make_fabric_command, make_topology_command, make_plan_command, make_verify_command,
                      make_export_command, make_show_command, make_run_command, make_predict_command,
                      make_doctor_command, make_lab_command, make_bench_command, make_compress_command,
                      make_decompress_command, make_service_command, make_completion_command, make_manual_command}) {
      entries_.push_back({.command = make()});
      entries_.back().syntax = &entries_.back().command->declare(syntax_);
    }
    help_ = &syntax_.command("help", "Show the help of a command.");
    OptionSyntax& explained = help_->word("COMMAND", &help_words_, "such as plan, or lab up");
    explained.takes_rest = true;
    for (const CommandSyntax& each : syntax_.commands()) {
      if (!each.is_hidden()) explained.values.push_back(each.verb());
    }
    help_->examples({"banyan help plan", "banyan help lab up"});
    version_ = &syntax_.command("version", "Print the version.");
    version_->flag("--json", json_, "print one JSON object");
    version_->examples({"banyan version", "banyan version --json"});
    syntax_.examples({"banyan fabric dgx-h100:8", "banyan plan allgather dgx-h100:8 -o plan.json",
                      "banyan verify plan.json", "banyan run allreduce -n 4 --bytes 16MiB",
                      "banyan run -n 4 -- ./program --its-option"});
    syntax_.notes(
        {"'banyan COMMAND --help' shows the options and examples of a command.",
         "Sizes: 64KiB, 1MiB, 1GiB, or as nccl-tests takes them 64K, 1M, 1G, are powers of 1024; 64kB, 1MB, 1GB "
         "are powers of 1000. FILE of -o may be -, which is standard output."});
    syntax_.exit_codes({{"0", "success"},
                        {"1", "the answer is no"},
                        {"2", "bad input"},
                        {"130", "ended by Ctrl-C"},
                        {"N", "of commands that start a program: the program's own"}});
    syntax_.environment(
        {{"NO_COLOR", "when it is set and not empty, nothing is coloured"},
         {"TERM", "dumb: nothing is coloured"},
         {"BANYAN_*", "of programs that communicate: see banyan-run(1), banyan-bench(1) and banyan-doctor(1)"}});
  }

  ExitCode run(std::vector<std::string> words, const Terminal& terminal) {
    if (const std::optional<std::string> answer = answer_completion(syntax_, words)) {
      terminal.print(*answer);
      return ExitCode::success;
    }
    const Parsed parsed = parse_command_line(syntax_, std::move(words));
    if (parsed.wants_help) return show_help(*parsed.command, terminal);
    if (wants_version_ || version_->was_chosen()) return show_version(terminal);
    if (help_->was_chosen()) return show_help(command_to_explain(), terminal);
    for (const Entry& entry : entries_) {
      if (!entry.syntax->was_chosen()) continue;
      if (parsed.program) entry.command->take_program(*parsed.program);
      return entry.command->run(terminal);
    }
    throw invalid("no command given; see 'banyan --help'");
  }

 private:
  static ExitCode show_help(const CommandSyntax& command, const Terminal& terminal) {
    terminal.print(format_help(command, terminal, Terminal::width()));
    return ExitCode::success;
  }

  ExitCode show_version(const Terminal& terminal) const {
    terminal.print(json_ ? "{\n  \"version\": \"" BANYAN_VERSION "\"\n}\n" : "banyan " BANYAN_VERSION "\n");
    return ExitCode::success;
  }

  const CommandSyntax& command_to_explain() {
    CommandSyntax* command = &syntax_;
    for (const std::string& word : help_words_) {
      CommandSyntax* const next = command->find_command(word);
      if (next == nullptr) throw unknown_command(*command, word);
      command = next;
    }
    return *command;
  }

  CommandSyntax syntax_{"banyan",
                        "Plans, runs and predicts the collective communication of machine learning clusters."};
  std::vector<Entry> entries_;
  CommandSyntax *help_ = nullptr, *version_ = nullptr;
  std::vector<std::string> help_words_;
  bool wants_version_ = false, json_ = false;
};

int run_program(const std::vector<std::string>& words) {
  const Terminal terminal = Terminal::detect();
  Program program;
  try {
    return static_cast<int>(program.run(words, terminal));
  } catch (const Error& error) {
    return refuse(terminal, error);
  } catch (const std::bad_alloc&) {
    return refuse(terminal, Error(ErrorCode::unsupported,
                                  "this needs more memory than the machine has; take a smaller fabric or fewer bytes"));
  }
}

}  // namespace
}  // namespace banyan::app

int main(int argc, char** argv) {
  // A reader that closed the pipe (`banyan ... | head`) is told apart where it is written to.
  std::signal(SIGPIPE, SIG_IGN);
  // A parent that ignores it hands that on, and the kernel would hide how our processes end.
  std::signal(SIGCHLD, SIG_DFL);
  return banyan::app::run_program({argv + 1, argv + argc});
}
