#include "banyan/schedule/schedule_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/fabric/json.h"

namespace banyan {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
constexpr size_t kMaxDepth = 16;  // the format itself needs 4
constexpr size_t kMaxPlanner = 80;

Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

// Refuses hostile nesting before anything recursive sees it.
void check_depth(std::string_view json) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) throw invalid("is nested deeper than a plan ever is");
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
}

Json parse_json(std::string_view text) {
  check_depth(text);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the library's own prefix.
    const std::string what = error.what();
    const size_t start = what.find("parse error");
    throw invalid(start == std::string::npos ? "is not JSON" : "is not JSON: " + what.substr(start).substr(0, 200));
  } catch (const Json::exception& error) {
    throw invalid("is not JSON that can be read: " + std::string(error.what()).substr(0, 200));
  }
}

// One object of the file, with its place for messages ("chunks[3]"). Every key must be asked for.
class Object {
 public:
  Object(const Json& json, std::string place, std::initializer_list<std::string_view> known)
      : json_(json), place_(std::move(place)) {
    if (!json.is_object()) throw invalid(place_ + " is not an object");
    for (const auto& [key, value] : json.items()) {
      if (std::find(known.begin(), known.end(), key) != known.end()) continue;
      NearestName nearest(key);
      for (const std::string_view name : known) nearest.offer(name);
      throw invalid(place_ + " has unknown key '" + key.substr(0, 60) + "'" + nearest.hint());
    }
  }

  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw invalid(place_ + " has no \"" + key + "\"");
    return *found;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) throw invalid(at_key(key) + " is not a text");
    return value.get<std::string>();
  }
  uint64_t whole(const char* key) const { return whole_number(at(key), at_key(key)); }
  Fraction fraction(const char* key) const {
    try {
      const Fraction value = Fraction::parse(text(key));
      if (value <= Fraction(0)) throw invalid("is not above zero");
      return value;
    } catch (const Error& error) {
      throw Error(error.code(), at_key(key) + ": " + error.message());
    }
  }
  const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) throw invalid(at_key(key) + " is not an array");
    return value;
  }
  std::string at_key(const char* key) const { return place_ + "." + key; }

  static uint64_t whole_number(const Json& value, const std::string& place) {
    if (!value.is_number_unsigned()) throw invalid(place + " is not a whole number, zero or above");
    return value.get<uint64_t>();
  }

 private:
  const Json& json_;
  std::string place_;
};

std::vector<uint32_t> small_numbers(const Json& array, const std::string& place) {
  std::vector<uint32_t> numbers;
  numbers.reserve(array.size());
  for (const Json& value : array) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) {
      throw invalid(place + "[" + std::to_string(numbers.size()) + "] is not a whole number below 2^32");
    }
    numbers.push_back(static_cast<uint32_t>(value.get<uint64_t>()));
  }
  return numbers;
}

Collective read_collective(const Object& root, const Fabric& fabric) {
  const Object object(root.at("collective"), "collective", {"kind", "ranks", "root", "weights"});
  Collective::Options options{.kind = parse_collective_kind(object.text("kind"))};
  for (const Json& name : object.array("ranks")) {
    if (!name.is_string()) throw invalid("collective.ranks holds something that is not a name");
    options.ranks.push_back(fabric.at(name.get<std::string>()));
  }
  if (object.has("root")) options.root = fabric.at(object.text("root"));
  if (object.has("weights")) {
    for (const Json& weight : object.array("weights"))
      options.weights.push_back(Object::whole_number(weight, "collective.weights"));
  }
  return Collective::make(fabric, options);
}

void read_routes(const Object& root, Schedule::Builder& builder) {
  size_t number = 0;
  for (const Json& route : root.array("routes")) {
    const std::string place = "routes[" + std::to_string(number++) + "]";
    if (!route.is_array()) throw invalid(place + " is not an array of link numbers");
    std::vector<LinkId> links;
    for (const uint32_t link : small_numbers(route, place)) links.push_back(LinkId{link});
    try {
      builder.add_route(links);
    } catch (const Error& error) {
      throw error.within(place);
    }
  }
}

struct Tree {
  std::vector<RouteId> edges;
  std::vector<uint32_t> steps;

  Tree(const Object& chunk, const char* edges_key, const char* steps_key) {
    if (chunk.has(edges_key)) {
      for (const uint32_t id : small_numbers(chunk.array(edges_key), chunk.at_key(edges_key)))
        edges.push_back(RouteId{id});
    }
    if (chunk.has(steps_key)) steps = small_numbers(chunk.array(steps_key), chunk.at_key(steps_key));
  }
};

void read_chunks(const Object& root, const Fabric& fabric, Schedule::Builder& builder) {
  size_t number = 0;
  for (const Json& json : root.array("chunks")) {
    const std::string place = "chunks[" + std::to_string(number++) + "]";
    const Object chunk(json, place, {"root", "units", "in", "out", "in_steps", "out_steps"});
    const Tree in(chunk, "in", "in_steps"), out(chunk, "out", "out_steps");
    const NodeId chunk_root = fabric.at(chunk.text("root"));
    const uint64_t units = chunk.whole("units");
    try {
      builder.add_chunk({.root = chunk_root,
                         .units = units,
                         .in_tree = in.edges,
                         .out_tree = out.edges,
                         .in_steps = in.steps,
                         .out_steps = out.steps});
    } catch (const Error& error) {
      throw error.within(place);
    }
  }
}

ScheduleFile read_document(const Json& json) {
  const Object root(json, "the plan",
                    {"banyan", "planner", "collective", "total_units", "seconds_per_byte", "bound_seconds_per_byte",
                     "fabric", "routes", "chunks"});
  if (const std::string version = root.text("banyan"); version != "schedule/1") {
    throw invalid("is \"" + version.substr(0, 60) + "\"; a plan says \"banyan\": \"schedule/1\"");
  }
  const std::string planner = root.text("planner");
  if (planner.size() > kMaxPlanner)
    throw invalid("planner is longer than " + std::to_string(kMaxPlanner) + " characters");
  if (!root.at("fabric").is_object()) throw invalid("the plan.fabric is not an object");
  const Fabric fabric = parse_fabric_json(root.at("fabric").dump(), "fabric");
  const Collective collective = read_collective(root, fabric);
  Schedule::Builder builder(fabric, collective);
  read_routes(root, builder);
  read_chunks(root, fabric, builder);
  Schedule schedule = std::move(builder).build();
  if (const uint64_t total = root.whole("total_units"); total != schedule.total_units()) {
    throw invalid("total_units is " + std::to_string(total) + ", but the units of the chunks sum to " +
                  std::to_string(schedule.total_units()));
  }
  ScheduleFile file{.schedule = std::move(schedule),
                    .planner = planner,
                    .claimed_seconds_per_byte = root.fraction("seconds_per_byte"),
                    .bound_seconds_per_byte = {}};
  if (root.has("bound_seconds_per_byte")) file.bound_seconds_per_byte = root.fraction("bound_seconds_per_byte");
  return file;
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

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

void append_collective(std::string& text, const Schedule& schedule) {
  const Collective& collective = schedule.collective();
  text += "{\"kind\": " + quoted(std::string(to_string(collective.kind()))) + ", \"ranks\": [";
  for (size_t i = 0; i < collective.participants().size(); ++i) {
    text += (i > 0 ? "," : "") + quoted(schedule.fabric().name(collective.participants()[i]));
  }
  text += "]";
  if (collective.is_rooted()) text += ", \"root\": " + quoted(schedule.fabric().name(collective.root()));
  const auto weights = collective.weights();
  if (!collective.is_rooted() &&
      std::any_of(weights.begin(), weights.end(), [](uint64_t weight) { return weight != 1; })) {
    text += ", \"weights\": ";
    append_list(text, weights, [](uint64_t weight) { return weight; });
  }
  text += "}";
}

void append_chunk(std::string& text, const Schedule& schedule, size_t i) {
  const Chunk chunk = schedule.chunk(i);
  text += "{\"root\": " + quoted(schedule.fabric().name(chunk.root)) + ", \"units\": " + std::to_string(chunk.units);
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
  try {
    return read_document(parse_json(json));
  } catch (const Error& error) {
    throw error.within(where);
  }
}

ScheduleFile read_schedule(const std::string& path) { return parse_schedule(read_file(path, kMaxFileBytes), path); }

std::string format_schedule(const ScheduleFile& file) {
  const Schedule& schedule = file.schedule;
  std::string text = "{\"banyan\": \"schedule/1\",\n\"planner\": " + quoted(file.planner) + ",\n\"collective\": ";
  append_collective(text, schedule);
  text += ",\n\"total_units\": " + std::to_string(schedule.total_units());
  text += ",\n\"seconds_per_byte\": " + quoted(file.claimed_seconds_per_byte.to_string());
  if (file.bound_seconds_per_byte)
    text += ",\n\"bound_seconds_per_byte\": " + quoted(file.bound_seconds_per_byte->to_string());
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

}  // namespace banyan
