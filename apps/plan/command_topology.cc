// banyan topology: which links to build, of so many ranks with so many links each, or for a demand.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/option_values.h"
#include "apps/plan/plan_progress.h"
#include "apps/plan/topology_demand.h"
#include "apps/report.h"
#include "banyan/base/text.h"
#include "banyan/design/topology.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/json.h"
#include "banyan/picture/picture.h"

namespace banyan::app {
namespace {

constexpr double kSecondsAStep = 5e-6;  // as `banyan plan --compare` counts

picture::Format picture_format(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".svg") return picture::Format::svg;
  if (ending == ".dot" || ending == ".gv") return picture::Format::dot;
  throw Error(ErrorCode::invalid_input, "cannot tell the format from " + in_quotes(path) + "; end it in .svg or .dot",
              "--picture");
}

class TopologyCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("topology", "Choose the links of a network.");
    syntax_ = &command;
    command
        .option("--ranks", count_into(search_.ranks, {.least = 2, .most = design::TopologySearch::kMostRanks}), "N",
                "how many ranks: find which topologies none beats")
        .needs = "--degree";
    const auto parse_degree = [this](const std::string& text) {
      return parse_count(text, "", {.most = std::min(design::TopologySearch::kMostDegree, search_.ranks - 1)});
    };
    command.option("--degree", into(search_.degree, parse_degree), "D", "how many links out of each rank, and into it")
        .needs = "--ranks";
    command.option("--bandwidth", into(bandwidth_, Bandwidth::parse), "BANDWIDTH",
                   "of each link, or port, each way (default 400Gb/s)");
    command.flag("--cables", search_.cables, "only topologies whose links come in pairs, one each way").needs =
        "--ranks";
    command.flag("--all", all_, "show those, too, that others beat in steps and in bandwidth").needs = "--ranks";
    command
        .option("--bytes", into(bytes_, parse_size), "SIZE",
                "pick the one with the quickest allgather of this size: 5 us a step, and the time")
        .needs = "--ranks";
    OptionSyntax& pick = command.option("--pick", &pick_, "ROW", "pick this one: its number, or its spec");
    pick.excludes = {"--bytes"};
    pick.needs = "--ranks";
    command.option("-o,--output", &output_, "FILE", "write the fabric that was chosen as JSON");
    OptionSyntax& picture =
        command.option("--picture", &picture_, "FILE", "draw the fabric that was picked (.svg, .dot)");
    picture.paths = OptionSyntax::Paths::files;
    picture.needs = "--ranks";
    command.flag("--json", json_, "print one JSON object");
    declare_demand_options(command, demand_);
    command.notes(
        {"With --ranks and --degree, steps and time are those of a breadth-first broadcast, for each phase of a "
         "collective: an allreduce takes both twice. Time is in units of M / B, the buffer over the bandwidth of all "
         "links out of a rank. Every row was built and planned; up to 2048 ranks its allreduce passed the verifier. At "
         "most 10,000 ranks, and a degree of at most 64.",
         "With --demand, line i, cell j of the CSV is what endpoint i sends to endpoint j: bytes (4096, 1.5e9, 40GB) "
         "or rates (12GB/s, 100Gb/s), not both. Names may stand in a first line and a first column. 2 to 256 "
         "endpoints. In the fabric of -o, parallel links are one of their sum."});
    command.examples({"banyan topology --ranks 64 --degree 4", "banyan topology --ranks 12 --degree 4 --cables --all",
                      "banyan topology --ranks 64 --degree 4 --bytes 1MiB -o fabric.json",
                      "banyan topology --ranks 16 --degree 4 --bandwidth 100Gb/s --pick 1 --picture fabric.svg",
                      "banyan topology --demand matrix.csv --ports 4 --bandwidth 50GB/s",
                      "banyan topology --demand matrix.csv --ports 4 --uncertainty 0.3 -o fabric.json",
                      "banyan topology --demand day.csv --demand night.csv --ports 8 --one-way --json"});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (syntax_->is_given("--demand") == syntax_->is_given("--ranks")) {
      throw invalid("give --ranks N --degree D, or --demand FILE --ports N; see 'banyan topology --help'");
    }
    if (syntax_->is_given("--demand")) {
      demand_.bandwidth = bandwidth_;
      demand_.output = output_;
      demand_.json = json_;
      return answer_demand_topology(terminal, demand_);
    }
    check_output_place(output_, json_);
    check_output_places({{"-o", output_}, {"--picture", picture_}});
    if (!picture_.empty()) picture_format(picture_);
    std::string text;
    {
      Progress progress(terminal, "looking for topologies");
      PlanProgress watch(progress);
      design::TopologySearch watched = search_;
      watched.observer = &watch;
      Answer answer{.found = design::find_topologies(watched)};
      if (!all_) std::erase_if(answer.found.rows, [](const design::Topology& row) { return !row.on_frontier; });
      answer.picked = pick(answer.found);
      if (answer.picked != nullptr) {
        progress.say("writing the fabric");
        write_picked(terminal, spec_of(*answer.picked));
      }
      text = json_ ? as_json(answer) : as_text(terminal, answer);
    }
    say_beside(terminal, output_, text);
    return ExitCode::success;
  }

 private:
  struct Answer {
    design::Topologies found;
    const design::Topology* picked = nullptr;  // of the rows found; null: none
  };

  // Seconds that one byte of the buffer takes, by the steps' most loaded links.
  double seconds_per_byte(const design::Topology& row) const {
    return row.time.to_double() /
           (static_cast<double>(search_.degree) * static_cast<double>(bandwidth_.bytes_per_second()));
  }

  std::string spec_of(const design::Topology& row) const {
    std::string rate = bandwidth_.to_string();
    std::erase(rate, ' ');
    return row.spec + "@" + rate;
  }

  // The row that was asked for; null where none was and several are there.
  const design::Topology* pick(const design::Topologies& found) const {
    const std::vector<design::Topology>& rows = found.rows;
    if (bytes_) {
      const auto seconds = [&](const design::Topology& row) {
        return row.steps * kSecondsAStep + static_cast<double>(bytes_->count()) * seconds_per_byte(row);
      };
      return &*std::min_element(rows.begin(), rows.end(), [&](const design::Topology& a, const design::Topology& b) {
        return seconds(a) < seconds(b);
      });
    }
    if (!pick_.empty()) {
      for (size_t i = 0; i < rows.size(); ++i) {
        if (pick_ == std::to_string(i + 1) || pick_ == rows[i].spec || pick_ == spec_of(rows[i])) return &rows[i];
      }
      throw Error(ErrorCode::not_found,
                  in_quotes(pick_) + " is no row; give a number from 1 to " + std::to_string(rows.size()) +
                      " or the spec of a row" + (all_ ? "" : "; --all has more rows"),
                  "--pick");
    }
    if (rows.size() == 1) return &rows.front();
    if (output_.empty() && picture_.empty()) return nullptr;
    throw Error(ErrorCode::invalid_input,
                std::to_string(rows.size()) +
                    " topologies are there to choose from; add --pick with a number from 1 to " +
                    std::to_string(rows.size()) + ", or --bytes with a size",
                output_.empty() ? "--picture" : "-o");
  }

  void write_picked(const Terminal& terminal, const std::string& spec) const {
    if (output_.empty() && picture_.empty()) return;
    const Fabric fabric = fabric::generate_fabric(spec);
    const std::string drawn = picture_.empty() ? "" : picture::draw_fabric(fabric, picture_format(picture_), spec);
    if (!output_.empty()) write_output(terminal, output_, format_fabric_json(fabric));
    if (!picture_.empty()) write_output(terminal, picture_, drawn);
  }

  std::string as_json(const Answer& answer) const {
    const auto& [found, picked] = answer;
    Json rows = Json::array();
    for (const design::Topology& row : found.rows) {
      rows.push_back({{"spec", spec_of(row)},
                      {"steps", row.steps},
                      {"time", row.time.to_double()},
                      {"time_fraction", row.time.to_string()},
                      {"algbw_GBps", 1e-9 / seconds_per_byte(row)},
                      {"all_to_all",
                       {{"bytes_per_second", all_to_all(row)},
                        {"links_fraction", row.all_to_all.per_pair.to_string()},
                        {"is_bound", row.all_to_all.is_bound}}},
                      {"cables", row.in_cables},
                      {"on_frontier", row.on_frontier},
                      {"verified", row.verified}});
    }
    const Json report = {{"ranks", search_.ranks},
                         {"degree", search_.degree},
                         {"link_bytes_per_second", bandwidth_.bytes_per_second()},
                         {"bound", {{"steps", found.least_steps}, {"time_fraction", found.least_time.to_string()}}},
                         {"topologies", rows},
                         {"picked", picked ? Json(spec_of(*picked)) : Json(nullptr)}};
    return format_json(report);
  }

  double all_to_all(const design::Topology& row) const {
    return row.all_to_all.per_pair.to_double() * static_cast<double>(bandwidth_.bytes_per_second());
  }

  std::string as_text(const Terminal& terminal, const Answer& answer) const {
    const auto& [found, picked] = answer;
    std::string text = labelled(terminal, "topology",
                                "of " + plural(search_.ranks, "rank") + " with " +
                                    plural(search_.degree, search_.cables ? "cable" : "link") + " of " +
                                    bandwidth_.to_string() + " each");
    text += labelled(terminal, "bounds",
                     plural(found.least_steps, "step") + " (Moore), time " + found.least_time.to_string() +
                         " (all but its own shard comes into a rank)");
    text += "\n";
    Table table({"", "steps", "time", "allgather", "of bound", "all-to-all", "links", "topology"});
    for (size_t i = 0; i < found.rows.size(); ++i) {
      const design::Topology& row = found.rows[i];
      table.add({std::to_string(i + 1), std::to_string(row.steps), format_decimals(row.time.to_double(), 4),
                 format_rate(1 / seconds_per_byte(row)), format_percent((found.least_time / row.time).to_double()),
                 std::string(row.all_to_all.is_bound ? "<= " : "") + format_rate(all_to_all(row)),
                 row.in_cables ? "cables" : "one-way", row.spec});
    }
    text += table.format(terminal);
    const bool is_verified =
        std::all_of(found.rows.begin(), found.rows.end(), [](const auto& row) { return row.verified; });
    const bool has_bounds =
        std::any_of(found.rows.begin(), found.rows.end(), [](const auto& row) { return row.all_to_all.is_bound; });
    text += terminal.styled(Terminal::Style::dim,
                            std::string("of a breadth-first broadcast, planned on each of these graphs") +
                                (is_verified ? " and verified" : "") +
                                "; time in units of M / B,\nall-to-all for each pair of ranks" +
                                (has_bounds ? "; <= at most, by counting hops" : "")) +
            "\n";
    if (picked != nullptr) text += "\n" + labelled(terminal, "picked", spec_of(*picked));
    return text + written(terminal, output_) + written(terminal, picture_);
  }

  const CommandSyntax* syntax_ = nullptr;
  DemandTopologyOptions demand_;
  design::TopologySearch search_;
  Bandwidth bandwidth_ = Bandwidth::gigabits_per_second(400);  // of a link
  std::optional<Bytes> bytes_;
  std::string pick_, output_, picture_;
  bool all_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_topology_command() { return std::make_unique<TopologyCommand>(); }

}  // namespace banyan::app
