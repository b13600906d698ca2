#include "banyan/fabric/links.h"

#include <set>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/node_pair.h"

namespace banyan::fabric {

std::vector<std::string> link_names(const Fabric& fabric, const std::string& arrow) {
  std::vector<std::string> names;
  const Cables cables(fabric);
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const Link& link = fabric.links()[number];
    names.push_back(fabric.name(link.from) + arrow + fabric.name(link.to));
    const uint32_t ordinal = cables[cables.of(LinkId{number})].ordinal;
    if (ordinal > 0) names.back() += "#" + std::to_string(ordinal);
  }
  return names;
}

std::vector<double> link_bandwidths(const Fabric& fabric) {
  std::vector<double> bandwidths;
  for (const Link& link : fabric.links()) bandwidths.push_back(static_cast<double>(link.bandwidth.bytes_per_second()));
  return bandwidths;
}

std::vector<uint32_t> link_cables(const Fabric& fabric) {
  const Cables known(fabric);
  std::vector<uint32_t> cables;
  for (uint32_t link = 0; link < fabric.links().size(); ++link) cables.push_back(known.of(LinkId{link}));
  return cables;
}

std::vector<uint32_t> cables_called(const Fabric& fabric, const std::string& name) {
  std::string pair = name;
  for (const std::string_view arrow : {" -> ", "->"}) {
    if (const size_t at = pair.find(arrow); at != std::string::npos) pair.replace(at, arrow.size(), "-");
  }
  const size_t hash = pair.rfind('#');
  const std::string ordinal = hash == std::string::npos ? "" : pair.substr(hash + 1);
  if (hash != std::string::npos) pair.resize(hash);
  const Cables cables(fabric);
  const NodePairs pairs(fabric);
  std::set<uint32_t> found;
  for (const LinkId link : pairs.links_between(pairs.at(pair))) {
    const uint32_t cable = cables.of(link);
    if (ordinal.empty() || ordinal == std::to_string(cables[cable].ordinal)) found.insert(cable);
  }
  if (found.empty()) throw Error(ErrorCode::not_found, "there is no cable " + in_quotes(name));
  return {found.begin(), found.end()};
}

}  // namespace banyan::fabric
