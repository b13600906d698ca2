// JobMessages: which send meets which receive, as job.h says, and what of both has come.
//
// Without receives from anybody the n-th send of a rank to a peer with a tag meets the n-th receive there; with them,
// job/message_match.h decides. Knows no links. O(log n) a node. Private to job_simulation.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/job/message_match.h"
#include "banyan/predict/simulation/ranks.h"

namespace banyan::predict {

struct JobMessage {
  std::optional<JobArrival> send, receive;
  bool is_moving = false;
  bool has_arrived = false;  // sent eagerly, and here before its receive
};

class JobMessages {
 public:
  // All outlive it.
  JobMessages(const std::vector<PlacedJob>& jobs, const JobKinds& kinds, const JobRanks& ranks);

  // A send or receive has started: the number of its message, which is new or was begun by its partner.
  uint32_t arrive(RankNode place, Picoseconds now);
  JobMessage& operator[](uint32_t message) { return messages_[message]; }
  // Its number is free again.
  void forget(uint32_t message) { free_.push_back(message); }

  // Adds a phrase for each that waits for its partner.
  void name_waiting(std::vector<std::string>& phrases) const;

 private:
  struct QueueKey {
    uint32_t rank, slot, tag;  // of the sender
    friend auto operator<=>(const QueueKey&, const QueueKey&) = default;
  };
  struct Queue {
    std::deque<uint32_t> sends, receives;  // messages that wait for their partner; one of both is empty
  };

  uint32_t find(RankNode place, bool is_send);
  uint32_t find_by_match(RankNode place);
  uint32_t make();

  const JobKinds& kinds_;
  const JobRanks& ranks_;
  std::deque<job::MessageMatch> matches_;  // by job, where receives take from anybody
  std::vector<JobMessage> messages_;
  std::vector<uint32_t> free_;
  std::map<QueueKey, Queue> queues_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> waiting_;  // messages by rank and node, where matches_ decide
};

}  // namespace banyan::predict
