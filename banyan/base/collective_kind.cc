#include "banyan/base/collective_kind.h"

#include <cctype>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"

namespace banyan {
namespace {

constexpr bool table_is_in_order() {
  for (size_t i = 0; i < kCollectives.size(); ++i) {
    if (static_cast<size_t>(kCollectives[i].kind) != i) return false;
  }
  return true;
}
static_assert(table_is_in_order());

// Other names than the table's, spelled as squeezed() leaves them.
constexpr std::array<std::pair<std::string_view, CollectiveKind>, 6> kOtherNames{{
    {"allgatherintotensor", CollectiveKind::all_gather},
    {"reducescatterblock", CollectiveKind::reduce_scatter},
    {"reducescattertensor", CollectiveKind::reduce_scatter},
    {"bcast", CollectiveKind::broadcast},
    {"all2all", CollectiveKind::all_to_all},
    {"alltoallsingle", CollectiveKind::all_to_all},
}};

// In small letters, without dashes, underscores and the words that libraries put around a name.
std::string squeezed(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (c != '-' && c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view before : {"nccl", "rccl", "mpi"}) {
    if (name.starts_with(before)) name.erase(0, before.size());
  }
  if (name.ends_with("perf")) name.resize(name.size() - 4);
  return name;
}

}  // namespace

double busbw_factor(CollectiveKind kind, size_t ranks) {
  const double n = static_cast<double>(ranks);
  if (kind == CollectiveKind::barrier) return 0;
  if (kind == CollectiveKind::all_reduce) return 2 * (n - 1) / n;
  return is_sharded(kind) ? (n - 1) / n : 1;
}

std::optional<CollectiveKind> find_collective_kind(std::string_view text) {
  constexpr size_t kLongestName = 60;
  if (text.size() > kLongestName) return std::nullopt;
  const std::string name = squeezed(text);
  for (const CollectiveTraits& traits : kCollectives) {
    if (name == traits.compact) return traits.kind;
  }
  for (const auto& [other, kind] : kOtherNames) {
    if (name == other) return kind;
  }
  return std::nullopt;
}

CollectiveKind parse_collective_kind(std::string_view text) {
  return parse_collective_kind(text, [](CollectiveKind) { return true; });
}

CollectiveKind parse_collective_kind(std::string_view text, bool (*is_known)(CollectiveKind)) {
  if (const auto kind = find_collective_kind(text); kind && is_known(*kind)) return *kind;
  NearestName nearest(text);
  for (const CollectiveTraits& traits : kCollectives) {
    if (is_known(traits.kind)) nearest.offer(traits.name);
  }
  throw invalid("unknown collective '" + std::string(text.substr(0, 60)) + "'" + nearest.hint() +
                "; known: " + collective_names(is_known));
}

std::string collective_names(bool (*is_known)(CollectiveKind)) {
  std::string names;
  for (const CollectiveTraits& traits : kCollectives) {
    if (is_known(traits.kind)) names += (names.empty() ? "" : ", ") + std::string(traits.name);
  }
  return names;
}

}  // namespace banyan
