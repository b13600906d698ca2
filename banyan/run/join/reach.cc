#include "banyan/run/join/reach.h"

#include <algorithm>
#include <unordered_map>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/run/join/network.h"

namespace banyan::run {
namespace {

// Of the extras of a card.
constexpr const char* kHeld = "held";               // addresses with commas
constexpr const char* kLoopbackState = "loopback";  // "down"

std::string name_of_owner(const EndpointRecord& card) {
  return "rank " + std::to_string(card.rank) + " (" + card.described() + ")";
}

bool are_on_one_host(const EndpointRecord& a, const EndpointRecord& b) {
  return share_loopback(a.member.host_id, b.member.host_id);
}

std::string without_zone(const std::string& address) { return address.substr(0, address.find('%')); }

// Whose addresses are whose.
class Claims {
 public:
  explicit Claims(const std::vector<EndpointRecord>& cards) {
    for (const EndpointRecord& card : cards) {
      for (const std::string& address : card.member.addresses) add(without_zone(address), card);
      const auto held = card.extras.find(kHeld);
      if (held == card.extras.end()) continue;
      for (const std::string_view address : split(held->second, ',')) add(std::string(address), card);
    }
  }

  // One of another host than that of `card`; null when there is none.
  const EndpointRecord* other(const std::string& address, const EndpointRecord& card) const {
    const auto found = owners_.find(without_zone(address));
    if (found == owners_.end()) return nullptr;
    for (const EndpointRecord* owner : {found->second.first, found->second.second}) {
      if (owner != nullptr && !are_on_one_host(*owner, card)) return owner;
    }
    return nullptr;
  }

 private:
  // Two of different hosts: everybody is on another one than one of them.
  using Owners = std::pair<const EndpointRecord*, const EndpointRecord*>;
  void add(const std::string& address, const EndpointRecord& card) {
    Owners& owners = owners_[address];
    if (owners.first == nullptr) {
      owners.first = &card;
    } else if (owners.second == nullptr && !are_on_one_host(*owners.first, card)) {
      owners.second = &card;
    }
  }

  std::unordered_map<std::string, Owners> owners_;
};

void drop_shared_addresses(std::vector<EndpointRecord>& cards) {
  const std::vector<EndpointRecord> original = cards;
  const Claims claims(original);
  for (EndpointRecord& card : cards) {
    std::vector<std::string>& addresses = card.member.addresses;
    if (addresses.empty()) continue;
    const std::string best = addresses.front();
    std::erase_if(addresses, [&](const std::string& address) { return claims.other(address, card) != nullptr; });
    if (!addresses.empty()) continue;
    throw Error(ErrorCode::mismatch, name_of_owner(card) + " says that it is reached at " + best + ", which " +
                                         name_of_owner(*claims.other(best, card)) +
                                         ", on another host, has, too; set BANYAN_ADDRESS on each to an address, or an "
                                         "interface, by which the others reach that host alone");
  }
}

void expect_loopbacks(const std::vector<EndpointRecord>& cards) {
  for (const EndpointRecord& card : cards) {
    if (!card.extras.contains(kLoopbackState)) continue;
    for (const EndpointRecord& other : cards) {
      if (&other == &card || !are_on_one_host(card, other)) continue;
      throw Error(ErrorCode::io, name_of_owner(card) + " and rank " + std::to_string(other.rank) +
                                     " are on one host and cannot reach each other, since its loopback is down (ip "
                                     "link set lo up)");
    }
  }
}

// The interface of the link on which this process is called; empty where it is called by other addresses.
std::string own_zone(const EndpointRecord& card) {
  const auto& addresses = card.member.addresses;
  const auto found = std::ranges::find_if(addresses, is_link_local);
  return found == addresses.end() ? "" : zone_of(*found);
}

}  // namespace

void add_own_host(EndpointRecord& own) {
  if (is_loopback_down()) own.extras[kLoopbackState] = "down";
  const std::vector<std::string>& addresses = own.member.addresses;
  std::string held;
  for (const std::string& address : outward_addresses()) {
    const bool is_in_card = std::ranges::find(addresses, address) != addresses.end();
    if (!is_in_card && !is_loopback(address)) held += (held.empty() ? "" : ",") + address;
  }
  if (!held.empty()) own.extras[kHeld] = held;
}

void keep_reachable(std::vector<EndpointRecord>& cards, uint32_t own) {
  expect_loopbacks(cards);
  drop_shared_addresses(cards);
  const std::string zone = own_zone(cards[own]);
  for (EndpointRecord& card : cards) {
    std::vector<std::string>& addresses = card.member.addresses;
    if (zone.empty()) std::erase_if(addresses, is_link_local);
    for (std::string& address : addresses) address = with_zone(address, zone);
  }
}

}  // namespace banyan::run
