#include "banyan/service/view/hints.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace banyan::service {
namespace {

struct Use {
  double own = 0, others = 0;  // bytes per second
  std::set<std::string> cotenants = {};
};

void add(Use& use, const WayView& way, const std::set<std::string>& own) {
  for (const auto& [tenant, bytes] : way.bytes_by_tenant) {
    const double rate = static_cast<double>(bytes) / way.seconds;
    if (own.contains(tenant)) {
      use.own += rate;
    } else if (bytes > 0) {
      use.others += rate;
      use.cotenants.insert(tenant);
    }
  }
}

}  // namespace

std::string hints_json(const HintQuestion& question, std::span<const WayView> ways) {
  using Json = nlohmann::ordered_json;
  std::map<std::string, Use> uses;
  bool are_all_known = true;
  for (const WayView& way : ways) {
    if (way.seconds <= 0) continue;
    are_all_known &= way.is_whole;
    for (const WayLink& link : way.links) add(uses[link.name], way, question.tenants);
  }
  Json links = Json::array();
  for (const HintLink& link : question.links) {
    const auto found = uses.find(link.name);
    const bool is_known = are_all_known || found != uses.end();
    const Use use = found == uses.end() ? Use() : found->second;
    links.push_back({{"name", link.name},
                     {"capacity", link.capacity},
                     {"own", is_known ? Json(use.own) : Json()},
                     {"free", is_known ? Json(std::max(0.0, link.capacity - use.own - use.others)) : Json()},
                     {"cotenants", is_known ? Json(use.cotenants.size()) : Json()},
                     {"from", link.from},
                     {"to", link.to}});
  }
  const Json hints = {{"hosts", question.hosts}, {"links", std::move(links)}};
  return hints.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace banyan::service
