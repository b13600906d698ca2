#include "banyan/job/message_match.h"

#include <algorithm>

namespace banyan::job {

MessageKey message_key(const Job& job, RankNode place) {
  const Node& node = job.program(place.rank).nodes[place.node];
  const uint32_t peer = node.slot == Node::kAnyPeer ? node.slot : job.peer(place.rank, node.slot);
  if (node.kind == NodeKind::send) return {.from = place.rank, .to = peer, .tag = node.tag};
  return {.from = peer, .to = place.rank, .tag = node.tag};
}

MessageMatch::MessageMatch(const Job& job) : job_(job) {
  std::vector<bool> is_mixed;
  for (const Program& program : job.programs()) {
    is_mixed.push_back(std::any_of(program.nodes.begin(), program.nodes.end(), [](const Node& node) {
      return node.kind == NodeKind::receive && (node.slot == Node::kAnyPeer || node.tag == Node::kAnyTag);
    }));
  }
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    if (is_mixed[job.program_number(rank)]) mixed_[rank];
  }
}

std::optional<RankNode> MessageMatch::start(RankNode place) {
  const MessageKey key = message_key(job_, place);
  const bool is_send = job_.program(place.rank).nodes[place.node].kind == NodeKind::send;
  if (!mixed_.empty()) {
    if (const auto it = mixed_.find(key.to); it != mixed_.end()) return start_mixed(it->second, {place, key}, is_send);
  }
  return start_exact(place, key, is_send);
}

std::optional<RankNode> MessageMatch::start_exact(RankNode place, const MessageKey& key, bool is_send) {
  const auto [it, is_new] = queues_.try_emplace(key);
  Queue& queue = it->second;
  if (is_new || queue.holds_sends == is_send) {
    const uint32_t entry = new_entry(place);
    (is_new ? queue.first : entries_[queue.last].next) = entry;
    queue.last = entry;
    queue.holds_sends = is_send;
    return std::nullopt;
  }
  const uint32_t entry = queue.first;
  const RankNode partner = entries_[entry].place;
  queue.first = entries_[entry].next;
  entries_[entry].next = free_entry_;
  free_entry_ = entry;
  if (queue.first == kNone) queues_.erase(it);
  return partner;
}

std::optional<RankNode> MessageMatch::start_mixed(Mixed& mixed, const Waiting& started, bool is_send) {
  std::list<Waiting>& others = is_send ? mixed.receives : mixed.sends;
  const auto partner = std::find_if(others.begin(), others.end(), [&](const Waiting& other) {
    return is_send ? other.key.takes(started.key) : started.key.takes(other.key);
  });
  if (partner == others.end()) {
    (is_send ? mixed.sends : mixed.receives).push_back(started);
    return std::nullopt;
  }
  const RankNode place = partner->place;
  others.erase(partner);
  return place;
}

uint32_t MessageMatch::new_entry(RankNode place) {
  if (free_entry_ == kNone) {
    entries_.push_back({place});
    return static_cast<uint32_t>(entries_.size() - 1);
  }
  const uint32_t entry = free_entry_;
  free_entry_ = entries_[entry].next;
  entries_[entry] = {place};
  return entry;
}

void MessageMatch::for_each_waiting(const std::function<void(RankNode)>& visit) const {
  for (const auto& [key, queue] : queues_) {
    for (uint32_t entry = queue.first; entry != kNone; entry = entries_[entry].next) visit(entries_[entry].place);
  }
  for (const auto& [rank, mixed] : mixed_) {
    for (const Waiting& one : mixed.sends) visit(one.place);
    for (const Waiting& one : mixed.receives) visit(one.place);
  }
}

}  // namespace banyan::job
