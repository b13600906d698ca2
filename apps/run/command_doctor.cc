// banyan doctor: what the flight records of a run say about why it stands still, or is slow.
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/lists.h"
#include "apps/report.h"
#include "banyan/base/text.h"
#include "banyan/run/record/ask.h"
#include "banyan/run/record/diagnosis.h"

namespace banyan::app {
namespace {

constexpr size_t kMaxRanksShown = 32;  // per communicator; --json has them all

Json as_json(const run::Finding& finding) {
  return {
      {"kind", to_string(finding.kind)}, {"communicator", finding.communicator},
      {"ranks", finding.ranks},          {"sequence", finding.sequence == 0 ? Json(nullptr) : Json(finding.sequence)},
      {"sentence", finding.sentence},    {"because", finding.because}};
}

Json as_json(const run::CommunicatorReport& communicator) {
  Json ranks = Json::array();
  for (const run::RankReport& rank : communicator.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"health", to_string(rank.health)},
                     {"host", rank.host.empty() ? Json(nullptr) : Json(rank.host)},
                     {"pid", rank.host.empty() ? Json(nullptr) : Json(rank.pid)},
                     {"doing", rank.words}});
  }
  return {{"name", communicator.title},
          {"size", communicator.size},
          {"missing", communicator.missing},
          {"ranks", std::move(ranks)}};
}

std::string as_json(const run::Diagnosis& diagnosis) {
  Json findings = Json::array(), communicators = Json::array();
  for (const run::Finding& finding : diagnosis.findings) findings.push_back(as_json(finding));
  for (const run::CommunicatorReport& communicator : diagnosis.communicators)
    communicators.push_back(as_json(communicator));
  const Json report = {{"healthy", diagnosis.is_healthy()},
                       {"findings", std::move(findings)},
                       {"communicators", std::move(communicators)}};
  return format_json(report);
}

std::string describe(const run::CommunicatorReport& communicator) {
  const size_t records = communicator.size - communicator.missing.size();
  std::string text =
      harmless(communicator.title) + ": " + plural(communicator.size, "rank") + ", " + plural(records, "record");
  const size_t shown = std::min(kMaxRanksShown, communicator.ranks.size());
  for (size_t i = 0; i < shown; ++i) {
    const run::RankReport& rank = communicator.ranks[i];
    text += "\nrank " + std::to_string(rank.rank);
    if (!rank.host.empty()) text += " (" + harmless(rank.host) + ":" + std::to_string(rank.pid) + ")";
    if (rank.health != run::Health::alive) text += ", " + std::string(to_string(rank.health));
    text += ": " + harmless(rank.words);
  }
  if (shown < communicator.ranks.size()) {
    text += "\nand " + plural(communicator.ranks.size() - shown, "rank") + " more (see --json)";
  }
  return text;
}

std::string as_text(const Terminal& terminal, const run::Diagnosis& diagnosis) {
  std::string text;
  if (diagnosis.is_healthy()) {
    text = terminal.styled(Terminal::Style::good, "healthy") + "    no rank waits for long, and all calls agree\n";
  }
  for (const run::Finding& finding : diagnosis.findings) {
    std::string words = harmless(finding.communicator) + ": " + harmless(finding.sentence);
    for (const std::string& reason : finding.because) words += "\n- " + harmless(reason);
    text += labelled(terminal, std::string(to_string(finding.kind)), words) + "\n";
  }
  for (const run::CommunicatorReport& communicator : diagnosis.communicators) {
    text += labelled(terminal, "ranks", describe(communicator));
  }
  return text;
}

class DoctorCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command =
        program.command("doctor", "Say which rank is late at which call, from the flight records of a run.");
    command.word("DIR", &folder_, "the folder with the records of all ranks").paths = OptionSyntax::Paths::folders;
    command.option("--ask", &asked_, "PID", "ask a running process of the job on this host to write its records");
    command.flag("--json", json_, "print one JSON object");
    command.examples(
        {"banyan doctor /tmp/banyan-recorder-1000", "banyan doctor records --json", "banyan doctor --ask 4711"});
    command.notes(
        {"DIR is the folder to which the ranks wrote their flight records: BANYAN_RECORDER_DIR, by default "
         "/tmp/banyan-recorder-<user number>. Copy the records of several hosts into one folder first.",
         "With --ask, a running process of this host is asked, and all ranks of its job write their records. Those of "
         "this "
         "host are read, from the folder that the process writes to."});
    command.exit_codes({{"0", "nothing is wrong"},
                        {"1", "something is wrong (it is printed)"},
                        {"2", "no such folder, no record in it, or a broken record"}});
    command.environment({runtime_variable("BANYAN_RECORDER_DIR")});
    command.files({{"/tmp/banyan-recorder-UID/",
                    "the records of the user with this number, where "
                    "BANYAN_RECORDER_DIR names no other folder"}});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    constexpr uint64_t kLargestPid = 1 << 22;  // of Linux
    const auto pid = asked_.empty() ? 0 : static_cast<int32_t>(parse_count(asked_, "--ask", {.most = kLargestPid}));
    if (pid != 0 && folder_.empty()) folder_ = run::recorder_directory_of(pid);
    if (folder_.empty())
      throw Error(ErrorCode::invalid_input,
                  "name a folder of records, or a process (--ask PID); see 'banyan doctor --help'");
    if (pid != 0) run::ask_for_records(pid, folder_);
    const run::Diagnosis diagnosis = diagnose(run::read_dumps(folder_));
    terminal.print(json_ ? as_json(diagnosis) : as_text(terminal, diagnosis));
    return diagnosis.is_healthy() ? ExitCode::success : ExitCode::answer_is_no;
  }

 private:
  std::string folder_, asked_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace banyan::app
