#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/job/chakra/binary.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/job/chakra/groups.h"
#include "banyan/job/chakra/streams.h"

namespace banyan::job::chakra {
namespace {

constexpr int64_t kPicosecondsPerMicrosecond = 1'000'000;

NodeType type_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::compute:
    case NodeKind::host:
      return NodeType::compute;
    case NodeKind::memory:
      return NodeType::memory_load;
    case NodeKind::collective:
      return NodeType::collective;
    case NodeKind::send:
      return NodeType::send;
    case NodeKind::receive:
      return NodeType::receive;
    case NodeKind::marker:
      break;
  }
  return NodeType::metadata;
}

class Writer {
 public:
  Writer(const Job& job, const Options& options) : job_(job), options_(options) { name_groups(); }

  Files write() && {
    Files files;
    files.groups = groups_.dump();
    for (rank_ = 0; rank_ < job_.rank_count(); ++rank_) files.traces.push_back(write_rank());
    return files;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // By their names, which a trace refers to; by number where a name would mean two groups, or all ranks and does not.
  void name_groups() {
    std::set<std::string> seen;
    bool are_good = true;
    for (const Group& group : job_.groups()) {
      are_good = are_good && !group.name.empty() && seen.insert(group.name).second &&
                 (group.name != kAllRanks || is_everybody(group));
    }
    groups_ = nlohmann::json::object();
    for (uint32_t i = 0; i < job_.groups().size(); ++i) {
      const Group& group = job_.groups()[i];
      names_.push_back(are_good ? group.name : std::to_string(i));
      if (names_.back() == kAllRanks) {
        names_.back().clear();
      } else {
        groups_[names_.back()] = group.ranks;
      }
    }
  }
  bool is_everybody(const Group& group) const {
    if (group.ranks.size() != job_.rank_count()) return false;
    for (uint32_t i = 0; i < group.ranks.size(); ++i) {
      if (group.ranks[i] != i) return false;
    }
    return true;
  }

  std::string write_rank() {
    program_ = &job_.program(rank_);
    find_streams();
    std::vector<uint32_t> last(program_->streams.size(), kNone);
    std::string file = metadata_message();
    for (uint32_t number = 0; number < program_->nodes.size(); ++number) {
      const Node& node = program_->nodes[number];
      TraceNode out = node_of(number);
      const auto needs = program_->needs(number);
      out.data_dependencies.assign(needs.begin(), needs.end());
      if (program_->streams[node.stream].order == Stream::Order::program) {
        const uint32_t previous = std::exchange(last[node.stream], number);
        const bool is_new = previous != kNone && !std::binary_search(needs.begin(), needs.end(), previous);
        if (is_new) out.data_dependencies.push_back(previous);
      }
      append_node(out, file);
    }
    return file;
  }

  // Which streams carry the names that the reader gives them. If not all do, they are written by number.
  void find_streams() {
    are_known_ = true;
    for (const Node& node : program_->nodes) {
      const Stream& stream = program_->streams[node.stream];
      const StreamLabel expected = stream_label(node.kind, stream.name == "host", number_in(stream.name));
      are_known_ = are_known_ && expected.name() == stream.name &&
                   stream.order == (expected.is_free() ? Stream::Order::free : Stream::Order::ready);
    }
  }
  // "stream 7 messages": 7.
  static std::optional<uint64_t> number_in(std::string_view name) {
    if (!name.starts_with("stream ") || name.size() > 24) return std::nullopt;
    uint64_t number = 0;
    size_t at = 7;
    for (; at < name.size() && name[at] >= '0' && name[at] <= '9'; ++at)
      number = number * 10 + static_cast<uint64_t>(name[at] - '0');
    if (at == 7 || number > uint64_t{INT64_MAX}) return std::nullopt;
    return number;
  }

  [[noreturn]] void refuse(uint32_t number, const std::string& what) const {
    throw Error(ErrorCode::unsupported, "rank " + std::to_string(rank_) + " node " + std::to_string(number) + " '" +
                                            job_.name_of(program_->nodes[number]).substr(0, 80) + "' " + what);
  }

  TraceNode node_of(uint32_t number) const {
    const Node& node = program_->nodes[number];
    const Stream& stream = program_->streams[node.stream];
    TraceNode out;
    out.id = number;
    out.name = job_.name_of(node);
    out.type = static_cast<int64_t>(type_of(node.kind));
    const bool is_message = node.kind == NodeKind::send || node.kind == NodeKind::receive;
    if (!program_->follows(number).empty()) refuse(number, "starts after others have started, which Chakra cannot say");
    const bool takes_time = node.kind == NodeKind::collective || node.duration > Picoseconds(0);
    if (stream.order == Stream::Order::free && !is_message && node.kind != NodeKind::marker && takes_time) {
      refuse(number, "is on a stream that does any number of things at once, which Chakra cannot say");
    }
    out.is_cpu_op = are_known_ && stream.name == "host";
    if (node.kind != NodeKind::marker) {
      if (const auto known = number_in(stream.name); are_known_) {
        if (known) out.stream = static_cast<int64_t>(*known);
      } else {
        out.stream = node.stream;
      }
    }
    if (!is_message && node.kind != NodeKind::collective && node.kind != NodeKind::marker) write_work(node, out);
    if (is_message) write_message(node, out);
    if (node.kind == NodeKind::collective) write_collective(number, out);
    return out;
  }

  static void write_work(const Node& node, TraceNode& out) {
    if (node.kind == NodeKind::memory) {
      out.tensor_size = static_cast<int64_t>(node.bytes);
    } else if (node.flop >= 1) {
      out.num_ops = static_cast<int64_t>(std::min(std::round(node.flop), 9e18));
    }
    const int64_t time = node.duration.count();
    out.duration_micros = static_cast<uint64_t>(time / kPicosecondsPerMicrosecond);
    // Without it, no duration would mean that it is to be computed from the work.
    const bool has_work = out.num_ops.value_or(0) > 0 || out.tensor_size.value_or(0) > 0;
    if (time % kPicosecondsPerMicrosecond != 0 || (time == 0 && has_work)) out.duration_ps = time;
  }

  void write_message(const Node& node, TraceNode& out) const {
    const int64_t peer = node.slot == Node::kAnyPeer ? -1 : int64_t{job_.peer(rank_, node.slot)};
    const bool is_send = node.kind == NodeKind::send;
    out.comm_src = is_send ? int64_t{rank_} : peer;
    out.comm_dst = is_send ? peer : int64_t{rank_};
    out.comm_tag = node.tag == Node::kAnyTag ? -1 : int64_t{node.tag};
    out.comm_size = static_cast<int64_t>(node.bytes);
  }

  void write_collective(uint32_t number, TraceNode& out) const {
    const Node& node = program_->nodes[number];
    const uint32_t group = job_.group(rank_, node.slot);
    const std::vector<uint32_t>& ranks = job_.groups()[group].ranks;
    out.comm_type = std::ranges::find(kCollectiveTypes, node.collective) - kCollectiveTypes.begin();
    uint64_t bytes = node.bytes;
    const bool is_gathering =
        node.collective == CollectiveKind::all_gather || node.collective == CollectiveKind::gather;
    if (is_gathering && options_.gather_size == Options::GatherSize::shard) {
      if (bytes % ranks.size() != 0) {
        refuse(number, "gathers " + std::to_string(bytes) + " bytes from " + std::to_string(ranks.size()) +
                           " members, which are no equal shards; write sizes as totals (gather_size)");
      }
      bytes /= ranks.size();
    }
    out.comm_size = static_cast<int64_t>(bytes);
    if (!names_[group].empty()) out.pg_name = names_[group];
    if (!is_rooted(node.collective)) return;
    const bool from_root = node.collective == CollectiveKind::broadcast || node.collective == CollectiveKind::scatter;
    (from_root ? out.comm_src : out.comm_dst) = int64_t{ranks[node.tag]};
  }

  const Job& job_;
  const Options& options_;
  std::vector<std::string> names_;  // by group; empty: all ranks, which need no name
  nlohmann::json groups_;

  // Of the rank that is being written.
  uint32_t rank_ = 0;
  const Program* program_ = nullptr;
  bool are_known_ = true;
};

}  // namespace

Files write_job(const Job& job, const Options& options) { return Writer(job, options).write(); }

}  // namespace banyan::job::chakra
