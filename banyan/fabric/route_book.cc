#include "banyan/fabric/route_book.h"

#include <arpa/inet.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/place.h"

namespace banyan::fabric {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonForm kForm{.name = "list of routes", .format = "routes/1", .depth = 8};  // the format needs 4

bool is_address(const std::string& text) {
  in6_addr address;  // room for either kind
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

std::vector<NodeId> read_nodes(JsonNode path, const Fabric& fabric) {
  std::vector<NodeId> nodes;
  for (const JsonNode name : path.items()) {
    nodes.push_back(name.parsed([&](const std::string& text) { return fabric.at(text); }));
  }
  if (nodes.size() < 2) throw path.error("must name at least two nodes");
  for (const NodeId end : {nodes.front(), nodes.back()}) {
    if (!fabric.is_rank(end)) throw path.error("must begin and end at ranks, and '" + fabric.name(end) + "' is none");
  }
  return nodes;
}

RouteBook::Path read_path(JsonNode entry, const Fabric& fabric, const Cables& cables) {
  const std::vector<NodeId> nodes = read_nodes(entry.at("path"), fabric);
  std::vector<uint64_t> ordinals(nodes.size() - 1, 0);
  if (const auto given = entry.find("cables")) {
    if (given->size() != ordinals.size()) {
      throw given->error("must have one number for each of the " + std::to_string(ordinals.size()) +
                         " cables of 'path'");
    }
    for (size_t i = 0; i < ordinals.size(); ++i) ordinals[i] = (*given)[i].whole();
  }
  RouteBook::Path path{.from = nodes.front(), .to = nodes.back(), .cables = {}};
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const auto is_meant = [&](LinkId link) {
      const Cable& cable = cables[cables.of(link)];
      return cable.other_end(nodes[i]) == nodes[i + 1] && cable.ordinal == ordinals[i];
    };
    const auto out = fabric.out_links(nodes[i]), in = fabric.in_links(nodes[i]);
    auto found = std::ranges::find_if(out, is_meant);
    if (found == out.end() && (found = std::ranges::find_if(in, is_meant)) == in.end()) {
      throw Error(ErrorCode::mismatch, entry.place() + ": the fabric has no cable " + std::to_string(ordinals[i]) +
                                           " between '" + fabric.name(nodes[i]) + "' and '" +
                                           fabric.name(nodes[i + 1]) + "'");
    }
    path.cables.push_back(cables.of(*found));
  }
  return path;
}

RouteBook::Addresses read_addresses(JsonNode both) {
  if (both.size() != 2) throw both.error("must be the two of the ends of 'path'");
  const auto address = [](const std::string& text) {
    if (is_address(text)) return text;
    throw invalid("'" + text.substr(0, 60) + "' is no IP address; write one such as 10.1.0.1");
  };
  return {.from = both[0].parsed(address), .to = both[1].parsed(address)};
}

}  // namespace

RouteBook::Key RouteBook::key_of(Path path) {
  if (path.to < path.from) {
    std::swap(path.from, path.to);
    std::ranges::reverse(path.cables);
  }
  return {.from = path.from, .to = path.to, .cables = std::move(path.cables)};
}

void RouteBook::add(Path path, Addresses addresses) {
  if (path.to < path.from) std::swap(addresses.from, addresses.to);
  routes_.try_emplace(key_of(std::move(path)), std::move(addresses));
}

std::optional<RouteBook::Addresses> RouteBook::find(Path path) const {
  const bool is_turned = path.to < path.from;
  const auto found = routes_.find(key_of(std::move(path)));
  if (found == routes_.end()) return std::nullopt;
  Addresses addresses = found->second;
  if (is_turned) std::swap(addresses.from, addresses.to);
  return addresses;
}

std::vector<RouteBook::Path> RouteBook::paths(NodeId from, NodeId to) const {
  const bool is_turned = to < from;
  const Key first{.from = std::min(from, to), .to = std::max(from, to), .cables = {}};
  std::vector<Path> paths;
  for (auto entry = routes_.lower_bound(first);
       entry != routes_.end() && entry->first.from == first.from && entry->first.to == first.to; ++entry) {
    paths.push_back({.from = from, .to = to, .cables = entry->first.cables});
  }
  std::ranges::stable_sort(paths, {}, [](const Path& a) { return a.cables.size(); });
  for (Path& path : paths) {
    if (is_turned) std::ranges::reverse(path.cables);
  }
  return paths;
}

RouteBook RouteBook::parse(std::string_view json, const Fabric& fabric, const std::string& where) {
  return at_place(where, [&] {
    const JsonDocument document(json, kForm);
    const JsonNode root = document.root().with_keys({"banyan", "routes"});
    const Cables cables(fabric);
    RouteBook book;
    for (const JsonNode entry : root.at("routes").items()) {
      entry.with_keys({"path", "cables", "addresses"});
      book.add(read_path(entry, fabric, cables), read_addresses(entry.at("addresses")));
    }
    return book;
  });
}

std::string RouteBook::format(const Fabric& fabric) const {
  const Cables cables(fabric);
  std::string text = "{\"banyan\": \"" + std::string(kForm.format) + "\",\n \"routes\": [";
  const char* separator = "\n  ";
  for (const auto& [key, addresses] : routes_) {
    Json path = Json::array({fabric.name(key.from)}), ordinals = Json::array();
    NodeId at = key.from;
    bool is_first_everywhere = true;
    for (const uint32_t number : key.cables) {
      at = cables[number].other_end(at);
      path.push_back(fabric.name(at));
      ordinals.push_back(cables[number].ordinal);
      is_first_everywhere = is_first_everywhere && cables[number].ordinal == 0;
    }
    Json entry{{"path", std::move(path)}};
    if (!is_first_everywhere) entry["cables"] = std::move(ordinals);
    entry["addresses"] = Json::array({addresses.from, addresses.to});
    text += std::exchange(separator, ",\n  ") + entry.dump();
  }
  return text + "]}\n";
}

}  // namespace banyan::fabric
