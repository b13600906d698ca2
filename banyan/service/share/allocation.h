// Allocation: at which rate each tenant's calls should use each link.
//
// A collective advances all of its flows in step, so it is one flow here: a call of tenant k that goes on at speed x
// (calls per second) uses x * u_l bytes per second of link l, where u is its footprint. Tenants have weights; a
// tenant's weight is divided evenly among its calls that are under way (of one class), so that more communicators get
// it no more. Each part is then multiplied by a factor of the call. So the weights of a tenant's calls of one class add
// up to its weight times the mean of their factors, which is no more than its weight times the largest one.
//
// The speeds are weighted max-min fair over dominant shares (DRF over links): with s the largest share of any link that
// a call uses, max_l(x * u_l / capacity_l), all s / weight rise together, until a link is full or a call has reached
// its cap; the calls that cross this link stay, the others rise on.
//
// Classes are strict, above a floor. The *floor* of a call is the speed that it would have if the calls of its class
// were alone in a network with `least` of each capacity; calls of the highest class in use have none. First all calls
// get their floors. Then, class by class, highest first, what they get on top of their floors rises as above, by the
// same weights, until a link is full or a call has reached its cap. A tenant's weight is divided among its calls of one
// class, since calls of different classes do not compete: batches in the background take nothing from their owner's
// urgent calls.
//
// Guarantees, which tests hold against definitions and a simple water-filling:
// (1) No link carries more than its capacity, but for rounding.
// (2) Nothing lies idle that somebody could use: each call is at its cap or crosses a full link.
// (3) Within the highest class in use, no call could be faster without one that has no more (by s / weight) becoming
//     slower, in a network less the floors of the others. If there is one class, that is the whole network.
// (4) Every other call has its floor. Hence each of them is at its cap, or crosses a link of which its class gets
//     `least` of the capacity, if not more. Its speed above its floor is fair by (3) in the network less all floors and
//     what higher classes take.
// (5) A class does not feel what lower ones ask, beyond their floors.
// Below the highest class, these two parts of a speed are fair, not their sum: calls of one class and of equal weights
// on the same full link may differ by what their floors differ there, which is less than `least` of it.
//
// Pure. Water is filled by predict/fluid/max_min.h, at most five times. A call is a flow there, its level s / weight.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "banyan/service/share/rules.h"

namespace banyan::service {

// Capacities, bytes, weights, factors and caps are from kLeastAmount to kMostAmount.
inline constexpr double kLeastAmount = 1e-9, kMostAmount = 1e18;

struct LinkUse {
  uint32_t link = 0;
  double bytes = 0;  // of one whole call

  friend bool operator==(const LinkUse&, const LinkUse&) = default;
};

struct SharedCall {
  uint32_t tenant = 0;
  ShareClass share_class = ShareClass::normal;
  std::vector<LinkUse> footprint = {};                   // each link once; empty: it uses no link
  double cap = std::numeric_limits<double>::infinity();  // bytes per second on any of its links; infinite: none
  double factor = 1;                                     // of its part of the tenant's weight
};

struct SharedNetwork {
  static constexpr double kMostLeast = 1.0 / 3;  // so that the highest class has no less than what others are promised
  std::vector<double> capacities;                // by link: bytes per second
  std::vector<double> weights;                   // by tenant
  double least = 0.05;  // of each link, for each class that is not the highest one in use; 0 to kMostLeast
};

// Calls per second, by call; infinity where a call uses no link. Throws Error{invalid_input} for numbers that are not
// as said above.
std::vector<double> allocate(const SharedNetwork& network, std::span<const SharedCall> calls);

// The same checks, for callers that get the numbers long before; they throw Error{invalid_input}, too. An error about a
// call does not name it, for Error::within(); the tenant of a call is not looked at.
void expect_sound(const SharedNetwork& network);
void expect_sound(const SharedCall& call, size_t links);
void expect_sound(double amount, const std::string& what);

}  // namespace banyan::service
