#include "bindings/torch/survivors.h"

#include <algorithm>
#include <span>
#include <utility>

#include "banyan/run/communicator/joined_processes.h"
#include "bindings/torch/errors.h"

namespace banyan::pytorch {

Survivors::Survivors(run::Communicator communicator, int rank, int size) : communicator_(std::move(communicator)) {
  ranks_.resize(communicator_.size());
  guarded([&] { communicator_.all_gather<int>(std::span<const int>(&rank, 1), ranks_); });
  for (int old = 0; old < size; ++old) {
    if (std::find(ranks_.begin(), ranks_.end(), old) == ranks_.end()) lost_.push_back(old);
  }
}

std::string Survivors::own_address() const {
  const run::JoinedProcesses& job = communicator_.job();
  const run::Member& own = job.process(job.rank()).member;
  bool is_one_network = true;
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    is_one_network = is_one_network && run::share_loopback(job.process(rank).member.host_id, own.host_id);
  }
  return is_one_network || own.addresses.empty() ? "127.0.0.1" : own.addresses.front();
}

std::string Survivors::spread(std::string text) {
  return guarded([&] {
    uint64_t size = text.size();
    communicator_.broadcast<uint64_t>(std::span(&size, 1), 0);
    text.resize(size);
    communicator_.broadcast<char>(std::span(text), 0);
    communicator_.barrier();  // nobody hangs up before all have it
    return text;
  });
}

}  // namespace banyan::pytorch
