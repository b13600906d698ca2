#include "banyan/run/trial/lane_meter.h"

#include <algorithm>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/run/engine/message.h"

namespace banyan::run {

LaneMeter::LaneMeter(std::unique_ptr<ChannelTransport> transport, const RankPlan& plan)
    : transport_(std::move(transport)), lane_of_stream_(plan.ranks), bytes_(plan.lanes.size()) {
  for (uint32_t peer = 0; peer < plan.ranks; ++peer) lane_of_stream_[peer].resize(plan.streams_to[peer]);
  const auto learn = [&](const StreamEnd& to) {
    const auto lane = std::find_if(plan.lanes.begin(), plan.lanes.end(),
                                   [&](const PlanLane& each) { return each.peer == to.peer && each.lane == to.lane; });
    CHECK(lane != plan.lanes.end()) << "no lane " << to.lane << " with rank " << to.peer;
    lane_of_stream_[to.peer][to.number] = static_cast<size_t>(lane - plan.lanes.begin());
  };
  for (const Role& role : plan.roles) {
    if (role.in_parent) learn(*role.in_parent);
    for (const StreamEnd& child : role.out_children) learn(child);
  }
}

size_t LaneMeter::write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
  Message& message = message_on(channel, head);
  return count(channel, message, transport_->write(channel, head, body), head.size(), body.size());
}

size_t LaneMeter::write_lasting(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
  Message& message = message_on(channel, head);
  return count(channel, message, transport_->write_lasting(channel, head, body), head.size(), body.size());
}

LaneMeter::Message& LaneMeter::message_on(uint32_t channel, std::span<const std::byte> head) {
  Message& message = messages_[channel];
  if (message.is_under_way) return message;
  CHECK(head.size() >= sizeof(MessageHeader)) << "a message that begins with " << head.size() << " bytes";
  MessageHeader header;
  std::memcpy(&header, head.last(sizeof header).data(), sizeof header);
  message = {.stream = header.stream, .is_under_way = true};
  return message;
}

size_t LaneMeter::count(uint32_t channel, Message& message, size_t taken, size_t of_head, size_t of_body) {
  // A credit has no body, and the number of a stream of the other direction.
  if (taken > of_head) {
    const std::vector<size_t>& lanes = lane_of_stream_[channel % lane_of_stream_.size()];
    CHECK(message.stream < lanes.size()) << "stream " << message.stream << " is not in the plan";
    bytes_[lanes[message.stream]] += taken - of_head;
  }
  message.is_under_way = taken < of_head + of_body;
  return taken;
}

}  // namespace banyan::run
