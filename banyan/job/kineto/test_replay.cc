#include "banyan/job/kineto/test_replay.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::testing {
namespace {

class Replay {
 public:
  Replay(const Job& job, const Sample& sample) : job_(job), sample_(sample) {
    for (uint32_t r = 0; r < job.rank_count(); ++r) {
      const job::Program& program = job.program(r);
      end_.emplace_back(program.nodes.size(), -1);
      next_.emplace_back(program.streams.size(), 0);
      on_stream_.emplace_back(program.streams.size());
      for (uint32_t i = 0; i < program.nodes.size(); ++i) on_stream_[r][program.nodes[i].stream].push_back(i);
    }
  }

  int64_t run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (uint32_t r = 0; r < job_.rank_count(); ++r) moved = pass(r) || moved;
      moved = meet() || moved;
    }
    int64_t last = 0;
    for (uint32_t r = 0; r < job_.rank_count(); ++r) {
      for (uint32_t i = 0; i < end_[r].size(); ++i) {
        CHECK(end_[r][i] >= 0) << "rank " << r << " node " << i << " " << job_.name_of(job_.program(r).nodes[i]);
        last = std::max(last, end_[r][i]);
      }
    }
    return last;
  }

 private:
  struct Waiting {
    uint32_t rank, node;
    int64_t start;
  };

  bool pass(uint32_t r) {
    const job::Program& program = job_.program(r);
    bool moved = false;
    for (uint32_t s = 0; s < program.streams.size(); ++s) {
      const bool in_order = program.streams[s].order == job::Stream::Order::program;
      for (size_t& k = next_[r][s]; k < on_stream_[r][s].size(); ++k) {
        const uint32_t i = on_stream_[r][s][k];
        int64_t start = 0;
        bool ready = true;
        for (const uint32_t needed : program.needs(i)) {
          ready = ready && end_[r][needed] >= 0;
          start = std::max(start, end_[r][needed]);
        }
        if (in_order && k > 0) {
          ready = ready && end_[r][on_stream_[r][s][k - 1]] >= 0;
          start = std::max(start, end_[r][on_stream_[r][s][k - 1]]);
        }
        if (!ready || begun_.contains({r, i})) break;
        const job::Node& node = program.nodes[i];
        moved = true;
        if (node.kind == job::NodeKind::collective) {
          begun_.insert({r, i});
          groups_[job_.group(r, node.slot)][r].push_back({r, i, start});
        } else if (node.kind == job::NodeKind::send || node.kind == job::NodeKind::receive) {
          begun_.insert({r, i});
          const uint32_t peer = job_.peer(r, node.slot);
          const bool sends = node.kind == job::NodeKind::send;
          (sends ? sends_ : receives_)[sends ? std::pair(r, peer) : std::pair(peer, r)].push_back({r, i, start});
        } else {
          end_[r][i] = start + node.duration.count() / 1000;
        }
      }
    }
    return moved;
  }

  bool meet() {
    bool moved = false;
    for (auto& [group, members] : groups_) {
      while (members.size() == job_.groups()[group].ranks.size() &&
             std::all_of(members.begin(), members.end(), [](const auto& m) { return !m.second.empty(); })) {
        int64_t start = 0;
        for (auto& [r, waiting] : members) start = std::max(start, waiting.front().start);
        for (auto& [r, waiting] : members) {
          const job::Node& node = job_.program(r).nodes[waiting.front().node];
          end_[r][waiting.front().node] = start + sample_.durations.at(sample_key(node.collective, node.bytes));
          waiting.erase(waiting.begin());
        }
        moved = true;
      }
    }
    for (auto& [pair, sends] : sends_) {
      auto& receives = receives_[pair];
      while (!sends.empty() && !receives.empty()) {
        const int64_t end = std::max(sends.front().start, receives.front().start) + sample_.message_ns;
        for (auto* side : {&sends, &receives}) {
          end_[side->front().rank][side->front().node] = end;
          side->erase(side->begin());
        }
        moved = true;
      }
    }
    return moved;
  }

  const Job& job_;
  const Sample& sample_;
  std::vector<std::vector<int64_t>> end_;
  std::vector<std::vector<size_t>> next_;
  std::vector<std::vector<std::vector<uint32_t>>> on_stream_;
  std::set<std::pair<uint32_t, uint32_t>> begun_;
  std::map<uint32_t, std::map<uint32_t, std::vector<Waiting>>> groups_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<Waiting>> sends_, receives_;
};

}  // namespace

int64_t replay(const Job& job, const Sample& sample) { return Replay(job, sample).run(); }

}  // namespace banyan::testing
