#include "banyan/service/daemon/early_box.h"

#include <poll.h>

#include <algorithm>

namespace banyan::service {

EarlyBox::Items::iterator EarlyBox::drop(Items::iterator item) {
  const auto count = of_user_.find(item->item.user);
  if (--count->second == 0) of_user_.erase(count);
  return items_.erase(item);
}

void EarlyBox::drop_oldest_of(const std::string& user) {
  drop(std::find_if(items_.begin(), items_.end(), [&](const Kept& kept) { return kept.item.user == user; }));
}

void EarlyBox::keep(Item item, Time now) {
  const auto own = of_user_.find(item.user);
  if (own != of_user_.end() && own->second >= kMostOfUser) {
    drop_oldest_of(item.user);
  } else if (items_.size() >= kMost) {
    const auto most = std::max_element(of_user_.begin(), of_user_.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    drop_oldest_of(std::string(most->first));
  }
  ++of_user_[item.user];
  items_.push_back({.item = std::move(item), .since = now});
}

std::vector<EarlyBox::Item> EarlyBox::take(const Key& key) {
  std::vector<Item> taken;
  for (auto each = items_.begin(); each != items_.end();) {
    if (each->item.key != key) {
      ++each;
      continue;
    }
    Item item = std::move(each->item);
    each->item.user = item.user;
    taken.push_back(std::move(item));
    each = drop(each);
  }
  return taken;
}

std::optional<Error> EarlyBox::refusal_for(const Key& key) const {
  for (const Kept& each : items_) {
    if (each.item.key != key) continue;
    if (const auto* const error = std::get_if<Error>(&each.item.what)) return *error;
  }
  return std::nullopt;
}

void EarlyBox::sweep(Time now) {
  std::vector<pollfd> polled;
  std::vector<Items::iterator> lanes;
  for (auto each = items_.begin(); each != items_.end();) {
    if (now - each->since >= kLongest) {
      each = drop(each);
      continue;
    }
    if (const auto* const lane = std::get_if<Lane>(&each->item.what)) {
      polled.push_back({.fd = lane->connection.socket.get(), .events = POLLRDHUP, .revents = 0});
      lanes.push_back(each);
    }
    ++each;
  }
  if (polled.empty() || poll(polled.data(), polled.size(), 0) <= 0) return;
  for (size_t i = 0; i < lanes.size(); ++i) {
    if ((polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) drop(lanes[i]);
  }
}

}  // namespace banyan::service
