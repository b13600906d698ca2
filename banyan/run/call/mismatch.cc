#include "banyan/run/call/mismatch.h"

#include <algorithm>
#include <map>

#include "banyan/base/rank_list.h"

namespace banyan::run {
namespace {

struct Party {
  uint64_t call = 0;  // its signature
  const OperationRecord* record = nullptr;
  std::vector<uint32_t> ranks;
};

// Of calls with one number.
std::optional<Mismatch> mismatch_of(std::span<const CallOfRank> calls) {
  std::vector<Party> parties;
  for (const auto& [rank, record] : calls) {
    const uint64_t call = signature(*record);
    auto party = std::find_if(parties.begin(), parties.end(), [&](const Party& known) { return known.call == call; });
    if (party == parties.end())
      party = parties.insert(parties.end(), Party{.call = call, .record = record, .ranks = {}});
    party->ranks.push_back(rank);
  }
  if (parties.size() < 2) return std::nullopt;
  std::stable_sort(parties.begin(), parties.end(),
                   [](const Party& a, const Party& b) { return a.ranks.size() > b.ranks.size(); });
  const Party& usual = parties.front();
  Mismatch found{.sequence = usual.record->sequence, .odd = {}, .sentence = ""};
  for (size_t i = 1; i < parties.size(); ++i) {
    const Party& odd = parties[i];
    found.odd.insert(found.odd.end(), odd.ranks.begin(), odd.ranks.end());
    found.sentence += (i == 1 ? "" : ", ") + list_ranks(odd.ranks) + " called " + describe(*odd.record);
  }
  found.sentence += " where " + list_ranks(usual.ranks) + " called " + describe(*usual.record) + ": " +
                    difference(*usual.record, *parties[1].record);
  const bool has_majority = usual.ranks.size() > parties[1].ranks.size();
  if (!has_majority) found.odd.insert(found.odd.end(), usual.ranks.begin(), usual.ranks.end());
  std::sort(found.odd.begin(), found.odd.end());
  return found;
}

}  // namespace

std::optional<Mismatch> find_mismatch(std::span<const CallOfRank> calls) {
  std::map<uint64_t, std::vector<CallOfRank>> by_number;
  for (const CallOfRank& call : calls) by_number[call.record->sequence].push_back(call);
  for (const auto& [number, same] : by_number) {
    if (auto found = mismatch_of(same)) return found;
  }
  return std::nullopt;
}

}  // namespace banyan::run
