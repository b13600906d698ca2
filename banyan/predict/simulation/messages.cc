#include "banyan/predict/simulation/messages.h"

namespace banyan::predict {

JobMessages::JobMessages(const std::vector<PlacedJob>& jobs, const JobKinds& kinds, const JobRanks& ranks)
    : kinds_(kinds), ranks_(ranks) {
  if (!kinds.has_any()) return;
  for (const PlacedJob& placed : jobs) matches_.emplace_back(*placed.job);
}

uint32_t JobMessages::arrive(RankNode place, Picoseconds now) {
  const bool is_send = ranks_.node(place).kind == job::NodeKind::send;
  const uint32_t number = kinds_.has_any() ? find_by_match(place) : find(place, is_send);
  (is_send ? messages_[number].send : messages_[number].receive) = JobArrival{place, now};
  return number;
}

uint32_t JobMessages::find_by_match(RankNode place) {
  const JobRanks::Rank& rank = ranks_[place.rank];
  const auto partner = matches_[rank.job].start({rank.in_job, place.node});
  const auto key = [&](uint32_t in_job, uint32_t of) { return std::pair(kinds_.first_rank(rank.job) + in_job, of); };
  // The match decides: a node without a partner so far waits under its own name.
  if (!partner) return waiting_[key(rank.in_job, place.node)] = make();
  const auto found = waiting_.find(key(partner->rank, partner->node));
  const uint32_t message = found->second;
  waiting_.erase(found);
  return message;
}

uint32_t JobMessages::find(RankNode place, bool is_send) {
  const JobRanks::Rank& rank = ranks_[place.rank];
  const job::Node& node = ranks_.node(place);
  const Job& job = ranks_.job_of(place.rank);
  const uint32_t peer = job.peer(rank.in_job, node.slot);
  // The n-th send meets the n-th receive: both sides use one queue, which is named by the sender. Ranks that are alike
  // stand for each other, so the sender's kind is meant.
  QueueKey key{place.rank, JobKinds::first_slot_of(job, rank.in_job, peer), node.tag};
  if (!is_send) {
    key.rank = kinds_.kind_of_rank(kinds_.first_rank(rank.job) + peer);
    key.slot = JobKinds::first_slot_of(job, peer, rank.in_job);
  }
  Queue& queue = queues_[key];
  std::deque<uint32_t>& partners = is_send ? queue.receives : queue.sends;
  if (!partners.empty()) {
    const uint32_t message = partners.front();
    partners.pop_front();
    return message;
  }
  // Nobody is there yet: it waits in the queue of its side.
  const uint32_t message = make();
  (is_send ? queue.sends : queue.receives).push_back(message);
  return message;
}

uint32_t JobMessages::make() {
  if (free_.empty()) {
    messages_.emplace_back();
    return static_cast<uint32_t>(messages_.size() - 1);
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  messages_[number] = {};
  return number;
}

void JobMessages::name_waiting(std::vector<std::string>& phrases) const {
  for (const JobMessage& message : messages_) {
    if (message.send.has_value() == message.receive.has_value() || message.has_arrived) continue;
    const RankNode place = message.send ? message.send->place : message.receive->place;
    if (ranks_.is_given_up(place.rank)) continue;
    phrases.push_back("rank " + std::to_string(ranks_[place.rank].in_job) + " waits in " +
                      (message.send ? "send" : "receive") + " '" + ranks_.name(place) + "'");
  }
}

}  // namespace banyan::predict
