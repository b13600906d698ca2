#include "apps/plan/topology_demand.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/option_values.h"
#include "apps/report.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/design/demand_topology.h"
#include "banyan/fabric/json.h"

namespace banyan::app {
namespace {

using design::DemandMatrix;
using design::DemandSet;
using design::DemandTopology;
using design::Hops;
using design::RivalTopology;
using design::ThresholdRouting;
using design::TopologyRequest;
using design::Wiring;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 24;
constexpr size_t kMaxPairsShown = 40;

// "0.3" or "30%", to six decimals.
Fraction parse_uncertainty(const std::string& text) {
  const bool is_percent = text.ends_with('%');
  const std::string_view number = std::string_view(text).substr(0, text.size() - (is_percent ? 1 : 0));
  double value = 0;
  const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (number.empty() || code != std::errc() || end != number.data() + number.size() || !std::isfinite(value) ||
      value < 0 || value > 1000) {
    throw invalid(in_quotes(text) + " is no part of a demand; write 0.3 or 30% for entries that may grow by 30 %");
  }
  constexpr int64_t kMillion = 1'000'000;
  return Fraction(std::llround(value * (is_percent ? kMillion / 100 : kMillion)), kMillion);
}

// What was chosen, and all that is said about it.
struct Chosen {
  DemandSet demands;
  TopologyRequest request;
  DemandTopology topology;
  std::vector<double> loads;  // by link, row by row
  std::vector<double> links;
  std::vector<RivalTopology> rivals;

  const DemandMatrix& demand() const { return demands.matrices.front(); }
  size_t size() const { return demands.size(); }
  const std::string& name(size_t endpoint) const { return demand().names[endpoint]; }
  bool is_rate() const {
    return std::any_of(demands.matrices.begin(), demands.matrices.end(),
                       [](const DemandMatrix& matrix) { return matrix.unit == DemandMatrix::Unit::bytes_per_second; });
  }
  bool is_uncertain() const { return demands.uncertainty > Fraction(0) || demands.matrices.size() > 1; }
  std::string load(double value) const { return is_rate() ? format_percent_of_link(value) : format_seconds(value); }
  std::string amount(double value) const {
    return is_rate() ? format_rate(value) : Bytes(static_cast<uint64_t>(value)).to_string();
  }

 private:
  static std::string format_percent_of_link(double value) { return format_decimals(100 * value, 1) + " %"; }
};

Chosen choose(const DemandTopologyOptions& options) {
  Chosen chosen;
  if (options.demands.empty()) throw invalid("--demand FILE is required; see 'banyan topology --help'");
  if (options.ports == 0) throw invalid("--demand needs --ports N, the optical ports of an endpoint");
  chosen.request.ports = options.ports;
  chosen.request.bandwidth = options.bandwidth;
  chosen.request.wiring = options.one_way ? Wiring::circuits : Wiring::cables;
  chosen.request.hops = options.direct ? Hops::direct_only : Hops::indirect_too;
  chosen.demands.uncertainty = options.uncertainty;
  for (const std::string& file : options.demands) {
    chosen.demands.matrices.push_back(parse_option(
        "--demand", [&] { return design::parse_demand_csv(read_plain_text(file, kMaxFileBytes).text, file); }));
  }
  parse_option("--demand", [&] { check_demands(chosen.demands); });
  chosen.topology = choose_topology(chosen.demands, chosen.request);
  chosen.links.assign(chosen.topology.links.begin(), chosen.topology.links.end());
  const ThresholdRouting routing(chosen.demands, chosen.request.bandwidth, chosen.request.hops);
  chosen.loads = routing.loads(chosen.links, chosen.topology.threshold);
  chosen.rivals = rival_topologies(chosen.demands, chosen.request);
  return chosen;
}

// A row of the table: a pair for cables, one direction of it for circuits.
struct Row {
  size_t from = 0, to = 0;
  uint32_t links = 0;
  double demand = 0, direct = 0;  // amounts of the first matrix, in both directions of a cable
  double load = 0;                // of the busier direction
};

std::vector<Row> rows_of(const Chosen& chosen) {
  const ThresholdRouting routing(chosen.demands, chosen.request.bandwidth, chosen.request.hops);
  const size_t n = chosen.size();
  std::vector<Row> rows;
  const auto add = [&](Row& row, size_t i, size_t j) {
    const double amount = static_cast<double>(chosen.demand().at(i, j));
    row.demand += amount;
    row.direct += amount * routing.direct_share(chosen.links, chosen.topology.threshold, i, j);
    row.load = std::max(row.load, chosen.loads[i * n + j]);
  };
  const bool cables = chosen.request.wiring == Wiring::cables;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = cables ? i + 1 : 0; j < n; ++j) {
      Row row{.from = i, .to = j, .links = chosen.topology.links[i * n + j]};
      add(row, i, j);
      if (cables) add(row, j, i);
      if (row.links > 0 || row.demand > 0) rows.push_back(row);
    }
  }
  return rows;
}

std::string pair_name(const Chosen& chosen, size_t from, size_t to) {
  const bool cables = chosen.request.wiring == Wiring::cables;
  return harmless(chosen.name(from)) + (cables ? " - " : " -> ") + harmless(chosen.name(to));
}

std::string pairs_text(const Terminal& terminal, const Chosen& chosen) {
  std::vector<Row> rows = rows_of(chosen);
  const size_t all = rows.size();
  if (all > kMaxPairsShown) {
    std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.load > b.load; });
    rows.resize(kMaxPairsShown);
  }
  const bool two_hops = chosen.request.hops == Hops::indirect_too;
  const std::string noun = chosen.request.wiring == Wiring::cables ? "cables" : "circuits";
  std::vector<std::string> heads = {"pair", noun, "demand", "direct"};
  if (two_hops) heads.push_back("by more hops");
  heads.push_back("load");
  Table table(heads);
  for (const Row& row : rows) {
    const double direct = row.demand > 0 ? row.direct / row.demand : 0;
    std::vector<std::string> cells = {pair_name(chosen, row.from, row.to), std::to_string(row.links),
                                      chosen.amount(row.demand), row.demand > 0 ? format_percent(direct) : "-"};
    if (two_hops) cells.push_back(row.demand > 0 ? format_percent(1 - direct) : "-");
    cells.push_back(row.links > 0 ? chosen.load(row.load) : "-");
    table.add(std::move(cells));
  }
  std::string text = "\n" + table.format(terminal);
  if (all > rows.size()) {
    text +=
        terminal.styled(Terminal::Style::dim, "the most loaded of " + plural(all, "pair") + "; --json has all") + "\n";
  }
  return text;
}

std::string rivals_text(const Terminal& terminal, const Chosen& chosen) {
  Table table({"topology", "worst load", "of the chosen"});
  table.add({"chosen", chosen.load(chosen.topology.worst), format_decimals(1, 2) + " x"});
  for (const RivalTopology& rival : chosen.rivals) {
    if (rival.unreachable > 0) {
      table.add({rival.name, rough_percent(rival.unreachable) + " of the traffic has no way"});
    } else {
      table.add({rival.name, chosen.load(rival.worst), format_decimals(rival.worst / chosen.topology.worst, 2) + " x"});
    }
  }
  return "\n" + table.format(terminal) +
         terminal.styled(Terminal::Style::dim,
                         "rotor: switches that join all pairs in turn, on average; traffic waits for its turn") +
         "\n";
}

std::string demand_text(const Chosen& chosen, const DemandTopologyOptions& options) {
  double total = 0;
  size_t pairs = 0;
  for (const uint64_t amount : chosen.demand().amounts) {
    total += static_cast<double>(amount);
    pairs += amount > 0;
  }
  std::string text = harmless(options.demands.front()) + ": " + plural(chosen.size(), "endpoint") + ", " +
                     plural(pairs, "pair") + ", " + chosen.amount(total) + " in all";
  if (options.demands.size() > 1) text += "; and " + plural(options.demands.size() - 1, "file") + " more";
  if (chosen.demands.uncertainty > Fraction(0)) {
    text += "; entries may grow by " + format_decimals(100 * chosen.demands.uncertainty.to_double(), 0) + " %";
  }
  return text;
}

std::string worst_text(const Chosen& chosen) {
  const std::vector<double>& loads = chosen.loads;
  const size_t worst = static_cast<size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
  std::string text = chosen.load(chosen.topology.worst) + (chosen.is_rate() ? " of a link" : "") + ", on " +
                     pair_name(chosen, worst / chosen.size(), worst % chosen.size());
  if (chosen.is_uncertain()) text = "at most " + text + ", for every demand that may come";
  if (chosen.is_rate() && chosen.topology.worst > 1) {
    text += "; so rates must shrink to " + format_percent(1 / chosen.topology.worst);
  }
  return text;
}

std::string bound_text(const Chosen& chosen) {
  if (chosen.topology.is_best) return chosen.load(chosen.topology.worst) + ": no topology without second hops has less";
  const double bound = chosen.topology.bound.to_double();
  std::string text = chosen.load(bound) + ": no topology of these ports has less";
  if (chosen.demands.uncertainty > Fraction(0)) text += " for the demand as written";
  text += ", however traffic is routed";
  return text + ",\nand the chosen one " + format_decimals(chosen.topology.worst / bound, 3) + " times that";
}

std::string as_text(const Terminal& terminal, const Chosen& chosen, const DemandTopologyOptions& options) {
  const bool cables = chosen.request.wiring == Wiring::cables;
  const uint64_t ends = std::accumulate(chosen.topology.links.begin(), chosen.topology.links.end(), uint64_t{0});
  std::string text = labelled(terminal, "demand", demand_text(chosen, options));
  text +=
      labelled(terminal, "topology",
               plural(cables ? ends / 2 : ends, cables ? "cable" : "circuit") + " of " +
                   chosen.request.bandwidth.to_string() + ", " + plural(chosen.request.ports, "port") + " an endpoint");
  text += labelled(terminal, "worst load", worst_text(chosen));
  text += labelled(terminal, "bound", bound_text(chosen));
  if (chosen.request.hops == Hops::indirect_too) {
    text += labelled(terminal, "threshold",
                     "a pair's traffic goes direct up to " + chosen.load(chosen.topology.threshold) +
                         " of its links, the rest by two hops");
  }
  return text + pairs_text(terminal, chosen) + rivals_text(terminal, chosen) + written(terminal, options.output);
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string as_json(const Chosen& chosen) {
  const bool cables = chosen.request.wiring == Wiring::cables;
  Json pairs = Json::array(), rivals = Json::array();
  for (const Row& row : rows_of(chosen)) {
    pairs.push_back({{"from", chosen.name(row.from)},
                     {"to", chosen.name(row.to)},
                     {"links", row.links},
                     {"demand", row.demand},
                     {"direct_share", row.demand > 0 ? Json(row.direct / row.demand) : Json(nullptr)},
                     {"load", row.links > 0 ? Json(row.load) : Json(nullptr)}});
  }
  for (const RivalTopology& rival : chosen.rivals) {
    const bool serves = rival.unreachable <= 0;
    rivals.push_back({{"topology", rival.name},
                      {"worst_load", serves ? Json(rival.worst) : Json(nullptr)},
                      {"threshold", serves ? number_or_null(rival.threshold) : Json(nullptr)},
                      {"unreachable", rival.unreachable}});
  }
  const Fraction& bound = chosen.topology.bound;
  return format_json({{"endpoints", chosen.demand().names},
                      {"matrices", chosen.demands.matrices.size()},
                      {"uncertainty", chosen.demands.uncertainty.to_double()},
                      {"demand_unit", chosen.is_rate() ? "bytes per second" : "bytes"},
                      {"load_unit", chosen.is_rate() ? "utilisation" : "seconds"},
                      {"ports", chosen.request.ports},
                      {"bandwidth_bytes_per_second", chosen.request.bandwidth.bytes_per_second()},
                      {"wiring", cables ? "cables" : "circuits"},
                      {"hops", chosen.request.hops == Hops::direct_only ? "direct" : "two"},
                      {"threshold", number_or_null(chosen.topology.threshold)},
                      {"worst_load", chosen.topology.worst},
                      {"bound", {{"load", bound.to_double()}, {"fraction", bound.to_string()}}},
                      {"times_bound", chosen.topology.worst / bound.to_double()},
                      {"is_best", chosen.topology.is_best},
                      {"pairs", pairs},
                      {"others", rivals}});
}

}  // namespace

void declare_demand_options(CommandSyntax& command, DemandTopologyOptions& options) {
  command.group("Links for a demand");
  OptionSyntax& demand =
      command.option("--demand", &options.demands, "FILE",
                     "a CSV of what endpoints send each other, N x N bytes or rates, with or without "
                     "names; several: links that serve each of them");
  demand.paths = OptionSyntax::Paths::files;
  command
      .option("--ports", count_into(options.ports, {.most = TopologyRequest::kMaxPorts}), "N",
              "optical ports of an endpoint")
      .needs = "--demand";
  command
      .option("--uncertainty", into(options.uncertainty, parse_uncertainty), "PART",
              "entries may grow by this part (0.3 or 30%), while no endpoint sends or receives more in all")
      .needs = "--demand";
  OptionSyntax& two_hop =
      command.flag("--two-hop", options.two_hop, "what exceeds a threshold takes two hops (this is the default)");
  two_hop.needs = "--demand";
  two_hop.excludes = {"--direct"};
  OptionSyntax& direct = command.flag("--direct", options.direct, "all traffic goes over links of its own pair");
  direct.needs = "--demand";
  command.flag("--one-way", options.one_way, "links are circuits of one direction, not cables").needs = "--demand";
  command.group(CommandSyntax::kOwnGroup);
}

ExitCode answer_demand_topology(const Terminal& terminal, const DemandTopologyOptions& options) {
  check_output_place(options.output, options.json);
  std::string text;
  {
    Progress progress(terminal, "choosing links");
    const Chosen chosen = choose(options);
    if (!options.output.empty()) {
      const Fabric fabric = parse_option(
          "-o", [&] { return topology_fabric(chosen.demand().names, chosen.topology.links, chosen.request); });
      write_output(terminal, options.output, format_fabric_json(fabric));
    }
    text = options.json ? as_json(chosen) : as_text(terminal, chosen, options);
  }
  say_beside(terminal, options.output, text);
  return ExitCode::success;
}

}  // namespace banyan::app
