// SlowLinkReplans: when a service that may act alone has calls planned around slow links, and when it plans for them
// as they were again (rules.h: "on_slow_link").
//
// A link that is named as slow for kSure is planned for by what it carries (slow_links.h). Then little goes over it, so
// nothing shows whether it is well again: after kRetry without its name, plans take it as it was. If it is named again,
// the next try is twice as far away, up to kLongestRetry; if it is not for as long, it is well.
//
// A link whose rate comes and goes must not have plans come and go with it: within kPeriod a link has kMostChanges at
// most, of which no try is the last. One that carries less than half of what it was planned for is planned for anew. An
// operator's word about a link's bandwidth counts: the link is left alone from then on.
//
// The daemon that shares out links acts, and tells all others what it has done (record()), so that another one which
// has to go on knows it.
//
// Pure: the time comes from outside. One thread. O(links that were slow) in time for each look.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "banyan/service/view/slow_links.h"

namespace banyan::service {

class SlowLinkReplans {
 public:
  using Time = std::chrono::nanoseconds;  // of a monotonic clock
  static constexpr Time kSure = std::chrono::milliseconds(700), kGap = std::chrono::seconds(2);
  static constexpr Time kRetry = std::chrono::minutes(2), kLongestRetry = std::chrono::hours(1);
  static constexpr Time kPeriod = std::chrono::minutes(10);
  static constexpr size_t kMostChanges = 5;

  // Bytes per second that a link carries, by its name; nothing: as it was at first.
  using Rates = std::map<std::string, std::optional<uint64_t>>;
  struct Change {
    std::string communicator = {};  // its id; empty: all
    Rates rates = {};
  };
  // The changes to make now, from what is slow at this look and which communicators are open (ids). Looks that are
  // further apart than kGap do not count together.
  std::vector<Change> look(std::span<const SlowLink> slow, const std::set<std::string>& communicators, Time now);
  // The service has gone over to these, at all communicators. Rates that are known already change nothing.
  void record(const Rates& rates, Time now);
  // An operator has said what it carries, or that it is avoided or not: it is left to operators.
  void leave(const std::string& link);

  // That are planned for by what they carry.
  struct Planned {
    std::string link;
    uint64_t bytes_per_second = 0;
  };
  std::vector<Planned> planned() const;

 private:
  struct Link {
    std::optional<uint64_t> rate = {};  // that it is planned for; nothing: as it was at first
    std::optional<Time> named = {};     // since when, look by look
    Time last_named{0}, changed{0};
    Time retry = kRetry;
    std::deque<Time> changes = {};  // within kPeriod

    bool may_change(Time now, size_t times);
  };
  void record_names(std::span<const SlowLink> slow, Time now);
  Rates around(const SlowLink& slow, Time now);
  Rates tries(Time now);
  void forget_those_that_are_well(Time now);

  std::map<std::string, Link> links_;
  std::set<std::string> left_, following_;  // links; communicators that go by the present rates
  std::optional<Time> looked_;
};

}  // namespace banyan::service
