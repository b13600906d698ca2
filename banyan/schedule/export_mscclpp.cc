#include "banyan/schedule/export_mscclpp.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "banyan/base/error.h"
#include "banyan/schedule/export_program.h"

namespace banyan::schedule {
namespace {

using Json = nlohmann::ordered_json;

// Limits of the executor (src/core/include/execution_common.hpp). The number of blocks is what a kernel launches; 64 is
// well within what every GPU keeps resident at once, which blocks that wait for each other need.
constexpr uint64_t kMaxOps = 64, kMaxChannels = 16, kMaxChannelsPerOp = 8, kMaxBuffersPerOp = 10, kMaxBlocks = 64;
constexpr uint64_t kAlignment = 16;
constexpr uint64_t kWhole = uint64_t{1} << 62;  // no chunk need be cut: an operation takes any size

// A block of one GPU: a lane of the schedule's chunks, everything this GPU does for them, in the order of the program.
// Lanes share nothing but the start of the kernels, so blocks of one GPU never wait for each other.
//
// A block is many threads, and a signal covers what all of them have written only after a nop has made them meet:
//   put ... nop, signal          to send
//   wait, nop, re ..., nop       to receive and add
// Puts go straight to their final place, or to a slot of scratch that belongs to the transfer alone, so nothing is ever
// overwritten that a peer may still need. A peer's memory may be touched once its kernel has said that it runs.
class BlockWriter {
 public:
  Json ops = Json::array();
  std::vector<uint32_t> peers;                            // channel k of the block leads to peers[k]
  std::vector<std::pair<uint32_t, char>> remote_buffers;  // rank and buffer, by the block's number

  size_t channel(uint32_t peer) { return place_of(peers, peer); }
  size_t remote(uint32_t peer, char buffer) { return place_of(remote_buffers, std::pair(peer, buffer)); }

  void meet() {
    if (!ops.empty() && ops.back()["name"] != "nop") ops.push_back({{"name", "nop"}});
  }

  // One operation on several channels, at most as many as an operation can name, none twice.
  void on_channels(const char* name, const std::vector<uint32_t>& to) {
    std::vector<size_t> ids;
    const auto flush = [&] {
      if (!ids.empty()) ops.push_back({{"name", name}, {"channel_ids", ids}, {"channel_type", "memory"}});
      ids.clear();
    };
    for (const uint32_t peer : to) {
      const size_t id = channel(peer);
      if (ids.size() == kMaxChannelsPerOp || std::find(ids.begin(), ids.end(), id) != ids.end()) flush();
      ids.push_back(id);
    }
    flush();
  }

 private:
  template <typename T>
  static size_t place_of(std::vector<T>& list, const T& value) {
    const auto found = std::find(list.begin(), list.end(), value);
    if (found != list.end()) return static_cast<size_t>(found - list.begin());
    list.push_back(value);
    return list.size() - 1;
  }
};

Json local(const BufferPlace& place, uint64_t count) {
  return {{"type", std::string(1, place.buffer)}, {"index", place.offset}, {"size", count}};
}

class MscclppWriter {
 public:
  MscclppWriter(const Schedule& schedule, const ExportOptions& options)
      : schedule_(schedule),
        options_(options),
        kind_(schedule.collective().kind()),
        program_(make_export_program(schedule, kWhole)) {}

  // As few lanes as keep every block within its operations.
  Export write() {
    for (uint64_t lanes = 1;; lanes = std::min<uint64_t>(2 * lanes, kMaxBlocks)) {
      build(lanes);
      const bool last = lanes >= kMaxBlocks || lanes >= schedule_.chunk_count();
      if (fits() || last) return finish();
    }
  }

 private:
  std::string name(uint32_t rank) const { return schedule_.fabric().name(schedule_.collective().participants()[rank]); }
  uint64_t lane_of(const ExportTransfer& transfer) const { return transfer.chunk % lanes_; }

  void build(uint64_t lanes) {
    lanes_ = lanes;
    buffers_.emplace(kind_, options_.in_place, program_);
    blocks_.assign(program_.ranks, std::vector<BlockWriter>(lanes));
    runs_.assign(program_.ranks, std::vector<Run>(lanes));
    sums_.clear();
    begin_kernels();
    for (const OwnPiece& piece : own_pieces(kind_, options_.in_place, program_)) {
      blocks_[piece.rank][0].ops.push_back({{"name", "copy"},
                                            {"src_buff", Json::array({local(piece.source, piece.count)})},
                                            {"dst_buff", Json::array({local(piece.destination, piece.count)})}});
    }
    for (const ExportTransfer& transfer : program_.transfers) add(transfer);
    for (uint32_t rank = 0; rank < program_.ranks; ++rank) {
      for (uint64_t lane = 0; lane < lanes; ++lane) end_run(rank, lane);
    }
  }

  // Who will be written to says that it runs; who will write waits for that.
  void begin_kernels() {
    std::vector<std::vector<std::set<uint32_t>>> sources(program_.ranks, std::vector<std::set<uint32_t>>(lanes_)),
        targets = sources;
    for (const ExportTransfer& transfer : program_.transfers) {
      sources[transfer.to][lane_of(transfer)].insert(transfer.from);
      targets[transfer.from][lane_of(transfer)].insert(transfer.to);
    }
    for (uint32_t rank = 0; rank < program_.ranks; ++rank) {
      for (uint64_t lane = 0; lane < lanes_; ++lane) {
        BlockWriter& block = blocks_[rank][lane];
        const auto &from = sources[rank][lane], &to = targets[rank][lane];
        block.on_channels("rlxsignal", {from.begin(), from.end()});
        block.on_channels("rlxwait", {to.begin(), to.end()});
        if (!to.empty()) block.meet();
      }
    }
  }

  // Sends, or receives, that follow each other in one block: their signals, or waits, and meetings are shared.
  struct Run {
    enum class What { nothing, sending, receiving } what = What::nothing;
    std::vector<uint32_t> peers;
    std::vector<std::pair<BufferPlace, std::vector<BufferPlace>>> sums;  // where to, and what is added up there
    std::vector<uint64_t> counts;                                        // of the sums
  };

  void add(const ExportTransfer& transfer) {
    const uint64_t lane = lane_of(transfer);
    const BufferPlace source =
        transfer.after ? buffers_->result(transfer, transfer.from) : buffers_->input(transfer, transfer.from);
    const BufferPlace sum = buffers_->result(transfer, transfer.to);
    const BufferPlace target = transfer.reduces ? buffers_->new_scratch(transfer.to, transfer.count) : sum;

    begin_run(transfer.from, lane, Run::What::sending);
    BlockWriter& sender = blocks_[transfer.from][lane];
    sender.ops.push_back({{"name", "put"},
                          {"src_buff", Json::array({local(source, transfer.count)})},
                          {"dst_buff", Json::array({{{"buffer_id", sender.remote(transfer.to, target.buffer)},
                                                     {"index", target.offset},
                                                     {"size", transfer.count}}})},
                          {"channel_ids", Json::array({sender.channel(transfer.to)})},
                          {"channel_type", "memory"}});
    runs_[transfer.from][lane].peers.push_back(transfer.to);

    begin_run(transfer.to, lane, Run::What::receiving);
    Run& receiving = runs_[transfer.to][lane];
    receiving.peers.push_back(transfer.from);
    if (!transfer.reduces) return;
    const auto same = std::find_if(receiving.sums.begin(), receiving.sums.end(), [&](const auto& other) {
      return other.first.buffer == sum.buffer && other.first.offset == sum.offset;
    });
    if (same != receiving.sums.end()) {
      same->second.push_back(target);
      return;
    }
    const bool first = sums_.insert({transfer.to, transfer.offset}).second;
    receiving.sums.push_back({sum, {first ? buffers_->input(transfer, transfer.to) : sum, target}});
    receiving.counts.push_back(transfer.count);
  }

  void begin_run(uint32_t rank, uint64_t lane, Run::What what) {
    if (runs_[rank][lane].what == what) return;
    end_run(rank, lane);
    runs_[rank][lane].what = what;
  }

  void end_run(uint32_t rank, uint64_t lane) {
    const Run run = std::exchange(runs_[rank][lane], Run{});
    BlockWriter& block = blocks_[rank][lane];
    if (run.what == Run::What::sending) {
      block.meet();
      block.on_channels("signal", run.peers);
    } else if (run.what == Run::What::receiving) {
      block.on_channels("wait", run.peers);
      block.meet();
      for (size_t i = 0; i < run.sums.size(); ++i) add_up(block, run.sums[i].first, run.sums[i].second, run.counts[i]);
      block.meet();
    }
  }

  // Sums of more addends than an operation can name go in steps, the threads meeting in between.
  static void add_up(BlockWriter& block, const BufferPlace& sum, const std::vector<BufferPlace>& addends,
                     uint64_t count) {
    Json sources = Json::array();
    for (size_t i = 0; i < addends.size(); ++i) {
      sources.push_back(local(addends[i], count));
      const bool last = i + 1 == addends.size();
      if (!last && sources.size() < kMaxBuffersPerOp) continue;
      block.ops.push_back({{"name", "re"},
                           {"src_buff", sources},
                           {"dst_buff", Json::array({local(sum, count)})},
                           {"reduce_op", "sum"}});
      sources = Json::array({local(sum, count)});
      if (!last) block.meet();
    }
  }

  bool fits() const {
    for (const auto& gpu : blocks_) {
      for (const BlockWriter& block : gpu) {
        if (block.ops.size() > kMaxOps || block.peers.size() > kMaxChannels ||
            block.remote_buffers.size() > kMaxChannels)
          return false;
      }
    }
    return true;
  }

  Export finish() {
    uint64_t ops = 0, channels = 0, remotes = 0, blocks = 0;
    for (uint32_t rank = 0; rank < program_.ranks; ++rank) {
      uint64_t used = 0;
      for (BlockWriter& block : blocks_[rank]) {
        while (!block.ops.empty() && block.ops.back()["name"] == "nop") block.ops.erase(block.ops.size() - 1);
        const auto refuse = [&](const char* what, uint64_t needed, uint64_t allowed) {
          if (needed > allowed) refuse_export("MSCCL++", {what, name(rank), needed, allowed}, program_.trees_per_rank);
        };
        refuse("operations in a thread block", block.ops.size(), kMaxOps);
        refuse("channels in a thread block", block.peers.size(), kMaxChannels);
        refuse("remote buffers in a thread block", block.remote_buffers.size(), kMaxChannels);
        ops = std::max<uint64_t>(ops, block.ops.size());
        channels = std::max<uint64_t>(channels, block.peers.size());
        remotes = std::max<uint64_t>(remotes, block.remote_buffers.size());
        used += !block.ops.empty();
      }
      blocks = std::max(blocks, used);
    }
    return {.text = format(),
            .fit = {.rows = {{"operations per thread block", ops, kMaxOps},
                             {"channels per thread block", channels, kMaxChannels},
                             {"remote buffers per thread block", remotes, kMaxChannels},
                             {"thread blocks per GPU", blocks, kMaxBlocks}}}};
  }

  std::string format() const {
    Json plan = {{"name", options_.name.substr(0, 200)},
                 {"collective", traits_of(kind_).compact},
                 {"protocol", "Simple"},
                 {"inplace", options_.in_place},
                 {"reuse_resources", false},
                 {"gpus", Json::array()}};
    for (uint32_t rank = 0; rank < program_.ranks; ++rank) plan["gpus"].push_back(format_gpu(rank));
    plan["num_threads_per_block"] = 1024;
    plan["use_double_scratch_buffer"] = false;
    plan["buffer_alignment"] = kAlignment;
    plan["min_message_size"] = options_.min_bytes;
    plan["max_message_size"] = options_.max_bytes == 0 ? UINT64_MAX : options_.max_bytes;
    return plan.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  // The channels of a GPU stand lane by lane, so that the n-th one to a peer meets the peer's n-th one back.
  Json format_gpu(uint32_t rank) const {
    const uint64_t inputs = kind_ == CollectiveKind::all_gather ? program_.shard_chunks : program_.total_chunks;
    const uint64_t outputs = kind_ == CollectiveKind::reduce_scatter ? program_.shard_chunks : program_.total_chunks;
    Json blocks = Json::array(), peers = Json::array(), remotes = Json::array();
    std::vector<std::pair<uint32_t, char>> known;
    for (const BlockWriter& block : blocks_[rank]) {
      if (block.ops.empty()) continue;
      Json channel_ids = Json::array(), remote_ids = Json::array();
      for (const uint32_t peer : block.peers) {
        channel_ids.push_back(peers.size());
        peers.push_back(peer);
      }
      for (const auto& remote : block.remote_buffers) {
        const auto found = std::find(known.begin(), known.end(), remote);
        remote_ids.push_back(found - known.begin());
        if (found != known.end()) continue;
        known.push_back(remote);
        remotes.push_back(
            {{"rank", remote.first}, {"type", std::string(1, remote.second)}, {"access_channel_types", {"memory"}}});
      }
      Json channels = Json::array(), references = Json::array();
      if (!channel_ids.empty()) channels.push_back({{"channel_type", "memory"}, {"channel_ids", channel_ids}});
      if (!remote_ids.empty())
        references.push_back({{"access_channel_type", "memory"}, {"remote_buffer_ids", remote_ids}});
      blocks.push_back(
          {{"id", blocks.size()}, {"ops", block.ops}, {"channels", channels}, {"remote_buffer_refs", references}});
    }
    Json channels = Json::array();
    if (!peers.empty()) channels.push_back({{"channel_type", "memory"}, {"connected_to", peers}});
    return {{"id", rank},
            {"input_chunks", inputs},
            {"output_chunks", outputs},
            {"scratch_chunks", buffers_->scratch_chunks(rank)},
            {"threadblocks", blocks},
            {"channels", channels},
            {"remote_buffers", remotes},
            {"semaphores", Json::array()}};
  }

  const Schedule& schedule_;
  const ExportOptions& options_;
  const CollectiveKind kind_;
  const ExportProgram program_;
  uint64_t lanes_ = 1;
  std::optional<BufferMap> buffers_;
  std::vector<std::vector<BlockWriter>> blocks_;  // by rank and lane
  std::vector<std::vector<Run>> runs_;            // by rank and lane
  std::set<std::pair<uint32_t, uint64_t>> sums_;  // by rank and offset: something has been added there
};

}  // namespace

Export export_mscclpp(const Schedule& schedule, const ExportOptions& options) {
  return MscclppWriter(schedule, options).write();
}

}  // namespace banyan::schedule
