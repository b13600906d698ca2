#include "apps/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "banyan/base/utf8.h"
#include "banyan/plan/bound/assumed_links.h"

namespace banyan::app {
namespace {

constexpr size_t kLabelWidth = 11;

Json proof_json(const CutWitness& cut, const Fabric& fabric) {
  return {{"cuts", Json::array({{{"gathering", cut.gathering},
                                 {"inside", names_json(cut.inside, fabric)},
                                 {"crossing_weight", cut.crossing_weight},
                                 {"total_weight", cut.total_weight},
                                 {"bytes_per_second", cut.bytes_per_second}}})}};
}

Json proof_json(const CutsWitness& witness, const Fabric& fabric) {
  Json cuts = Json::array(), potentials = Json::array();
  for (const CutsWitness::Cut& cut : witness.cuts) {
    cuts.push_back({{"gathering", cut.gathering}, {"inside", names_json(cut.inside, fabric)}, {"times", cut.times}});
  }
  for (const CutsWitness::Potential& potential : witness.potentials) {
    potentials.push_back(
        {{"gathering", potential.gathering}, {"switch", fabric.name(potential.at)}, {"height", potential.height}});
  }
  return {{"weighted_cuts", cuts}, {"potentials", potentials}, {"over_images", witness.over_images}};
}

Json proof_json(const LinkLengths& lengths, const Fabric&) { return {{"link_lengths", lengths.length}}; }

// As many columns as a text of UTF-8 takes, but for wide and combining characters.
size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// "1", "2.50 GB/s", "-3 %", but no address "10.0.0.1" and no name "4x4".
bool begins_with_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str() && (*end == '\0' || *end == ' ');
}

}  // namespace

Json names_json(std::span<const NodeId> nodes, const Fabric& fabric) {
  Json names = Json::array();
  for (const NodeId node : nodes) names.push_back(fabric.name(node));
  return names;
}

std::string link_name(const Fabric& fabric, const Link& link) {
  return fabric.name(link.from) + " -> " + fabric.name(link.to);
}

std::string format_json(const Json& object) {
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

double algbw_gigabytes(const Fraction& seconds_per_byte) { return 1e-9 / seconds_per_byte.to_double(); }

std::string format_algbw(const Fraction& seconds_per_byte) { return format_rate(1 / seconds_per_byte.to_double()); }

std::string exact_algbw(const Fraction& seconds_per_byte) {
  return to_string(seconds_per_byte.denominator()) + "/" + to_string(seconds_per_byte.numerator());
}

std::string name_ranges(const std::vector<NodeId>& ranks, const Fabric& fabric) {
  const auto all = fabric.ranks();
  const auto place = [&](NodeId id) { return std::lower_bound(all.begin(), all.end(), id) - all.begin(); };
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && place(ranks[end]) == place(ranks[end - 1]) + 1) ++end;
    if (end - i == 2) end = i + 1;  // two names are shorter as they are
    if (!text.empty()) text += ", ";
    text += fabric.name(ranks[i]);
    if (end - i > 1) text += "-" + fabric.name(ranks[end - 1]);
    i = end;
  }
  return text;
}

FabricCounts count(const Fabric& fabric) {
  const uint64_t ranks = fabric.ranks().size();
  return {.ranks = ranks, .switches = fabric.nodes().size() - ranks, .links = fabric.links().size()};
}

Json counts_json(const Fabric& fabric) {
  const FabricCounts counts = count(fabric);
  return {{"ranks", counts.ranks}, {"switches", counts.switches}, {"links", counts.links}};
}

Json bound_json(const Bound& bound, const Fabric& fabric, const Collective& collective) {
  Json json = {{"algbw_GBps", algbw_gigabytes(bound.seconds_per_byte)},
               {"fraction", exact_algbw(bound.seconds_per_byte)},
               {"witness", describe(bound.witness, fabric, collective)}};
  json.update(std::visit([&](const auto& proof) { return proof_json(proof, fabric); }, bound.witness));
  json["assumed"] = Json::array();
  for (const LinkId id : plan::assumed_links(bound.witness, fabric, collective)) {
    const Link& link = fabric.link(id);
    json["assumed"].push_back({{"from", fabric.name(link.from)},
                               {"to", fabric.name(link.to)},
                               {"bytes_per_second", link.bandwidth.bytes_per_second()}});
  }
  return json;
}

std::string assumed_in_words(const Bound& bound, const Fabric& fabric, const Collective& collective) {
  const std::vector<LinkId> links = plan::assumed_links(bound.witness, fabric, collective);
  if (links.empty()) return "";
  const Link& first = fabric.link(links.front());
  const auto [a, b] = std::minmax(first.from, first.to);
  const bool at_rank = fabric.is_rank(a) || fabric.is_rank(b);
  return plan::describe_assumed(links, fabric) + " assumed; say what a link has by\n--degrade " + fabric.name(a) + "-" +
         fabric.name(b) + "=BANDWIDTH or, where a file describes one server, by " +
         (at_rank ? "--gpu or --nvlink BANDWIDTH" : "--cpu-link BANDWIDTH");
}

Json schedule_json(const Schedule& schedule, const Fraction& seconds_per_byte, const Bound& bound) {
  const schedule::Heights height = heights(schedule);
  Json json = {{"algbw_GBps", algbw_gigabytes(seconds_per_byte)}, {"fraction", exact_algbw(seconds_per_byte)}};
  json["optimal"] = seconds_per_byte <= bound.seconds_per_byte;
  json.update({{"trees", schedule.chunk_count()}, {"height_max", height.max}, {"height_mean", height.mean}});
  return json;
}

std::string describe_distance(const Fraction& seconds_per_byte, const Bound& bound) {
  if (seconds_per_byte <= bound.seconds_per_byte) return "optimal";
  return format_percent((bound.seconds_per_byte / seconds_per_byte).to_double()) + " of the bound";
}

std::string bound_text(const Terminal& terminal, const Bound& bound, const Fabric& fabric,
                       const Collective& collective) {
  std::string text =
      labelled(terminal, "bound",
               format_algbw(bound.seconds_per_byte) + ", exactly " + exact_algbw(bound.seconds_per_byte) +
                   " bytes/s, because\n" + describe(bound.witness, fabric, collective));
  if (const std::string assumed = assumed_in_words(bound, fabric, collective); !assumed.empty())
    text += labelled(terminal, "", "as far as is known: " + assumed);
  return text;
}

std::string schedule_text(const Terminal& terminal, const Fraction& seconds_per_byte, const Bound& bound) {
  const bool is_optimal = seconds_per_byte <= bound.seconds_per_byte;
  return labelled(terminal, "schedule",
                  format_algbw(seconds_per_byte) + ", " +
                      terminal.styled(is_optimal ? Terminal::Style::good : Terminal::Style::bold,
                                      describe_distance(seconds_per_byte, bound)) +
                      ", verified");
}

std::string Table::format(const Terminal& terminal, const std::string& indent) const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    if (row.size() < widths.size()) {
      widths[0] = std::max(widths[0], characters(row[0]));
      continue;
    }
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], characters(row[i]));
  }
  std::vector<bool> to_the_right(widths.size(), false);
  for (size_t r = 1; r < rows_.size(); ++r) {
    for (size_t i = 1; i < widths.size() && rows_[r].size() == widths.size(); ++i) {
      to_the_right[i] = to_the_right[i] || begins_with_number(rows_[r][i]);
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const auto& row = rows_[r];
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] > characters(row[i]) ? widths[i] - characters(row[i]) : 0, ' ');
      line += row.size() == widths.size() && to_the_right[i] ? padding + row[i] : row[i] + padding;
      if (i + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (r == 0 ? terminal.styled(Terminal::Style::bold, line) : line) + "\n";
  }
  return text;
}

std::string labelled(const Terminal& terminal, const std::string& label, const std::string& text) {
  std::string padded = label;
  padded.resize(std::max(kLabelWidth, label.size() + 1), ' ');
  std::string out = terminal.styled(Terminal::Style::bold, padded);
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(kLabelWidth, ' ');
  }
  return out + "\n";
}

std::string written(const Terminal& terminal, const std::string& path) {
  return path.empty() || path == "-" ? "" : labelled(terminal, "written", harmless(path));
}

}  // namespace banyan::app
