#include "banyan/service/view/slow_links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/words.h"

namespace banyan::service {
namespace {

constexpr size_t kMostListed = 4;  // ways that one cause makes slow, and links that may be the cause
constexpr double kNearlyAll = 0.8, kFarMore = 2;
constexpr double kLeastBusy = 0.1;  // of a window: what is sent in less says nothing of a rate

// "b->a#2" of "a->b#2".
std::string back_of(const std::string& link) {
  const size_t arrow = link.find("->"), number = std::min(link.rfind('#'), link.size());
  if (arrow == std::string::npos || number < arrow) return link;
  return link.substr(arrow + 2, number - arrow - 2) + "->" + link.substr(0, arrow) + link.substr(number);
}

// A way of which the window is long enough to say anything.
struct Measured {
  const WayView* way = nullptr;
  double carried = 0;                 // bytes per second
  std::optional<double> should = {};  // the same; none where nobody knows
  bool is_pressed = false;
  double while_pressed = 0;  // bytes per second, rather too many than too few
  double while_busy = 0;     // the same; 0: it was busy for too short a time
  bool is_delayed = false;   // it was pressed, and most of that in the network alone

  bool is_slow() const { return is_pressed && should && while_pressed < kSlow * *should; }
  bool is_content() const { return is_pressed && should && while_pressed >= kNearlyAll * *should; }
};

Measured measured(const WayView& way) {
  Measured seen{.way = &way, .carried = way.bytes() / way.seconds};
  for (const WayLink& link : way.links) seen.should = std::min(seen.should.value_or(link.capacity), link.capacity);
  if (way.allowed && seen.should) seen.should = std::min(*seen.should, static_cast<double>(*way.allowed));
  seen.is_pressed = way.pressed_seconds >= kLeastPressed * way.seconds;
  if (seen.is_pressed) seen.while_pressed = way.bytes() / way.pressed_seconds;
  seen.is_delayed = seen.is_pressed && way.delayed_seconds >= way.pressed_seconds / 2;
  if (way.busy_seconds >= kLeastBusy * way.seconds) seen.while_busy = way.bytes() / way.busy_seconds;
  return seen;
}

class Search {
 public:
  explicit Search(std::span<const WayView> ways) {
    for (const WayView& way : ways) {
      if (way.seconds >= kLeastWindow) ways_.push_back(measured(way));
    }
    for (const Measured& each : ways_) {
      double& wake = wakes_[each.way->from];
      wake = std::max(wake, each.way->wake_seconds);
      for (const WayLink& link : each.way->links) {
        Link& known = links_[link.name];
        known.capacity = link.capacity;
        known.carried += each.carried;
        known.ways.push_back(&each);
      }
    }
  }

  std::vector<SlowLink> found() {
    for (const Measured& each : ways_) {
      if (each.is_slow() && !is_explained_by_others(each)) suspect_links_of(each);
    }
    while (!suspects_.empty()) name_the_worst();
    for (const Measured* const each : unknown_) found_.push_back({.words = words_of(*each)});
    return std::move(found_);
  }

 private:
  struct Link {
    double capacity = 0, carried = 0;  // bytes per second
    std::vector<const Measured*> ways = {};
  };
  using Ways = std::set<const Measured*>;  // in the order of ways_, since they stand in it

  bool is_explained_by_others(const Measured& slow) const {
    if (slow.is_delayed && (is_late(slow.way->from, slow) || is_late(slow.way->to, slow))) return true;
    return std::any_of(slow.way->links.begin(), slow.way->links.end(), [&](const WayLink& link) {
      return is_full(link.name) || (slow.is_delayed && is_full(back_of(link.name)));
    });
  }
  bool is_late(const std::string& host, const Measured& slow) const {
    const auto wake = wakes_.find(host);
    return wake != wakes_.end() && wake->second > kLateWake * slow.way->round_trip_seconds;
  }
  bool is_full(const std::string& link) const {
    const auto known = links_.find(link);
    return known != links_.end() && known->second.carried >= kFull * known->second.capacity;
  }

  bool is_cleared(const Link& link, const Measured& slow) const {
    if (link.carried >= kSlow * link.capacity) return true;
    return std::any_of(link.ways.begin(), link.ways.end(), [&](const Measured* other) {
      if (other == &slow || other->is_slow()) return false;
      return other->is_content() || other->carried > kFarMore * slow.carried ||
             other->while_busy > kFarMore * slow.while_pressed;
    });
  }

  // A way that has links of which nothing is known may be slow by those.
  void suspect_links_of(const Measured& slow) {
    bool has_suspects = false;
    for (const WayLink& link : slow.way->links) {
      if (!slow.way->is_whole || is_cleared(links_.at(link.name), slow)) continue;
      suspects_[link.name].insert(&slow);
      has_suspects = true;
    }
    if (!has_suspects) unknown_.push_back(&slow);
  }

  void name_the_worst() {
    const auto worst = std::max_element(suspects_.begin(), suspects_.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const Ways explained = worst->second;
    std::vector<std::string> alike;
    for (const auto& [name, ways] : suspects_) {
      if (ways == explained) alike.push_back(name);
    }
    if (alike.size() == 1) {
      const uint64_t rate = two_digits(std::max(links_.at(alike.front()).carried, most_of(explained)));
      found_.push_back({.words = words_of(alike.front(), explained, rate), .links = alike, .bytes_per_second = rate});
    } else {
      name(explained, alike);
    }
    for (auto& [name, ways] : suspects_) {
      std::erase_if(ways, [&](const Measured* each) { return explained.contains(each); });
    }
    std::erase_if(suspects_, [](const auto& each) { return each.second.empty(); });
  }

  void name(const Ways& ways, const std::vector<std::string>& alike) {
    std::string links = "; slow is one of ";
    for (size_t i = 0; i < std::min(alike.size(), kMostListed); ++i) links += (i > 0 ? ", " : "") + alike[i];
    if (alike.size() > kMostListed) links += " and " + std::to_string(alike.size() - kMostListed) + " more";
    const std::vector<std::string> inner = without_ends(alike, ways);
    size_t named = 0;
    for (const Measured* const each : ways) {
      const size_t left = ways.size() - ++named;
      const bool is_last = named == kMostListed && left > 0;
      found_.push_back({.words = words_of(*each) + links + (is_last ? "; " + others(left, "way") + " slow, too" : ""),
                        .links = inner,
                        .bytes_per_second = two_digits(most_of(ways))});
      if (is_last) return;
    }
  }

  static std::vector<std::string> without_ends(std::vector<std::string> links, const Ways& ways) {
    std::set<std::string> ends;
    for (const Measured* const each : ways) {
      ends.insert(each->way->links.front().name);
      ends.insert(each->way->links.back().name);
    }
    const bool all_are_ends =
        std::all_of(links.begin(), links.end(), [&](const std::string& link) { return ends.contains(link); });
    if (!all_are_ends) std::erase_if(links, [&](const std::string& link) { return ends.contains(link); });
    return links;
  }

  static std::string others(size_t count, const std::string& noun) {
    return with_thousands(count) + " more " + noun + (count == 1 ? " is" : "s are");
  }

  static std::string portion(double carried, double should) {
    return " carries " + rough_percent(carried / should) + " of its rate: " + format_rate(carried) + " of " +
           format_rate(should);
  }

  std::string words_of(const std::string& name, const Ways& ways, uint64_t rate) const {
    const Link& link = links_.at(name);
    const Measured& first = **ways.begin();
    return "link " + name + portion(link.carried, link.capacity) + ", though host " + first.way->from +
           " has more for host " + first.way->to +
           (ways.size() > 1 ? "; " + others(ways.size() - 1, "way") + " slow by it" : "") +
           "; to plan for that: " + mend_of(name, rate);
  }

  // That any of them has carried while it was pressed.
  static double most_of(const Ways& ways) {
    double most = 0;
    for (const Measured* const each : ways) most = std::max(most, each->while_pressed);
    return most;
  }

  // It is measured.
  static uint64_t two_digits(double rate) {
    uint64_t unit = 1;
    while (rate / static_cast<double>(unit) >= 100) unit *= 10;
    return std::llround(rate / static_cast<double>(unit)) * unit;
  }

  // "banyan service replan '*' --bandwidth 'leaf0->spine0=2.4MB/s'".
  static std::string mend_of(const std::string& name, uint64_t rate) {
    const std::string command = "banyan service replan '*' ";
    if (rate == 0) return command + "--avoid '" + name + "'";
    std::string words = Bandwidth::bytes_per_second(rate).to_string();
    std::erase(words, ' ');
    return command + "--bandwidth '" + name + "=" + words + "'";
  }

  static std::string words_of(const Measured& slow) {
    return "the way host " + slow.way->from + " -> host " + slow.way->to + portion(slow.while_pressed, *slow.should);
  }

  std::vector<Measured> ways_;
  std::map<std::string, Link> links_;     // by name; ways stand in ways_
  std::map<std::string, double> wakes_;   // by host: as in WayView, the longest
  std::map<std::string, Ways> suspects_;  // by name of the link: the slow ways over it that nothing explains yet
  std::vector<const Measured*> unknown_;  // slow ways without suspects
  std::vector<SlowLink> found_;
};

}  // namespace

std::vector<SlowLink> find_slow_links(std::span<const WayView> ways) { return Search(ways).found(); }

}  // namespace banyan::service
