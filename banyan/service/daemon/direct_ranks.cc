#include "banyan/service/daemon/direct_ranks.h"

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/record/recorder.h"
#include "banyan/service/daemon/open_sessions.h"
#include "banyan/service/daemon/session_opening.h"

namespace banyan::service {
namespace {

std::shared_ptr<const Region> map(const DirectRanks::Program& program, SealedMemory record) {
  struct Mapped {
    TenantAccount::Charge regions, bytes;
    Region region;
  };
  auto* const mapped =
      new Mapped{program.account->take(Resource::regions, 1),
                 program.account->take(Resource::region_bytes, run::Recorder::kMemoryBytes), Region(std::move(record))};
  const std::shared_ptr<Mapped> owned(
      mapped, [later = program.later](Mapped* gone) { later([held = std::shared_ptr<Mapped>(gone)] {}); });
  return {owned, &owned->region};
}

std::span<const std::byte> bytes_of(const Region& region) { return {region.data(), run::Recorder::kMemoryBytes}; }

}  // namespace

void DirectRanks::add(const Program& program, const ShowRecord& show, SealedMemory record) {
  expect_possible(show);
  CHECK_EQ(record.bytes(), run::Recorder::kMemoryBytes);
  const std::pair key(program.client, show.record);
  if (ranks_.contains(key)) {
    throw Error(ErrorCode::invalid_input, "it shows two records of number " + std::to_string(show.record));
  }
  CommunicatorView about{.id = OpenSessions::public_id(OpenSessions::id_of(show.capability, show.communicator)),
                         .name = show.name,
                         .tenant = program.tenant,
                         .size = show.size,
                         .hosts = {program.who.host},
                         .is_direct = true,
                         .ranks = {program.who}};
  about.ranks.front().rank = show.rank;
  ranks_.emplace(key, Rank{.about = std::move(about),
                           .memory = map(program, std::move(record)),
                           .reader = RecordReader(run::RecorderClock::system().exact())});
}

void DirectRanks::remove(uint64_t client) {
  ranks_.erase(ranks_.lower_bound({client, 0}), ranks_.upper_bound({client, UINT32_MAX}));
}

// False where it cannot be read.
bool DirectRanks::Rank::look(int64_t now) {
  if (!memory->is_whole()) return false;
  reader.look(bytes_of(*memory), now, about.ranks.front());
  return true;
}

void DirectRanks::look() {
  const int64_t now = run::RecorderClock::system().exact();
  for (auto& [key, rank] : ranks_) rank.look(now);
}

std::vector<CommunicatorView> DirectRanks::views() {
  const int64_t now = run::RecorderClock::system().exact();
  std::map<std::string, CommunicatorView> by_id;
  for (auto& [key, rank] : ranks_) {
    if (!rank.look(now)) continue;
    const auto [place, is_new] = by_id.try_emplace(rank.about.id, rank.about);
    if (!is_new) place->second.ranks.push_back(rank.about.ranks.front());
  }
  std::vector<CommunicatorView> views;
  views.reserve(by_id.size());
  for (auto& [id, view] : by_id) {
    std::sort(view.ranks.begin(), view.ranks.end(),
              [](const RankView& a, const RankView& b) { return a.rank < b.rank; });
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace banyan::service
