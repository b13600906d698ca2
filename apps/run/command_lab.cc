// banyan lab: a fabric as real hosts on this machine, and programs in it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "apps/run/launcher.h"
#include "apps/verbs.h"
#include "banyan/base/file.h"
#include "lab/host_programs.h"
#include "lab/lab.h"
#include "lab/lab_file.h"
#include "lab/link_check.h"
#include "lab/link_queue.h"

namespace banyan::app {
namespace {

using lab::Lab;

// The part of its bandwidth that a link must reach; packets have headers.
constexpr double kGoodEnough = 0.85;
// Other work on this machine can only make a link look slower than it is: the best of so many counts.
constexpr int kTries = 5;

class LabCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("lab", "Set up a fabric as real hosts on this machine.");
    command.examples({"banyan lab up leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s", "banyan lab run -- ./allreduce",
                      "banyan lab fail leaf0-spine0", "banyan lab check", "banyan lab down"});
    command.notes(
        {"Every rank and switch becomes a host with a network of its own. Every cable becomes a pair of "
         "interfaces with the rate of the cable. Needs root. Commands about one lab take --name; all take --json."});
    command.files({{"/run/banyan/labs/NAME/", "a lab that is up"}});
    CommandSyntax& up = add(command, "up", &LabCommand::up, "Set up a fabric.");
    fabric_.declare(up, "FABRIC", FabricOption::Place::required);
    up.option("--scale", into(scale_, lab::Scale::parse), "FACTOR", "multiply all bandwidths, as 1/1000 (default 1)");
    up.option("--ranks-per-host", &ranks_per_host_, "K",
              "ranks of FABRIC are hosts with K ranks each; 2,1,3: of each host");
    up.option("--classes", count_into(classes_, {.most = lab::kMostClasses}), "N",
              "2 or 3 classes of traffic on each link, by the DS field (default 1)");
    up.flag("--replace", replace_, "take down a lab of the same name first");
    up.examples({"banyan lab up 'a0 <-> sw 200Mb/s; a1 <-> sw 200Mb/s; a2 <-> sw 100Mb/s'",
                 "banyan lab up dgx-a100:2 --scale 1/10000 --name small",
                 "banyan lab up leaf-spine:leaves=2,hosts=2,spines=2@200Mb/s --replace",
                 "banyan lab up star:4@200Mb/s --ranks-per-host 2 --classes 3"});
    CommandSyntax& run = add(command, "run", &LabCommand::start, "Start a program at every rank.");
    run_ = &run;
    run.option("--rank", &rank_, "RANK", "start it at this rank only");
    run.option("--per-host", &per_host_, "COMMAND", "a shell command that runs beside the ranks, once at each host");
    run.flag("--no-prefix", no_prefix_, "do not put the rank in front of each line of output");
    run.flag("--keep-going", keep_going_, "let the other ranks run when one has failed");
    run.takes_program();
    run.examples({"banyan lab run -- ./allreduce", "banyan lab run --rank 2 -- ip route",
                  "banyan lab run --no-prefix -- banyan bench allreduce --sizes 64MiB",
                  "banyan lab run --per-host 'tcpdump -n -i any -w $BANYAN_LAB_HOST.pcap' -- ./allreduce"});
    run.exit_codes({{"0", "all programs have succeeded"},
                    {"2", "bad input"},
                    {"N", "that of the first program that failed, or 128 + signal when it was killed"}});
    run.environment(runtime_variables());
    CommandSyntax& status = add(command, "status", &LabCommand::status, "Show hosts and cables.");
    status.examples({"banyan lab status", "banyan lab status --json   # what programs in the lab get"});
    CommandSyntax& check = add(command, "check", &LabCommand::check, "Measure every link by a TCP connection.");
    check.examples({"banyan lab check"});
    check.exit_codes({{"0", "every link is as fast as it should be"},
                      {"1", "a link is slower, and has not been cut"},
                      {"2", "bad input"}});
    CommandSyntax& fail = add(command, "fail", &LabCommand::fail, "Cut a cable.");
    CommandSyntax& heal = add(command, "heal", &LabCommand::heal, "Mend a cable that was cut.");
    for (CommandSyntax* const verb : {&fail, &heal}) {
      verb->word("LINK", &cable_, "two nodes, as a0-sw; a0-sw#1 is the second of several cables").is_required = true;
      verb->examples({verb->name() + " leaf0-spine0"});
    }
    CommandSyntax& list = verbs_.add(command.command("list", "Show the labs that are up on this machine."),
                                     [this](const Terminal& terminal) { return this->list(terminal); });
    list.flag("--json", json_, "print one JSON object");
    list.examples({"banyan lab list"});
    CommandSyntax& down = add(command, "down", &LabCommand::down, "End the programs in it and remove it.");
    down.examples({"banyan lab down", "banyan lab down --name small"});
    return command;
  }

  void take_program(std::vector<std::string> words) override {
    if (!run_->was_chosen()) Command::take_program(std::move(words));
    if (words.empty()) throw invalid("no program after '--'");
    program_ = std::move(words);
  }

  ExitCode run(const Terminal& terminal) override { return verbs_.run(terminal); }

 private:
  using Action = ExitCode (LabCommand::*)(const Terminal&) const;

  CommandSyntax& add(CommandSyntax& command, const std::string& verb, Action action, const std::string& summary) {
    CommandSyntax& added = verbs_.add(command.command(verb, summary),
                                      [this, action](const Terminal& terminal) { return (this->*action)(terminal); });
    added.option("--name", &name_, "NAME", "of the lab (default lab)");
    added.flag("--json", json_, "print one JSON object");
    return added;
  }

  ExitCode up(const Terminal& terminal) const {
    const Fabric fabric = fabric_.load();
    lab::LabOptions options{.classes = classes_};
    if (!ranks_per_host_.empty()) {
      options.ranks_per_host = lab::SharedHosts::parse(ranks_per_host_, fabric.ranks().size());
    }
    const std::vector<std::string> names = Lab::names();
    if (!replace_ && std::find(names.begin(), names.end(), name_) != names.end()) {
      throw Error(ErrorCode::invalid_usage,
                  "a lab '" + name_ + "' is up already; give --replace to take it down first, or another --name");
    }
    {
      Progress progress(terminal, "setting up hosts");
      Lab::up(name_, fabric, scale_, options);
    }
    if (json_) return status(terminal);
    std::string text = "lab '" + name_ + "' is up: " + describe_counts(fabric);
    if (!options.ranks_per_host.empty()) {
      const std::vector<uint32_t>& counts = options.ranks_per_host;
      const uint32_t ranks = std::accumulate(counts.begin(), counts.end(), 0u);
      text += "; its ranks are " + std::to_string(counts.size()) + " hosts with " + std::to_string(ranks) + " ranks";
    }
    if (options.classes > 1) text += ", " + std::to_string(options.classes) + " classes of traffic";
    if (scale_.numerator != scale_.denominator) text += ", bandwidths times " + scale_.to_string();
    const std::string option = name_ == kDefaultName ? "" : " --name " + name_;
    terminal.print(text + "\nstart programs in it by: banyan lab run" + option + " -- PROGRAM\n");
    return ExitCode::success;
  }

  ExitCode fail(const Terminal& terminal) const { return set_cable(terminal, true); }
  ExitCode heal(const Terminal& terminal) const { return set_cable(terminal, false); }

  ExitCode set_cable(const Terminal& terminal, bool is_cut) const {
    Lab lab = Lab::open(name_);
    const uint32_t cable = lab.find_cable(cable_);
    is_cut ? lab.fail(cable) : lab.heal(cable);
    terminal.print(json_ ? format_json({{"lab", name_}, {"cable", lab.cable_name(cable)}, {"cut", is_cut}})
                         : cable_ + (is_cut ? " is cut\n" : " is whole\n"));
    return ExitCode::success;
  }

  ExitCode list(const Terminal& terminal) const {
    Json rows = Json::array();
    Table table({"lab", "ranks", "switches", "cables", "cut", "scale", "processes"});
    for (const Lab& lab : Lab::all()) {
      FabricCounts counts = count(lab.plan().fabric());
      counts.ranks = lab.fabric().ranks().size();
      const size_t cables = lab.plan().cables().all().size();
      size_t processes = 0;
      for (const lab::Host& host : lab.plan().hosts()) processes += lab.processes(host.node).size();
      rows.push_back({{"name", lab.name()},
                      {"ranks", counts.ranks},
                      {"switches", counts.switches},
                      {"cables", cables},
                      {"cut", lab.cut().size()},
                      {"scale", lab.scale().to_string()},
                      {"processes", processes}});
      table.add({lab.name(), std::to_string(counts.ranks), std::to_string(counts.switches), std::to_string(cables),
                 std::to_string(lab.cut().size()), lab.scale().to_string(), std::to_string(processes)});
    }
    terminal.print(json_ ? format_json({{"labs", rows}}) : rows.empty() ? "no lab is up\n" : table.format(terminal));
    return ExitCode::success;
  }

  ExitCode start(const Terminal& terminal) const {
    if (program_.empty()) {
      throw invalid("which program? Write 'banyan lab run -- PROGRAM ARGUMENTS'");
    }
    const Lab lab = Lab::open(name_);
    const std::span<const NodeId> ranks = lab.fabric().ranks();
    LaunchPlan plan{.program = program_, .ranks = {}};
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      if (!rank_.empty() && rank != parse_count(rank_, "--rank", {.least = 0, .most = ranks.size() - 1})) continue;
      plan.ranks.push_back({.host = {},
                            .variables = lab.variables(rank),
                            .network_namespace = lab.namespace_of(lab.host_of(rank)),
                            .number = rank});
    }
    const LaunchOptions options{.prefix_lines = !no_prefix_, .json = json_, .keep_going = keep_going_};
    std::optional<lab::HostPrograms> beside;
    if (!per_host_.empty()) parse_option("--per-host", [&] { beside.emplace(lab, per_host_); });
    const int code = launch(plan, run::Secret::parse(lab.secret(), "the lab"), options, terminal);
    if (beside) {
      for (const std::string& line : beside->failures()) terminal.note("banyan: " + line + "\n");
    }
    return static_cast<ExitCode>(code);
  }

  // "0,1"; nothing at a switch.
  static std::string ranks_of(const Lab& lab, NodeId host) {
    std::string numbers;
    for (uint32_t rank = 0; rank < lab.fabric().ranks().size(); ++rank) {
      if (lab.host_of(rank) == host) numbers += (numbers.empty() ? "" : ",") + std::to_string(rank);
    }
    return numbers;
  }

  ExitCode status(const Terminal& terminal) const {
    const Lab lab = Lab::open(name_);
    if (json_) {
      terminal.print(format_lab_file(lab));
      return ExitCode::success;
    }
    const Fabric& fabric = lab.plan().fabric();
    const bool are_shared = !lab.hosts().ranks_per_host().empty();
    std::vector<std::string> headings{"host", "address", "namespace", "processes"};
    if (are_shared) headings.push_back("ranks");
    Table hosts(headings);
    for (const lab::Host& host : lab.plan().hosts()) {
      std::vector<std::string> row{fabric.name(host.node), host.primary.to_string(), lab.namespace_of(host.node),
                                   std::to_string(lab.processes(host.node).size())};
      if (are_shared) row.push_back(ranks_of(lab, host.node));
      hosts.add(std::move(row));
    }
    Table cables({"cable", "addresses", "rates", "state"});
    for (uint32_t number = 0; number < lab.plan().cables().all().size(); ++number) {
      const fabric::Cable& cable = lab.plan().cables()[number];
      std::string addresses, rates;
      for (const NodeId end : {cable.a, cable.b}) {
        const lab::Port& port = lab.plan().port(end, number);
        addresses += (addresses.empty() ? "" : " - ") + port.address.to_string();
        rates += (rates.empty() ? "" : " / ") + format_bit_rate(static_cast<double>(port.bytes_per_second));
      }
      cables.add({lab.cable_name(number), addresses, rates, lab.cut().contains(number) ? "cut" : "whole"});
    }
    terminal.print(hosts.format(terminal) + "\n" + cables.format(terminal));
    return ExitCode::success;
  }

  ExitCode check(const Terminal& terminal) const {
    constexpr std::chrono::milliseconds kEach{400};
    const Lab lab = Lab::open(name_);
    const Fabric& fabric = lab.plan().fabric();
    Table table({"link", "asked", "measured", "share"});
    Json rows = Json::array();
    bool is_good = true;
    {
      Progress progress(terminal, "measuring links");
      for (uint32_t number = 0; number < fabric.links().size(); ++number) {
        progress.fraction(static_cast<double>(number) / static_cast<double>(fabric.links().size()));
        const Link& link = fabric.links()[number];
        const auto asked = static_cast<double>(link.bandwidth.bytes_per_second());
        const uint32_t cable = lab.plan().cables().of(LinkId{number});
        const bool is_cut = lab.cut().contains(cable);
        double measured = measure_link(lab, cable, link.from, kEach);
        for (int again = 1; again < kTries && measured < kGoodEnough * asked && !is_cut; ++again) {
          measured = std::max(measured, measure_link(lab, cable, link.from, kEach));
        }
        const bool is_slow = measured < kGoodEnough * asked;
        is_good = is_good && (!is_slow || is_cut);
        table.add({link_name(fabric, link), format_bit_rate(asked), format_bit_rate(measured),
                   is_cut ? "cut" : format_percent(measured / asked)});
        rows.push_back({{"from", fabric.name(link.from)},
                        {"to", fabric.name(link.to)},
                        {"asked_bits_per_second", asked * 8},
                        {"measured_bits_per_second", measured * 8},
                        {"cut", is_cut}});
      }
    }
    terminal.print(json_ ? format_json({{"lab", name_}, {"good", is_good}, {"links", rows}}) : table.format(terminal));
    return is_good ? ExitCode::success : ExitCode::answer_is_no;
  }

  ExitCode down(const Terminal& terminal) const {
    const bool was_there = Lab::down(name_);
    terminal.print(json_ ? format_json({{"lab", name_}, {"was_up", was_there}})
                         : "lab '" + name_ + (was_there ? "' is gone\n" : "' was not up\n"));
    return ExitCode::success;
  }

  static constexpr const char* kDefaultName = "lab";

  Verbs verbs_;
  const CommandSyntax* run_ = nullptr;
  FabricOption fabric_;
  lab::Scale scale_;
  uint32_t classes_ = 1;
  std::string name_ = kDefaultName, ranks_per_host_, rank_, per_host_, cable_;
  bool replace_ = false, no_prefix_ = false, keep_going_ = false, json_ = false;
  std::vector<std::string> program_;
};

}  // namespace

std::unique_ptr<Command> make_lab_command() { return std::make_unique<LabCommand>(); }

}  // namespace banyan::app
