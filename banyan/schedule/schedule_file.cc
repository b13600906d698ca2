#include "banyan/schedule/schedule_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/place.h"
#include "banyan/base/plain_text.h"
#include "banyan/fabric/json.h"

namespace banyan::schedule {
namespace {
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr size_t kMaxPlanner = 80;

constexpr JsonForm kForm{.name = "plan", .format = "schedule/1", .depth = 16};  // the format itself needs 4

Fraction positive_fraction(JsonNode node) {
  return node.parsed([](const std::string& text) {
    const Fraction value = Fraction::parse(text);
    if (value <= Fraction(0)) throw invalid("is not above zero");
    return value;
  });
}

NodeId node_of(JsonNode name, const Fabric& fabric) {
  return name.parsed([&](const std::string& text) { return fabric.at(text); });
}

Collective read_collective(JsonNode object, const Fabric& fabric) {
  object.with_keys({"kind", "ranks", "root", "weights", "traffic"});
  Collective::Options options{.kind = object.at("kind").parsed(
                                  [](const std::string& kind) { return parse_collective_kind(kind, is_planned); })};
  for (const JsonNode name : object.at("ranks").items()) options.ranks.push_back(node_of(name, fabric));
  if (const auto root = object.find("root")) options.root = node_of(*root, fabric);
  if (const auto weights = object.find("weights")) {
    for (const JsonNode weight : weights->items()) options.weights.push_back(weight.whole());
  }
  if (const auto traffic = object.find("traffic")) {
    for (const JsonNode row : traffic->items()) {
      for (const JsonNode parts : row.items()) options.traffic.push_back(parts.whole());
    }
  }
  return Collective::make(fabric, options);
}

void read_routes(JsonNode routes, Schedule::Builder& builder) {
  for (const JsonNode route : routes.items()) {
    std::vector<LinkId> links;
    for (const uint32_t link : route.small_numbers()) links.push_back(LinkId{link});
    try {
      builder.add_route(links);
    } catch (const Error& error) {
      throw error.within(route.place());
    }
  }
}

struct Tree {
  std::vector<RouteId> edges;
  std::vector<uint32_t> steps;

  Tree(JsonNode chunk, std::string_view edges_key, std::string_view steps_key) {
    if (const auto listed = chunk.find(edges_key)) {
      for (const uint32_t id : listed->small_numbers()) edges.push_back(RouteId{id});
    }
    if (const auto listed = chunk.find(steps_key)) steps = listed->small_numbers();
  }
};

void read_chunks(JsonNode chunks, const Fabric& fabric, Schedule::Builder& builder) {
  for (const JsonNode chunk : chunks.items()) {
    chunk.with_keys({"root", "units", "in", "out", "in_steps", "out_steps"});
    const Tree in(chunk, "in", "in_steps"), out(chunk, "out", "out_steps");
    const NodeId chunk_root = node_of(chunk.at("root"), fabric);
    const uint64_t units = chunk.at("units").whole();
    try {
      builder.add_chunk({.root = chunk_root,
                         .units = units,
                         .in_tree = in.edges,
                         .out_tree = out.edges,
                         .in_steps = in.steps,
                         .out_steps = out.steps});
    } catch (const Error& error) {
      throw error.within(chunk.place());
    }
  }
}

ScheduleFile read_document(JsonNode root) {
  root.with_keys({"banyan", "planner", "collective", "total_units", "seconds_per_byte", "bound_seconds_per_byte",
                  "fabric", "routes", "chunks"});
  const std::string planner = root.at("planner").text();
  // It is printed on terminals, which obey control characters.
  if (std::any_of(planner.begin(), planner.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    throw invalid("planner holds a control character; name it in plain text");
  if (planner.size() > kMaxPlanner)
    throw invalid("planner is longer than " + std::to_string(kMaxPlanner) + " characters");
  const Fabric fabric = fabric::parse_fabric_json(root.at("fabric").object_text(), "fabric");
  const Collective collective = read_collective(root.at("collective"), fabric);
  Schedule::Builder builder(fabric, collective);
  read_routes(root.at("routes"), builder);
  read_chunks(root.at("chunks"), fabric, builder);
  Schedule schedule = std::move(builder).build();
  if (const uint64_t total = root.at("total_units").whole(); total != schedule.total_units()) {
    throw invalid("total_units is " + std::to_string(total) + ", but the units of the chunks sum to " +
                  std::to_string(schedule.total_units()));
  }
  ScheduleFile file{.schedule = std::move(schedule),
                    .planner = planner,
                    .claimed_seconds_per_byte = positive_fraction(root.at("seconds_per_byte")),
                    .bound_seconds_per_byte = {}};
  if (const auto bound = root.find("bound_seconds_per_byte")) file.bound_seconds_per_byte = positive_fraction(*bound);
  return file;
}

// What `banyan export` writes, from its head.
void refuse_export(std::string_view text) {
  const std::string_view head = text.substr(0, 4096);
  const bool is_msccl = head.substr(0, head.find('\n')).find("<algo ") != std::string_view::npos;
  const bool is_mscclpp =
      head.find("\"collective\":") != std::string_view::npos && head.find("\"protocol\":") != std::string_view::npos;
  if (!is_msccl && !is_mscclpp) return;
  throw invalid(std::string("is an export for ") + (is_msccl ? "MSCCL" : "MSCCL++") +
                ", not a plan; give the plan that it was made of");
}

std::string json_text(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Ids, typename Number>
void append_list(std::string& text, const Ids& ids, Number number) {
  text += '[';
  bool first = true;
  for (const auto& id : ids) {
    if (!first) text += ',';
    first = false;
    text += std::to_string(number(id));
  }
  text += ']';
}

void append_traffic(std::string& text, const Collective& collective) {
  const size_t ranks = collective.participants().size();
  text += ", \"traffic\": [";
  for (size_t from = 0; from < ranks; ++from) {
    text += from > 0 ? "," : "";
    std::vector<uint64_t> row;
    for (size_t to = 0; to < ranks; ++to) row.push_back(collective.traffic(from, to));
    append_list(text, row, [](uint64_t parts) { return parts; });
  }
  text += "]";
}

void append_collective(std::string& text, const Schedule& schedule) {
  const Collective& collective = schedule.collective();
  text += "{\"kind\": " + json_text(std::string(to_string(collective.kind()))) + ", \"ranks\": [";
  for (size_t i = 0; i < collective.participants().size(); ++i) {
    text += (i > 0 ? "," : "") + json_text(schedule.fabric().name(collective.participants()[i]));
  }
  text += "]";
  if (collective.is_rooted()) text += ", \"root\": " + json_text(schedule.fabric().name(collective.root()));
  const auto weights = collective.weights();
  if (collective.has_traffic()) append_traffic(text, collective);
  if (!collective.is_rooted() && !collective.is_personal() &&
      std::any_of(weights.begin(), weights.end(), [](uint64_t weight) { return weight != 1; })) {
    text += ", \"weights\": ";
    append_list(text, weights, [](uint64_t weight) { return weight; });
  }
  text += "}";
}

void append_chunk(std::string& text, const Schedule& schedule, size_t i) {
  const Chunk chunk = schedule.chunk(i);
  text += "{\"root\": " + json_text(schedule.fabric().name(chunk.root)) + ", \"units\": " + std::to_string(chunk.units);
  const auto tree = [&](const char* key, std::span<const RouteId> edges) {
    if (edges.empty()) return;
    text += std::string(", \"") + key + "\": ";
    append_list(text, edges, [](RouteId id) { return index(id); });
  };
  const auto steps = [&](const char* key, std::span<const uint32_t> list) {
    if (std::all_of(list.begin(), list.end(), [](uint32_t step) { return step == 0; })) return;
    text += std::string(", \"") + key + "\": ";
    append_list(text, list, [](uint32_t step) { return step; });
  };
  tree("in", chunk.in_tree);
  tree("out", chunk.out_tree);
  steps("in_steps", chunk.in_steps);
  steps("out_steps", chunk.out_steps);
  text += "}";
}

}  // namespace

ScheduleFile parse_schedule(std::string_view json, const std::string& where) {
  return at_place(where, [&] {
    refuse_export(json);
    return read_document(JsonDocument(json, kForm).root());
  });
}

ScheduleFile read_schedule(const std::string& path) {
  return parse_schedule(read_plain_text(path, kMaxFileBytes).text, path);
}

std::string format_schedule(const ScheduleFile& file) {
  const Schedule& schedule = file.schedule;
  std::string text = "{\"banyan\": \"schedule/1\",\n\"planner\": " + json_text(file.planner) + ",\n\"collective\": ";
  append_collective(text, schedule);
  text += ",\n\"total_units\": " + std::to_string(schedule.total_units());
  text += ",\n\"seconds_per_byte\": " + json_text(file.claimed_seconds_per_byte.to_string());
  if (file.bound_seconds_per_byte)
    text += ",\n\"bound_seconds_per_byte\": " + json_text(file.bound_seconds_per_byte->to_string());
  text += ",\n\"fabric\": " + format_fabric_json(schedule.fabric());
  while (text.back() == '\n') text.pop_back();
  text += ",\n\"routes\": [";
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    text += r > 0 ? ",\n" : "\n";
    append_list(text, schedule.route(RouteId{r}).links, [](LinkId id) { return index(id); });
  }
  text += "],\n\"chunks\": [";
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    text += i > 0 ? ",\n" : "\n";
    append_chunk(text, schedule, i);
  }
  return text + "]}\n";
}

void write_schedule(const std::string& path, const ScheduleFile& file) { write_file(path, format_schedule(file)); }

}  // namespace banyan::schedule
