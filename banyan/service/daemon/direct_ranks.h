// DirectRanks: ranks of this host whose communicators do without the daemon, since all their ranks are here and
// exchange in shared memory. Their programs let the daemon read their flight records (protocol/messages.h), so that
// operators see these communicators beside the others. What a program has taken back of that memory is not read, and
// its rank not seen.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "banyan/service/daemon/tenant_quota.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/view/host_view.h"
#include "banyan/service/view/record_reader.h"

namespace banyan::service {

class DirectRanks {
 public:
  DirectRanks() = default;
  DirectRanks(const DirectRanks&) = delete;
  DirectRanks& operator=(const DirectRanks&) = delete;

  struct Program {
    uint64_t client = 0;  // its number
    RankView who = {};    // but for its rank
    std::string tenant = {};
    std::shared_ptr<TenantAccount> account = {};  // is charged for the mapping
    // Runs a task elsewhere and later: unmapping may take long.
    std::function<void(std::function<void()> task)> later = {};
  };
  // `record`: of Recorder::kMemoryBytes. Throws Error{invalid_input} for numbers that make no sense, Error{unsupported}
  // beyond the quota, and what Region throws.
  void add(const Program& program, const ShowRecord& show, SealedMemory record);
  void remove(uint64_t client, uint32_t record) { ranks_.erase({client, record}); }
  // All of a client.
  void remove(uint64_t client);

  // For how long nothing of a call has moved is known from looks: one every kPause will do. O(n) in ranks, and a system
  // call and some microseconds for each.
  static constexpr std::chrono::milliseconds kPause{200};
  void look();
  // As of now: one for each communicator, with its ranks that are known. O(n log n) in ranks.
  std::vector<CommunicatorView> views();

 private:
  struct Rank {
    bool look(int64_t now);

    CommunicatorView about;                // with this rank alone
    std::shared_ptr<const Region> memory;  // shared with who unmaps it
    RecordReader reader;
  };
  std::map<std::pair<uint64_t, uint32_t>, Rank> ranks_;  // by client and number of the record
};

}  // namespace banyan::service
