#include "banyan/schedule/export_mscclpp_switch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::schedule {
namespace {

using SwitchJson = nlohmann::ordered_json;

// As in export_mscclpp.cc.
constexpr uint64_t kMostOps = 64, kMostChannels = 16, kMostChannelsPerOp = 8;

// True if the out-tree leads from its root to the hub and from there to all others, by a link each; or the in-tree the
// other way.
bool is_star(const Schedule& schedule, const Chunk& chunk, NodeId hub, bool in) {
  const std::span<const RouteId> tree = in ? chunk.in_tree : chunk.out_tree;
  if (tree.size() != schedule.collective().participants().size()) return false;
  std::vector<NodeId> leaves;
  for (const RouteId id : tree) {
    const Route route = schedule.route(id);
    if (route.links.size() != 1) return false;
    const NodeId parent = in ? route.to : route.from, child = in ? route.from : route.to;
    if (parent == chunk.root && child == hub) continue;
    if (parent != hub || !schedule.fabric().is_rank(child) || child == chunk.root) return false;
    leaves.push_back(child);
  }
  std::ranges::sort(leaves);
  return leaves.size() + 1 == tree.size() && std::ranges::adjacent_find(leaves) == leaves.end();
}

// One operation on channels 0 .. peers-1 of the block, several where it cannot name all.
void on_all_channels(SwitchJson& ops, const char* name, size_t peers) {
  for (size_t first = 0; first < peers; first += kMostChannelsPerOp) {
    std::vector<size_t> ids(std::min<size_t>(kMostChannelsPerOp, peers - first));
    std::iota(ids.begin(), ids.end(), first);
    ops.push_back({{"name", name}, {"channel_ids", ids}, {"channel_type", "memory"}});
  }
}

void expect_room(const Schedule& schedule, const char* what, uint64_t needed, uint64_t allowed) {
  if (needed <= allowed) return;
  throw Error(ErrorCode::unsupported, "the plan needs " + std::to_string(needed) + " " + what + " on " +
                                          schedule.fabric().name(schedule.collective().participants()[0]) +
                                          ", MSCCL++ has " + std::to_string(allowed) +
                                          "; a switch serves fewer ranks there");
}

}  // namespace

std::optional<NodeId> only_switch_of(const Schedule& schedule) {
  if (schedule.collective().kind() != CollectiveKind::all_reduce) return std::nullopt;
  std::optional<NodeId> hub;
  for (const RouteId id : schedule.chunk(0).out_tree) {
    const NodeId to = schedule.route(id).to;
    if (!schedule.fabric().is_rank(to)) hub = to;
  }
  for (size_t i = 0; hub && i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    if (!is_star(schedule, chunk, *hub, true) || !is_star(schedule, chunk, *hub, false)) hub.reset();
  }
  return hub;
}

// A block a GPU: nothing is summed before all kernels run, and none ends before all sums have come.
Export export_mscclpp_switch(const Schedule& schedule, const ExportOptions& options) {
  const auto participants = schedule.collective().participants();
  const size_t ranks = participants.size();
  uint64_t unit = 0;
  for (size_t i = 0; i < schedule.chunk_count(); ++i) unit = std::gcd(unit, schedule.chunk(i).units);
  const uint64_t chunks = schedule.total_units() / unit;
  std::vector<uint32_t> all(ranks);
  std::iota(all.begin(), all.end(), 0u);
  const std::vector<std::string> buffers =
      options.in_place ? std::vector<std::string>{"i"} : std::vector<std::string>{"i", "o"};
  SwitchJson gpus = SwitchJson::array();
  uint64_t most_ops = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    SwitchJson ops = SwitchJson::array();
    on_all_channels(ops, "rlxsignal", ranks - 1);
    on_all_channels(ops, "rlxwait", ranks - 1);
    ops.push_back({{"name", "nop"}});
    for (size_t i = 0; i < schedule.chunk_count(); ++i) {
      const Chunk chunk = schedule.chunk(i);
      if (chunk.root != participants[rank]) continue;
      const auto place = [&](size_t channel) {
        return SwitchJson::array(
            {{{"switch_channel_id", channel}, {"index", chunk.offset_units / unit}, {"size", chunk.units / unit}}});
      };
      ops.push_back({{"name", "glres"},
                     {"src_buff", place(0)},
                     {"dst_buff", place(buffers.size() - 1)},
                     {"channel_type", "switch"},
                     {"reduce_op", "sum"}});
    }
    ops.push_back({{"name", "nop"}});
    on_all_channels(ops, "signal", ranks - 1);
    on_all_channels(ops, "wait", ranks - 1);
    most_ops = std::max<uint64_t>(most_ops, ops.size());
    std::vector<uint32_t> peers, memory_ids(ranks - 1), switch_ids(buffers.size());
    std::ranges::copy_if(all, std::back_inserter(peers), [&](uint32_t other) { return other != rank; });
    std::iota(memory_ids.begin(), memory_ids.end(), 0u);
    std::iota(switch_ids.begin(), switch_ids.end(), 0u);
    SwitchJson channels = SwitchJson::array({{{"channel_type", "memory"}, {"connected_to", peers}}});
    for (const std::string& buffer : buffers) {
      channels.push_back({{"channel_type", "switch"},
                          {"buffer_type", buffer},
                          {"rank_groups", SwitchJson::array({{{"size", ranks}, {"ranks", all}}})}});
    }
    const SwitchJson block = {
        {"id", 0},
        {"ops", ops},
        {"channels", SwitchJson::array({{{"channel_type", "memory"}, {"channel_ids", memory_ids}},
                                        {{"channel_type", "switch"}, {"channel_ids", switch_ids}}})},
        {"remote_buffer_refs", SwitchJson::array()}};
    gpus.push_back({{"id", rank},
                    {"input_chunks", chunks},
                    {"output_chunks", chunks},
                    {"scratch_chunks", 0},
                    {"threadblocks", SwitchJson::array({block})},
                    {"channels", channels},
                    {"remote_buffers", SwitchJson::array()},
                    {"semaphores", SwitchJson::array()}});
  }
  expect_room(schedule, "channels in a thread block", ranks - 1, kMostChannels);
  expect_room(schedule, "operations in a thread block", most_ops, kMostOps);
  const SwitchJson plan = {{"name", options.name.substr(0, 200)},
                           {"collective", "allreduce"},
                           {"protocol", "Simple"},
                           {"inplace", options.in_place},
                           {"reuse_resources", false},
                           {"gpus", gpus},
                           {"num_threads_per_block", 1024},
                           {"use_double_scratch_buffer", false},
                           {"buffer_alignment", 16},
                           {"min_message_size", options.min_bytes},
                           {"max_message_size", options.max_bytes == 0 ? UINT64_MAX : options.max_bytes}};
  return {.text = plan.dump(2, ' ', false, SwitchJson::error_handler_t::replace) + "\n",
          .fit = {.rows = {{"operations per thread block", most_ops, kMostOps},
                           {"channels per thread block", ranks - 1, kMostChannels}}}};
}

}  // namespace banyan::schedule
