#include "banyan/job/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/job/name_table.h"

namespace banyan::job {
namespace {
constexpr std::array<std::string_view, 7> kNodeKinds = {"compute", "memory", "collective", "send",
                                                        "receive", "marker", "host"};

struct Dependency {
  uint32_t node, on;
};

bool is_message(NodeKind kind) { return kind == NodeKind::send || kind == NodeKind::receive; }

// Lists by node, each ascending and without repetition; both vectors stay empty where there are no pairs.
void make_lists(size_t nodes, std::vector<Dependency> pairs, std::vector<uint64_t>& start, std::vector<uint32_t>& all) {
  if (pairs.empty()) return;
  start.assign(nodes + 1, 0);
  for (const Dependency& pair : pairs) ++start[pair.node];
  std::exclusive_scan(start.begin(), start.end(), start.begin(), uint64_t{0});
  all.resize(pairs.size());
  for (const Dependency& pair : pairs) all[start[pair.node]++] = pair.on;
  // Now start[i] is the end of list i, which is where list i + 1 began.
  uint64_t begin = 0, kept = 0;
  for (size_t i = 0; i < nodes; ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = all.begin() + static_cast<std::ptrdiff_t>(start[i]);
    begin = start[i];
    if (!std::is_sorted(first, last)) std::sort(first, last);
    start[i] = kept;
    for (auto it = first; it != last; ++it) {
      if (kept == start[i] || all[kept - 1] != *it) all[kept++] = *it;
    }
  }
  start[nodes] = kept;
  all.resize(kept);
  if (all.capacity() > kept + kept / 8) all.shrink_to_fit();
}

// Looks for nodes of one program that wait for themselves. What a node waits for: what it needs, what it follows, and,
// on a stream that keeps its order, the node before it.
class CircleSearch {
 public:
  CircleSearch(const Program& program, const NameTable& names) : program_(program), names_(names) {}

  // A text that shows the circle, or nothing. Linear; takes no memory when all nodes wait for lower ones.
  std::string run() {
    if (!has_reference_ahead()) return "";
    find_previous();
    state_.assign(size(), kNew);
    for (uint32_t node = 0; node < size(); ++node) {
      if (state_[node] != kNew) continue;
      if (const size_t from = descend(node); from != SIZE_MAX) return describe(from);
    }
    return "";
  }

 private:
  enum State : uint8_t { kNew, kOpen, kDone };
  struct Frame {
    uint32_t node, next;  // the next of what it waits for
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  size_t size() const { return program_.nodes.size(); }

  bool has_reference_ahead() const {
    for (uint32_t node = 0; node < size(); ++node) {
      const auto needs = program_.needs(node), follows = program_.follows(node);
      if ((!needs.empty() && needs.back() >= node) || (!follows.empty() && follows.back() >= node)) return true;
    }
    return false;
  }

  void find_previous() {
    previous_.assign(size(), kNone);
    std::vector<uint32_t> last(program_.streams.size(), kNone);
    for (uint32_t node = 0; node < size(); ++node) {
      const uint16_t stream = program_.nodes[node].stream;
      if (program_.streams[stream].order == Stream::Order::program) {
        previous_[node] = std::exchange(last[stream], node);
      }
    }
  }

  // The i-th node that `node` waits for, kNone behind the last.
  uint32_t waits_for(uint32_t node, uint32_t i) const {
    if (previous_[node] != kNone && i-- == 0) return previous_[node];
    const auto needs = program_.needs(node);
    if (i < needs.size()) return needs[i];
    const auto follows = program_.follows(node);
    return i - needs.size() < follows.size() ? follows[i - needs.size()] : kNone;
  }

  // Depth first. Returns where in path_ a circle begins that ends at its last, SIZE_MAX if there is none below `root`.
  size_t descend(uint32_t root) {
    path_.assign(1, {root, 0});
    state_[root] = kOpen;
    while (!path_.empty()) {
      Frame& top = path_.back();
      const uint32_t on = waits_for(top.node, top.next++);
      if (on == kNone) {
        state_[top.node] = kDone;
        path_.pop_back();
      } else if (state_[on] == kNew) {
        state_[on] = kOpen;
        path_.push_back({on, 0});
      } else if (state_[on] == kOpen) {
        size_t from = path_.size() - 1;
        while (path_[from].node != on) --from;
        return from;
      }
    }
    return SIZE_MAX;
  }

  std::string describe(size_t from) const {
    constexpr size_t kShown = 8;
    const size_t length = path_.size() - from;
    std::string text = label(path_[from].node);
    for (size_t i = 0; i < length; ++i) {
      if (i == kShown && length > kShown + 1) {
        text += ", and so on over " + std::to_string(length - i) + " more to itself";
        return text;
      }
      const uint32_t node = path_[from + i].node, on = path_[from + (i + 1) % length].node;
      text += (i == 0 ? " " : ", which ") + reason(node, on) + " " + (i + 1 == length ? "the first" : label(on));
    }
    return text;
  }
  std::string label(uint32_t node) const {
    return in_quotes(names_[program_.nodes[node].name]) + " (node " + std::to_string(node) + ")";
  }
  std::string reason(uint32_t node, uint32_t on) const {
    const auto holds = [on](std::span<const uint32_t> list) { return std::ranges::binary_search(list, on); };
    if (holds(program_.needs(node))) return "needs";
    return holds(program_.follows(node)) ? "follows" : "comes on its stream after";
  }

  const Program& program_;
  const NameTable& names_;
  std::vector<uint32_t> previous_;
  std::vector<State> state_;
  std::vector<Frame> path_;
};

// Equal for programs that are equal; most of those that are not differ in the number, kinds, sizes or times of their
// nodes.
uint64_t hash_of(const Program& program) {
  uint64_t hash = program.nodes.size() * 31 + program.streams.size();
  for (const Node& node : program.nodes) {
    const uint64_t kind = static_cast<uint64_t>(node.kind) << 8 | static_cast<uint64_t>(node.collective);
    for (const uint64_t part : {kind, node.bytes, static_cast<uint64_t>(node.duration.count())}) {
      hash = (hash ^ part) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

}  // namespace

std::string_view to_string(NodeKind kind) { return kNodeKinds[static_cast<size_t>(kind)]; }

uint64_t Job::node_count() const {
  uint64_t count = 0;
  for (const RankRow& row : ranks_) count += programs_[row.program].nodes.size();
  return count;
}

struct Job::Builder::State {
  Job job;
  NameTable names;                                   // those of the job, until it is built
  std::vector<Dependency> needs, follows;            // of the program begun last
  std::vector<std::string> called;                   // by program, in errors
  std::vector<std::vector<uint32_t>> least_members;  // by program and group slot: one more than the highest root
  size_t finished_nodes = 0;                         // of the programs before the one begun last
  struct Bound {
    uint32_t groups, peers;
  };
  std::vector<Bound> bound;  // by rank: slots as given

  Program& program() {
    CHECK(!job.programs_.empty()) << "begin_program comes first";
    return job.programs_.back();
  }
  std::string at(size_t program, size_t node) const {
    return called[program] + " node " + std::to_string(node) + " " +
           in_quotes(names[job.programs_[program].nodes[node].name]) + ": ";
  }

  void finish_program();
  void check_node(uint32_t node) const;
  void count_slots(Program& program);
  void check_groups() const;
  void check_slots() const;
  void check_memberships() const;
  void share_programs();
};

void Job::Builder::State::check_node(uint32_t number) const {
  const Program& program = job.programs_.back();
  const Node& node = program.nodes[number];
  const auto fail = [&](const std::string& what) {
    const bool is_named = node.name < names.size();
    throw invalid(
        (is_named ? at(job.programs_.size() - 1, number) : called.back() + " node " + std::to_string(number) + ": ") +
        what);
  };
  if (node.name >= names.size()) fail("has name " + std::to_string(node.name) + ", which was not added");
  if (node.stream >= program.streams.size()) {
    fail("is on stream " + std::to_string(node.stream) + " of " + std::to_string(program.streams.size()));
  }
  if (node.duration < Picoseconds(0)) fail("its duration is negative");
  if (node.duration > Node::kMaxDuration) fail("its duration is above 13 days; check its unit");
  CHECK(node.fixed >= Picoseconds(0) && node.fixed <= node.duration) << at(job.programs_.size() - 1, number);
  if (node.bytes > Node::kMaxBytes) fail("its " + std::to_string(node.bytes) + " bytes are above 2^60");
  if (!(node.flop >= 0) || !std::isfinite(node.flop)) fail("its count of floating-point operations is not a number");
  if (node.kind == NodeKind::send && node.slot == Node::kAnyPeer) fail("a send must name its peer");
  if (node.kind == NodeKind::send && node.tag == Node::kAnyTag) fail("a send must name its tag");
}

void Job::Builder::State::count_slots(Program& program) {
  std::vector<uint32_t>& least = least_members.emplace_back();
  for (const Node& node : program.nodes) {
    if (is_message(node.kind) && node.slot != Node::kAnyPeer) {
      program.peer_slots = std::max(program.peer_slots, node.slot + 1);
    }
    if (node.kind != NodeKind::collective) continue;
    if (node.slot >= kMaxRanks) throw invalid("group slot " + std::to_string(node.slot) + " is above a million");
    program.group_slots = std::max(program.group_slots, node.slot + 1);
    if (!is_rooted(node.collective)) continue;
    if (least.size() <= node.slot) least.resize(node.slot + 1, 1);
    least[node.slot] = std::max(least[node.slot], node.tag == UINT32_MAX ? node.tag : node.tag + 1);
  }
}

void Job::Builder::State::finish_program() {
  if (job.programs_.empty() || least_members.size() == job.programs_.size()) return;
  Program& program = job.programs_.back();
  const size_t number = job.programs_.size() - 1;
  program.nodes.shrink_to_fit();
  for (uint32_t node = 0; node < program.nodes.size(); ++node) check_node(node);
  for (const auto* pairs : {&needs, &follows}) {
    for (const Dependency& pair : *pairs) {
      if (std::max(pair.node, pair.on) < program.nodes.size()) continue;
      throw invalid(called[number] + ": node " + std::to_string(pair.node) + " waits for node " +
                    std::to_string(pair.on) + ", but there are " + std::to_string(program.nodes.size()) + " nodes");
    }
  }
  count_slots(program);
  make_lists(program.nodes.size(), std::exchange(needs, {}), program.needs_start_, program.needs_);
  make_lists(program.nodes.size(), std::exchange(follows, {}), program.follows_start_, program.follows_);
  if (const std::string circle = CircleSearch(program, names).run(); !circle.empty()) {
    throw invalid(called[number] + ": nodes wait for one another in a circle: " + circle);
  }
  finished_nodes += program.nodes.size();
}

void Job::Builder::State::check_groups() const {
  std::vector<uint32_t> last_group(job.rank_count(), UINT32_MAX);
  for (uint32_t g = 0; g < job.groups_.size(); ++g) {
    const Group& group = job.groups_[g];
    if (group.ranks.empty()) throw invalid("group " + in_quotes(group.name) + " has no ranks");
    for (const uint32_t rank : group.ranks) {
      if (rank >= job.rank_count()) {
        throw invalid("group " + in_quotes(group.name) + " names rank " + std::to_string(rank) +
                      ", but the job has ranks 0 to " + std::to_string(job.rank_count() - 1));
      }
      if (std::exchange(last_group[rank], g) == g) {
        throw invalid("group " + in_quotes(group.name) + " names rank " + std::to_string(rank) + " twice");
      }
    }
  }
}

void Job::Builder::State::check_slots() const {
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    const std::string who = "rank " + std::to_string(rank);
    const uint32_t number = job.program_number(rank);
    if (number >= job.programs_.size())
      throw invalid(who + " runs program " + std::to_string(number) + ", which is not there");
    const Program& program = job.programs_[number];
    const auto count = [&](const char* what, uint32_t given, uint32_t used) {
      if (given == used) return;
      throw invalid(who + " binds " + std::to_string(given) + " " + what + " slots, but program " +
                    std::to_string(number) + " uses " + std::to_string(used));
    };
    count("group", bound[rank].groups, program.group_slots);
    count("peer", bound[rank].peers, program.peer_slots);
    for (uint32_t slot = 0; slot < program.peer_slots; ++slot) {
      const uint32_t peer = job.peer(rank, slot);
      if (peer == rank) throw invalid(who + " sends to or receives from itself; leave such messages out");
      if (peer >= job.rank_count()) {
        throw invalid(who + " has rank " + std::to_string(peer) + " as a peer, but the job has ranks 0 to " +
                      std::to_string(job.rank_count() - 1));
      }
    }
    for (uint32_t slot = 0; slot < program.group_slots; ++slot) {
      const uint32_t group = job.group(rank, slot);
      if (group >= job.groups_.size())
        throw invalid(who + " uses group " + std::to_string(group) + ", which is not there");
      const auto& least = least_members[number];
      if (slot < least.size() && least[slot] > job.groups_[group].ranks.size()) {
        throw invalid(who + " calls a collective whose root is place " + std::to_string(least[slot] - 1) +
                      " of group " + in_quotes(job.groups_[group].name) + ", which has " +
                      std::to_string(job.groups_[group].ranks.size()) + " members");
      }
    }
  }
}

// Group by group: marks its members, then looks at who uses it. Linear.
void Job::Builder::State::check_memberships() const {
  std::vector<std::vector<uint32_t>> users(job.groups_.size());
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    for (uint32_t slot = 0; slot < job.program(rank).group_slots; ++slot) users[job.group(rank, slot)].push_back(rank);
  }
  std::vector<uint32_t> member_of(job.rank_count(), UINT32_MAX);
  for (uint32_t group = 0; group < job.groups_.size(); ++group) {
    for (const uint32_t rank : job.groups_[group].ranks) member_of[rank] = group;
    for (const uint32_t rank : users[group]) {
      if (member_of[rank] == group) continue;
      throw invalid("rank " + std::to_string(rank) + " calls a collective on group " +
                    in_quotes(job.groups_[group].name) + ", of which it is not a member");
    }
  }
}

// Ranks whose programs are the same, as those of traces often are, run one of them: the first.
void Job::Builder::State::share_programs() {
  std::unordered_multimap<uint64_t, uint32_t> by_hash;  // what is kept, by its new number
  std::vector<uint32_t> number_of(job.programs_.size());
  uint32_t kept = 0;
  for (uint32_t number = 0; number < number_of.size(); ++number) {
    Program& program = job.programs_[number];
    const uint64_t hash = hash_of(program);
    const auto [begin, end] = by_hash.equal_range(hash);
    const auto same =
        std::find_if(begin, end, [&](const auto& entry) { return program == job.programs_[entry.second]; });
    if (same != end) {
      number_of[number] = same->second;
      program = {};
      continue;
    }
    by_hash.emplace(hash, kept);
    number_of[number] = kept;
    if (kept != number) job.programs_[kept] = std::move(program);
    ++kept;
  }
  job.programs_.resize(kept);
  for (RankRow& row : job.ranks_) row.program = number_of[row.program];
}

Job::Builder::Builder(std::string name) : state_(std::make_unique<State>()) { state_->job.name_ = std::move(name); }
Job::Builder::~Builder() = default;

uint32_t Job::Builder::add_name(std::string_view text) { return state_->names.add(text); }

uint32_t Job::Builder::add_group(std::string name, std::vector<uint32_t> ranks) {
  state_->job.groups_.push_back({std::move(name), std::move(ranks)});
  return static_cast<uint32_t>(state_->job.groups_.size() - 1);
}

std::string_view Job::Builder::name(uint32_t number) const { return state_->names[number]; }

void Job::Builder::finish_program() { state_->finish_program(); }

uint32_t Job::Builder::begin_program(std::string called) {
  state_->finish_program();
  state_->called.push_back(called.empty() ? "program " + std::to_string(state_->called.size()) : std::move(called));
  state_->job.programs_.emplace_back();
  return static_cast<uint32_t>(state_->job.programs_.size() - 1);
}

uint16_t Job::Builder::add_stream(Stream stream) {
  auto& streams = state_->program().streams;
  if (streams.size() > UINT16_MAX) {
    throw Error(ErrorCode::unsupported, state_->called.back() + " has more than 65536 streams");
  }
  streams.push_back(std::move(stream));
  return static_cast<uint16_t>(streams.size() - 1);
}

uint32_t Job::Builder::add_node(const Node& node) {
  auto& nodes = state_->program().nodes;
  if (state_->finished_nodes + nodes.size() >= kMaxNodes) {
    throw Error(ErrorCode::unsupported, "the job has more than " + std::to_string(kMaxNodes) + " nodes");
  }
  nodes.push_back(node);
  return static_cast<uint32_t>(nodes.size() - 1);
}

void Job::Builder::add_need(uint32_t node, uint32_t needed) {
  CHECK(!state_->job.programs_.empty()) << "begin_program comes first";
  state_->needs.push_back({node, needed});
}

void Job::Builder::add_follow(uint32_t node, uint32_t followed) {
  CHECK(!state_->job.programs_.empty()) << "begin_program comes first";
  state_->follows.push_back({node, followed});
}

void Job::Builder::add_rank(uint32_t program, std::span<const uint32_t> groups, std::span<const uint32_t> peers) {
  Job& job = state_->job;
  if (job.rank_count() >= kMaxRanks) {
    throw Error(ErrorCode::unsupported, "the job has more than " + std::to_string(kMaxRanks) + " ranks");
  }
  job.ranks_.push_back({program, job.slots_.size()});
  job.slots_.insert(job.slots_.end(), groups.begin(), groups.end());
  job.slots_.insert(job.slots_.end(), peers.begin(), peers.end());
  state_->bound.push_back({static_cast<uint32_t>(groups.size()), static_cast<uint32_t>(peers.size())});
}

Job Job::Builder::build() && {
  state_->finish_program();
  if (state_->job.ranks_.empty()) throw invalid("the job has no ranks");
  state_->check_slots();
  state_->check_groups();
  state_->check_memberships();
  state_->share_programs();
  state_->job.names_ = std::move(state_->names).take();
  return std::move(state_->job);
}

}  // namespace banyan::job
