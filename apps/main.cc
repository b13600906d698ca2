// banyan: plans, verifies, exports, draws and runs collective communication. See docs/cli.md.
#include <algorithm>
#include <csignal>
#include <new>

#include "apps/command.h"
#include "banyan/base/nearest.h"

namespace banyan::app {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  banyan fabric dgx-h100:8\n"
    "  banyan plan allgather dgx-h100:8 -o plan.json\n"
    "  banyan verify plan.json\n"
    "  banyan run allreduce -n 4 --bytes 16MiB\n"
    "  banyan run -n 4 -- ./program --its-option\n"
    "\n"
    "Exit code: 0 success, 1 the answer is no, 2 bad input.\n"
    "'banyan COMMAND --help' shows the options and examples of a command.";

int refuse(const Terminal& terminal, const Error& error) {
  terminal.note(std::string("banyan: ") + error.what() + "\n");
  return static_cast<int>(ExitCode::bad_input);
}

struct Entry {
  std::unique_ptr<Command> command;
  CLI::App* declared = nullptr;
};

std::vector<Entry> declare_commands(CLI::App& program) {
  std::vector<Entry> entries;
  for (auto make :
       {make_fabric_command, make_plan_command, make_verify_command, make_export_command, make_show_command,
        make_run_command, make_predict_command, make_doctor_command, make_lab_command, make_bench_command}) {
    entries.push_back({.command = make()});
    entries.back().declared = entries.back().command->declare(program);
  }
  return entries;
}

// What CLI11 refused, with the mend: the help of the command that was being parsed, or the command that was meant.
Error explain(const CLI::ParseError& error, const std::vector<Entry>& entries, std::string_view first_argument) {
  const auto parsed =
      std::find_if(entries.begin(), entries.end(), [](const Entry& entry) { return entry.declared->parsed(); });
  if (parsed != entries.end()) {
    return Error(ErrorCode::invalid_input,
                 std::string(error.what()) + "; see 'banyan " + parsed->declared->get_name() + " --help'");
  }
  if (first_argument.empty()) return Error(ErrorCode::invalid_input, "no command given; see 'banyan --help'");
  const std::string quoted = "'" + std::string(first_argument.substr(0, 60)) + "'";
  if (first_argument.starts_with("-")) {
    return Error(ErrorCode::invalid_input, "unknown option " + quoted + "; see 'banyan --help'");
  }
  NearestName meant(first_argument);
  for (const Entry& entry : entries) meant.offer(entry.declared->get_name());
  const std::string message = "unknown command " + quoted + meant.hint();
  return Error(ErrorCode::invalid_input, message + "; see 'banyan --help'");
}

int run_program(int argc, char** argv) {
  const Terminal terminal = Terminal::detect();
  CLI::App program("Plans, runs and predicts the collective communication of machine learning clusters.", "banyan");
  program.set_version_flag("--version", "banyan " BANYAN_VERSION);
  program.set_help_flag("-h,--help", "print this help");
  program.require_subcommand(1);
  program.footer(kFooter);
  const std::vector<Entry> entries = declare_commands(program);
  try {
    // What follows "--" is a program of the user with options of its own.
    char** const end = std::find_if(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--"; });
    program.parse(static_cast<int>(end - argv), argv);
    for (const Entry& entry : entries) {
      if (!entry.declared->parsed()) continue;
      if (end != argv + argc) entry.command->take_program({end + 1, argv + argc});
      return static_cast<int>(entry.command->run(terminal));
    }
    return refuse(terminal, Error(ErrorCode::invalid_input, "no command given; see 'banyan --help'"));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    return refuse(terminal, explain(error, entries, argc > 1 ? argv[1] : ""));
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
  return banyan::app::run_program(argc, argv);
}
