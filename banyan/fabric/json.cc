#include "banyan/fabric/json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/nearest.h"

namespace banyan::fabric {
namespace {
constexpr JsonForm kFabricForm{.name = "fabric", .format = "fabric/1", .depth = 8, .tells_lines = true};

// More generators than any topology needs; it bounds the work that a file can ask for.
constexpr size_t kMaxSymmetries = 64;

NodeKind kind_of(std::string_view text) {
  if (text == "rank") return NodeKind::rank;
  if (text == "switch") return NodeKind::switch_;
  NearestName nearest(text);
  nearest.offer("rank");
  nearest.offer("switch");
  throw invalid(in_quotes(text) + " is neither rank nor switch" + nearest.hint());
}

bool is_set(JsonNode object, std::string_view key) {
  const std::optional<JsonNode> found = object.find(key);
  return found && found->boolean();
}

void add_node(Fabric::Builder& builder, JsonNode object) {
  object.with_keys({"name", "kind", "multicast", "reduce"});
  Node node{.name = {},
            .kind = object.at("kind").parsed(kind_of),
            .multicast = is_set(object, "multicast"),
            .reduce = is_set(object, "reduce")};
  if (node.kind == NodeKind::rank && (node.multicast || node.reduce)) {
    throw object.error("is a rank; only a switch can multicast or reduce");
  }
  object.at("name").parsed([&](const std::string& name) {
    node.name = name;
    return builder.add_node(std::move(node));
  });
}

void add_link(Fabric::Builder& builder, JsonNode object) {
  object.with_keys({"from", "to", "bandwidth", "latency", "loss", "assumed", "both"});
  const auto end = [&](std::string_view key) {
    return object.at(key).parsed([&](const std::string& name) { return builder.at(name); });
  };
  Link link{.from = end("from"), .to = end("to"), .bandwidth = object.at("bandwidth").bandwidth()};
  if (const auto latency = object.find("latency")) link.latency = latency->duration();
  if (const auto loss = object.find("loss")) {
    link.loss = std::abs(loss->number(0, 1));  // -0 would have another fingerprint
    if (link.loss == 1) throw loss->error("is 1, so that nothing would arrive; give a number below 1");
  }
  link.assumed = is_set(object, "assumed");
  object.placed([&] { is_set(object, "both") ? builder.add_cable(link) : void(builder.add_link(link)); });
}

void add_symmetry(Fabric::Builder& builder, JsonNode list) {
  const size_t nodes = builder.node_count();
  if (list.size() != nodes) {
    throw list.error("has " + std::to_string(list.size()) + " entries for " + std::to_string(nodes) +
                     " nodes; it needs one each");
  }
  Permutation images;
  std::vector<bool> hit(nodes, false);
  for (const JsonNode item : list.items()) {
    const uint32_t image = item.number_of(nodes, "nodes");
    if (hit[image]) throw item.error("is " + std::to_string(image) + ", which stands twice");
    hit[image] = true;
    images.push_back(NodeId{image});
  }
  builder.add_symmetry(std::move(images));
}

Fabric read_fabric(const JsonDocument& document) {
  const JsonNode root = document.root().with_keys({"banyan", "nodes", "links", "symmetries"});
  Fabric::Builder builder;
  for (const JsonNode node : root.at("nodes").items()) add_node(builder, node);
  for (const JsonNode link : root.at("links").items()) add_link(builder, link);
  if (const auto symmetries = root.find("symmetries")) {
    if (symmetries->size() > kMaxSymmetries) throw symmetries->error("are more than " + std::to_string(kMaxSymmetries));
    for (const JsonNode symmetry : symmetries->items()) add_symmetry(builder, symmetry);
  }
  return std::move(builder).build();
}

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

// The fewest digits that read back as the same number.
std::string shortest(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  CHECK(end.ec == std::errc()) << value;
  return {digits.data(), end.ptr};
}

}  // namespace

Fabric parse_fabric_json(std::string_view json, const std::string& where) {
  try {
    return read_fabric(JsonDocument(json, kFabricForm));
  } catch (const Error& error) {
    const ErrorCode code = error.code() == ErrorCode::not_found ? ErrorCode::invalid_input : error.code();
    throw Error(code, error.message(), error.where()).within(where);
  }
}

std::string format_fabric_json(const Fabric& fabric) {
  std::string out = "{\n  \"banyan\": \"fabric/1\",\n  \"nodes\": [";
  const char* separator = "\n";
  for (const Node& node : fabric.nodes()) {
    out += std::exchange(separator, ",\n");
    out += "    {\"name\": " + json_text(node.name) + ", \"kind\": ";
    out += node.kind == NodeKind::rank ? "\"rank\"" : "\"switch\"";
    if (node.multicast) out += ", \"multicast\": true";
    if (node.reduce) out += ", \"reduce\": true";
    out += "}";
  }
  out += "\n  ],\n  \"links\": [";
  separator = "\n";
  for (const Link& link : fabric.links()) {
    out += std::exchange(separator, ",\n");
    out += "    {\"from\": " + json_text(fabric.name(link.from)) + ", \"to\": " + json_text(fabric.name(link.to));
    out += ", \"bandwidth\": \"" + link.bandwidth.to_string() + "\"";
    if (link.latency.count() != 0) out += ", \"latency\": \"" + to_string(link.latency) + "\"";
    if (link.loss != 0) out += ", \"loss\": " + shortest(link.loss);
    if (link.assumed) out += ", \"assumed\": true";
    out += "}";
  }
  out += "\n  ]";
  separator = ",\n  \"symmetries\": [\n";
  for (const Permutation& image : fabric.symmetries()) {
    out += std::exchange(separator, ",\n");
    const char* comma = "    [";
    for (const NodeId id : image) out += std::exchange(comma, ", ") + std::to_string(index(id));
    out += "]";
  }
  return out + (fabric.symmetries().empty() ? "\n}\n" : "\n  ]\n}\n");
}

}  // namespace banyan::fabric
