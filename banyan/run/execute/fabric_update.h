// FabricUpdate: how the network differs from what plans were made for at first, and which plans an operator wants.
// PlanWish: one step from one update to another.
//
// An update is a whole state and not a step: whoever has adopted generation 7 needs no earlier one. It keeps apart what
// an operator wants (cables that are avoided, until they are restored) and what the ranks have found (cables that are
// lost, until they carry again): neither takes back the other.
#pragma once

#include <compare>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <set>
#include <string>

namespace banyan::run {

// Cables by the numbers of the PlanSource.
struct PlanWish {
  std::set<uint32_t> avoided_cables = {};              // are to carry nothing from now on
  std::set<uint32_t> restored_cables = {};             // are avoided no more
  std::set<uint32_t> mended_cables = {};               // were lost, and carry again, as a rank has found (lost_paths.h)
  std::map<uint32_t, uint64_t> bytes_per_second = {};  // of cables whose bandwidth has changed, each way
  std::string plan = {};                               // for its collective: a schedule, as schedule_file.h reads it
  // Name of the planner, as the PlanSource knows it, that makes all other plans that it can. Empty: the wish names
  // none.
  std::string planner = {};

  // True if it changes nothing.
  bool is_empty() const { return *this == PlanWish(); }
  auto operator<=>(const PlanWish&) const = default;
};

struct FabricUpdate {
  uint32_t generation = 0;                             // 0: of the network as it was given
  std::set<uint32_t> lost_cables = {};                 // carry nothing any more
  std::set<uint32_t> avoided_cables = {};              // are to carry nothing
  std::set<uint32_t> needed_cables = {};               // avoided, and used while others are lost: there is no other way
  std::map<uint32_t, uint64_t> bytes_per_second = {};  // these and what follows: as in PlanWish
  std::string plan = {};
  std::string planner = {};
  static constexpr const char* kBestPlanner = "best";  // in its place: that which is quickest for each size

  // Cables that plans do without.
  std::set<uint32_t> unused_cables() const;
  // The update after a wish; of the same generation. A cable that the wish both avoids and restores is avoided.
  FabricUpdate after(const PlanWish& wish) const;
  auto operator<=>(const FabricUpdate&) const = default;
};

// Outcome of a wish.
struct WishOutcome {
  uint32_t generation = 0;   // that it is part of, or was to be
  std::string refusal = {};  // empty: it is adopted
  auto operator<=>(const WishOutcome&) const = default;
};

// As words of a text. Reading sets failbit for what is no update, or no wish.
std::ostream& operator<<(std::ostream& stream, const FabricUpdate& update);
std::istream& operator>>(std::istream& stream, FabricUpdate& update);
std::ostream& operator<<(std::ostream& stream, const PlanWish& wish);
std::istream& operator>>(std::istream& stream, PlanWish& wish);

}  // namespace banyan::run
