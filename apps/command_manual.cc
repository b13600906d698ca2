// banyan completion: completions for shells. banyan manual, which is hidden: manual pages, for the build.
#include <filesystem>

#include "apps/command.h"
#include "apps/completion.h"
#include "apps/manual.h"
#include "banyan/base/file.h"

namespace banyan::app {
namespace {

class CompletionCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("completion", "Print the completion for a shell.");
    OptionSyntax& shell = command.word("SHELL", &shell_, "bash, zsh or fish");
    shell.is_required = true;
    shell.values = {"bash", "zsh", "fish"};
    command.word("PROGRAM", &completed_, "banyan (default) or banyand").values = {"banyan", "banyand"};
    command.option("-o,--output", &output_, "FILE", "write it to this file (default: standard output)");
    command.examples({"banyan completion bash > ~/.local/share/bash-completion/completions/banyan",
                      "banyan completion zsh > ~/.zsh/_banyan   # in ~/.zshrc, before compinit: fpath+=(~/.zsh)",
                      "banyan completion fish > ~/.config/fish/completions/banyan.fish",
                      "source <(banyan completion bash)   # for this shell only"});
    command.notes(
        {"It completes commands, options and their values: collectives, fabrics, formats, models, devices, files. It "
         "asks the program that is typed, so that it stays right after an update. bash wants the package "
         "bash-completion to find it in the folder above. The packages of Banyan install all of them."});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (output_.empty()) output_ = "-";
    check_output_place(output_);
    const Shell shell = parse_shell(shell_);
    if (completed_ != "banyan" && completed_ != "banyand") {
      throw Error(ErrorCode::invalid_input,
                  "no completion of " + in_quotes(completed_) + " (there are those of banyan, banyand)", "PROGRAM");
    }
    write_output(terminal, output_, completion_script(shell, completed_));
    return ExitCode::success;
  }

 private:
  std::string shell_, completed_ = "banyan", output_;
};

class ManualCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    program_ = &program;
    CommandSyntax& command = program.command("manual", "Write the manual pages of all commands.");
    command.word("DIR", &folder_, "the folder, which is made where it is missing").is_required = true;
    command.option("--date", &date_, "DATE", "the date of the pages");
    command.hide();
    return command;
  }

  ExitCode run(const Terminal&) override {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw Error(ErrorCode::io, "cannot make the folder: " + error.message(), folder_);
    for (const ManualPage& page : manual_pages(*program_, BANYAN_VERSION, date_)) {
      write_file((std::filesystem::path(folder_) / page.file).string(), page.text);
    }
    return ExitCode::success;
  }

 private:
  const CommandSyntax* program_ = nullptr;
  std::string folder_, date_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }
std::unique_ptr<Command> make_manual_command() { return std::make_unique<ManualCommand>(); }

}  // namespace banyan::app
