#include "lab/lab_file.h"

#include <nlohmann/json.hpp>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "lab/link_queue.h"

namespace banyan::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lab/1";

}  // namespace

std::string format_lab_file(const Lab& lab) {
  const LabPlan& plan = lab.plan();
  const Fabric& fabric = plan.fabric();
  Json ranks = Json::array(), switches = Json::array(), cables = Json::array();
  const auto described = [&](const std::string& name, NodeId node) {
    return Json{
        {"name", name}, {"namespace", lab.namespace_of(node)}, {"address", plan.host(node).primary.to_string()}};
  };
  const bool are_shared = !lab.hosts().ranks_per_host().empty();
  for (uint32_t rank = 0; rank < lab.fabric().ranks().size(); ++rank) {
    Json entry = described(lab.fabric().name(lab.fabric().ranks()[rank]), lab.host_of(rank));
    if (are_shared) entry["host"] = fabric.name(lab.host_of(rank));
    entry["number"] = rank;
    ranks.push_back(std::move(entry));
  }
  for (const Host& host : plan.hosts()) {
    if (!fabric.is_rank(host.node)) switches.push_back(described(fabric.name(host.node), host.node));
  }
  for (uint32_t number = 0; number < plan.cables().all().size(); ++number) {
    const fabric::Cable& cable = plan.cables()[number];
    Json ends = Json::array();
    for (const NodeId end : {cable.a, cable.b}) {
      const Port& port = plan.port(end, number);
      ends.push_back({{"host", fabric.name(end)},
                      {"interface", port.interface()},
                      {"address", port.address.to_string()},
                      {"rate_bits_per_second", port.bytes_per_second * 8}});
    }
    cables.push_back(
        {{"name", lab.cable_name(number)}, {"cut", lab.cut().contains(number)}, {"ends", std::move(ends)}});
  }
  Json document{{"banyan", kFormat}, {"name", lab.name()}, {"scale", lab.scale().to_string()}};
  if (are_shared) document["ranks_per_host"] = lab.hosts().ranks_per_host();
  if (lab.classes() > 1) document["classes"] = lab.classes();
  document["ranks"] = std::move(ranks);
  document["switches"] = std::move(switches);
  document["cables"] = std::move(cables);
  return document.dump(2) + "\n";
}

LabFile read_lab_file(const std::string& path, const Fabric& network) {
  try {
    const Json document = Json::parse(read_file(path));
    if (document.at("banyan") != kFormat) throw Error(ErrorCode::invalid_input, "is no description of a lab", path);
    LabFile file{.scale = Scale::parse(document.at("scale").get<std::string>()), .cut = {}};
    const Json& cables = document.at("cables");
    if (cables.size() != fabric::Cables(network).all().size()) {
      throw Error(ErrorCode::invalid_input, "describes other cables than those of its fabric", path);
    }
    for (uint32_t number = 0; number < cables.size(); ++number) {
      if (cables[number].at("cut").get<bool>()) file.cut.insert(number);
    }
    if (document.contains("ranks_per_host")) document.at("ranks_per_host").get_to(file.ranks_per_host);
    if (document.contains("classes")) document.at("classes").get_to(file.classes);
    if (file.classes < 1 || file.classes > kMostClasses) {
      throw Error(ErrorCode::invalid_input, "has " + std::to_string(file.classes) + " classes of traffic", path);
    }
    return file;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_input, "is no description of a lab: " + std::string(error.what()).substr(0, 200),
                path);
  }
}

}  // namespace banyan::lab
