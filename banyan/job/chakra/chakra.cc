#include "banyan/job/chakra/chakra.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/base/plain_text.h"
#include "banyan/job/chakra/binary.h"
#include "banyan/job/chakra/groups.h"
#include "banyan/job/chakra/json.h"
#include "banyan/job/chakra/streams.h"
#include "banyan/job/text/id_table.h"

namespace banyan::job::chakra {
namespace {
// From a time in seconds; up, so that what takes time never takes none.
Picoseconds picoseconds(double seconds) {
  if (!(seconds <= 1e6)) throw invalid("its work takes more than 11 days at the rates given; check them");
  return Picoseconds(static_cast<int64_t>(std::ceil(seconds * 1e12)));
}

uint64_t natural(const std::optional<int64_t>& value, const char* what) {
  if (!value) throw invalid(std::string("has no ") + what);
  if (*value < 0) throw invalid(std::string(what) + " is negative, " + std::to_string(*value));
  return static_cast<uint64_t>(*value);
}

// The trace of one rank.
class RankReader {
 public:
  RankReader(uint32_t rank, const Options& options, Groups& groups, Job::Builder& builder)
      : rank_(rank), options_(options), groups_(groups), builder_(builder) {
    program_ = builder.begin_program("rank " + std::to_string(rank));
  }

  void add(const TraceNode& node) {
    current_ = {node.id, node.name};
    is_adding_ = true;
    if (rows_.size() >= Job::kMaxNodes) {
      throw Error(ErrorCode::unsupported, "there are more than " + std::to_string(Job::kMaxNodes) + " nodes");
    }
    const auto number = static_cast<uint32_t>(rows_.size());
    if (!numbers_.add(node.id, number)) throw invalid("this id is there twice");
    add_dependencies(number, node.data_dependencies, "data");
    if (options_.control_dependencies) add_dependencies(number, node.control_dependencies, "control");
    rows_.push_back(row_of(node));
    is_adding_ = false;
  }
  // The node that is looked at, or the one before what is looked at, for errors: nothing before the first.
  std::string current() const {
    if (!current_) return "";
    return std::string(is_adding_ ? "node " : "after node ") + std::to_string(current_->id) +
           (current_->name.empty() ? "" : " '" + current_->name.substr(0, 80) + "'");
  }

  // Returns the slots: groups, peers.
  struct Slots {
    uint32_t program;
    std::vector<uint32_t> groups, peers;
  };
  Slots finish() {
    is_adding_ = true;
    for (const Late& late : late_) {
      if (const auto on = numbers_.find(late.on)) {
        builder_.add_need(late.node, *on);
        continue;
      }
      set_current(late.node);
      throw invalid(std::string("has a ") + late.kind + " dependency on node " + std::to_string(late.on) +
                    ", which is not there" +
                    (late.kind == std::string_view("control")
                         ? "; converters drop such nodes, so leave control dependencies out "
                           "(--data-dependencies-only)"
                         : ""));
    }
    current_.reset();
    // Where some collectives ran on a device, those of the host only started them; and so for computes, which are then
    // time of the host.
    const auto any_on_device = [&](auto&& is_kind) {
      return std::ranges::any_of(rows_, [&](const Row& row) { return is_kind(row.node.kind) && !row.is_on_host; });
    };
    const bool has_device_side = any_on_device([](NodeKind kind) { return kind == NodeKind::collective; });
    const bool computes_on_device =
        any_on_device([](NodeKind kind) { return kind == NodeKind::compute || kind == NodeKind::memory; });
    for (uint32_t number = 0; number < rows_.size(); ++number) {
      set_current(number);
      Row& row = rows_[number];
      if (row.node.kind == NodeKind::collective) finish_collective(row, has_device_side);
      row.node.stream = stream_of(row);
      if (row.node.kind == NodeKind::compute && row.is_on_host && computes_on_device) {
        row.node.kind = NodeKind::host;
      }
      builder_.add_node(row.node);
    }
    current_.reset();
    builder_.finish_program();
    return {program_, std::move(slots_.groups), std::move(slots_.peers)};
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int64_t kNoRank = INT64_MIN;

  struct Row {
    Node node;
    uint64_t id = 0;
    uint32_t group = kNone;   // into group_keys_, of a collective
    int64_t root = kNoRank;   // of a collective: a rank of the job
    int64_t stream = -1;      // attribute
    bool is_on_host = false;  // as is_cpu_op says
    bool is_wrapper = false;  // a collective of the host that does not say what it moves
  };
  struct Late {  // a dependency on a node that was not there yet
    uint32_t node;
    uint64_t on;
    const char* kind;  // "data", "control"
  };
  struct Current {
    uint64_t id;
    std::string name;
  };
  struct GroupKey {
    std::string pg_name;
    std::vector<bool> involved_dim;
    uint32_t slot = kNone;
    uint32_t group = kNone;
    auto operator<=>(const GroupKey& other) const {
      return std::tie(pg_name, involved_dim) <=> std::tie(other.pg_name, other.involved_dim);
    }
  };

  void set_current(uint32_t number) {
    current_ = {rows_[number].id, std::string(builder_.name(rows_[number].node.name))};
  }

  void add_dependencies(uint32_t number, const std::vector<uint64_t>& ids, const char* kind) {
    for (const uint64_t id : ids) {
      if (const auto on = numbers_.find(id)) {
        builder_.add_need(number, *on);
      } else {
        late_.push_back({number, id, kind});
      }
    }
  }

  Row row_of(const TraceNode& node) {
    Row row;
    row.id = node.id;
    row.is_on_host = node.is_cpu_op.value_or(0) != 0;
    row.node.name = builder_.add_name(node.name);
    if (node.stream && *node.stream >= 0) row.stream = *node.stream;
    if (node.type < 0 || node.type > static_cast<int64_t>(NodeType::collective)) {
      throw Error(ErrorCode::unsupported, "is of type " + std::to_string(node.type) +
                                              ", which is not known (known: 1 to 7, metadata to collective)");
    }
    switch (static_cast<NodeType>(node.type)) {
      case NodeType::invalid:
        throw invalid("is of type 0, which no node may have");
      case NodeType::metadata:
        row.node.kind = NodeKind::marker;
        read_groups(node);
        break;
      case NodeType::memory_load:
      case NodeType::memory_store:
        row.node.kind = NodeKind::memory;
        row.node.bytes = node.tensor_size ? natural(node.tensor_size, "tensor_size") : 0;
        row.node.duration = duration_of(node);
        break;
      case NodeType::compute:
        row.node.kind = NodeKind::compute;
        row.node.flop = node.num_ops ? static_cast<double>(natural(node.num_ops, "num_ops")) : 0;
        row.node.duration = duration_of(node);
        read_groups(node);
        break;
      case NodeType::send:
      case NodeType::receive:
        read_message(node, row.node);
        break;
      case NodeType::collective:
        read_collective(node, row);
        break;
    }
    return row;
  }

  // The groups that a node declares, if it does.
  void read_groups(const TraceNode& node) {
    if (node.name.find("process_group:init") == std::string::npos) return;
    for (auto& [name, ranks] : Groups::parse_init(node.input_values)) declared_[name] = std::move(ranks);
  }

  Picoseconds duration_of(const TraceNode& node) const {
    if (node.duration_ps) {
      const uint64_t given = natural(node.duration_ps, "duration_ps");
      if (given > static_cast<uint64_t>(Node::kMaxDuration.count())) throw invalid("duration_ps is above 13 days");
      return Picoseconds(static_cast<int64_t>(given));
    }
    if (node.duration_micros > uint64_t{INT64_MAX}) throw invalid("its duration is negative");
    if (node.duration_micros > static_cast<uint64_t>(Node::kMaxDuration.count() / 1'000'000)) {
      throw invalid("its duration of " + std::to_string(node.duration_micros) + " us is above 13 days; check its unit");
    }
    if (node.duration_micros > 0) return std::chrono::microseconds(static_cast<int64_t>(node.duration_micros));
    // A kernel of less than a microsecond reads as 0, too, and says nothing more.
    const auto needs_rate = [](const char* what, const char* option) {
      return invalid(std::string("has no duration but ") + what + "; give a rate, " + option);
    };
    double seconds = 0;
    if (const uint64_t flop = node.num_ops ? natural(node.num_ops, "num_ops") : 0; flop > 0) {
      if (!(options_.flop_per_second > 0)) throw needs_rate("num_ops", "flop_per_second (--flops)");
      seconds = static_cast<double>(flop) / options_.flop_per_second;
    }
    if (const uint64_t bytes = node.tensor_size ? natural(node.tensor_size, "tensor_size") : 0; bytes > 0) {
      if (!(options_.bytes_per_second > 0)) throw needs_rate("tensor_size", "bytes_per_second (--memory-bandwidth)");
      seconds = std::max(seconds, static_cast<double>(bytes) / options_.bytes_per_second);
    }
    return picoseconds(seconds);
  }

  // comm_type is not looked at: some writers put the type of the node there.
  void read_message(const TraceNode& node, Node& out) {
    const bool is_send = node.type == static_cast<int64_t>(NodeType::send);
    out.kind = is_send ? NodeKind::send : NodeKind::receive;
    out.bytes = natural(node.comm_size, "comm_size");
    const char* what = is_send ? "comm_dst" : "comm_src";
    const std::optional<int64_t>& peer = is_send ? node.comm_dst : node.comm_src;
    if (!is_send && peer == -1) {
      out.slot = Node::kAnyPeer;
    } else {
      const uint64_t rank = natural(peer, what);
      if (rank >= groups_.rank_count()) {
        throw invalid(std::string(what) + " is " + std::to_string(rank) + ", but there are traces of ranks 0 to " +
                      std::to_string(groups_.rank_count() - 1));
      }
      if (rank == rank_) throw invalid(std::string(what) + " is the rank itself; leave such messages out");
      out.slot = slot_of(slots_.peers, slot_of_peer_, static_cast<uint32_t>(rank));
    }
    const int64_t tag = node.comm_tag.value_or(0);
    if (!is_send && tag == -1) {
      out.tag = Node::kAnyTag;
    } else if (tag < 0 || tag >= int64_t{Node::kAnyTag}) {
      throw invalid("comm_tag " + std::to_string(tag) + " is not in 0 to " + std::to_string(Node::kAnyTag - 1));
    } else {
      out.tag = static_cast<uint32_t>(tag);
    }
  }

  void read_collective(const TraceNode& node, Row& row) {
    row.node.kind = NodeKind::collective;
    const bool is_barrier = node.comm_type && *node.comm_type >= 0 &&
                            static_cast<size_t>(*node.comm_type) < kCollectiveTypes.size() &&
                            kCollectiveTypes[static_cast<size_t>(*node.comm_type)] == CollectiveKind::barrier;
    row.is_wrapper = row.is_on_host && (!node.comm_type || (!node.comm_size && !is_barrier));
    if (row.is_wrapper) return;
    const uint64_t type = natural(node.comm_type, "comm_type");
    if (type >= kCollectiveTypes.size())
      throw invalid("comm_type " + std::to_string(type) + " is not known (known: 0 to 9)");
    row.node.collective = kCollectiveTypes[type];
    row.node.bytes = is_barrier ? 0 : natural(node.comm_size, "comm_size");
    const bool from_root =
        row.node.collective == CollectiveKind::broadcast || row.node.collective == CollectiveKind::scatter;
    if (is_rooted(row.node.collective)) {
      const std::optional<int64_t>& root = from_root ? node.comm_src : node.comm_dst;
      if (root) row.root = *root;
    }
    GroupKey key{node.pg_name.value_or(""), node.involved_dim};
    const auto [it, is_new] = group_numbers_.try_emplace({key.pg_name, key.involved_dim}, group_keys_.size());
    if (is_new) group_keys_.push_back(std::move(key));
    row.group = static_cast<uint32_t>(it->second);
  }

  // Groups may be declared later in the trace than they are used.
  void finish_collective(Row& row, bool has_device_side) {
    Node& node = row.node;
    if (row.is_wrapper || (row.is_on_host && has_device_side)) {
      node = {.kind = NodeKind::marker, .name = node.name};
      return;
    }
    GroupKey& key = group_keys_[row.group];
    if (key.group == kNone) {
      key.group = groups_.find(rank_, key.pg_name, key.involved_dim, declared_);
      key.slot = slot_of(slots_.groups, slot_of_group_, key.group);
    }
    node.slot = key.slot;
    const std::vector<uint32_t>& ranks = groups_.ranks(key.group);
    if (std::ranges::find(ranks, rank_) == ranks.end()) {
      throw invalid("is a collective of group '" + key.pg_name.substr(0, 60) + "', of which rank " +
                    std::to_string(rank_) + " is not a member");
    }
    if (row.root != kNoRank) {
      const auto root = std::ranges::find(ranks, row.root);
      if (root == ranks.end()) {
        throw invalid("its root, rank " + std::to_string(row.root) + ", is not a member of its group");
      }
      node.tag = static_cast<uint32_t>(root - ranks.begin());
    }
    const bool is_gathering =
        node.collective == CollectiveKind::all_gather || node.collective == CollectiveKind::gather;
    if (is_gathering && options_.gather_size == Options::GatherSize::shard) {
      if (node.bytes > Node::kMaxBytes / ranks.size()) {
        throw invalid("comm_size " + std::to_string(node.bytes) + " times " + std::to_string(ranks.size()) +
                      " members is above 2^60 bytes");
      }
      node.bytes *= ranks.size();
    }
  }

  static uint32_t slot_of(std::vector<uint32_t>& slots, std::unordered_map<uint32_t, uint32_t>& known, uint32_t value) {
    const auto [it, is_new] = known.try_emplace(value, static_cast<uint32_t>(slots.size()));
    if (is_new) slots.push_back(value);
    return it->second;
  }

  uint16_t stream_of(const Row& row) {
    const auto number = row.stream < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(row.stream));
    const StreamLabel stream = stream_label(row.node.kind, row.is_on_host, number);
    // On a numbered stream computes, memory and collectives are one.
    const auto key = std::pair(stream.number ? *stream.number + 1 : 0,
                               stream.number && !stream.is_free() ? StreamLabel::Kind::compute : stream.kind);
    const auto [it, is_new] = streams_.try_emplace(key);
    if (is_new) {
      const auto order = stream.is_free() ? Stream::Order::free : Stream::Order::ready;
      it->second = builder_.add_stream({stream.name(), order});
    }
    return it->second;
  }

  uint32_t rank_;
  const Options& options_;
  Groups& groups_;
  Job::Builder& builder_;
  uint32_t program_ = 0;
  std::vector<Row> rows_;
  IdTable numbers_;
  std::vector<Late> late_;
  std::optional<Current> current_;
  bool is_adding_ = false;
  Groups::Table declared_;  // by this trace
  std::vector<GroupKey> group_keys_;
  std::map<std::pair<std::string, std::vector<bool>>, size_t> group_numbers_;  // into group_keys_
  Slots slots_{};
  std::unordered_map<uint32_t, uint32_t> slot_of_group_, slot_of_peer_;
  std::map<std::pair<uint64_t, StreamLabel::Kind>, uint16_t> streams_;
};

class Reader {
 public:
  Reader(std::string name, uint32_t rank_count, std::string_view groups, const Options& options)
      : options_(options), builder_(std::move(name)), groups_(rank_count, groups, options.dimensions, builder_) {}

  // `open` gives the source from its beginning; `size` is that of the file as it is stored, 0 where it is not known.
  template <typename Open>
  void read(const std::string& name, uint64_t size, Open&& open) {
    RankReader rank(static_cast<uint32_t>(slots_.size()), options_, groups_, builder_);
    std::optional<TraceSource> source;
    try {
      const JsonForm form = json_form(open());
      source.emplace(open());
      const uint64_t most = size == 0 ? UINT64_MAX : std::max(size * kMaxGzipRatio, kMinGzipLimit);
      const auto add = [&](const TraceNode& node) {
        if (source->position() > most) {
          throw Error(ErrorCode::unsupported, "unpacks to more than " + std::to_string(kMaxGzipRatio) +
                                                  " times its size; unpack it first if it is what you want");
        }
        rank.add(node);
      };
      if (form != JsonForm::none) {
        read_json(*source, form, add);
      } else {
        BinaryReader reader(*source);
        for (TraceNode node; reader.next(node);) add(node);
      }
    } catch (const Error& error) {
      throw error.where().find(name) != std::string::npos ? error : error.within(place(name, source, rank));
    }
    source.reset();
    try {
      slots_.push_back(rank.finish());
    } catch (const Error& error) {
      const std::string node = rank.current();
      throw error.within(node.empty() ? name : name + " " + node);
    }
  }

  Job finish() && {
    for (const RankReader::Slots& slots : slots_) builder_.add_rank(slots.program, slots.groups, slots.peers);
    return std::move(builder_).build();
  }

 private:
  static std::string place(const std::string& name, const std::optional<TraceSource>& source, const RankReader& rank) {
    std::string text = name;
    if (source) text += " byte " + std::to_string(source->position());
    if (const std::string node = rank.current(); !node.empty()) text += " " + node;
    return text;
  }

  const Options& options_;
  Job::Builder builder_;
  Groups groups_;
  std::vector<RankReader::Slots> slots_;
};

uint32_t checked_count(size_t files) {
  if (files == 0) throw invalid("there are no traces; give one for each rank");
  if (files > Job::kMaxRanks)
    throw Error(ErrorCode::unsupported, "there are more traces than " + std::to_string(Job::kMaxRanks));
  return static_cast<uint32_t>(files);
}

}  // namespace

Job read_job(std::span<const std::string> files, const std::string& groups_file, const Options& options) {
  const std::string groups = groups_file.empty() ? "" : read_plain_text(groups_file, uint64_t{1} << 30).text;
  const uint32_t count = checked_count(files.size());
  std::optional<Reader> reader;
  at_place(groups_file, [&] { reader.emplace(files[0], count, groups, options); });
  for (const std::string& file : files) {
    std::error_code ignored;
    const bool is_file = std::filesystem::is_regular_file(file, ignored);
    const uint64_t size = is_file ? std::filesystem::file_size(file, ignored) : 0;
    reader->read(file, size, [&] { return TraceSource::from_file(file); });
  }
  return std::move(*reader).finish();
}

Job parse_job(std::span<const TraceText> files, std::string_view groups, const Options& options) {
  const uint32_t count = checked_count(files.size());
  std::optional<Reader> reader;
  at_place("groups", [&] { reader.emplace(files[0].name, count, groups, options); });
  for (const TraceText& file : files) {
    reader->read(file.name, file.content.size(), [&] { return TraceSource::from_text(file.content, file.name); });
  }
  return std::move(*reader).finish();
}

std::vector<std::string> find_files(const std::string& prefix) {
  namespace fs = std::filesystem;
  const fs::path path(prefix);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string start = path.filename().string() + ".";
  std::map<uint64_t, std::string> by_rank;
  std::error_code failed;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    std::string name = it->path().filename().string();
    if (!name.starts_with(start)) continue;
    std::string rest = name.substr(start.size());
    if (rest.ends_with(".gz")) rest.resize(rest.size() - 3);
    const size_t digits = rest.find_first_not_of("0123456789");
    if (digits == 0 || digits > 7 || digits == std::string::npos) continue;
    if (rest.substr(digits) != ".et" && rest.substr(digits) != ".json") continue;
    const uint64_t rank = std::stoull(rest.substr(0, digits));
    const std::string full = path.has_parent_path() ? (folder / name).string() : name;
    if (const auto [at, is_new] = by_rank.try_emplace(rank, full); !is_new) {
      throw invalid("both " + std::min(at->second, full) + " and " + std::max(at->second, full) +
                    " are traces of rank " + std::to_string(rank) + "; remove one");
    }
  }
  std::vector<std::string> files;
  for (const auto& [rank, name] : by_rank) {
    if (rank != files.size()) break;
    files.push_back(name);
  }
  if (files.size() < by_rank.size() || files.empty()) {
    throw Error(ErrorCode::not_found, prefix + "." + std::to_string(files.size()) + ".et is not there" +
                                          (files.empty() && by_rank.empty() ? "" : ", but traces of higher ranks are"));
  }
  return files;
}

}  // namespace banyan::job::chakra
