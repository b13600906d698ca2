#include "banyan/run/execute/fabric_update.h"

#include <algorithm>
#include <initializer_list>
#include <istream>
#include <iterator>
#include <ostream>

namespace banyan::run {
namespace {

// No update of a sane peer has more.
constexpr size_t kMostEntries = 1 << 20, kMostPlanBytes = 64 << 20, kMostName = 64;
constexpr const char* kNoName = "-";

using Cables = std::set<uint32_t>;

void write(std::ostream& stream, const Cables& cables) {
  stream << cables.size();
  for (const uint32_t cable : cables) stream << ' ' << cable;
  stream << ' ';
}

// How many of something follow.
size_t read_count(std::istream& stream, size_t most) {
  size_t count = 0;
  if (stream >> count && count > most) stream.setstate(std::ios::failbit);
  return stream ? count : 0;
}

void read(std::istream& stream, Cables& cables) {
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    if (stream >> cable) cables.insert(cable);
  }
}

// An update or a wish: of each set how many cables and these, how many bandwidths and these, the planner, how many
// bytes of plan and these.
template <typename State>
void write_state(std::ostream& stream, const State& state, std::initializer_list<const Cables*> sets) {
  for (const Cables* const cables : sets) write(stream, *cables);
  stream << state.bytes_per_second.size();
  for (const auto& [cable, bandwidth] : state.bytes_per_second) stream << ' ' << cable << ' ' << bandwidth;
  stream << ' ' << (state.planner.empty() ? kNoName : state.planner) << ' ' << state.plan.size() << ' ' << state.plan;
}

template <typename State>
void read_state(std::istream& stream, State& state, std::initializer_list<Cables*> sets) {
  for (Cables* const cables : sets) read(stream, *cables);
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    uint64_t bandwidth = 0;
    if (stream >> cable >> bandwidth) state.bytes_per_second[cable] = bandwidth;
  }
  if (stream >> state.planner && state.planner.size() > kMostName) stream.setstate(std::ios::failbit);
  if (state.planner == kNoName) state.planner.clear();
  const size_t bytes = read_count(stream, kMostPlanBytes);
  if (!stream || bytes == 0) return;
  if (stream.get() != ' ') stream.setstate(std::ios::failbit);
  while (stream && state.plan.size() < bytes) {
    const auto next = stream.get();
    if (stream) state.plan.push_back(static_cast<char>(next));
  }
}

Cables common(const Cables& one, const Cables& other) {
  Cables both;
  std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::inserter(both, both.end()));
  return both;
}

}  // namespace

std::set<uint32_t> FabricUpdate::unused_cables() const {
  Cables unused = lost_cables;
  std::set_difference(avoided_cables.begin(), avoided_cables.end(), needed_cables.begin(), needed_cables.end(),
                      std::inserter(unused, unused.end()));
  return unused;
}

FabricUpdate FabricUpdate::after(const PlanWish& wish) const {
  FabricUpdate next = *this;
  for (const uint32_t cable : wish.mended_cables) next.lost_cables.erase(cable);
  for (const uint32_t cable : wish.restored_cables) next.avoided_cables.erase(cable);
  next.avoided_cables.insert(wish.avoided_cables.begin(), wish.avoided_cables.end());
  next.needed_cables = next.lost_cables.empty() ? Cables() : common(needed_cables, next.avoided_cables);
  for (const auto& [cable, bandwidth] : wish.bytes_per_second) next.bytes_per_second[cable] = bandwidth;
  if (!wish.plan.empty()) next.plan = wish.plan;
  if (!wish.planner.empty()) next.planner = wish.planner;
  return next;
}

std::ostream& operator<<(std::ostream& stream, const FabricUpdate& update) {
  stream << update.generation << ' ';
  write_state(stream, update, {&update.lost_cables, &update.avoided_cables, &update.needed_cables});
  return stream;
}

std::istream& operator>>(std::istream& stream, FabricUpdate& update) {
  update = {};
  stream >> update.generation;
  read_state(stream, update, {&update.lost_cables, &update.avoided_cables, &update.needed_cables});
  return stream;
}

std::ostream& operator<<(std::ostream& stream, const PlanWish& wish) {
  write_state(stream, wish, {&wish.avoided_cables, &wish.restored_cables, &wish.mended_cables});
  return stream;
}

std::istream& operator>>(std::istream& stream, PlanWish& wish) {
  wish = {};
  read_state(stream, wish, {&wish.avoided_cables, &wish.restored_cables, &wish.mended_cables});
  return stream;
}

}  // namespace banyan::run
