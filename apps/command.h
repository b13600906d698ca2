// Shared by the commands of `banyan`: the exit codes, how a command is declared, and how main finds it.
//
// A command declares its syntax and, when it was the one asked for, runs. It takes every option as text and parses it
// with the project's own readers, so that every mistake ends as a banyan::Error whose line names the option
// ("--ranks: ..."). Errors are caught in main alone. All output of a command goes through the Terminal, in one piece
// and after the work is done: a command that fails has printed nothing to standard output.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/syntax.h"
#include "apps/terminal.h"
#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/split_list.h"

namespace banyan::app {

enum class ExitCode : int {
  success = 0,
  answer_is_no =
      1,  // verify: not a valid plan; run: wrong elements; doctor, service: something is wrong; predict train: does
          // not fit into memory
  bad_input = 2,      // every banyan::Error
  interrupted = 130,  // by Ctrl-C: what is printed is no result
                      // run -- PROGRAM: any other is that of the program
};

class Command {
 public:
  virtual ~Command() = default;
  // Adds itself to the commands of the program, with its options, help and examples. Called once. The syntax points
  // into this object.
  virtual CommandSyntax& declare(CommandSyntax& program) = 0;
  // The words after "--", which are no options of ours. Refused by commands that start no program.
  virtual void take_program(std::vector<std::string> words);
  virtual ExitCode run(const Terminal& terminal) = 0;
};

std::unique_ptr<Command> make_fabric_command();
std::unique_ptr<Command> make_plan_command();
std::unique_ptr<Command> make_topology_command();
std::unique_ptr<Command> make_verify_command();
std::unique_ptr<Command> make_export_command();
std::unique_ptr<Command> make_show_command();
std::unique_ptr<Command> make_run_command();
std::unique_ptr<Command> make_doctor_command();
std::unique_ptr<Command> make_predict_command();
std::unique_ptr<Command> make_lab_command();
std::unique_ptr<Command> make_bench_command();
std::unique_ptr<Command> make_compress_command();
std::unique_ptr<Command> make_decompress_command();
std::unique_ptr<Command> make_service_command();
std::unique_ptr<Command> make_completion_command();
std::unique_ptr<Command> make_manual_command();  // hidden: for the build

// Throws Error{not_found} or Error{io} when no file could be put at `path`; an empty path is no file. Asked before long
// work, so that a mistyped folder does not cost a minute of planning.
void check_output_place(const std::string& path);
// Throws Error{invalid_input}, too, if both the file (`path` is "-") and --json would go to standard output.
void check_output_place(const std::string& path, bool json);

// Writes the file, or prints it when the path is "-".
void write_output(const Terminal& terminal, const std::string& path, std::string_view text);
// Text of a command besides its output at `path`: to standard output, or to standard error where that has the
// output.
void say_beside(const Terminal& terminal, const std::string& path, std::string_view text);
// The same of several, empty ones left out. Throws Error{invalid_input} when two options name one file.
void check_output_places(std::initializer_list<std::pair<const char*, std::string>> options);

}  // namespace banyan::app
