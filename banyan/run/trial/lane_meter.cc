#include "banyan/run/trial/lane_meter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/engine/message.h"

namespace banyan::run {

LaneMeter::LaneMeter(Transport& transport, const RankPlan& plan)
    : transport_(transport), peers_(plan.ranks), bytes_(plan.lanes.size()) {
  for (uint32_t peer = 0; peer < plan.ranks; ++peer) peers_[peer].lane_of_stream.resize(plan.streams_to[peer]);
  const auto learn = [&](const StreamEnd& to) {
    const auto lane = std::find_if(plan.lanes.begin(), plan.lanes.end(),
                                   [&](const PlanLane& each) { return each.peer == to.peer && each.lane == to.lane; });
    CHECK(lane != plan.lanes.end()) << "no lane " << to.lane << " with rank " << to.peer;
    peers_[to.peer].lane_of_stream[to.number] = static_cast<size_t>(lane - plan.lanes.begin());
  };
  for (const Role& role : plan.roles) {
    if (role.in_parent) learn(*role.in_parent);
    for (const StreamEnd& child : role.out_children) learn(child);
  }
}

std::vector<uint64_t> LaneMeter::take() { return std::exchange(bytes_, std::vector<uint64_t>(bytes_.size())); }

size_t LaneMeter::write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  begins(peers_[peer], head);
  return count(peers_[peer], transport_.write(peer, head, body), head, body);
}

size_t LaneMeter::write_lasting(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  begins(peers_[peer], head);
  return count(peers_[peer], transport_.write_lasting(peer, head, body), head, body);
}

void LaneMeter::begins(Peer& peer, std::span<const std::byte> head) {
  if (peer.is_amid_message) return;
  CHECK(head.size() >= sizeof(MessageHeader)) << "a message that begins with " << head.size() << " bytes";
  MessageHeader header;
  std::memcpy(&header, head.last(sizeof header).data(), sizeof header);
  peer.stream = header.stream;
  peer.is_amid_message = true;
}

size_t LaneMeter::count(Peer& peer, size_t taken, std::span<const std::byte> head, std::span<const std::byte> body) {
  // A credit has no body, and the number of a stream of the other direction.
  if (taken > head.size()) {
    CHECK(peer.stream < peer.lane_of_stream.size()) << "stream " << peer.stream << " is not in the plan";
    bytes_[peer.lane_of_stream[peer.stream]] += taken - head.size();
  }
  peer.is_amid_message = taken < head.size() + body.size();
  return taken;
}

}  // namespace banyan::run
