#include "banyan/run/execute/fabric_update.h"

#include <istream>
#include <ostream>

namespace banyan::run {
namespace {

// No update of a sane peer has more.
constexpr size_t kMostEntries = 1 << 20, kMostPlanBytes = 64 << 20, kMostName = 64;
constexpr const char* kNoName = "-";

void write(std::ostream& stream, const std::set<uint32_t>& cables) {
  stream << cables.size();
  for (const uint32_t cable : cables) stream << ' ' << cable;
}

// How many of something follow.
size_t read_count(std::istream& stream, size_t most) {
  size_t count = 0;
  if (stream >> count && count > most) stream.setstate(std::ios::failbit);
  return stream ? count : 0;
}

void read(std::istream& stream, std::set<uint32_t>& cables) {
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    if (stream >> cable) cables.insert(cable);
  }
}

}  // namespace

void FabricUpdate::add(const FabricUpdate& later) {
  for (const uint32_t cable : later.mended_cables) {
    if (lost_cables.erase(cable) == 0) mended_cables.insert(cable);
  }
  for (const uint32_t cable : later.lost_cables) {
    mended_cables.erase(cable);
    lost_cables.insert(cable);
  }
  for (const auto& [cable, bandwidth] : later.bytes_per_second) bytes_per_second[cable] = bandwidth;
  if (!later.plan.empty()) plan = later.plan;
  if (!later.planner.empty()) planner = later.planner;
}

// generation, how many lost cables and these, how many mended ones and these, how many bandwidths and these, the
// planner, how many bytes of plan and these.
std::ostream& operator<<(std::ostream& stream, const FabricUpdate& update) {
  stream << update.generation << ' ';
  write(stream, update.lost_cables);
  stream << ' ';
  write(stream, update.mended_cables);
  stream << ' ' << update.bytes_per_second.size();
  for (const auto& [cable, bandwidth] : update.bytes_per_second) stream << ' ' << cable << ' ' << bandwidth;
  stream << ' ' << (update.planner.empty() ? kNoName : update.planner);
  return stream << ' ' << update.plan.size() << ' ' << update.plan;
}

std::istream& operator>>(std::istream& stream, FabricUpdate& update) {
  update = {};
  stream >> update.generation;
  read(stream, update.lost_cables);
  read(stream, update.mended_cables);
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    uint64_t bandwidth = 0;
    if (stream >> cable >> bandwidth) update.bytes_per_second[cable] = bandwidth;
  }
  if (stream >> update.planner && update.planner.size() > kMostName) stream.setstate(std::ios::failbit);
  if (update.planner == kNoName) update.planner.clear();
  const size_t bytes = read_count(stream, kMostPlanBytes);
  if (!stream) return stream;
  if (bytes == 0) return stream;
  if (stream.get() != ' ') stream.setstate(std::ios::failbit);
  while (stream && update.plan.size() < bytes) {
    const auto next = stream.get();
    if (stream) update.plan.push_back(static_cast<char>(next));
  }
  return stream;
}

}  // namespace banyan::run
