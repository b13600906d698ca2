// banyan doctor: what the flight records of a run say about why it stands still, or is slow.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/command.h"
#include "apps/lists.h"
#include "apps/report.h"
#include "apps/run/live_report.h"
#include "banyan/base/rank_list.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/base/words.h"
#include "banyan/run/agent/job_view.h"
#include "banyan/run/join/rendezvous.h"
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

Json as_json(const run::Diagnosis& diagnosis, bool is_healthy) {
  Json findings = Json::array(), communicators = Json::array();
  for (const run::Finding& finding : diagnosis.findings) findings.push_back(as_json(finding));
  for (const run::CommunicatorReport& communicator : diagnosis.communicators)
    communicators.push_back(as_json(communicator));
  return {{"healthy", is_healthy}, {"findings", std::move(findings)}, {"communicators", std::move(communicators)}};
}

Json as_json(const LiveReport& report) {
  Json json = as_json(report.diagnosis, report.is_healthy());
  json["size"] = report.size;
  json["asked"] = report.asked;
  for (Json* list : {&json["moving"], &json["lanes"], &json["ranks"], &json["doubts"]}) *list = Json::array();
  for (const LiveReport::Communicator& each : report.communicators) {
    json["moving"].push_back({{"communicator", each.name},
                              {"id", each.id},
                              {"size", each.size},
                              {"moves", each.moves},
                              {"calls_per_second", each.calls_per_second}});
  }
  for (const LiveReport::Lane& lane : report.lanes) {
    json["lanes"].push_back({{"communicator", lane.communicator},
                             {"rank", lane.rank},
                             {"peer", lane.peer},
                             {"lane", lane.lane},
                             {"sent_bytes_per_second", lane.sent_per_second},
                             {"received_bytes_per_second", lane.received_per_second}});
  }
  for (const LiveReport::Rank& rank : report.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"process", rank.process},
                             {"place", rank.place},
                             {"health", to_string(rank.health)},
                             {"why", rank.why}});
  }
  for (const LiveReport::Doubt& doubt : report.doubts) {
    json["doubts"].push_back(
        {{"by", doubt.by}, {"rank", doubt.of.rank}, {"health", to_string(doubt.of.health)}, {"why", doubt.of.why}});
  }
  return json;
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

std::string as_text(const Terminal& terminal, const run::Diagnosis& diagnosis, bool is_healthy) {
  std::string text;
  if (is_healthy) {
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
  if (diagnosis.older > 0) {
    text += labelled(terminal, "older",
                     plural(diagnosis.older, "record") + " of runs before this one " +
                         (diagnosis.older == 1 ? "was" : "were") + " left out");
  }
  return text;
}

std::string as_text(const Terminal& terminal, const LiveReport& report) {
  constexpr size_t kMostLanesShown = 16;
  std::string text;
  for (const LiveReport::Rank& absent : report.absent) {
    text += labelled(terminal, std::string(to_string(absent.health)),
                     "rank " + std::to_string(absent.rank) + " of the job (" + harmless(absent.process) +
                         ") has not answered" + (absent.why.empty() ? "" : ": " + harmless(absent.why)));
  }
  for (const LiveReport::Doubt& doubt : report.doubts) {
    text += labelled(terminal, "doubt",
                     "rank " + std::to_string(doubt.by) + " of the job thinks rank " + std::to_string(doubt.of.rank) +
                         " " + std::string(to_string(doubt.of.health)) + ": " + harmless(doubt.of.why));
  }
  for (const LiveReport::Communicator& each : report.communicators) {
    const std::string name = harmless(each.name) + (each.id.empty() ? "" : " (" + harmless(each.id) + ")");
    text += labelled(terminal, each.moves ? "moves" : "still",
                     name + ": " + plural(each.size, "rank") + ", " +
                         format_decimals(each.calls_per_second, each.calls_per_second < 10 ? 1 : 0) + " calls/s");
  }
  text += as_text(terminal, report.diagnosis, report.is_healthy());
  const size_t shown = std::min(kMostLanesShown, report.lanes.size());
  std::string lanes;
  for (size_t i = 0; i < shown; ++i) {
    const LiveReport::Lane& lane = report.lanes[i];
    lanes += (i == 0 ? "" : "\n") + harmless(lane.communicator) + ": rank " + std::to_string(lane.rank) + ", lane " +
             std::to_string(lane.lane) + " with rank " + std::to_string(lane.peer) + ": sends " +
             format_rate(lane.sent_per_second) + ", receives " + format_rate(lane.received_per_second);
  }
  if (shown < report.lanes.size())
    lanes += "\nand " + plural(report.lanes.size() - shown, "lane") + " more (see --json)";
  if (shown > 0) text += labelled(terminal, "lanes", lanes);
  return text;
}

Json as_json(const run::MeetingView& meeting, const std::string& url) {
  Json here = Json::array();
  for (const run::EndpointRecord& card : meeting.here) {
    here.push_back({{"rank", card.rank}, {"process", card.described()}});
  }
  return {{"url", url}, {"size", meeting.size}, {"here", std::move(here)}, {"absent", meeting.absent}};
}

std::string as_text(const Terminal& terminal, const run::MeetingView& meeting, const std::string& url) {
  if (meeting.size == 0) return labelled(terminal, "joining", "nobody has come to " + url + " but its host");
  std::string words = std::to_string(meeting.here.size()) + " of " + plural(meeting.size, "rank") +
                      (meeting.here.size() == 1 ? " has" : " have") + " come to " + url;
  const size_t shown = std::min(kMaxRanksShown, meeting.here.size());
  for (size_t i = 0; i < shown; ++i) {
    words += "\nrank " + std::to_string(meeting.here[i].rank) + ": " + harmless(meeting.here[i].described());
  }
  if (shown < meeting.here.size()) {
    words += "\nand " + plural(meeting.here.size() - shown, "rank") + " more (see --json)";
  }
  std::string text = labelled(terminal, "joining", words);
  if (!meeting.absent.empty()) text += labelled(terminal, "missing", list_ranks(meeting.absent));
  return text;
}

class DoctorCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command =
        program.command("doctor", "Say which rank is late at which call, from the flight records of a run.");
    command.word("DIR", &folder_, "the folder with the records of all ranks").paths = OptionSyntax::Paths::folders;
    command.option("--ask", &asked_, "PID", "ask a running process of the job on this host to write its records");
    command.option("--live", &live_, "PID|HOST:PORT|URL", "look at a running job from outside, for a second");
    command.flag("--json", json_, "print one JSON object");
    command.examples({"banyan doctor /tmp/banyan-recorder-1000", "banyan doctor records --json",
                      "banyan doctor --ask 4711", "banyan doctor --live 4711",
                      "banyan doctor --live tcp://node0:29501"});
    command.notes(
        {"DIR is the folder to which the ranks wrote their flight records: BANYAN_RECORDER_DIR, by default "
         "/tmp/banyan-recorder-<user number>. Copy the records of several hosts into one folder first.",
         "With --ask, a running process of this host is asked, and all ranks of its job write their records. Those of "
         "this "
         "host are read, from the folder that the process writes to.",
         "With --live, one process of the job is asked, and asks all others, twice within a second: what each rank is "
         "doing, who "
         "waits for whom, who is suspected, and how fast lanes are. Nothing is stopped, and nothing written. A process "
         "of this host lets its own user and root look. A launcher, such as banyan run, stands for a rank that it has "
         "started. At a port, the secret of the job is asked for; --json says where each rank listens.",
         "A URL is where the ranks meet (BANYAN_RENDEZVOUS, a launcher's MASTER_ADDR and the port after MASTER_PORT). "
         "One of the ranks of this host that have met there is asked. While they are still meeting, it says who has "
         "come and who has not, on whichever host."});
    command.exit_codes({{"0", "nothing is wrong"},
                        {"1", "something is wrong (it is printed)"},
                        {"2", "no such folder, no record in it, or a broken record"}});
    command.environment({runtime_variable("BANYAN_RECORDER_DIR"), runtime_variable("BANYAN_SECRET"),
                         runtime_variable("BANYAN_SECRET_FILE")});
    command.files({{"/tmp/banyan-recorder-UID/",
                    "the records of the user with this number, where "
                    "BANYAN_RECORDER_DIR names no other folder"}});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (!live_.empty()) return look(terminal);
    const auto pid = asked_.empty() ? 0 : process_to_ask();
    if (pid != 0 && folder_.empty()) folder_ = run::recorder_directory_of(pid);
    if (folder_.empty())
      throw invalid("name a folder of records, or a process (--ask PID, --live PID); see 'banyan doctor --help'");
    if (pid != 0) run::ask_for_records(pid, folder_);
    const run::Diagnosis diagnosis = diagnose(run::read_dumps(folder_));
    const bool is_healthy = diagnosis.is_healthy();
    terminal.print(json_ ? format_json(as_json(diagnosis, is_healthy)) : as_text(terminal, diagnosis, is_healthy));
    return is_healthy ? ExitCode::success : ExitCode::answer_is_no;
  }

 private:
  static constexpr uint64_t kLargestPid = 1 << 22;  // of Linux

  // Of a launcher, one of its ranks, which has the others write, too.
  int32_t process_to_ask() const {
    const auto given = static_cast<int64_t>(parse_count(asked_, "--ask", {.most = kLargestPid}));
    const std::vector<int64_t> joined = run::joined_processes(given);
    return static_cast<int32_t>(joined.empty() ? given : joined.front());
  }
  bool is_url() const { return live_.find("://") != std::string::npos; }

  // Of each job that the process is in; none where nobody of this host has met at a url.
  std::vector<run::JobView> look_once() const {
    constexpr std::chrono::seconds kPatience{5};
    const run::Deadline deadline = run::Deadline::after(kPatience);
    if (is_url()) {
      std::optional<run::JobView> job = run::look_at_job_that_met(live_.substr(0, live_.find('#')), deadline);
      return job ? std::vector{std::move(*job)} : std::vector<run::JobView>();
    }
    const bool is_process = live_.find_first_not_of("0123456789") == std::string::npos;
    if (!is_process) return {run::look_at(live_, run::Secret::from_environment(), deadline)};
    return run::look_at_process(static_cast<int64_t>(parse_count(live_, "--live", {.most = kLargestPid})), deadline);
  }

  ExitCode look(const Terminal& terminal) const {
    constexpr std::chrono::milliseconds kBetween{300};
    const std::vector<run::JobView> first = look_once();
    if (first.empty()) return look_at_meeting(terminal);
    std::this_thread::sleep_for(kBetween);
    const std::vector<run::JobView> second = look_once();
    bool is_healthy = true;
    Json jobs = Json::array();
    std::string text;
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      const LiveReport report = report_of(first[i], second[i]);
      is_healthy = is_healthy && report.is_healthy();
      jobs.push_back(as_json(report));
      text += as_text(terminal, report);
    }
    terminal.print(json_ ? format_json({{"banyan", "live/1"}, {"healthy", is_healthy}, {"jobs", std::move(jobs)}})
                         : text);
    return is_healthy ? ExitCode::success : ExitCode::answer_is_no;
  }

  // Of a job that is still joining, as far as this can be told.
  ExitCode look_at_meeting(const Terminal& terminal) const {
    constexpr std::chrono::seconds kPatience{5};
    const run::Place place = run::Place::parse(live_);
    const std::optional<run::MeetingView> meeting =
        run::look_at_meeting(place, run::Secret::from_environment(), run::Deadline::after(kPatience));
    if (!meeting) {
      throw Error(
          ErrorCode::not_found,
          "no meeting at " + place.url +
              " answers now, and no process of this host that lets you look has met there (--live PID on another "
              "host, or HOST:PORT of any rank)");
    }
    terminal.print(json_ ? format_json({{"banyan", "live/1"},
                                        {"healthy", false},
                                        {"jobs", Json::array()},
                                        {"meeting", as_json(*meeting, place.url)}})
                         : as_text(terminal, *meeting, place.url));
    return ExitCode::answer_is_no;
  }

  std::string folder_, asked_, live_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace banyan::app
