// LaneMeter: counts what an engine really sends along each lane of its plan.
//
// Stands between an engine (engine.h) and its transport and passes everything on. It reads the header of every message
// that goes out, as it goes out, and counts the bytes of slices that the transport took: for the lane of the plan that
// the header's stream runs along. Headers, openings and credits are not counted, and neither are calls that move no
// elements. It knows from the plan which stream runs where, but not what a stream is to carry, so its figures can be
// held against predictions.
//
// It relies on how a channel writes: one message at a time on each, its header last in `head`, and what a transport did
// not take offered again; and on channels that are numbered as in lane_transport.h. Whatever moves elements must follow
// the plan. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

class LaneMeter : public ChannelTransport {
 public:
  LaneMeter(std::unique_ptr<ChannelTransport> transport, const RankPlan& plan);

  // Bytes of elements since the last call, by RankPlan::lanes.
  std::vector<uint64_t> take() { return std::exchange(bytes_, std::vector<uint64_t>(bytes_.size())); }

  size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override;
  size_t write_lasting(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override;

  uint32_t channel(uint32_t peer, uint32_t lane) const override { return transport_->channel(peer, lane); }
  bool has_unsent(uint32_t channel) override { return transport_->has_unsent(channel); }
  bool has_unsent_but(LaneChoice leaves_out) override { return transport_->has_unsent_but(leaves_out); }
  std::span<const std::byte> peek(uint32_t channel) override { return transport_->peek(channel); }
  void consume(uint32_t channel, size_t count) override { transport_->consume(channel, count); }
  size_t read(uint32_t channel, std::span<std::byte> into) override { return transport_->read(channel, into); }
  bool listen(uint32_t channel) override { return transport_->listen(channel); }
  void wake() override { transport_->wake(); }
  LaneControl* lane_control() override { return transport_->lane_control(); }
  void prepare(WaitSet& set) override { transport_->prepare(set); }
  bool react(std::span<const pollfd> polled) override { return transport_->react(polled); }

 private:
  // The message that is going out on a channel.
  struct Message {
    uint32_t stream = 0;
    bool is_under_way = false;
  };

  Message& message_on(uint32_t channel, std::span<const std::byte> head);
  size_t count(uint32_t channel, Message& message, size_t taken, size_t of_head, size_t of_body);

  const std::unique_ptr<ChannelTransport> transport_;
  std::vector<std::vector<size_t>> lane_of_stream_;  // by peer; places in RankPlan::lanes
  std::unordered_map<uint32_t, Message> messages_;   // by channel
  std::vector<uint64_t> bytes_;
};

}  // namespace banyan::run
