#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/testing/mscclpp_interpreter.h"
#include "banyan/testing/mscclpp_words.h"

namespace banyan::testing {
namespace {

using namespace mscclpp;

constexpr uint64_t kMaxChunks = 1'000'000;
constexpr uint64_t kMaxSemaphoreValue = 1024;

class Reader {
 public:
  explicit Reader(const MscclppLimits& limits) : limits_(limits) {}

  MscclppPlan read(const Json& top) {
    read_top(top);
    const Json& gpus = list(top, "gpus", "plan");
    connections_.resize(gpus.size());
    for (uint32_t rank = 0; rank < gpus.size(); ++rank) read_gpu(gpus[rank], rank);
    pair_channels();
    check_switches();
    for (uint32_t rank = 0; rank < gpus.size(); ++rank) read_blocks(gpus[rank], rank);
    check_single_users();
    return std::move(plan_);
  }

 private:
  struct RemoteBuffer {
    uint32_t rank = 0;
    BufferKind kind = BufferKind::input;
    std::set<ChannelType> access;
  };
  struct SwitchChannel {  // to the same buffer of all ranks of a group
    BufferKind kind = BufferKind::input;
    std::vector<uint32_t> ranks;
    bool operator==(const SwitchChannel&) const = default;
  };
  struct Connections {                              // of one rank
    std::array<std::vector<uint32_t>, 3> channels;  // by type; of switches into `switches`
    std::vector<SwitchChannel> switches;
    std::vector<RemoteBuffer> buffers;
  };
  struct BlockLists {  // what an operation's numbers mean
    std::string where;
    uint32_t rank = 0;
    std::array<std::vector<uint32_t>, 3> channels, buffers;  // by type; of switches as in Connections
  };

  void read_top(const Json& top) {
    const std::string where = "plan";
    static const std::map<std::string, CollectiveKind> kKinds = {
        {"allgather", CollectiveKind::all_gather}, {"reducescatter", CollectiveKind::reduce_scatter},
        {"allreduce", CollectiveKind::all_reduce}, {"broadcast", CollectiveKind::broadcast},
        {"alltoall", CollectiveKind::all_to_all},  {"reduce", CollectiveKind::reduce}};
    plan_.name = text(top, "name", where);
    const std::string collective = text(top, "collective", where);
    const auto kind = kKinds.find(collective);
    if (kind == kKinds.end()) {
      throw Error(ErrorCode::unsupported, "collective '" + collective.substr(0, 40) + "' is not interpreted", where);
    }
    plan_.kind = kind->second;
    plan_.in_place = flag(top, "inplace", where);
    const std::string protocol = text(top, "protocol", where);
    if (protocol == "LL") throw Error(ErrorCode::unsupported, "protocol LL (packets) is not interpreted", where);
    if (protocol != "Simple") throw invalid(where, "protocol is Simple or LL");
    for (const char* key : {"reuse_resources", "use_double_scratch_buffer"}) {
      if (top.contains(key)) flag(top, key, where);
    }
    if (top.contains("num_threads_per_block") && number(top, "num_threads_per_block", where, 1025) < 32) {
      throw invalid(where, "num_threads_per_block is below 32");
    }
    if (top.contains("buffer_alignment") && number(top, "buffer_alignment", where, 1 << 20) % 16 != 0) {
      throw invalid(where, "buffer_alignment is no multiple of 16, and the kernel's sums need it");
    }
    const auto size = [&](const char* key, uint64_t otherwise) {
      if (!top.contains(key)) return otherwise;
      if (!top[key].is_number_unsigned()) throw invalid(where, std::string(key) + " is no number of bytes");
      return top[key].get<uint64_t>();
    };
    if (size("min_message_size", 0) > size("max_message_size", UINT64_MAX)) {
      throw invalid(where, "max_message_size is below min_message_size");
    }
    const size_t gpus = list(top, "gpus", where).size();
    if (gpus < 2 || gpus > 1000) throw invalid(where, std::to_string(gpus) + " gpus");
    plan_.gpus.resize(gpus);
  }

  void read_gpu(const Json& gpu, uint32_t rank) {
    const std::string where = "gpu " + std::to_string(rank);
    const auto ranks = static_cast<uint32_t>(plan_.gpus.size());
    if (number(gpu, "id", where, ranks) != rank) throw invalid(where, "ids are not 0, 1, 2 in order");
    const uint32_t input = number(gpu, "input_chunks", where, kMaxChunks);
    const uint32_t output = number(gpu, "output_chunks", where, kMaxChunks);
    const bool gathers = plan_.kind == CollectiveKind::all_gather,
               scatters = plan_.kind == CollectiveKind::reduce_scatter;
    if (input == 0 || output == 0 ||
        uint64_t{input} * (gathers ? ranks : 1) != uint64_t{output} * (scatters ? ranks : 1)) {
      throw invalid(where, std::to_string(input) + " input and " + std::to_string(output) +
                               " output chunks are not of one size in this collective");
    }
    const uint32_t total = std::max(input, output);
    if (rank > 0 && total != plan_.total_chunks) throw invalid(where, "has other numbers of chunks than gpu 0");
    plan_.total_chunks = total;
    plan_.gpus[rank].scratch_chunks = number(gpu, "scratch_chunks", where, kMaxChunks);
    read_connections(gpu, rank, where);
    if (!gpu.contains("semaphores")) return;
    for (const Json& semaphore : list(gpu, "semaphores", where)) {
      plan_.gpus[rank].semaphores.push_back(number(semaphore, "init_value", where, kMaxSemaphoreValue));
    }
    if (plan_.gpus[rank].semaphores.size() > limits_.semaphores) {
      throw invalid(where, std::to_string(plan_.gpus[rank].semaphores.size()) + " semaphores, at most " +
                               std::to_string(limits_.semaphores));
    }
  }

  void read_connections(const Json& gpu, uint32_t rank, const std::string& where) {
    Connections& own = connections_[rank];
    const auto peer = [&](const Json& value, const std::string& what) {
      const uint32_t id = number_in(value, what, where, plan_.gpus.size());
      if (id == rank) throw invalid(where, what + " is the GPU itself");
      return id;
    };
    for (const Json& channel : list(gpu, "channels", where)) {
      const ChannelType type = channel_type(field(channel, "channel_type", where + " channel"), where);
      if (type == kSwitch) {
        own.channels[kSwitch].push_back(static_cast<uint32_t>(own.switches.size()));
        own.switches.push_back(read_switch(channel, rank, where));
        continue;
      }
      for (const Json& id : list(channel, "connected_to", where)) {
        const auto number = static_cast<uint32_t>(own.channels[type].size());
        own.channels[type].push_back(static_cast<uint32_t>(plan_.channels.size()));
        plan_.channels.push_back(
            {.rank = rank, .peer = peer(id, "connected_to"), .port = type == kPort, .number = number});
      }
    }
    for (const Json& buffer : list(gpu, "remote_buffers", where)) {
      RemoteBuffer remote;
      remote.rank = peer(field(buffer, "rank", where + " remote buffer"), "rank of a remote buffer");
      remote.kind = buffer_kind(field(buffer, "type", where + " remote buffer"), where);
      for (const Json& value : list(buffer, "access_channel_types", where)) {
        const ChannelType type = channel_type(value, where);
        const bool connected = std::any_of(own.channels[type].begin(), own.channels[type].end(),
                                           [&](uint32_t id) { return plan_.channels[id].peer == remote.rank; });
        if (!connected) {
          throw invalid(where, "a buffer of gpu " + std::to_string(remote.rank) + " is to be reached over a " +
                                   (type == kPort ? "port" : "memory") + " channel, but there is none");
        }
        remote.access.insert(type);
      }
      own.buffers.push_back(std::move(remote));
    }
  }

  // The group of the rank.
  SwitchChannel read_switch(const Json& channel, uint32_t rank, const std::string& where) const {
    SwitchChannel result{.kind = buffer_kind(field(channel, "buffer_type", where + " switch channel"), where),
                         .ranks = {}};
    for (const Json& group : list(channel, "rank_groups", where)) {
      std::vector<uint32_t> ranks;
      for (const Json& id : list(group, "ranks", where)) {
        ranks.push_back(number_in(id, "a rank of a switch's group", where, plan_.gpus.size()));
      }
      if (number(group, "size", where, kMaxChunks) != ranks.size()) throw invalid(where, "a group has another size");
      if (std::set<uint32_t>(ranks.begin(), ranks.end()).size() != ranks.size()) {
        throw invalid(where, "a switch's group names a rank twice");
      }
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      if (!result.ranks.empty()) throw invalid(where, "is in two groups of a switch");
      result.ranks = std::move(ranks);
    }
    if (result.ranks.size() < 2) throw invalid(where, "is in no group of a switch that it has a channel to");
    return result;
  }

  // A group is made by all of its ranks together: each must have as many channels to it.
  void check_switches() const {
    for (uint32_t rank = 0; rank < connections_.size(); ++rank) {
      for (const SwitchChannel& channel : connections_[rank].switches) {
        const auto count = [&](uint32_t of) {
          return std::count(connections_[of].switches.begin(), connections_[of].switches.end(), channel);
        };
        for (const uint32_t other : channel.ranks) {
          if (count(other) == count(rank)) continue;
          throw invalid("gpu " + std::to_string(other),
                        "has not the switch channels that gpu " + std::to_string(rank) + " has to their group");
        }
      }
    }
  }

  void pair_channels() {
    std::map<std::tuple<uint32_t, uint32_t, bool>, std::vector<uint32_t>> by_ends;
    for (uint32_t id = 0; id < plan_.channels.size(); ++id) {
      const MscclppChannel& channel = plan_.channels[id];
      by_ends[{channel.rank, channel.peer, channel.port}].push_back(id);
    }
    for (const auto& [ends, ids] : by_ends) {
      const auto& [rank, peer, port] = ends;
      const auto others = by_ends.find({peer, rank, port});
      if (others == by_ends.end()) continue;
      for (size_t i = 0; i < std::min(ids.size(), others->second.size()); ++i) {
        plan_.channels[ids[i]].partner = others->second[i];
      }
    }
  }

  void read_blocks(const Json& gpu, uint32_t rank) {
    const Json& blocks = list(gpu, "threadblocks", "gpu " + std::to_string(rank));
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      BlockLists lists{.where = "gpu " + std::to_string(rank) + " block " + std::to_string(b),
                       .rank = rank,
                       .channels = {},
                       .buffers = {}};
      if (number(blocks[b], "id", lists.where, kMaxChunks) != b)
        throw invalid(lists.where, "ids are not 0, 1, 2 in order");
      read_lists(blocks[b], lists);
      const Json& ops = list(blocks[b], "ops", lists.where);
      if (ops.size() > limits_.ops_per_block) {
        throw invalid(lists.where + " op " + std::to_string(limits_.ops_per_block),
                      "too many operations: a block has at most " + std::to_string(limits_.ops_per_block));
      }
      plan_.gpus[rank].blocks.emplace_back();
      for (uint32_t i = 0; i < ops.size(); ++i) {
        plan_.gpus[rank].blocks.back().push_back(read_op(ops[i], lists, lists.where + " op " + std::to_string(i)));
      }
    }
    check_barriers(rank);
  }

  void read_lists(const Json& block, BlockLists& lists) const {
    const Connections& own = connections_[lists.rank];
    const auto take = [&](std::vector<uint32_t>& into, uint32_t id) {
      into.push_back(id);
      if (into.size() > limits_.channels_per_block) {
        throw invalid(lists.where, "more than " + std::to_string(limits_.channels_per_block) +
                                       " channels or remote buffers of one type");
      }
    };
    for (const Json& channel : list(block, "channels", lists.where)) {
      const ChannelType type = channel_type(field(channel, "channel_type", lists.where), lists.where);
      for (const Json& id : list(channel, "channel_ids", lists.where)) {
        take(lists.channels[type],
             own.channels[type][number_in(id, "a channel id", lists.where, own.channels[type].size())]);
      }
    }
    if (!block.contains("remote_buffer_refs")) return;
    for (const Json& ref : list(block, "remote_buffer_refs", lists.where)) {
      const ChannelType type = channel_type(field(ref, "access_channel_type", lists.where), lists.where);
      for (const Json& id : list(ref, "remote_buffer_ids", lists.where)) {
        const uint32_t buffer = number_in(id, "a remote buffer id", lists.where, own.buffers.size());
        if (!own.buffers[buffer].access.contains(type)) {
          throw invalid(lists.where, "remote buffer " + std::to_string(buffer) + " is not for this type of channel");
        }
        take(lists.buffers[type], buffer);
      }
    }
  }

  MscclppOp read_op(const Json& json, const BlockLists& lists, std::string where) const {
    MscclppOp op;
    op.name = text(json, "name", where);
    where += " (" + op.name.substr(0, 20) + ")";
    if (names_not_interpreted().contains(op.name) || json.contains("tbg_info")) {
      throw Error(ErrorCode::unsupported,
                  "is not interpreted: packets, gstore, pipelines and shared operations are not", where);
    }
    const auto verb = verbs().find(op.name);
    if (verb == verbs().end()) throw invalid(where, "no operation has this name");
    op.kind = verb->second.kind;
    const bool has_type = json.contains("channel_type") && json["channel_type"] != "none";
    const ChannelType type = has_type ? channel_type(json["channel_type"], where) : kMemory;
    if (op.name == "put" && type == kPort) op.kind = MscclppKind::port_put;
    op.signals = op.name == "pws" || op.name == "pwsf";
    op.flushes = op.name == "pwsf";
    if (json.contains("channel_ids")) read_channels(json, lists, type, op, where);
    if (json.contains("src_buff")) op.sources = read_buffers(json, "src_buff", lists, type, where);
    if (json.contains("dst_buff")) op.destinations = read_buffers(json, "dst_buff", lists, type, where);
    switch (op.kind) {
      case MscclppKind::nop:
        break;
      case MscclppKind::barrier:
        op.barrier = number(json, "barrier_id", where, limits_.barriers);
        op.barrier_blocks = number(json, "num_threadblocks", where, kMaxChunks);
        break;
      case MscclppKind::signal:
      case MscclppKind::relaxed_signal:
      case MscclppKind::wait:
      case MscclppKind::relaxed_wait:
      case MscclppKind::flush:
        check_sync(op, has_type, type, where);
        break;
      case MscclppKind::port_put:
        check_port_put(op, type, where);
        [[fallthrough]];
      case MscclppKind::copy:
      case MscclppKind::reduce:
        if (verb->second.by_switch != (type == kSwitch)) throw invalid(where, "is for switch channels, or is not");
        if (type == kSwitch) {
          check_switch_sum(json, op, where);
        } else {
          check_data(json, verb->second, op, lists.rank, type, where);
        }
        break;
      case MscclppKind::acquire:
      case MscclppKind::release:
        read_semaphores(json, lists.rank, op, where);
        break;
    }
    return op;
  }

  void read_channels(const Json& json, const BlockLists& lists, ChannelType type, MscclppOp& op,
                     const std::string& where) const {
    const Json& ids = list(json, "channel_ids", where);
    if (ids.size() > limits_.channels_per_op) {
      throw invalid(where,
                    std::to_string(ids.size()) + " channels, at most " + std::to_string(limits_.channels_per_op));
    }
    for (const Json& id : ids) {
      const auto& known = lists.channels[type];
      op.channels.push_back(known[number_in(id, "a channel id of the block", where, known.size())]);
    }
    const std::set<uint32_t> distinct(op.channels.begin(), op.channels.end());
    const bool data =
        op.kind == MscclppKind::copy || op.kind == MscclppKind::port_put || op.kind == MscclppKind::reduce;
    if (!data && distinct.size() != op.channels.size()) throw invalid(where, "names a channel twice");
  }

  std::vector<MscclppRange> read_buffers(const Json& json, const char* key, const BlockLists& lists, ChannelType type,
                                         const std::string& where) const {
    const Json& buffers = list(json, key, where);
    if (buffers.size() > limits_.buffers_per_op) {
      throw invalid(where, std::to_string(buffers.size()) + " buffers in " + key + ", at most " +
                               std::to_string(limits_.buffers_per_op));
    }
    std::vector<MscclppRange> ranges;
    for (const Json& buffer : buffers) {
      MscclppRange range{.rank = lists.rank};
      const bool remote = buffer.is_object() && buffer.contains("buffer_id");
      const SwitchChannel* by_switch = nullptr;
      if (type == kSwitch) {
        const auto& known = lists.channels[kSwitch];
        by_switch = &connections_[lists.rank].switches[known[number(buffer, "switch_channel_id", where, known.size())]];
        range.buffer = by_switch->kind;
      } else if (remote) {
        const auto& known = lists.buffers[type];
        const RemoteBuffer& there =
            connections_[lists.rank].buffers[known[number(buffer, "buffer_id", where, known.size())]];
        range.rank = there.rank;
        range.buffer = there.kind;
      } else {
        range.buffer = buffer_kind(field(buffer, "type", where), where);
      }
      range.first = number(buffer, "index", where, kMaxChunks);
      range.count = number(buffer, "size", where, kMaxChunks);
      const uint32_t chunks = chunks_of(range);
      if (range.count == 0 || range.first + range.count > chunks) {
        throw invalid(where, std::string(key) + " index " + std::to_string(range.first) + " size " +
                                 std::to_string(range.count) + " is outside the buffer of " + std::to_string(chunks) +
                                 " chunks on gpu " + std::to_string(range.rank));
      }
      if (by_switch == nullptr) ranges.push_back(range);
      for (const uint32_t rank : by_switch != nullptr ? by_switch->ranks : std::vector<uint32_t>()) {
        ranges.push_back(range);
        ranges.back().rank = rank;
      }
    }
    return ranges;
  }

  uint32_t chunks_of(const MscclppRange& range) const {
    const MemoryShape shape = shape_of(plan_, {});
    if (range.buffer == BufferKind::input) return shape.input_chunks();
    if (range.buffer == BufferKind::output) return shape.output_chunks();
    return shape.scratch_chunks[range.rank];
  }

  void check_sync(const MscclppOp& op, bool has_type, ChannelType type, const std::string& where) const {
    if (!has_type || op.channels.empty()) throw invalid(where, "needs a channel_type and channel_ids");
    if (op.kind == MscclppKind::flush) {
      if (type != kPort) throw invalid(where, "only port channels are flushed");
      return;
    }
    for (const uint32_t id : op.channels) {
      if (plan_.channels[id].partner != MscclppChannel::kNone) continue;
      throw invalid(where, "the channel to gpu " + std::to_string(plan_.channels[id].peer) + " has no other end there");
    }
  }

  void check_port_put(const MscclppOp& op, ChannelType type, const std::string& where) const {
    if (type != kPort) throw invalid(where, "over a memory channel it would not signal; use put, nop, signal");
    if (op.channels.size() != op.destinations.size()) throw invalid(where, "needs one channel for each destination");
    for (size_t i = 0; i < op.channels.size(); ++i) {
      const MscclppChannel& channel = plan_.channels[op.channels[i]];
      if (channel.peer != op.destinations[i].rank) {
        throw invalid(where, "puts into gpu " + std::to_string(op.destinations[i].rank) + " over a channel to gpu " +
                                 std::to_string(channel.peer));
      }
      if (op.signals && channel.partner == MscclppChannel::kNone) {
        throw invalid(where, "the channel to gpu " + std::to_string(channel.peer) + " has no other end there");
      }
    }
  }

  void check_data(const Json& json, const Verb& verb, const MscclppOp& op, uint32_t rank, ChannelType type,
                  const std::string& where) const {
    const auto expect = [&](bool holds, const char* otherwise) {
      if (!holds) throw invalid(where, otherwise);
    };
    const auto all_after = [&](const std::vector<MscclppRange>& ranges, size_t from, bool remote) {
      return std::all_of(ranges.begin() + static_cast<ptrdiff_t>(std::min(from, ranges.size())), ranges.end(),
                         [&](const MscclppRange& range) { return (range.rank != rank) == remote; });
    };
    // A sum's first source and first destination are its own, whatever the others are.
    const size_t own = verb.sums ? 1 : 0;
    expect(all_after(op.sources, own, verb.reads_remote),
           verb.reads_remote ? "its sources must be remote, but for a sum's first" : "reads a remote buffer");
    expect(all_after(op.destinations, own, verb.writes_remote),
           verb.writes_remote ? "its destinations must be remote, but for a sum's first" : "writes a remote buffer");
    if (verb.sums) {
      expect(op.sources.size() >= 2, "a sum needs two sources");
      expect(op.sources[0].rank == rank, "a sum's first source must be its own");
      expect(!op.destinations.empty() && op.destinations[0].rank == rank, "a sum's first destination must be its own");
      expect((op.destinations.size() > 1) == verb.writes_remote,
             "res and rres have remote destinations, re and rre have none");
      expect(type == kMemory || (!verb.reads_remote && !verb.writes_remote),
             "sums reach peers over memory channels only");
      expect(!json.contains("reduce_op") || json["reduce_op"] == "sum", "reduce_op is not sum");
    } else {
      expect(!op.sources.empty(), "has no source");
      expect(op.sources.size() == op.destinations.size(), "needs one source for each destination");
    }
    const uint32_t chunks = op.sources[0].count;
    for (size_t i = 0; i < op.sources.size(); ++i) {
      expect(op.sources[i].count == (verb.sums ? chunks : op.destinations[i].count), "sizes differ");
    }
    for (const MscclppRange& range : op.destinations) expect(!verb.sums || range.count == chunks, "sizes differ");
    check_overlaps(op, where);
    if (op.name == "get") {
      expect(type == kMemory, "get is for memory channels");
      // The kernel reads the peer at the destination's offset and writes at the source's.
      for (size_t i = 0; i < op.sources.size(); ++i) {
        expect(op.sources[i].first == op.destinations[i].first,
               "the kernel swaps the two offsets of get; make them equal");
      }
    } else if (op.name == "copy") {
      expect(op.sources.size() == 1, "copies one buffer");
    } else if (op.name == "put" && type == kMemory) {
      // The kernel takes the buffer of the first source for all.
      for (const MscclppRange& range : op.sources)
        expect(range.buffer == op.sources[0].buffer, "has sources in two buffers");
    }
  }

  // What one switch channel reads, another of the same ranks, or the same, writes.
  static void check_switch_sum(const Json& json, const MscclppOp& op, const std::string& where) {
    const auto one = [&](const char* key) { return json.contains(key) && json[key].size() == 1; };
    if (!one("src_buff") || !one("dst_buff")) throw invalid(where, "needs one source and one destination");
    if (op.sources.size() != op.destinations.size() || op.sources[0].count != op.destinations[0].count) {
      throw invalid(where, "its source and destination differ in ranks or size");
    }
    if (json.contains("reduce_op") && json["reduce_op"] != "sum") throw invalid(where, "reduce_op is not sum");
    check_overlaps(op, where);
  }

  // The threads of a block share an operation element by element, in no order.
  static void check_overlaps(const MscclppOp& op, const std::string& where) {
    const auto overlap = [](const MscclppRange& a, const MscclppRange& b) {
      return a.rank == b.rank && a.buffer == b.buffer && a.first < b.first + b.count && b.first < a.first + a.count;
    };
    for (size_t i = 0; i < op.destinations.size(); ++i) {
      const MscclppRange& written = op.destinations[i];
      for (size_t j = 0; j < i; ++j) {
        if (overlap(written, op.destinations[j])) throw invalid(where, "writes one place twice");
      }
      for (const MscclppRange& read : op.sources) {
        if (overlap(written, read) && written.first != read.first) throw invalid(where, "moves a buffer over itself");
      }
    }
  }

  void read_semaphores(const Json& json, uint32_t rank, MscclppOp& op, const std::string& where) const {
    const size_t known = plan_.gpus[rank].semaphores.size();
    for (const Json& id : list(json, "semaphore_ids", where)) {
      op.semaphores.push_back(number_in(id, "a semaphore id", where, known));
    }
    const std::set<uint32_t> distinct(op.semaphores.begin(), op.semaphores.end());
    if (distinct.empty() || distinct.size() != op.semaphores.size())
      throw invalid(where, "needs semaphores, each once");
  }

  void check_barriers(uint32_t rank) const {
    const auto& blocks = plan_.gpus[rank].blocks;
    std::map<uint32_t, uint32_t> size_of;
    for (size_t b = 0; b < blocks.size(); ++b) {
      for (size_t i = 0; i < blocks[b].size(); ++i) {
        const MscclppOp& op = blocks[b][i];
        if (op.kind != MscclppKind::barrier) continue;
        const std::string where =
            "gpu " + std::to_string(rank) + " block " + std::to_string(b) + " op " + std::to_string(i);
        const auto [known, fresh] = size_of.emplace(op.barrier, op.barrier_blocks);
        if (known->second != op.barrier_blocks) throw invalid(where, "another block gives this barrier another size");
        if (op.barrier_blocks == 0 || op.barrier_blocks > blocks.size()) {
          throw invalid(where, "a barrier for " + std::to_string(op.barrier_blocks) + " of " +
                                   std::to_string(blocks.size()) + " blocks");
        }
      }
    }
  }

  // Ends of channels count signals without regard to blocks: with two blocks at one end, nobody knows whose it was.
  void check_single_users() const {
    std::array<std::map<uint32_t, uint32_t>, 2> user;  // by waiting or signalling, then channel: the block
    for (const MscclppGpu& gpu : plan_.gpus) {
      for (uint32_t b = 0; b < gpu.blocks.size(); ++b) {
        for (const MscclppOp& op : gpu.blocks[b]) {
          const bool waits = op.kind == MscclppKind::wait || op.kind == MscclppKind::relaxed_wait;
          const bool signals = op.kind == MscclppKind::signal || op.kind == MscclppKind::relaxed_signal || op.signals;
          if (!waits && !signals) continue;
          for (const uint32_t id : op.channels) {
            const auto [known, fresh] = user[waits ? 1 : 0].emplace(id, b);
            if (known->second == b) continue;
            const MscclppChannel& channel = plan_.channels[id];
            throw invalid("gpu " + std::to_string(channel.rank) + " block " + std::to_string(b),
                          "and block " + std::to_string(known->second) + " both " + (waits ? "wait" : "signal") +
                              " on " + (channel.port ? "port" : "memory") + " channel " +
                              std::to_string(channel.number));
          }
        }
      }
    }
  }

  const MscclppLimits& limits_;
  MscclppPlan plan_;
  std::vector<Connections> connections_;  // by rank
};

}  // namespace

MscclppPlan parse_mscclpp(std::string_view json, const MscclppLimits& limits) {
  const Json document = Json::parse(json, nullptr, false);
  if (document.is_discarded()) throw invalid("plan", "is no JSON");
  return Reader(limits).read(document);
}

}  // namespace banyan::testing
