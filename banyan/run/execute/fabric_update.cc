#include "banyan/run/execute/fabric_update.h"

#include <istream>
#include <ostream>

namespace banyan::run {
namespace {

// No update of a sane peer has more.
constexpr size_t kMostEntries = 1 << 20, kMostPlanBytes = 64 << 20;

// How many of something follow.
size_t read_count(std::istream& stream, size_t most) {
  size_t count = 0;
  if (stream >> count && count > most) stream.setstate(std::ios::failbit);
  return stream ? count : 0;
}

}  // namespace

void FabricUpdate::add(const FabricUpdate& later) {
  lost_cables.insert(later.lost_cables.begin(), later.lost_cables.end());
  for (const auto& [cable, bandwidth] : later.bytes_per_second) bytes_per_second[cable] = bandwidth;
  if (!later.plan.empty()) plan = later.plan;
}

// generation, how many cables and these, how many bandwidths and these, how many bytes of plan and these.
std::ostream& operator<<(std::ostream& stream, const FabricUpdate& update) {
  stream << update.generation << ' ' << update.lost_cables.size();
  for (const uint32_t cable : update.lost_cables) stream << ' ' << cable;
  stream << ' ' << update.bytes_per_second.size();
  for (const auto& [cable, bandwidth] : update.bytes_per_second) stream << ' ' << cable << ' ' << bandwidth;
  return stream << ' ' << update.plan.size() << ' ' << update.plan;
}

std::istream& operator>>(std::istream& stream, FabricUpdate& update) {
  update = {};
  stream >> update.generation;
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    if (stream >> cable) update.lost_cables.insert(cable);
  }
  for (size_t left = read_count(stream, kMostEntries); stream && left > 0; --left) {
    uint32_t cable = 0;
    uint64_t bandwidth = 0;
    if (stream >> cable >> bandwidth) update.bytes_per_second[cable] = bandwidth;
  }
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
