#include "banyan/service/session/early_box.h"

#include <poll.h>

#include <iterator>

namespace banyan::service {

void EarlyBox::count(const std::string& user, size_t before, size_t now) {
  if (before > 0) sizes_.erase({before, user});
  if (now > 0) sizes_.emplace(now, user);
}

void EarlyBox::keep(Item item, Time now) {
  make_room_for(item.user);
  Items& items = of_user_[item.user];
  count(item.user, items.size(), items.size() + 1);
  items.push_back({.item = std::move(item), .since = now, .place = {}});
  const auto last = std::prev(items.end());
  last->place = by_key_.emplace(last->item.key, last);
}

void EarlyBox::drop(Items::iterator item) {
  const auto of_user = of_user_.find(item->item.user);
  count(of_user->first, of_user->second.size(), of_user->second.size() - 1);
  by_key_.erase(item->place);
  of_user->second.erase(item);
  if (of_user->second.empty()) of_user_.erase(of_user);
}

void EarlyBox::make_room_for(const std::string& user) {
  const auto own = of_user_.find(user);
  // A user that has its most loses its own oldest item. If the box is full, the user that has most loses its oldest.
  if (own != of_user_.end() && own->second.size() >= kMostOfUser) {
    drop(own->second.begin());
  } else if (size() >= kMost) {
    drop(of_user_.at(sizes_.rbegin()->second).begin());
  }
}

void EarlyBox::keep_refusal(const std::string& communicator, const std::string& user, const Error& why, Time now) {
  if (refusal_of(communicator) == nullptr) keep({.key = {communicator, kAllRanks}, .user = user, .what = why}, now);
}

std::vector<EarlyBox::Item> EarlyBox::take(const Key& key) {
  std::vector<Item> taken;
  // Items of one key stand in the order in which they came.
  for (auto each = by_key_.find(key); each != by_key_.end() && each->first == key; each = by_key_.find(key)) {
    Item& kept = each->second->item;
    taken.push_back({.key = kept.key, .user = kept.user, .what = std::move(kept.what)});
    drop(each->second);
  }
  return taken;
}

const Error* EarlyBox::refusal_of(const std::string& communicator) const {
  // A daemon that sends nonsense may have sent something else for a rank of this number.
  const auto found = by_key_.find({communicator, kAllRanks});
  return found == by_key_.end() ? nullptr : std::get_if<Error>(&found->second->item.what);
}

void EarlyBox::sweep(Time now) {
  // All lanes are asked in one call whether their callers have hung up.
  std::vector<pollfd> polled;
  std::vector<Items::iterator> lanes;
  for (auto each = by_key_.begin(); each != by_key_.end();) {
    const Items::iterator item = each++->second;
    if (now - item->since >= kLongest) {
      drop(item);
    } else if (const auto* const lane = std::get_if<Lane>(&item->item.what)) {
      polled.push_back({.fd = lane->connection.socket.get(), .events = POLLRDHUP, .revents = 0});
      lanes.push_back(item);
    }
  }
  if (polled.empty() || poll(polled.data(), polled.size(), 0) <= 0) return;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if ((polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) drop(lanes[i]);
  }
}

}  // namespace banyan::service
