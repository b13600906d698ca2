// DirectRanks: ranks of this host whose communicators do without the daemon, since all their ranks are here and
// exchange in shared memory. Their programs let the daemon read their flight records (protocol/messages.h), so that
// operators see these communicators beside the others.
//
// A record is copied by a system call, and not mapped: whatever its program does to that memory meanwhile, the call
// comes back at once, and makes no pages. A call of which a word was written during the copy may be shown wrongly until
// the next look.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/view/host_view.h"
#include "banyan/service/view/record_reader.h"

namespace banyan::service {

class DirectRanks {
 public:
  DirectRanks();
  ~DirectRanks();
  DirectRanks(const DirectRanks&) = delete;
  DirectRanks& operator=(const DirectRanks&) = delete;

  struct Program {
    uint64_t client = 0;  // its number
    RankView who = {};    // but for its rank
    std::string tenant = {};
    std::shared_ptr<TenantAccount> account = {};          // is charged for the descriptor
    std::function<void(run::FileDescriptor)> close = {};  // elsewhere and later
  };
  // Takes `record`, memory of at least Recorder::kMemoryBytes, unless it throws: Error{invalid_input} for numbers that
  // make no sense and what is no memory, Error{unsupported} beyond the quota.
  void add(const Program& program, const ShowRecord& show, run::FileDescriptor& record);
  void remove(uint64_t client, uint32_t record) { ranks_.erase({client, record}); }
  // All of a client.
  void remove(uint64_t client);

  // For how long nothing of a call has moved is known from looks: one every kPause will do. O(n log n) in ranks, and a
  // system call and some microseconds for each that is listed.
  static constexpr std::chrono::milliseconds kPause{200};
  void look();
  uint64_t looks() const { return looks_; }  // at records, all together
  // As of now: one for each communicator, with its ranks that are known, as far as they are listed (view_budget.h): no
  // others are looked at. O(n log n) in ranks.
  std::vector<CommunicatorView> views();
  // The others of the last look, by user.
  const std::map<std::string, uint64_t>& unlisted() const { return unlisted_; }

 private:
  struct Record;
  struct Rank {
    CommunicatorView about;  // with this rank alone
    std::shared_ptr<Record> record;
    RecordReader reader;
  };
  bool look_at(Rank& rank, int64_t now);
  void each_listed(const std::function<void(Rank&)>& act);

  std::map<std::pair<uint64_t, uint32_t>, Rank> ranks_;  // by client and number of the record
  std::vector<std::byte> copy_;                          // of the record that is looked at
  std::map<std::string, uint64_t> unlisted_;
  uint64_t looks_ = 0;
};

}  // namespace banyan::service
