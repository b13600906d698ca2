#include "banyan/predict/train/test_stage_player.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "banyan/predict/train/estimate.h"
#include "banyan/predict/train/generate.h"

namespace banyan::testing {
namespace {

class Player {
 public:
  Player(const Job& job, const predict::TrainConfig& config, const predict::Device& device,
         const predict::ClusterShape& cluster)
      : job_(job), config_(config), device_(device), cluster_(cluster) {
    for (uint32_t stage = 0; stage < config.pp; ++stage) {
      Stage played{rank_number(config, {stage, 0, 0}), nullptr, {}, {}, {}, {}};
      played.program = &job.program(played.rank);
      const size_t nodes = played.program->nodes.size(), streams = played.program->streams.size();
      played.begin.assign(nodes, NAN), played.end.assign(nodes, NAN);
      played.queue.resize(streams), played.next.assign(streams, 0);
      for (uint32_t node = 0; node < nodes; ++node) played.queue[played.program->nodes[node].stream].push_back(node);
      stages_.push_back(std::move(played));
    }
  }

  double run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Stage& stage : stages_) {
        for (size_t stream = 0; stream < stage.queue.size(); ++stream) {
          while (stage.next[stream] < stage.queue[stream].size() && step(stage, stream)) moved = true;
        }
      }
    }
    double last = 0;
    for (const Stage& stage : stages_) {
      for (const double end : stage.end) {
        if (std::isnan(end)) return -1;
        last = std::max(last, end);
      }
    }
    return last;
  }

 private:
  struct Stage {
    uint32_t rank;
    const job::Program* program;
    std::vector<double> begin, end;            // by node
    std::vector<std::vector<uint32_t>> queue;  // by stream
    std::vector<size_t> next;
  };

  // When the next node of the stream can begin, NAN when that is not known yet.
  static double ready(const Stage& stage, size_t stream, uint32_t node) {
    double at = stage.next[stream] == 0 ? 0 : stage.end[stage.queue[stream][stage.next[stream] - 1]];
    for (const uint32_t need : stage.program->needs(node))
      at = std::isnan(stage.end[need]) ? NAN : std::max(at, stage.end[need]);
    for (const uint32_t followed : stage.program->follows(node))
      at = std::isnan(stage.begin[followed]) ? NAN : std::max(at, stage.begin[followed]);
    return at;
  }

  bool step(Stage& stage, size_t stream) {
    const uint32_t node = stage.queue[stream][stage.next[stream]];
    const job::Node& what = stage.program->nodes[node];
    if (std::isnan(stage.begin[node])) {
      const double at = ready(stage, stream, node);
      if (std::isnan(at)) return false;
      stage.begin[node] = at;
    }
    const double end = end_of(stage, node, what);
    if (std::isnan(end)) return false;
    stage.end[node] = end;
    ++stage.next[stream];
    return true;
  }

  double end_of(const Stage& stage, uint32_t node, const job::Node& what) {
    const double begin = stage.begin[node];
    if (what.kind == job::NodeKind::collective) return collective(stage, begin, what);
    if (what.kind == job::NodeKind::send || what.kind == job::NodeKind::receive) return message(stage, begin, what);
    return begin + static_cast<double>(what.duration.count()) * 1e-12;
  }

  // Of what both sides do: each leaves its beginning, and the last to come knows the end.
  double collective(const Stage& stage, double begin, const job::Node& what) {
    const uint32_t group_number = job_.group(stage.rank, what.slot);
    const std::vector<uint32_t>& group = job_.groups()[group_number].ranks;
    std::map<uint32_t, double> arrived;
    for (const uint32_t rank : group) {
      for (const Stage& other : stages_) {
        if (other.rank == rank) arrived[rank] = NAN;
      }
    }
    if (arrived.size() > 1) {
      meeting_[group_number][stage.rank] = begin;  // one collective a group that stages meet in, in these jobs
      if (meeting_[group_number].size() < arrived.size()) return NAN;
      for (const auto& [rank, at] : meeting_[group_number]) begin = std::max(begin, at);
    }
    const uint32_t stride = group.size() > 1 ? group[1] - group[0] : 1;
    return begin + collective_seconds(what.collective, static_cast<double>(what.bytes),
                                      {static_cast<uint32_t>(group.size()), stride}, cluster_, device_.links);
  }

  double message(const Stage& stage, double begin, const job::Node& what) {
    const bool sends = what.kind == job::NodeKind::send;
    const uint32_t peer = job_.peer(stage.rank, what.slot);
    const std::tuple key{sends ? stage.rank : peer, sends ? peer : stage.rank, what.tag};
    Mailbox& box = mail_[key];
    std::vector<double>& mine = sends ? box.sent : box.received;
    size_t& at = sends ? box.sends : box.receives;
    if (mine.size() == at) mine.push_back(begin);
    const std::vector<double>& theirs = sends ? box.received : box.sent;
    if (theirs.size() <= at) return NAN;
    const double start = std::max(mine[at], theirs[at]);
    ++at;
    const bool leaves = config_.ranks() > cluster_.box;
    const double link = static_cast<double>((leaves ? cluster_.network : cluster_.scale_up).bytes_per_second()) *
                        (leaves ? device_.links.network : device_.links.scale_up);
    return start + static_cast<double>(device_.links.latency.count()) * 1e-12 + static_cast<double>(what.bytes) / link;
  }

  struct Mailbox {
    std::vector<double> sent, received;
    size_t sends = 0, receives = 0;
  };

  const Job& job_;
  const predict::TrainConfig& config_;
  const predict::Device& device_;
  const predict::ClusterShape& cluster_;
  std::vector<Stage> stages_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Mailbox> mail_;
  std::map<uint32_t, std::map<uint32_t, double>> meeting_;
};

}  // namespace

double play_stages(const Job& job, const predict::TrainConfig& config, const predict::Device& device,
                   const predict::ClusterShape& cluster) {
  return Player(job, config, device, cluster).run();
}

}  // namespace banyan::testing
