#include "lab/lab_file.h"

#include <nlohmann/json.hpp>

#include "banyan/base/error.h"
#include "banyan/base/file.h"

namespace banyan::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "lab/1";

}  // namespace

std::string format_lab_file(const Lab& lab) {
  const LabPlan& plan = lab.plan();
  const Fabric& fabric = plan.fabric();
  Json ranks = Json::array(), switches = Json::array(), cables = Json::array();
  for (const Host& host : plan.hosts()) {
    Json entry{{"name", fabric.name(host.node)},
               {"namespace", lab.namespace_of(host.node)},
               {"address", host.primary.to_string()}};
    if (fabric.is_rank(host.node)) entry["number"] = ranks.size();
    (fabric.is_rank(host.node) ? ranks : switches).push_back(std::move(entry));
  }
  for (uint32_t number = 0; number < plan.cables().all().size(); ++number) {
    const fabric::Cable& cable = plan.cables()[number];
    Json ends = Json::array();
    for (const NodeId end : {cable.a, cable.b}) {
      for (const Port& port : plan.host(end).ports) {
        if (port.cable != number) continue;
        ends.push_back({{"host", fabric.name(end)},
                        {"interface", port.interface()},
                        {"address", port.address.to_string()},
                        {"rate_bits_per_second", port.bytes_per_second * 8}});
      }
    }
    cables.push_back(
        {{"name", lab.cable_name(number)}, {"cut", lab.cut().contains(number)}, {"ends", std::move(ends)}});
  }
  const Json document{{"banyan", kFormat},
                      {"name", lab.name()},
                      {"scale", lab.scale().to_string()},
                      {"ranks", std::move(ranks)},
                      {"switches", std::move(switches)},
                      {"cables", std::move(cables)}};
  return document.dump(2) + "\n";
}

LabFile read_lab_file(const std::string& path, const Fabric& fabric) {
  try {
    const Json document = Json::parse(read_file(path));
    if (document.at("banyan") != kFormat) throw Error(ErrorCode::invalid_input, "is no description of a lab", path);
    LabFile file{.scale = Scale::parse(document.at("scale").get<std::string>()), .cut = {}};
    const Json& cables = document.at("cables");
    if (cables.size() != fabric::Cables(fabric).all().size()) {
      throw Error(ErrorCode::invalid_input, "describes other cables than those of its fabric", path);
    }
    for (uint32_t number = 0; number < cables.size(); ++number) {
      if (cables[number].at("cut").get<bool>()) file.cut.insert(number);
    }
    return file;
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::invalid_input, "is no description of a lab: " + std::string(error.what()).substr(0, 200),
                path);
  }
}

}  // namespace banyan::lab
