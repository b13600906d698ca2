// RouteAdviser: tells communicators which links they should plan with, so that tenants spread over the network.
//
// A communicator alone plans with all paths alike. It cannot know what others do to links: one whose plan has few
// flows, or which has lost a cable, loads one spine, and another plans for the same spine. The adviser sees the
// footprints of all, and tells each its *view*: for each link the part of the bandwidth that it would have there if it
// sent over it as fast as it can. Planning for its view, a communicator takes the links with the least demand for their
// capacity (FFA of MCCS, SIGCOMM'24). The view follows the allocation of links (allocation.h):
//
//   - Communicators of higher classes take what they use; what is left, and at least `least` of the link, is the
//     class's own. So a tenant of a high class has reserved the paths that it uses, and others plan around them (PFA
//     there).
//   - Communicators of a lower class count with `least` for their class.
//   - Within a class, a communicator has its weight over the weights of all that use the link; a sharer's weight is
//     divided among its communicators. Others count as far as they use the link: one that needs it for a tenth of the
//     time of its calls, with a tenth.
//
// Parts are told in sixteenths. To plan anew costs something, and all that would do it at once would meet again
// elsewhere. So one communicator is advised at a time, in turn. One that has been advised is left alone for `pause`, in
// which its footprint shows what came of it. Only those are advised that have lost something by others, or have had
// such advice before: a plan whose links others leave whole can stay. The communicator itself decides if it plans anew
// (it should, where a plan for the view is quicker by a tenth): then a choice of one makes nobody else change who would
// not gain a tenth either.
//
// Communicators are remembered for `memory` after their last call, so that computing between calls changes nothing.
//
// Pure: the time comes from outside. One thread. record() takes time O(log n + links of its footprint); advise()
// O(n * links in use).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/share/allocation.h"
#include "banyan/service/share/steward.h"

namespace banyan::service {

struct LinkPart {
  uint32_t link = 0;
  uint32_t sixteenths = 16;  // of its bandwidth, 1 to 16

  friend bool operator==(const LinkPart&, const LinkPart&) = default;
};

class RouteAdviser {
 public:
  using Time = std::chrono::nanoseconds;  // as the Steward's

  struct Options {
    std::vector<double> capacities;  // by link: bytes per second
    double least = 0.05;             // as in SharedNetwork
    Time memory = std::chrono::seconds(10);
    Time pause = std::chrono::seconds(2);
  };
  explicit RouteAdviser(Options options) : options_(std::move(options)) {}

  // Takes a report that the steward has taken. One without a footprint says nothing.
  void record(const CallReport& report, Time now);
  bool knows(const std::string& communicator) const { return known_.contains(communicator); }

  struct Advice {
    std::string communicator;
    // All links of which it would not have the whole, and those of which it was told so last.
    std::vector<LinkPart> view;
  };
  // For one communicator at most.
  std::optional<Advice> advise(Time now);

 private:
  static constexpr size_t kClasses = 3;
  struct Known {
    std::string sharer;
    double weight = 1;
    ShareClass share_class = ShareClass::normal;
    std::map<uint32_t, double> uses = {};  // by link: the part of the time of a call alone that it is busy
    Time seen{0};
    std::optional<Time> advised = {};
    std::map<uint32_t, uint32_t> sent = {};  // sixteenths by link
  };
  // On one link.
  struct Demand {
    std::array<double, kClasses> use = {};       // of communicators, added up
    std::array<double, kClasses> weighted = {};  // the same times their parts of weights
  };
  using Demands = std::map<uint32_t, Demand>;

  void forget_old(Time now);
  double own_weight(const Known& known) const;
  Demands demands() const;
  std::map<uint32_t, uint32_t> view_of(const Known& known, const Demands& demands) const;
  uint32_t sixteenths(const Known& known, double own_use, const Demand& demand) const;

  const Options options_;
  std::map<std::string, Known> known_;
  // Numbers of communicators, by sharer and class.
  std::map<std::pair<std::string, ShareClass>, uint32_t> counts_;
  std::string last_;  // who was advised
};

}  // namespace banyan::service
