#include "banyan/job/test_job.h"

#include <chrono>
#include <random>
#include <vector>

namespace banyan::job {
namespace {

std::string list_of(const char* verb, std::span<const uint32_t> nodes) {
  std::string text;
  for (const uint32_t node : nodes) text += (text.empty() ? verb : ",") + std::to_string(node);
  return text;
}

std::string peer_of(const Job& job, uint32_t rank, const Node& node) {
  return node.slot == Node::kAnyPeer ? "anybody" : std::to_string(job.peer(rank, node.slot));
}

std::string what_of(const Job& job, uint32_t rank, const Node& node) {
  const std::string bytes = std::to_string(node.bytes) + " B";
  switch (node.kind) {
    case NodeKind::compute:
      return std::to_string(node.duration.count()) + " ps " + std::to_string(node.flop) + " FLOP";
    case NodeKind::host:
      return std::to_string(node.duration.count()) + " ps";
    case NodeKind::memory:
      return std::to_string(node.duration.count()) + " ps " + bytes;
    case NodeKind::collective:
      return std::string(to_string(node.collective)) + " " + bytes + " root " + std::to_string(node.tag) + " in '" +
             job.groups()[job.group(rank, node.slot)].name + "'";
    case NodeKind::send:
      return bytes + " to " + peer_of(job, rank, node) + " tag " + std::to_string(node.tag);
    case NodeKind::receive:
      return bytes + " from " + peer_of(job, rank, node) + " tag " +
             (node.tag == Node::kAnyTag ? "any" : std::to_string(node.tag));
    case NodeKind::marker:
      break;
  }
  return "";
}

}  // namespace

std::string describe(const Job& job, bool with_names) {
  std::string text;
  for (const Group& group : job.groups()) text += "group '" + group.name + "'" + list_of(" of ", group.ranks) + "\n";
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    const Program& program = job.program(rank);
    const std::string who = "rank " + std::to_string(rank) + " ";
    for (const Stream& stream : program.streams) {
      text += who + "stream '" + stream.name + "' order " + std::to_string(static_cast<int>(stream.order)) + "\n";
    }
    for (uint32_t i = 0; i < program.nodes.size(); ++i) {
      const Node& node = program.nodes[i];
      text += who + "node " + std::to_string(i) + " ";
      if (with_names) text += "'" + job.name_of(node) + "' ";
      text += std::string(to_string(node.kind)) + " " + what_of(job, rank, node) + " on '" +
              program.streams[node.stream].name + "'" + list_of(" needs ", program.needs(i)) +
              list_of(" follows ", program.follows(i)) + "\n";
    }
  }
  return text;
}

Job random_message_job(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  Job::Builder builder("random");
  const uint32_t ranks = 2 + below(3);
  std::vector<std::vector<uint32_t>> peers(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    builder.begin_program();
    const uint16_t cpu = builder.add_stream({"cpu 1", Stream::Order::ready});
    const uint16_t card = builder.add_stream({"cpu 1 nic 2", Stream::Order::free});
    builder.add_node(
        {.stream = cpu, .name = builder.add_name("first"), .duration = std::chrono::nanoseconds(rank + 1)});
    builder.add_node({.kind = NodeKind::send, .stream = card, .name = builder.add_name("second"), .bytes = rank});
    peers[rank].push_back((rank + 1) % ranks);
    const uint32_t labelled = 2 + below(20), unlabelled = below(3);
    for (uint32_t i = 2; i < labelled + unlabelled; ++i) {
      Node node{.name = builder.add_name(i < labelled ? "l" + std::to_string(i) : "")};
      if (below(2) == 0) {
        node.stream = cpu;
        node.duration = std::chrono::nanoseconds(below(1'000'000));
      } else {
        node.stream = card;
        node.kind = below(2) == 0 ? NodeKind::send : NodeKind::receive;
        node.bytes = random() >> (4 + below(60));
        node.tag = below(100);
        if (node.kind == NodeKind::receive && below(3) == 0) node.tag = Node::kAnyTag;
        if (node.kind == NodeKind::receive && below(3) == 0) node.slot = Node::kAnyPeer;
      }
      builder.add_node(node);
      for (uint32_t edges = i < labelled ? below(3) : 0; edges > 0; --edges) {
        const uint32_t on = below(i);
        if (below(3) == 0) {
          builder.add_follow(i, on);
        } else {
          builder.add_need(i, on);
        }
      }
    }
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) builder.add_rank(rank, {}, peers[rank]);
  return std::move(builder).build();
}

}  // namespace banyan::job
