// LaneMeter: counts what an engine really sends along each lane of its plan.
//
// Stands between an engine (engine.h) and its transport and passes everything on. It reads the header of every message
// that goes out, as it goes out, and counts the bytes of slices that the transport took: for the lane that the header's
// stream runs along. Headers, openings and credits are not counted. It knows from the plan which stream runs where, but
// not what a stream is to carry, so its figures can be held against predictions.
//
// It relies on how a channel writes: one message at a time for each peer, its header last in `head`, and what a
// transport did not take offered again. One thread; transport and plan outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

class LaneMeter : public Transport {
 public:
  // Of an engine whose channels are the peers (EngineOptions::channel is empty).
  LaneMeter(Transport& transport, const RankPlan& plan);

  // Bytes of elements since the last call, by RankPlan::lanes.
  std::vector<uint64_t> take();

  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override;
  size_t write_lasting(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override;
  bool has_unsent(uint32_t peer) override { return transport_.has_unsent(peer); }
  std::span<const std::byte> peek(uint32_t peer) override { return transport_.peek(peer); }
  void consume(uint32_t peer, size_t count) override { transport_.consume(peer, count); }
  size_t read(uint32_t peer, std::span<std::byte> into) override { return transport_.read(peer, into); }
  bool listen(uint32_t peer) override { return transport_.listen(peer); }
  void wait(std::chrono::milliseconds at_most) override { transport_.wait(at_most); }

 private:
  struct Peer {
    std::vector<size_t> lane_of_stream;  // places in RankPlan::lanes
    uint32_t stream = 0;                 // of the message that is going out
    bool is_amid_message = false;
  };

  void begins(Peer& peer, std::span<const std::byte> head);
  size_t count(Peer& peer, size_t taken, std::span<const std::byte> head, std::span<const std::byte> body);

  Transport& transport_;
  std::vector<Peer> peers_;
  std::vector<uint64_t> bytes_;
};

}  // namespace banyan::run
