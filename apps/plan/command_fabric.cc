// banyan fabric: what a fabric is made of, what limits it and what looks wrong with it.
#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/option_values.h"
#include "apps/plan/loss_text.h"
#include "apps/report.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/fabric/powers.h"
#include "banyan/plan/bound/bound.h"

namespace banyan::app {
namespace {

// One max-flow per rank: beyond this the cut takes minutes, and a look at a fabric should not.
constexpr size_t kMaxRanksForCut = 4096;

constexpr size_t kMaxWarningsShown = 20;

struct RankGroup {
  uint64_t out = 0, in = 0;  // bytes per second
  std::vector<NodeId> ranks;
};

// Ranks with the same bandwidth out and in, in the order of their first member.
std::vector<RankGroup> group_by_bandwidth(const Fabric& fabric) {
  const auto sum = [&](std::span<const LinkId> links) {
    uint64_t total = 0;
    for (const LinkId id : links) total += fabric.link(id).bandwidth.bytes_per_second();
    return total;
  };
  std::vector<RankGroup> groups;
  std::map<std::pair<uint64_t, uint64_t>, size_t> known;
  for (const NodeId rank : fabric.ranks()) {
    const uint64_t out = sum(fabric.out_links(rank)), in = sum(fabric.in_links(rank));
    const auto [place, is_new] = known.try_emplace({out, in}, groups.size());
    if (is_new) groups.push_back({.out = out, .in = in, .ranks = {}});
    groups[place->second].ranks.push_back(rank);
  }
  return groups;
}

// Long fabrics have thousands of names; a screen has eighty columns.
std::string shortened(const std::string& text) {
  constexpr size_t kLimit = 60;
  if (text.size() <= kLimit) return text;
  const size_t comma = text.rfind(", ", kLimit);
  return comma == std::string::npos ? text.substr(0, kLimit) + "..." : text.substr(0, comma) + ", ...";
}

std::string rate(uint64_t bytes_per_second) { return Bandwidth::bytes_per_second(bytes_per_second).to_string(); }

class FabricCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command =
        program.command("fabric", "Show the parts of a fabric, its bottleneck, and what looks wrong with it.");
    fabric_.declare(command, "FABRIC", FabricOption::Place::optional);
    command.flag("--list", list_, "list the fabrics that have a name");
    command.option("-o,--output", &output_, "FILE", "write the fabric as JSON, with the edits applied");
    command.flag("--loss-report", loss_report_, "tell which lossy links to disable until they are mended");
    command
        .option("--capacity-share", into(share_, parse_capacity_share), "SHARE",
                "of its capacity that every rank must keep then (default 0.75)")
        .needs = "--loss-report";
    command.flag("--json", json_, "print one JSON object");
    command.examples({"banyan fabric dgx-h100:8", "banyan fabric 'leaf-spine:leaves=4,hosts=4,spines=2@100Gb/s' --json",
                      "banyan fabric dgx-a100:4 --fail gpu3-ib0 --degrade gpu0-nvsw0=100GB/s -o hurt.json",
                      "banyan fabric topo.xml --boxes 16 --gpu h100 --nic 400Gb/s",
                      "banyan fabric topology.conf@400Gb/s   # of Slurm",
                      "banyan fabric cluster.json --loss-report --capacity-share 0.5", "banyan fabric --list"});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (list_) return list_generators(terminal);
    if (!fabric_.given()) throw invalid("FABRIC is required: a file or a spec; see 'banyan fabric --list'");
    check_output_place(output_, json_);
    std::string text;
    {
      Progress progress(terminal, "reading the fabric");
      std::vector<std::string> assumed;
      const Fabric fabric = fabric_.load(&assumed);
      if (loss_report_) {
        if (!output_.empty()) write_output(terminal, output_, format_fabric_json(fabric));
        progress.say("looking for links to disable");
        text = losses(terminal, fabric, design::report_losses(fabric, share_));
      } else {
        text = overview(terminal, fabric, assumed, progress);
      }
    }
    say_beside(terminal, output_, text);
    return ExitCode::success;
  }

 private:
  struct Overview {
    const Fabric& fabric;
    Collective allgather;
    std::vector<std::string> doubts;
    std::optional<Bound> bound = {};  // of the allgather, on fabrics that are not too large
  };

  std::string losses(const Terminal& terminal, const Fabric& fabric, const design::LossReport& report) const {
    if (json_) {
      Json json = {{"name", fabric_.described()}, {"fabric", counts_json(fabric)}};
      json["losses"] = loss_report_json(report);
      return format_json(json);
    }
    return labelled(terminal, "fabric", fabric_.described() + ": " + describe_counts(fabric)) +
           loss_report_text(terminal, report) + written(terminal, output_);
  }

  std::string overview(const Terminal& terminal, const Fabric& fabric, const std::vector<std::string>& assumed,
                       Progress& progress) const {
    Overview overview{.fabric = fabric, .allgather = Collective::make(fabric, {}), .doubts = warnings(fabric)};
    std::transform(assumed.begin(), assumed.end(), std::back_inserter(overview.doubts),
                   [](const std::string& note) { return "assumed: " + note; });
    if (fabric.ranks().size() <= kMaxRanksForCut) {
      progress.say("looking for the bottleneck");
      overview.bound = plan::compute_bound(fabric, overview.allgather);
    }
    if (!output_.empty()) write_output(terminal, output_, format_fabric_json(fabric));
    return json_ ? as_json(overview) : as_text(terminal, overview);
  }

  ExitCode list_generators(const Terminal& terminal) const {
    std::vector<fabric::GeneratorHelp> generators = fabric::fabric_generators();
    if (json_) {
      Json list = Json::array();
      for (const fabric::GeneratorHelp& generator : generators)
        list.push_back({{"spec", generator.spec}, {"description", generator.description}});
      Json suffixes = Json::array();
      for (const fabric::GeneratorHelp& suffix : fabric::fabric_suffixes())
        suffixes.push_back({{"spec", suffix.spec}, {"description", suffix.description}});
      terminal.print(format_json({{"generators", list}, {"suffixes", suffixes}}));
      return ExitCode::success;
    }
    std::ranges::copy(fabric::fabric_suffixes(), std::back_inserter(generators));
    size_t width = 0;
    for (const fabric::GeneratorHelp& generator : generators) width = std::max(width, generator.spec.size());
    std::string text;
    for (const fabric::GeneratorHelp& generator : generators) {
      text += terminal.styled(Terminal::Style::bold, generator.spec) +
              std::string(width - generator.spec.size() + 2, ' ') + generator.description + "\n";
    }
    terminal.print(text);
    return ExitCode::success;
  }

  std::string as_json(const Overview& overview) const {
    const Fabric& fabric = overview.fabric;
    const std::optional<Bound>& bound = overview.bound;
    Json groups = Json::array();
    for (const RankGroup& group : group_by_bandwidth(fabric)) {
      groups.push_back({{"out_bytes_per_second", group.out},
                        {"in_bytes_per_second", group.in},
                        {"ranks", names_json(group.ranks, fabric)}});
    }
    const Json report = {{"name", fabric_.described()},
                         {"fabric", counts_json(fabric)},
                         {"fingerprint", fabric.fingerprint()},
                         {"bandwidths", groups},
                         {"in_network", in_network_json(fabric)},
                         {"bottleneck", bound ? bound_json(*bound, fabric, overview.allgather) : Json(nullptr)},
                         {"warnings", overview.doubts}};
    return format_json(report);
  }

  // The switches that do more than forward.
  static Json in_network_json(const Fabric& fabric) {
    Json switches = Json::array();
    for (const Node& node : fabric.nodes()) {
      if (!node.multicast && !node.reduce) continue;
      switches.push_back({{"switch", node.name}, {"multicast", node.multicast}, {"reduce", node.reduce}});
    }
    return switches;
  }

  std::string as_text(const Terminal& terminal, const Overview& overview) const {
    const auto& [fabric, allgather, doubts, bound] = overview;
    std::string text = labelled(terminal, "fabric", fabric_.described());
    text += labelled(terminal, "", describe_counts(fabric) + ", fingerprint " + fabric.fingerprint());
    if (const std::string powers = fabric::describe_powers(fabric); !powers.empty()) {
      text += labelled(terminal, "", powers);
    }
    text += "\n";
    Table table({"ranks", "count", "out", "in"});
    for (const RankGroup& group : group_by_bandwidth(fabric)) {
      table.add({shortened(name_ranges(group.ranks, fabric)), std::to_string(group.ranks.size()), rate(group.out),
                 rate(group.in)});
    }
    text += table.format(terminal) + "\n";
    if (bound) {
      text += labelled(terminal, "bottleneck", describe(bound->witness, fabric, allgather));
      const std::string assumed = assumed_in_words(*bound, fabric, allgather),
                        best = format_algbw(bound->seconds_per_byte);
      text += labelled(terminal, "",
                       assumed.empty() ? "so no allgather is faster than " + best
                                       : "so allgathers have up to " + best + ", as far as is known:\n" + assumed);
    } else {
      text += labelled(terminal, "bottleneck", "not looked for beyond " + std::to_string(kMaxRanksForCut) + " ranks");
    }
    const size_t shown = std::min(doubts.size(), kMaxWarningsShown);
    for (size_t i = 0; i < shown; ++i)
      text += terminal.styled(Terminal::Style::bad, "warning") + "    " + doubts[i] + "\n";
    if (shown < doubts.size())
      text += labelled(terminal, "", "and " + plural(doubts.size() - shown, "warning") + " more; see --json");
    return text + written(terminal, output_);
  }

  FabricOption fabric_;
  std::string output_;
  Fraction share_{3, 4};
  bool json_ = false, list_ = false, loss_report_ = false;
};

}  // namespace

std::unique_ptr<Command> make_fabric_command() { return std::make_unique<FabricCommand>(); }

}  // namespace banyan::app
