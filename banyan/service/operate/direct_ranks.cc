#include "banyan/service/operate/direct_ranks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/run/record/recorder.h"
#include "banyan/service/session/open_sessions.h"
#include "banyan/service/session/session_opening.h"
#include "banyan/service/view/view_budget.h"

namespace banyan::service {

DirectRanks::DirectRanks() : copy_(run::Recorder::kMemoryBytes) {}
DirectRanks::~DirectRanks() = default;

namespace {

// Asked first: the kernel answers it for memory only, and asks no file system, which may be the stranger's own.
void expect_memory(const run::FileDescriptor& record) {
  if (fcntl(record.get(), F_GET_SEALS) >= 0) return;
  throw Error(ErrorCode::invalid_input, "it shows a flight record that is no memory of memfd_create");
}

}  // namespace

struct DirectRanks::Record {
  Record(const Program& program, run::FileDescriptor memory)
      : charge(program.account->take(Resource::regions, 1)), close(program.close), file(std::move(memory)) {}
  ~Record() { close(std::move(file)); }  // of large memory that may take long
  Record(const Record&) = delete;
  Record& operator=(const Record&) = delete;

  const TenantAccount::Charge charge;
  const std::function<void(run::FileDescriptor)> close;
  run::FileDescriptor file;
};

void DirectRanks::add(const Program& program, const ShowRecord& show, run::FileDescriptor& record) {
  expect_possible(show);
  expect_memory(record);
  const std::pair key(program.client, show.record);
  if (ranks_.contains(key)) {
    throw Error(ErrorCode::invalid_input, "it shows two records of number " + std::to_string(show.record));
  }
  CommunicatorView about{.id = OpenSessions::public_id(OpenSessions::id_of(show.capability, show.communicator)),
                         .name = label_of(show.name),
                         .tenant = program.tenant,
                         .size = show.size,
                         .hosts = {program.who.host},
                         .is_direct = true,
                         .ranks = {program.who}};
  about.ranks.front().rank = show.rank;
  ranks_.emplace(key, Rank{.about = std::move(about),
                           .record = std::make_shared<Record>(program, std::move(record)),
                           .reader = RecordReader(run::RecorderClock::system().exact())});
}

void DirectRanks::remove(uint64_t client) {
  ranks_.erase(ranks_.lower_bound({client, 0}), ranks_.upper_bound({client, UINT32_MAX}));
}

// False where it cannot be read.
bool DirectRanks::look_at(Rank& rank, int64_t now) {
  const auto size = static_cast<ssize_t>(copy_.size());
  ++looks_;
  if (pread(rank.record->file.get(), copy_.data(), copy_.size(), 0) != size) return false;
  rank.reader.look(copy_, now, rank.about.ranks.front());
  return true;
}

void DirectRanks::each_listed(const std::function<void(Rank&)>& act) {
  ViewBudget budget;
  for (auto& [key, rank] : ranks_) {
    if (budget.take(rank.about)) act(rank);
  }
  unlisted_ = budget.unlisted();
}

void DirectRanks::look() {
  const int64_t now = run::RecorderClock::system().exact();
  each_listed([&](Rank& rank) { look_at(rank, now); });
}

std::vector<CommunicatorView> DirectRanks::views() {
  const int64_t now = run::RecorderClock::system().exact();
  std::map<std::string, CommunicatorView> by_id;
  each_listed([&](Rank& rank) {
    if (!look_at(rank, now)) return;
    const auto [place, is_new] = by_id.try_emplace(rank.about.id, rank.about);
    if (!is_new) place->second.ranks.push_back(rank.about.ranks.front());
  });
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
