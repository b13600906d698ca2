// RawClient: a process's end of a daemon that says what it likes, when it likes, with any number of memories.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/service/daemon/test_raw_client.h"

namespace bench {

using banyan::service::BufferName;
using banyan::service::Capability;
using banyan::service::SessionPage;
using banyan::service::Submission;

class RawClient : public banyan::service::RawConnection {
 public:
  using RawConnection::RawConnection;

  // Whether the wish is granted. News of other things is dropped. Throws Error{timed_out} after thirty seconds.
  bool is_granted(uint64_t wish);

  struct Memory {
    banyan::run::SharedMemory mapped;
    BufferName name;
    std::byte* data() const { return mapped.data(); }
    size_t size() const { return mapped.size(); }
  };
  // New memory that the daemon has mapped, too. Throws what the daemon says to it.
  Memory offer(size_t bytes);
};

// Communicators of ranks that all belong to one process, half of them at either daemon, so that nobody else is needed
// to make calls. Buffers are shared by all ranks and calls of a side.
class RawTeam {
 public:
  struct Options {
    std::string first, second;    // sockets of two daemons
    size_t buffer = 4096;         // bytes, of the input and of the output
    uint32_t most_sessions = 64;  // at once, at each daemon
    std::string tenant = {};
  };
  explicit RawTeam(Options options);

  struct Seat {
    uint32_t side = 0, session = 0, rank = 0;
    SessionPage* page = nullptr;
    std::optional<banyan::service::ClientRings> rings;
    uint32_t under_way = 0;
  };
  struct Communicator {
    std::vector<Seat> seats;  // by rank
  };
  // Null when a daemon refuses; `refused()` says how often that was. `sides`: those at which its ranks are opened.
  std::unique_ptr<Communicator> open(uint32_t ranks = 2, uint32_t sides = 3, const std::string& tenant = {});
  void close(const Communicator& communicator);

  RawClient& side(uint32_t number) { return *sides_[number].client; }
  const RawClient::Memory& input(uint32_t side) const { return sides_[side].input; }
  const RawClient::Memory& output(uint32_t side) const { return sides_[side].output; }
  // An allreduce of floats.
  Submission sum_of(const Seat& seat, uint64_t count) const;
  // Writes it if there is room. Whether there was.
  bool submit(Seat& seat, const Submission& submission);
  // Reads completions. How many came.
  uint32_t take(Seat& seat);
  uint64_t refused() const { return refused_; }

 private:
  struct Side {
    std::unique_ptr<RawClient> client;
    RawClient::Memory pages, input, output;
    std::vector<bool> in_use;
    uint32_t next = 0;
  };
  static std::optional<uint32_t> free_session(Side& side);

  const Options options_;
  Capability capability_;
  std::vector<Side> sides_;
  uint64_t communicators_ = 0, refused_ = 0;
};

}  // namespace bench
