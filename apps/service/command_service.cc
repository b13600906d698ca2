// banyan service: what the daemons of a cluster do for which tenant, and what operators ask of them.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/command.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "apps/service/operator_door.h"
#include "apps/service/service_report.h"
#include "apps/service/service_wishes.h"
#include "apps/service/top_screen.h"
#include "apps/verbs.h"
#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/utf8.h"
#include "banyan/compose/settings.h"
#include "banyan/service/client/use_service.h"
#include "banyan/service/share/rules.h"
#include "banyan/service/view/view_json.h"

namespace banyan::app {
namespace {

using service::ClusterView;

class ServiceCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("service", "Look at banyand on all hosts, and tell it what to do.");
    command.examples({"banyan service status", "banyan service top", "banyan service links --interval 5s",
                      "banyan service set 1000/vgg --weight 4", "banyan service replan job17 --avoid leaf0-spine1",
                      "banyan service rules load rules.json"});
    command.notes(
        {"Any daemon answers for all hosts. Without --at, the daemon of this host is asked, or that of this user. "
         "The operator's socket lets some users look and others change things: see docs/service.md."});
    declare_views(command);
    declare_hints(command);
    declare_wishes(command);
    declare_rules(command);
    return command;
  }

  ExitCode run(const Terminal& terminal) override { return verbs_.run(terminal); }

 private:
  using Action = ExitCode (ServiceCommand::*)(const Terminal&) const;

  CommandSyntax& add(CommandSyntax& command, const std::string& verb, Action action, const std::string& summary) {
    CommandSyntax& added = verbs_.add(command.command(verb, summary),
                                      [this, action](const Terminal& terminal) { return (this->*action)(terminal); });
    added.option("--at", &url_, "URL", "the daemon to ask: unix:PATH of its operator's socket, or http://HOST:PORT");
    return added;
  }
  CommandSyntax& add_with_json(CommandSyntax& command, const std::string& verb, Action action,
                               const std::string& summary) {
    CommandSyntax& added = add(command, verb, action, summary);
    added.flag("--json", json_, "print one JSON object");
    return added;
  }
  void add_interval(CommandSyntax& verb, const std::string& help) {
    verb.option("--interval", into(interval_, parse_interval), "TIME", help + " (default 1s)");
  }
  static void wish_codes(CommandSyntax& verb) {
    verb.exit_codes({{"0", "all hosts have done it"},
                     {"1", "somebody has refused it or is unreachable, or it concerns nobody (it is printed)"},
                     {"2", "bad input, or no daemon answers"}});
  }

  void declare_views(CommandSyntax& command) {
    CommandSyntax& status =
        add_with_json(command, "status", &ServiceCommand::status, "Show hosts and communicators, and what is wrong.");
    status.examples(
        {"banyan service status", "banyan service status --json", "banyan service status --at http://node0:9420"});
    status.exit_codes({{"0", "nothing is wrong"},
                       {"1", "something is wrong (it is printed), even where calls go on"},
                       {"2", "bad input, or no daemon answers"}});
    CommandSyntax& tenants = add_with_json(command, "tenants", &ServiceCommand::tenants,
                                           "Show what each tenant calls and sends, and what its weight is.");
    add_interval(tenants, "how long to watch");
    tenants.examples({"banyan service tenants", "banyan service tenants --interval 10s --json"});
    tenants.notes(
        {"Share is a tenant's part of all that was sent between hosts. 'By weight' is its part by the weights of "
         "those that have sent something: all tenants of one user have one weight together, but for those that a rule "
         "or 'set' names. The two differ where tenants share no link, ask for less, or have "
         "caps or classes."});
    CommandSyntax& links =
        add_with_json(command, "links", &ServiceCommand::links, "Show how full links are, and by whom.");
    add_interval(links, "how long to watch");
    links.examples({"banyan service links", "banyan service links --interval 10s"});
    links.notes(
        {"Calls count when they are over: watch for longer than they take. Needs daemons that know their fabric."});
    CommandSyntax& top =
        add(command, "top", &ServiceCommand::top, "Watch tenants, communicators and links on a live screen.");
    add_interval(top, "how often to ask");
    top.examples({"banyan service top", "banyan service top --interval 200ms"});
    top.notes({"q ends it. Left and right choose a panel; up, down, page up and page down move its rows."});
  }

  // For tenants: it asks where programs attach.
  void declare_hints(CommandSyntax& command) {
    CommandSyntax& hints =
        verbs_.add(command.command("hints", "Show what others leave of the links between your hosts."),
                   [this](const Terminal& terminal) { return this->hints(terminal); });
    hints.option("--at", &url_, "URL", "the daemon to ask: unix:PATH of the socket where programs attach");
    hints.flag("--json", json_, "print one JSON object");
    hints.examples({"banyan service hints", "banyan service hints --json"});
    hints.notes(
        {"Shows the links between the hosts of all communicators that you have open on this host: how much of each "
         "is free, what your own calls carry, and how many other tenants use it, in the last tenths of a second. "
         "Without --at, the daemon that BANYAN_SERVICE names, that of this host, or that of this user is asked."});
  }

  void declare_wishes(CommandSyntax& command) {
    CommandSyntax& set =
        add_with_json(command, "set", &ServiceCommand::set, "Set weight, class or cap of a tenant, beyond the rules.");
    set.word("TENANT", &share_.tenant, "as 'banyan service tenants' shows it").is_required = true;
    set.option("--weight", &share_.weight, "WEIGHT", "1 to 1000");
    set.option("--class", &share_.share_class, "CLASS", "high, normal or low").values = {"high", "normal", "low"};
    set.option("--cap", &share_.cap, "RATE", "no faster than this on any link, as 1GB/s; none takes the cap away");
    OptionSyntax& reset = set.option("--reset", &share_.reset, "", "take back what was set");
    reset.excludes = {"--weight", "--class", "--cap"};
    set.examples({"banyan service set 1000/vgg --weight 4", "banyan service set 1000/gpt --class low --cap 500MB/s",
                  "banyan service set 1000/vgg --reset"});
    set.notes(
        {"It holds on all hosts until their daemons end. For longer, write a rule. The tenant's share is its "
         "own then: its user's other tenants no longer divide one weight with it."});
    wish_codes(set);
    CommandSyntax& replan =
        add_with_json(command, "replan", &ServiceCommand::replan, "Let a running communicator go over to other plans.");
    replan.word("COMMUNICATOR", &plan_.communicator, "its id or name; * stands for any characters").is_required = true;
    replan.option("--avoid", &plan_.avoid, "LINK", "use this link no more, as leaf0-spine1; may be repeated");
    replan.option("--restore", &plan_.restore, "LINK", "use a link again that was avoided; may be repeated");
    replan.option("--bandwidth", &plan_.bandwidths, "LINK=RATE",
                  "a link carries this, as leaf0-spine1=1GB/s; may be repeated");
    replan.option(
        "--plan", [this](const std::string& path) { plan_.plan = read_plain_text(path).text; }, "FILE",
        "follow this plan");
    replan.examples({"banyan service replan job17 --avoid leaf0-spine1",
                     "banyan service replan '*' --bandwidth leaf0-spine1=1GB/s",
                     "banyan service replan 7f3a09c2 --plan plan.json"});
    replan.notes({"No call stops: from some call on, all ranks follow the new plans."});
    wish_codes(replan);
    CommandSyntax& drain =
        add_with_json(command, "drain", &ServiceCommand::drain, "Let daemons open no more communicators.");
    drain.word("HOST", &hosts_, "by name; without, all hosts").takes_rest = true;
    drain.flag("--undo", undo_, "let them open communicators again");
    drain.examples({"banyan service drain node3", "banyan service drain node3 --undo"});
    drain.notes(
        {"Those that are open go on. Once a host has none ('banyan service status'), its daemon can be ended."});
    wish_codes(drain);
    CommandSyntax& upgrade = add_with_json(command, "upgrade", &ServiceCommand::upgrade,
                                           "Have the next version of banyand take a daemon's place.");
    upgrade.word("HOST", &hosts_, "by name; without, all hosts").takes_rest = true;
    upgrade.examples({"banyan service upgrade node3"});
    upgrade.notes(
        {"The program is what is now at the path from which the daemon was started. New communicators open at the new "
         "daemon; those that are open go over to it, but for some that stay until they end, such as those that have "
         "exchanged messages. The daemon of before ends when the last has left it. A program that cannot take the "
         "place changes nothing."});
    wish_codes(upgrade);
  }

  void declare_rules(CommandSyntax& command) {
    CommandSyntax& rules = command.command("rules", "Show, check and load the rules: who gets what.");
    rules.examples(
        {"banyan service rules show", "banyan service rules check rules.json", "banyan service rules load rules.json"});
    rules.notes({"docs/service.md describes rules."});
    CommandSyntax& show =
        add_with_json(rules, "show", &ServiceCommand::show_rules, "Print the rules of the daemon that is asked.");
    show.examples({"banyan service rules show > rules.json"});
    CommandSyntax& check = add_with_json(rules, "check", &ServiceCommand::check_rules,
                                         "Say what rules of a file would change, and change nothing.");
    CommandSyntax& load =
        add_with_json(rules, "load", &ServiceCommand::load_rules, "Let all hosts go by the rules of a file.");
    for (CommandSyntax* const verb : {&check, &load}) {
      verb->file_word("FILE", rules_file_, "rules as JSON");
      verb->examples({verb->name() + " rules.json"});
      wish_codes(*verb);
    }
    load.flag("--older", older_, "though their version is less than that of the rules in force");
    load.notes({"They hold until the daemons read their own files again: at SIGHUP, and when they begin."});
  }

  // ---- Views.

  ExitCode status(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    const std::string text = door.cluster_text();
    const ClusterView view = door.understood([&] { return service::cluster_view_from(text); });
    terminal.print(json_ ? format_json(Json::parse(text)) : status_text(terminal, view));
    return is_well(view) ? ExitCode::success : ExitCode::answer_is_no;
  }

  static std::chrono::milliseconds parse_interval(const std::string& text) {
    constexpr std::chrono::milliseconds kLeast{50};
    const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(parse_duration(text));
    if (time >= kLeast) return time;
    throw invalid("is " + in_quotes(text) + "; give 50ms or more");
  }

  ExitCode tenants(const Terminal& terminal) const {
    const ServiceRates rates = watched(terminal);
    terminal.print(json_ ? format_json(tenants_json(rates)) : tenants_text(terminal, rates));
    return ExitCode::success;
  }

  ExitCode links(const Terminal& terminal) const {
    const ServiceRates rates = watched(terminal);
    terminal.print(json_ ? format_json(links_json(rates)) : links_text(terminal, rates));
    return ExitCode::success;
  }

  ServiceRates watched(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    const ClusterView first = door.cluster();
    {
      Progress progress(terminal, "watching");
      std::this_thread::sleep_for(interval_);
    }
    ServiceRates rates = rates_between(first, door.cluster());
    if (rates.seconds <= 0) {
      throw Error(ErrorCode::io, "the clock of the daemon's host was set back meanwhile; ask again");
    }
    return rates;
  }

  ExitCode hints(const Terminal& terminal) const {
    const Json hints = Json::parse(service::service_hints(compose::region_pool(), {.url = url_}));
    terminal.print(json_ ? format_json(hints) : hints_text(terminal, hints));
    return ExitCode::success;
  }

  ExitCode top(const Terminal&) const {
    constexpr std::chrono::seconds kPatience{5};  // q waits for a question that is under way
    expect_terminal();
    const OperatorDoor door(url_, kPatience);
    return show_top(door, door.cluster(), interval_) == TopEnd::quit ? ExitCode::success : ExitCode::interrupted;
  }

  // ---- Wishes.

  // Prints the answers and what is to be said before and after them; the same as JSON and notes.
  ExitCode report(const Terminal& terminal, const OperatorAnswers& answers, const std::string& text,
                  const std::string& complaint) const {
    terminal.print(json_ ? format_json(answers.all) : text);
    if (!complaint.empty()) terminal.note("banyan: " + complaint + "\n");
    return answers.is_good() && complaint.empty() ? ExitCode::success : ExitCode::answer_is_no;
  }

  // " (did you mean 'job17'?)", of names that views of communicators have.
  static std::string hint(const OperatorDoor& door, const std::string& name,
                          std::string service::CommunicatorView::*member) {
    NearestName nearest(name);
    for (const service::CommunicatorView& each : door.cluster().communicators) nearest.offer(each.*member);
    return nearest.hint();
  }

  static bool is_direct(const OperatorDoor& door, const std::string& pattern) {
    const service::ClusterView view = door.cluster();
    return std::any_of(view.communicators.begin(), view.communicators.end(), [&](const auto& each) {
      return each.is_direct && (each.id == pattern || service::is_like(pattern, each.name));
    });
  }

  ExitCode set(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    const OperatorAnswers answers = door.post("/v1/set", share_.body());
    const std::string text = labelled(terminal, "tenant", harmless(share_.tenant) + ": " + share_.in_words()) +
                             answers_text(terminal, answers, [](const Json& said) {
                               const auto sessions = said.find("sessions");
                               const bool is_count = sessions != said.end() && sessions->is_number_unsigned();
                               return is_count ? plural(sessions->get<uint64_t>(), "session") : std::string("done");
                             });
    const bool concerns_nobody = answers.is_good() && sum_of(answers, "sessions") == 0;
    return report(terminal, answers, text,
                  concerns_nobody ? "no communicator of tenant " + in_quotes(share_.tenant) + " is open now" +
                                        hint(door, share_.tenant, &service::CommunicatorView::tenant)
                                  : "");
  }

  ExitCode replan(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    const OperatorAnswers answers = door.post("/v1/replan", plan_.body());
    const std::vector<ReplanOutcome> outcomes = outcomes_of(answers);
    std::string text = outcomes_text(terminal, outcomes);
    if (!answers.is_good()) {
      text += answers_text(terminal, answers, [](const Json& said) {
        const auto list = said.find("communicators");
        return plural(list == said.end() ? 0 : list->size(), "communicator") + " asked";
      });
    }
    std::string complaint;
    if (answers.is_good() && outcomes.empty()) {
      complaint = is_direct(door, plan_.communicator)
                      ? "the ranks of " + in_quotes(plan_.communicator) +
                            " are all on one host and exchange in its memory: there are no plans to replace"
                      : "no communicator is called " + in_quotes(plan_.communicator) +
                            hint(door, plan_.communicator, &service::CommunicatorView::name);
    }
    const ExitCode code = report(terminal, answers, text, complaint);
    const bool are_adopted =
        std::all_of(outcomes.begin(), outcomes.end(), [](const ReplanOutcome& each) { return each.refusal.empty(); });
    return are_adopted ? code : ExitCode::answer_is_no;
  }

  ExitCode drain(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    Json body = {{"drain", !undo_}};
    if (!hosts_.empty()) body["hosts"] = hosts_;
    const OperatorAnswers answers = door.post("/v1/drain", body);
    const std::string text = answers_text(terminal, answers, [this](const Json&) {
      return std::string(undo_ ? "opens communicators again" : "opens no more communicators");
    });
    return report(terminal, answers, text, "");
  }

  ExitCode upgrade(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    Json body = Json::object();
    if (!hosts_.empty()) body["hosts"] = hosts_;
    const OperatorAnswers answers = door.post("/v1/upgrade", body);
    const std::string text = answers_text(terminal, answers, [](const Json& said) {
      const auto number = [&](const char* key) {
        const auto found = said.find(key);
        return found != said.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
      };
      return "process " + std::to_string(number("process")) + " has taken over; " +
             plural(number("sessions"), "session") + (number("sessions") == 1 ? " is" : " are") +
             " still with the daemon of before";
    });
    return report(terminal, answers, text, "");
  }

  // ---- Rules.

  ExitCode show_rules(const Terminal& terminal) const {
    const OperatorDoor door(url_);
    const Json rules = door.get("/v1/rules");
    if (json_) {
      terminal.print(format_json(rules));
      return ExitCode::success;
    }
    const bool has_text = rules.is_object() && rules.contains("text") && rules["text"].is_string();
    if (!has_text) throw Error(ErrorCode::invalid_input, "answers rules without \"text\"", door.url());
    std::string text = rules["text"].get<std::string>();
    if (text.empty()) {
      terminal.note("no rules: every communicator is granted with weight 1\n");
      return ExitCode::success;
    }
    if (!text.ends_with('\n')) text += '\n';
    terminal.print(text);
    return ExitCode::success;
  }

  ExitCode check_rules(const Terminal& terminal) const { return give_rules(terminal, true); }
  ExitCode load_rules(const Terminal& terminal) const { return give_rules(terminal, false); }

  ExitCode give_rules(const Terminal& terminal, bool is_trial) const {
    const std::string text = read_plain_text(rules_file_).text;
    const service::Rules rules = service::Rules::parse(text, rules_file_);
    for (const std::string& each : rules.warnings()) terminal.note(labelled(terminal, "warning", harmless(each)));
    Json body = {{"text", text}};
    if (is_trial) body["check"] = true;
    if (older_) body["older"] = true;
    const OperatorDoor door(url_);
    const OperatorAnswers answers = door.post("/v1/rules", body);
    std::string words;
    if (!is_trial || !answers.is_good()) {
      words = answers_text(terminal, answers, [&](const Json&) {
        return (is_trial ? "accepts version " : "goes by version ") + std::to_string(rules.version());
      });
    }
    const bool is_accepted = std::any_of(answers.hosts.begin(), answers.hosts.end(),
                                         [](const OperatorAnswers::Host& each) { return each.error.empty(); });
    if (is_trial && is_accepted) words += changes_text(terminal, answers);
    return report(terminal, answers, words, "");
  }

  Verbs verbs_;
  std::string url_, rules_file_;
  std::chrono::milliseconds interval_{1000};
  ShareWish share_;
  PlanWish plan_;
  std::vector<std::string> hosts_;
  bool json_ = false, undo_ = false, older_ = false;
};

}  // namespace

std::unique_ptr<Command> make_service_command() { return std::make_unique<ServiceCommand>(); }

}  // namespace banyan::app
