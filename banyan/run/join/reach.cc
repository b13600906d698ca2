#include "banyan/run/join/reach.h"

#include <algorithm>
#include <string>

#include "banyan/run/join/network.h"

namespace banyan::run {
namespace {

// The interface of the link on which this process is called; empty where it is called by other addresses.
std::string own_zone(const EndpointRecord& card) {
  const auto& addresses = card.member.addresses;
  const auto found = std::find_if(addresses.begin(), addresses.end(), is_link_local);
  return found == addresses.end() ? "" : zone_of(*found);
}

}  // namespace

void keep_reachable(std::vector<EndpointRecord>& cards, uint32_t own) {
  const std::string zone = own_zone(cards[own]);
  for (EndpointRecord& card : cards) {
    std::vector<std::string>& addresses = card.member.addresses;
    if (zone.empty()) std::erase_if(addresses, is_link_local);
    for (std::string& address : addresses) address = with_zone(address, zone);
  }
}

}  // namespace banyan::run
