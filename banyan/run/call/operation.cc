#include "banyan/run/call/operation.h"

#include <array>

#include "banyan/base/hash.h"
#include "banyan/run/call/names.h"

namespace banyan::run {
namespace {

constexpr std::array<std::string_view, kOperationStates> kStateNames = {"waiting", "running", "done", "failed"};

// Whether `count` is the same on all ranks.
bool has_common_count(OperationKind kind) { return has_elements(kind) && !has_counts(kind); }

}  // namespace

std::string_view to_string(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_gather_v:
      return "allgatherv";
    case OperationKind::reduce_scatter_v:
      return "reduce-scatterv";
    case OperationKind::all_to_all_v:
      return "all-to-allv";
    case OperationKind::send:
      return "send";
    case OperationKind::recv:
      return "recv";
    case OperationKind::group:
      return "group";
    case OperationKind::join:
      return "join";
    case OperationKind::split:
      return "split";
    case OperationKind::shrink:
      return "shrink";
    default:
      return to_string(*collective_of(kind));
  }
}
std::string_view to_string(OperationState state) { return kStateNames[static_cast<size_t>(state)]; }
OperationKind parse_operation_kind(std::string_view text) {
  std::array<std::string_view, kOperationKinds> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = to_string(static_cast<OperationKind>(i));
  return parse_name<OperationKind>(text, "operation", names);
}
OperationState parse_operation_state(std::string_view text) {
  return parse_name<OperationState>(text, "state", kStateNames);
}

uint64_t signature(const OperationRecord& record) {
  // What is sent is received: both ends of a message count as the same.
  const OperationKind kind = is_message(record.kind) ? OperationKind::send : record.kind;
  uint64_t traits = static_cast<uint64_t>(kind);
  if (has_elements(kind)) traits |= uint64_t{record.type.number()} << 8;
  if (reduces(kind)) traits |= static_cast<uint64_t>(record.op) << 16;
  if (is_rooted(kind)) traits |= static_cast<uint64_t>(record.other) << 32;
  return mix(mix(mix(0, traits), has_common_count(kind) ? record.count : 0), record.counts_hash);
}

std::string name(const OperationRecord& record) {
  return std::string(to_string(record.kind)) + " #" + std::to_string(record.sequence);
}

std::string details(const OperationRecord& record) {
  std::string text;
  if (has_elements(record.kind)) {
    text = std::to_string(record.count) + " " + to_string(record.type);
    if (reduces(record.kind)) text += " " + std::string(to_string(record.op));
  }
  if (record.other == kNoRank) return text;
  const bool comes_from = record.kind == OperationKind::broadcast || record.kind == OperationKind::scatter ||
                          record.kind == OperationKind::recv;
  if (is_rooted(record.kind) || is_message(record.kind)) {
    text += (comes_from ? " from rank " : " to rank ") + std::to_string(record.other);
  }
  return text;
}

std::string describe(const OperationRecord& record) {
  const std::string more = details(record);
  return more.empty() ? name(record) : name(record) + " of " + more;
}

std::string difference(const OperationRecord& mine, const OperationRecord& theirs) {
  const bool are_messages = is_message(mine.kind) && is_message(theirs.kind);
  if (mine.kind != theirs.kind && !are_messages) {
    return "the operations differ (do all ranks make their calls in the same order?)";
  }
  std::string what;
  const auto add = [&](const char* noun) { what += (what.empty() ? "" : " and ") + std::string(noun); };
  if (is_collective(mine.kind) && mine.sequence != theirs.sequence) add("the numbers of the calls");
  if (has_elements(mine.kind) && mine.type != theirs.type) add("the types");
  if (reduces(mine.kind) && mine.op != theirs.op) add("the reductions");
  if (has_common_count(mine.kind) && mine.count != theirs.count) add("the counts");
  if (mine.counts_hash != theirs.counts_hash) add("the counts of the ranks");
  if (is_rooted(mine.kind) && mine.other != theirs.other) add("the roots");
  return what.empty() ? what : what + " differ";
}

std::string mismatch_message(uint32_t my_rank, const OperationRecord& mine, uint32_t peer,
                             const OperationRecord& theirs) {
  std::string what = difference(mine, theirs);
  if (what.empty()) what = "their signatures differ";
  return "rank " + std::to_string(peer) + " called " + describe(theirs) + " where rank " + std::to_string(my_rank) +
         " called " + describe(mine) + ": " + what;
}

}  // namespace banyan::run
