#include "banyan/fabric/generate_spec.h"

#include <algorithm>
#include <charconv>

#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"

namespace banyan::fabric {
namespace {

// A stranger's text as one short printable line.
std::string printable(std::string_view text) {
  constexpr size_t kShown = 80;
  std::string shown = harmless(text.substr(0, kShown));
  if (text.size() > kShown) shown += "...";
  return shown;
}

}  // namespace

GeneratorSpec GeneratorSpec::parse(std::string_view text) {
  GeneratorSpec spec;
  spec.shown_ = printable(text);
  // What stands in brackets is a spec of its own, with a bandwidth of its own.
  const size_t bracket = text.rfind(')'), at = text.rfind('@');
  if (at != std::string_view::npos && (bracket == std::string_view::npos || at > bracket)) {
    at_place("fabric spec '" + spec.shown_ + "'", [&] { spec.bandwidth_ = Bandwidth::parse(text.substr(at + 1)); });
    text = text.substr(0, at);
  }
  const size_t colon = text.find(':');
  spec.kind_ = text.substr(0, colon);
  if (colon != std::string_view::npos) spec.arguments_ = text.substr(colon + 1);
  return spec;
}

Error GeneratorSpec::error(const std::string& message) const {
  const std::string example = example_.empty() ? "" : ", as in " + example_;
  return Error(ErrorCode::invalid_input, message + example, "fabric spec '" + shown_ + "'");
}

uint64_t GeneratorSpec::parse_count(std::string_view what, std::string_view value, CountRange range) const {
  uint64_t count = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (code == std::errc() && end == value.data() + value.size() && count >= range.min && count <= range.max) {
    return count;
  }
  throw error(std::string(what) + " is '" + printable(value) + "' but must be a whole number from " +
              std::to_string(range.min) + " to " + std::to_string(range.max));
}

uint64_t GeneratorSpec::number(std::string_view what, CountRange range) const {
  if (arguments_.empty()) throw error(kind_ + " needs a number of " + std::string(what));
  return parse_count(what, arguments_, range);
}

std::vector<uint64_t> GeneratorSpec::numbers(std::string_view what, char separator, CountRange range) const {
  if (arguments_.empty()) throw error(kind_ + " needs its " + std::string(what));
  std::vector<uint64_t> counts;
  for (const std::string_view part : split(arguments_, separator)) counts.push_back(parse_count(what, part, range));
  return counts;
}

std::optional<std::string_view> GeneratorSpec::find(std::string_view name) const {
  for (const std::string_view part : split(arguments_, ',')) {
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=') {
      return part.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

void GeneratorSpec::expect_parameters(std::initializer_list<std::string_view> known) const {
  std::string names;
  for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
  if (arguments_.empty()) throw error(kind_ + " needs parameters (" + names + ")");
  std::vector<std::string_view> seen;
  for (const std::string_view part : split(arguments_, ',')) {
    const std::string_view name = part.substr(0, part.find('='));
    if (name.size() == part.size()) throw error("'" + printable(part) + "' is not of the form name=value");
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw error("unknown parameter '" + printable(name) + "' (" + kind_ + " knows " + names + ")");
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      throw error("parameter '" + printable(name) + "' is given twice");
    }
    seen.push_back(name);
  }
}

uint64_t GeneratorSpec::parameter(std::string_view name, CountRange range) const {
  const auto value = find(name);
  if (!value) throw error(kind_ + " needs " + std::string(name) + "=");
  return parse_count(name, *value, range);
}

uint64_t GeneratorSpec::parameter_or(std::string_view name, uint64_t fallback, CountRange range) const {
  const auto value = find(name);
  return value ? parse_count(name, *value, range) : fallback;
}

Bandwidth GeneratorSpec::bandwidth_parameter_or(std::string_view name, Bandwidth fallback) const {
  const auto value = find(name);
  if (!value) return fallback;
  return at_place("fabric spec '" + shown_ + "' " + std::string(name), [&] { return Bandwidth::parse(*value); });
}

std::vector<std::pair<uint64_t, uint64_t>> GeneratorSpec::number_pairs(std::string_view name) const {
  const auto value = find(name);
  if (!value) throw error(kind_ + " needs " + std::string(name) + "=");
  const CountRange any = {.min = 0};
  std::vector<std::pair<uint64_t, uint64_t>> pairs;
  for (const std::string_view part : split(*value, '+')) {
    const size_t dot = part.find('.');
    pairs.emplace_back(parse_count(name, part.substr(0, dot), any),
                       dot == std::string_view::npos ? 0 : parse_count(name, part.substr(dot + 1), any));
  }
  return pairs;
}

void GeneratorSpec::expect_no_arguments() const {
  if (!arguments_.empty()) throw error(kind_ + " takes nothing but a bandwidth");
}

std::vector<GeneratorSpec::Operand> GeneratorSpec::operands() const {
  if (!arguments_.starts_with('(')) throw error(kind_ + " needs a spec in brackets");
  std::vector<Operand> found;
  for (size_t at = 0; at < arguments_.size();) {
    size_t end = at, depth = 0;
    do {
      if (end == arguments_.size()) throw error("a bracket is not closed");
      depth += arguments_[end] == '(' ? 1 : 0;
      depth -= arguments_[end] == ')' ? 1 : 0;
      ++end;
    } while (depth > 0);
    const size_t next = std::min(arguments_.find('(', end), arguments_.size());
    found.push_back({.spec = arguments_.substr(at + 1, end - at - 2), .after = arguments_.substr(end, next - end)});
    at = next;
  }
  return found;
}

uint64_t GeneratorSpec::number_after(const Operand& operand, char sign, std::string_view what, CountRange range) const {
  if (!operand.after.starts_with(sign)) {
    throw error("after the bracket stands '" + printable(operand.after) + "', not '" + sign + "' and " +
                std::string(what));
  }
  return parse_count(what, std::string_view(operand.after).substr(1), range);
}

void GeneratorSpec::expect_size(uint64_t nodes, uint64_t links) const {
  const auto refuse = [&](uint64_t count, const char* what, size_t limit) {
    if (count > limit) {
      throw error("would have " + std::to_string(count) + " " + what + ", more than the " + std::to_string(limit) +
                  " a fabric may have; ask for a smaller one");
    }
  };
  refuse(nodes, "nodes", Fabric::kMaxNodes);
  refuse(links, "links", Fabric::kMaxLinks);
}

void add_gpus(Fabric::Builder& builder, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) builder.add_rank("gpu" + std::to_string(i));
}

void add_switches(Fabric::Builder& builder, std::string_view prefix, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) builder.add_switch(std::string(prefix) + std::to_string(i));
}

void join(Fabric::Builder& builder, uint64_t a, uint64_t b, Bandwidth bandwidth) {
  builder.add_cable(
      {.from = NodeId{static_cast<uint32_t>(a)}, .to = NodeId{static_cast<uint32_t>(b)}, .bandwidth = bandwidth});
}

void propose_group_rotation(Fabric::Builder& builder, uint64_t ranks, uint64_t size, uint64_t switches) {
  if (ranks == size) return;
  propose_symmetry(builder, [=](uint64_t v) {
    if (v < ranks) return (v + size) % ranks;
    return v < ranks + switches ? ranks + (v - ranks + 1) % switches : v;
  });
}

void propose_rotation_inside(Fabric::Builder& builder, uint64_t ranks, uint64_t size) {
  if (size > 1) propose_inside_groups(builder, ranks, size, [=](uint64_t i) { return (i + 1) % size; });
}

}  // namespace banyan::fabric
