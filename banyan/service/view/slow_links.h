// Slow links: which links carry much less than they should, although hosts have more to send over them.
//
// Each daemon tells of its ways: to which host, over which links, for how long bytes waited there for the network, and
// how many went. A way that was *pressed* (bytes waited most of the time, and the receiver had room) should carry the
// least of its links' capacities, or what its calls are allowed if that is less. It is *slow* when it carries less than
// kSlow of that, and no link of it is full with what all tenants send together. Bytes of small calls wait in switches,
// which shows by the time of round trips (daemon/lane_delay.h): then a link of the way back that is full explains it,
// too, and so does a daemon at either end that waits for its core for more than kLateWake of a round trip.
//
// A slow link is then found as in network tomography. Suspects are the links of slow ways, but for those
//   - that carry kSlow of their capacity or more, by all ways together;
//   - that another way uses under pressure at nearly all that it may, or for far more than the slow way carries, in the
//     whole window or while it sends.
// Among suspects the one on most slow ways is named, and these ways are explained; and so on. Suspects on the same ways
// cannot be told apart: then the ways are named, with these links. With a link that is named alone stands the command
// that has calls planned for what it carries; whether to give it is up to operators.
//
// Traffic beside the service is not known here: a link that others fill is slow for the service, too.
#pragma once

#include <span>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

inline constexpr double kSlow = 0.5, kFull = 0.8;
// A window of less than kLeastWindow seconds says nothing; a way pressed for less than kLeastPressed of one is not
// slow.
inline constexpr double kLeastWindow = 0.15, kLeastPressed = 0.5;
inline constexpr double kLateWake = 0.25;

struct SlowLink {
  std::string words = {};
  // The links of which one is slow: they cannot be told apart. The first and the last link of a way, which nothing goes
  // around, are not among them, unless there is no other. Empty: nothing is known of the way.
  std::vector<std::string> links = {};
  uint64_t bytes_per_second = 0;  // that they carry, in two digits
};

// `ways`: of all hosts, in windows of about the same time. Pure. In the order in which they are found: those that
// explain most first. O(slow ways * ways * links of a way).
std::vector<SlowLink> find_slow_links(std::span<const WayView> ways);

}  // namespace banyan::service
