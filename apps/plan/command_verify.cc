// banyan verify: whether a plan does what it promises, as fast as it claims, and what the bound says to that.
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/plan/plan_progress.h"
#include "apps/report.h"
#include "banyan/answer/plan_check.h"

namespace banyan::app {
namespace {

class VerifyCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("verify", "Prove that a plan delivers what it promises.");
    command.file_word("PLAN", plan_, "a plan file, as 'banyan plan -o' writes it");
    fabric_.declare(command, "FABRIC", FabricOption::Place::optional);
    command.flag("--json", json_, "print one JSON object");
    command.examples({"banyan verify plan.json", "banyan verify plan.json dgx-h100:8",
                      "banyan verify plan.json dgx-h100:8 --fail gpu3-ib0 --json"});
    command.exit_codes({{"0", "valid"},
                        {"1", "not valid (the reason is printed)"},
                        {"2", "no such file, not a plan file, or a plan for another fabric than the one given"}});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (!fabric_.given() && fabric_.any_edit()) {
      throw invalid("edits such as --fail need the FABRIC that they edit; see 'banyan verify --help'");
    }
    std::string text;
    bool valid = false;
    {
      Progress progress(terminal, "reading the plan");
      const schedule::ScheduleFile file = schedule::read_schedule(plan_);
      if (fabric_.given()) answer::require_same_fabric(file, plan_, fabric_.load(), fabric_.described());
      PlanProgress watch(progress);
      const answer::Examination answer = answer::examine(file, &watch);
      valid = answer.verdict.valid;
      text = json_ ? as_json(file, answer) : as_text(terminal, file, answer);
    }
    terminal.print(text);
    return valid ? ExitCode::success : ExitCode::answer_is_no;
  }

 private:
  std::string as_json(const schedule::ScheduleFile& file, const answer::Examination& answer) const {
    const Schedule& schedule = file.schedule;
    Json report = {{"valid", answer.verdict.valid},
                   {"reason", answer.verdict.valid ? Json(nullptr) : Json(answer.verdict.reason)},
                   {"planner", file.planner},
                   {"collective", to_string(schedule.collective().kind())},
                   {"fabric", counts_json(schedule.fabric())},
                   {"fingerprint", schedule.fabric().fingerprint()}};
    if (answer.verdict.valid) {
      report["bound"] = bound_json(answer.bound, schedule.fabric(), schedule.collective());
      report["schedule"] = schedule_json(schedule, answer.verdict.seconds_per_byte, answer.bound);
      report["busiest_link"] = link_name(schedule.fabric(), schedule.fabric().link(answer.verdict.busiest));
    }
    return format_json(report);
  }

  std::string as_text(const Terminal& terminal, const schedule::ScheduleFile& file,
                      const answer::Examination& answer) const {
    const Schedule& schedule = file.schedule;
    const schedule::Verdict& verdict = answer.verdict;
    if (!verdict.valid) {
      return terminal.styled(Terminal::Style::bad, "not valid") + "  " + plan_ + ": " + verdict.reason + "\n";
    }
    std::string text = terminal.styled(Terminal::Style::good, "valid") + "      " + plan_ + ": " +
                       std::string(to_string(schedule.collective().kind())) + " by planner " + file.planner + " on " +
                       describe_counts(schedule.fabric()) + "\n";
    text += labelled(terminal, "delivers",
                     "every piece to everyone it is for, each contribution once, over links that exist");
    text += labelled(terminal, "schedule",
                     format_algbw(verdict.seconds_per_byte) + ", " +
                         describe_distance(verdict.seconds_per_byte, answer.bound) + "; the busiest link is " +
                         link_name(schedule.fabric(), schedule.fabric().link(verdict.busiest)));
    text += labelled(terminal, "bound",
                     format_algbw(answer.bound.seconds_per_byte) + ", because\n" +
                         describe(answer.bound.witness, schedule.fabric(), schedule.collective()));
    if (const std::string assumed = assumed_in_words(answer.bound, schedule.fabric(), schedule.collective());
        !assumed.empty()) {
      text += labelled(terminal, "", "as far as is known: " + assumed);
    }
    if (fabric_.given()) text += labelled(terminal, "fabric", "the plan is for " + fabric_.described());
    return text;
  }

  FabricOption fabric_;
  std::string plan_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() { return std::make_unique<VerifyCommand>(); }

}  // namespace banyan::app
