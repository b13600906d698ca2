// banyan lab: a fabric as real hosts on this machine, and programs in it.
#include <algorithm>

#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/launcher.h"
#include "apps/report.h"
#include "banyan/base/file.h"
#include "lab/lab.h"
#include "lab/lab_file.h"
#include "lab/link_check.h"

namespace banyan::app {
namespace {

using lab::Lab;

constexpr const char* kFooter =
    "Examples:\n"
    "  banyan lab up 'a0 <-> sw 200Mb/s; a1 <-> sw 200Mb/s; a2 <-> sw 100Mb/s'\n"
    "  banyan lab up dgx-a100:2 --scale 1/10000 --name small\n"
    "  banyan lab run -- ./allreduce\n"
    "  banyan lab run --rank 2 -- ip route\n"
    "  banyan lab fail a2-sw\n"
    "  banyan lab heal a2-sw\n"
    "  banyan lab check\n"
    "  banyan lab down\n"
    "\n"
    "Every rank and switch becomes a host with a network of its own, every cable a pair of interfaces with the rate "
    "of\n"
    "the cable. Needs root. Exit code: 0 success, 1 check: a link is not as fast as it should be, 2 bad input;\n"
    "run: 0 all have succeeded, else that of the first program that failed.";

// What a link must reach to be what the fabric says; packets have headers.
constexpr double kGoodEnough = 0.85;
// Other work on this machine can only make a link look slower than it is: the best of so many counts.
constexpr int kTries = 5;

class LabCommand : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* command = program.add_subcommand("lab", "set up a fabric as real hosts on this machine");
    command->require_subcommand(1);
    command->footer(kFooter);
    up_ = add(*command, "up", "set up a fabric");
    fabric_.declare(*up_, "FABRIC", FabricOption::Place::required);
    up_->add_option("--scale", scale_, "multiply all bandwidths, as 1/1000 (default 1)")->type_name("FACTOR");
    run_ = add(*command, "run", "start a program at every rank: banyan lab run -- PROGRAM");
    run_->add_option("--rank", rank_, "at this rank only")->type_name("RANK");
    run_->add_flag("--no-prefix", no_prefix_, "do not put the rank in front of each line of output");
    run_->add_flag("--keep-going", keep_going_, "let the others run when a rank has failed");
    for (auto [verb, help] : {std::pair{&fail_, "cut a cable"}, std::pair{&heal_, "mend a cable that was cut"}}) {
      *verb = add(*command, verb == &fail_ ? "fail" : "heal", help);
      (*verb)
          ->add_option("LINK", cable_, "a0-sw, or a0-sw#1 for the second of several cables")
          ->required()
          ->type_name("");
    }
    status_ = add(*command, "status", "show hosts and cables");
    status_->add_flag("--json", json_, "the description that programs in the lab get");
    check_ = add(*command, "check", "measure every link by a TCP connection");
    down_ = add(*command, "down", "end the programs in it and remove it");
    return command;
  }

  void take_program(std::vector<std::string> words) override {
    if (!run_->parsed()) Command::take_program(std::move(words));
    if (words.empty()) throw Error(ErrorCode::invalid_input, "no program after '--'");
    program_ = std::move(words);
  }

  ExitCode run(const Terminal& terminal) override {
    if (up_->parsed()) return up(terminal);
    if (run_->parsed()) return start(terminal);
    if (status_->parsed()) return status(terminal);
    if (check_->parsed()) return check(terminal);
    if (down_->parsed()) return down(terminal);
    Lab lab = Lab::open(name_);
    const uint32_t cable = lab.find_cable(cable_);
    fail_->parsed() ? lab.fail(cable) : lab.heal(cable);
    terminal.print(lab.cable_name(cable) + (fail_->parsed() ? " is cut\n" : " is whole\n"));
    return ExitCode::success;
  }

 private:
  CLI::App* add(CLI::App& command, const std::string& verb, const std::string& help) {
    CLI::App* added = command.add_subcommand(verb, help);
    added->add_option("--name", name_, "of the lab (default lab)")->type_name("NAME");
    return added;
  }

  ExitCode up(const Terminal& terminal) {
    const lab::Scale scale = parse_option("--scale", [&] { return lab::Scale::parse(scale_); });
    const Fabric fabric = fabric_.load();
    {
      Progress progress(terminal, "setting up hosts");
      Lab::up(name_, fabric, scale);
    }
    std::string text = "lab '" + name_ + "' is up: " + describe_counts(fabric);
    if (scale.numerator != scale.denominator) text += ", bandwidths times " + scale.to_string();
    const std::string option = name_ == kDefaultName ? "" : " --name " + name_;
    terminal.print(text + "\nstart programs in it by: banyan lab run" + option + " -- PROGRAM\n");
    return ExitCode::success;
  }

  ExitCode start(const Terminal& terminal) {
    if (program_.empty()) {
      throw Error(ErrorCode::invalid_input, "which program? Write 'banyan lab run -- PROGRAM ARGUMENTS'");
    }
    const Lab lab = Lab::open(name_);
    const std::span<const NodeId> ranks = lab.plan().fabric().ranks();
    LaunchPlan plan{.program = program_, .ranks = {}};
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
      if (!rank_.empty() && rank != parse_count(rank_, "--rank", {.least = 0, .most = ranks.size() - 1})) continue;
      plan.ranks.push_back({.host = {},
                            .variables = lab.variables(rank),
                            .network_namespace = lab.namespace_of(ranks[rank]),
                            .number = rank});
    }
    const LaunchOptions options{.prefix_lines = !no_prefix_, .keep_going = keep_going_};
    return static_cast<ExitCode>(launch(plan, Secret(lab.secret()), options, terminal));
  }

  ExitCode status(const Terminal& terminal) const {
    const Lab lab = Lab::open(name_);
    if (json_) {
      terminal.print(format_lab_file(lab));
      return ExitCode::success;
    }
    const Fabric& fabric = lab.plan().fabric();
    Table hosts({"host", "address", "namespace", "processes"});
    for (const lab::Host& host : lab.plan().hosts()) {
      hosts.add({fabric.name(host.node), host.primary.to_string(), lab.namespace_of(host.node),
                 std::to_string(lab.processes(host.node).size())});
    }
    Table cables({"cable", "addresses", "rates", ""});
    for (uint32_t number = 0; number < lab.plan().cables().all().size(); ++number) {
      const Cable& cable = lab.plan().cables()[number];
      std::string addresses, rates;
      for (const NodeId end : {cable.a, cable.b}) {
        for (const lab::Port& port : lab.plan().host(end).ports) {
          if (port.cable != number) continue;
          addresses += (addresses.empty() ? "" : " - ") + port.address.to_string();
          rates += (rates.empty() ? "" : " / ") + Bandwidth::bytes_per_second(port.bytes_per_second).to_string();
        }
      }
      cables.add({lab.cable_name(number), addresses, rates, lab.cut().contains(number) ? "cut" : ""});
    }
    terminal.print(hosts.format(terminal) + "\n" + cables.format(terminal));
    return ExitCode::success;
  }

  ExitCode check(const Terminal& terminal) const {
    constexpr std::chrono::milliseconds kEach{400};
    const Lab lab = Lab::open(name_);
    const Fabric& fabric = lab.plan().fabric();
    Table table({"link", "asked", "measured", ""});
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
        table.add({fabric.name(link.from) + "->" + fabric.name(link.to), format_megabits(asked),
                   format_megabits(measured), is_cut ? "cut" : format_percent(measured / asked)});
      }
    }
    terminal.print(table.format(terminal));
    return is_good ? ExitCode::success : ExitCode::answer_is_no;
  }

  static std::string format_megabits(double bytes_per_second) {
    return format_decimals(bytes_per_second * 8e-6, 1) + " Mb/s";
  }

  ExitCode down(const Terminal& terminal) const {
    const bool was_there = Lab::down(name_);
    terminal.print("lab '" + name_ + (was_there ? "' is gone\n" : "' was not up\n"));
    return ExitCode::success;
  }

  static constexpr const char* kDefaultName = "lab";

  CLI::App *up_ = nullptr, *run_ = nullptr, *fail_ = nullptr, *heal_ = nullptr, *status_ = nullptr, *check_ = nullptr,
           *down_ = nullptr;
  FabricOption fabric_;
  std::string name_ = kDefaultName, scale_ = "1", rank_, cable_;
  bool no_prefix_ = false, keep_going_ = false, json_ = false;
  std::vector<std::string> program_;
};

}  // namespace

std::unique_ptr<Command> make_lab_command() { return std::make_unique<LabCommand>(); }

}  // namespace banyan::app
