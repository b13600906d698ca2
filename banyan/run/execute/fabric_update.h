// FabricUpdate: how the network differs from what plans were made for at first, and which plans an operator wants.
//
// An update is the whole difference and not a step: whoever has adopted generation 7 needs no earlier one.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>
#include <string>

namespace banyan::run {

struct FabricUpdate {
  uint32_t generation = 0;  // 0: of the network as it was given
  // Cables by the numbers of the PlanSource.
  std::set<uint32_t> lost_cables = {};                 // carry nothing any more
  std::set<uint32_t> mended_cables = {};               // of a wish: were lost, and carry again
  std::map<uint32_t, uint64_t> bytes_per_second = {};  // of cables whose bandwidth has changed, each way
  std::string plan = {};                               // for its collective: a schedule, as schedule_file.h reads it
  // By its name, as the PlanSource knows it: makes all other plans that it can. Empty: nothing is said about it.
  std::string planner = {};
  static constexpr const char* kBestPlanner = "best";  // in its place: that which is quickest for each size

  // Whether it changes anything.
  bool is_empty() const {
    return lost_cables.empty() && mended_cables.empty() && bytes_per_second.empty() && plan.empty() && planner.empty();
  }
  // Adds what `later` says. Its bandwidths, its plan and its planner count where both have some; a cable is as it says.
  void add(const FabricUpdate& later);
  auto operator<=>(const FabricUpdate&) const = default;
};

// As words of a text. Reading sets failbit for what is no update.
std::ostream& operator<<(std::ostream& stream, const FabricUpdate& update);
std::istream& operator>>(std::istream& stream, FabricUpdate& update);

}  // namespace banyan::run
