// Allocation: at which rate each tenant's calls should use each link.
//
// A collective advances all of its flows in step, so it is one flow here: a call of tenant k that goes on with speed x
// (calls per second) uses x * u_l bytes per second of link l, where u is its footprint. Tenants have weights; a tenant's
// weight is divided among its calls that are under way, so that more communicators get it no more.
//
// The speeds are weighted max-min fair over dominant shares (DRF over links): with s the largest share of any link that a
// call uses, max_l(x * u_l / capacity_l), all s / weight rise together, until a link is full or a call has reached its
// cap; the calls that cross this link stay, the others rise on. Classes are strict: a higher class is filled first, but
// no class gets less than `least` of each link as long as it can use it.
//
// Guarantees, which tests hold against a simple water-filling and a linear program: no link carries more than its
// capacity; no call could be faster without a slower one of its class (by s / weight) becoming slower still.
//
// Pure. allocate() takes time O(calls * links of their footprints * distinct bottlenecks).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "banyan/service/share/rules.h"

namespace banyan::service {

struct LinkUse {
  uint32_t link = 0;
  double bytes = 0;  // of one whole call
};

struct SharedCall {
  uint32_t tenant = 0;
  ShareClass share_class = ShareClass::normal;
  std::vector<LinkUse> footprint;                          // each link once, bytes > 0; empty: it uses no link
  double cap = std::numeric_limits<double>::infinity();  // bytes per second on any of its links
};

struct SharedNetwork {
  std::vector<double> capacities;  // by link: bytes per second, > 0
  std::vector<double> weights;     // by tenant, > 0
  double least = 0.05;             // of each link, for classes that are not the highest one in use
};

// Calls per second, by call; infinity where a call uses no link. Throws Error{invalid_input} for numbers that are not as
// said above.
std::vector<double> allocate(const SharedNetwork& network, std::span<const SharedCall> calls);

}  // namespace banyan::service
