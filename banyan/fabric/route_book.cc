#include "banyan/fabric/route_book.h"

#include <arpa/inet.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/base/error.h"

namespace banyan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "routes/1";

Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

bool is_address(const std::string& text) {
  in6_addr address;  // room for either kind
  return inet_pton(AF_INET, text.c_str(), &address) == 1 || inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

void expect_keys(const Json& object, std::initializer_list<std::string_view> known) {
  if (!object.is_object()) throw invalid("must be an object");
  for (const auto& entry : object.items()) {
    if (std::find(known.begin(), known.end(), entry.key()) == known.end()) {
      throw invalid("has the unknown key '" + entry.key() + "'");
    }
  }
}

const Json& array_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) throw invalid(std::string("needs an array '") + key + "'");
  return *found;
}

std::string string_of(const Json& value, const char* what) {
  if (!value.is_string()) throw invalid(std::string(what) + " must be strings");
  return value.get<std::string>();
}

RouteBook::Path read_path(const Json& entry, const Fabric& fabric, const Cables& cables) {
  std::vector<NodeId> nodes;
  for (const Json& name : array_at(entry, "path")) nodes.push_back(fabric.at(string_of(name, "the nodes of 'path'")));
  if (nodes.size() < 2) throw invalid("'path' must name at least two nodes");
  for (const NodeId end : {nodes.front(), nodes.back()}) {
    if (!fabric.is_rank(end))
      throw invalid("'path' must begin and end at ranks, and '" + fabric.name(end) + "' is none");
  }
  std::vector<uint64_t> ordinals(nodes.size() - 1, 0);
  if (entry.contains("cables")) {
    const Json& given = array_at(entry, "cables");
    if (given.size() != ordinals.size()) {
      throw invalid("'cables' must have one number for each of the " + std::to_string(ordinals.size()) +
                    " cables of 'path'");
    }
    for (size_t i = 0; i < ordinals.size(); ++i) {
      if (!given[i].is_number_unsigned()) throw invalid("'cables' must be numbers from 0");
      ordinals[i] = given[i].get<uint64_t>();
    }
  }
  RouteBook::Path path{.from = nodes.front(), .to = nodes.back(), .cables = {}};
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const auto is_meant = [&](LinkId link) {
      const Cable& cable = cables[cables.of(link)];
      return cable.other_end(nodes[i]) == nodes[i + 1] && cable.ordinal == ordinals[i];
    };
    const auto out = fabric.out_links(nodes[i]), in = fabric.in_links(nodes[i]);
    auto found = std::find_if(out.begin(), out.end(), is_meant);
    if (found == out.end() && (found = std::find_if(in.begin(), in.end(), is_meant)) == in.end()) {
      throw Error(ErrorCode::mismatch, "the fabric has no cable " + std::to_string(ordinals[i]) + " between '" +
                                           fabric.name(nodes[i]) + "' and '" + fabric.name(nodes[i + 1]) + "'");
    }
    path.cables.push_back(cables.of(*found));
  }
  return path;
}

RouteBook::Addresses read_addresses(const Json& entry) {
  const Json& both = array_at(entry, "addresses");
  if (both.size() != 2) throw invalid("'addresses' must be the two of the ends of 'path'");
  RouteBook::Addresses addresses{.from = string_of(both[0], "'addresses'"), .to = string_of(both[1], "'addresses'")};
  for (const std::string& address : {addresses.from, addresses.to}) {
    if (!is_address(address)) throw invalid("'" + address + "' is no IP address; write one such as 10.1.0.1");
  }
  return addresses;
}

}  // namespace

RouteBook::Key RouteBook::key_of(Path path) {
  if (path.to < path.from) {
    std::swap(path.from, path.to);
    std::reverse(path.cables.begin(), path.cables.end());
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

RouteBook RouteBook::parse(std::string_view json, const Fabric& fabric, const std::string& where) {
  RouteBook book;
  std::string place = where;
  try {
    const Json document = Json::parse(json);
    expect_keys(document, {"banyan", "routes"});
    if (document.value("banyan", Json()) != kFormat) {
      throw invalid("is no list of routes; it must say \"banyan\": \"" + std::string(kFormat) + "\"");
    }
    const Cables cables(fabric);
    size_t number = 0;
    for (const Json& entry : array_at(document, "routes")) {
      place = where + (where.empty() ? "" : " ") + "routes[" + std::to_string(number++) + "]";
      expect_keys(entry, {"path", "cables", "addresses"});
      book.add(read_path(entry, fabric, cables), read_addresses(entry));
    }
  } catch (const Json::exception& error) {
    throw invalid("is not JSON: " + std::string(error.what()).substr(0, 200)).within(place);
  } catch (const Error& error) {
    throw error.within(place);
  }
  return book;
}

std::string RouteBook::format(const Fabric& fabric) const {
  const Cables cables(fabric);
  std::string text = "{\"banyan\": \"" + std::string(kFormat) + "\",\n \"routes\": [";
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

}  // namespace banyan
