// RouteBook: which pair of addresses takes which path through a fabric.
//
// A plan names routes; a socket names addresses. If the network routes by addresses, as IP does, its operator knows
// which source and which destination make packets cross which cables, and writes it down ("routes/1", described in
// docs/formats/routes.md):
//
//   {"banyan": "routes/1",
//    "routes": [{"path": ["gpu0", "leaf0", "gpu1"], "addresses": ["10.1.0.1", "10.1.0.5"]},
//               {"path": ["gpu0", "leaf0", "gpu1"], "cables": [1, 0], "addresses": ["10.1.0.9", "10.1.0.5"]}]}
//
// `path` begins and ends at ranks. `cables` says which of several cables between the same nodes is crossed (cables.h);
// all are the first when it is left out. `addresses` are those of the two ends. A route also holds for the way back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/cables.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

class RouteBook {
 public:
  struct Addresses {
    std::string from, to;  // IPv4 or IPv6, as text
    bool operator==(const Addresses&) const = default;
  };

  RouteBook() = default;
  // Throws Error with `where`, the number of the route and the mend: Error{invalid_input} for what is not of the
  // format, Error{not_found} for nodes that the fabric does not have, Error{mismatch} for cables.
  static RouteBook parse(std::string_view json, const Fabric& fabric, const std::string& where);
  std::string format(const Fabric& fabric) const;

  // A path: the cables crossed on the way between two ranks, at least one.
  struct Path {
    NodeId from{}, to{};
    std::vector<uint32_t> cables;
  };
  // An earlier entry for the same path stays.
  void add(Path path, Addresses addresses);
  // In the direction of the path.
  std::optional<Addresses> find(Path path) const;
  // All paths between two nodes, in that direction, fewest cables first; equal ones in the same order both ways.
  std::vector<Path> paths(NodeId from, NodeId to) const;
  size_t size() const { return routes_.size(); }

 private:
  struct Key {
    NodeId from{}, to{};  // the lower number first
    std::vector<uint32_t> cables;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(Path path);

  std::map<Key, Addresses> routes_;  // the addresses in the direction of the key
};

}  // namespace banyan::fabric
