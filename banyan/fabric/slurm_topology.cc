#include "banyan/fabric/slurm_topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text.h"
#include "banyan/fabric/hostlist.h"
#include "banyan/fabric/text_lines.h"

namespace banyan::fabric {
namespace {

constexpr std::string_view kKeys[] = {"SwitchName", "Switches",   "Nodes",    "LinkSpeed",
                                      "BlockName",  "BlockSizes", "SubBlocks"};

bool is_key(std::string_view text, std::string_view key) { return lower(text) == lower(key); }

struct Switch {
  std::string name = {};
  size_t line = 0;
  std::vector<std::string> switches = {}, nodes = {};  // beneath it
  uint64_t link_speed = 0;                             // 0: not given
  size_t parent = SIZE_MAX;
  unsigned __int128 bytes_per_second = 0;  // of all nodes beneath it
};

class SlurmReader : LineReader {
 public:
  void read(std::string_view text) {
    for_each_line(text, [&](std::string_view line, size_t number) {
      line_ = number;
      line = trim(line.substr(0, line.find('#')));
      if (!line.empty()) read_line(line);
      return true;
    });
    line_ = 0;
    if (all_.empty()) throw bad("the file has no SwitchName and no BlockName");
  }

  Fabric build(Bandwidth port, std::vector<std::string>& notes) && {
    find_parents();
    if (has_blocks_) join_blocks();
    add_ranks(port);
    for (const Switch& node : all_) builder_.add_switch(node.name);
    add_cables(notes);
    notes.push_back("every node has one cable of " + port.to_string() + " (given after '@')");
    return std::move(builder_).build();
  }

 private:
  // "SwitchName=s0 Nodes=tux[0-3] LinkSpeed=100". Spaces do not stand in values.
  void read_line(std::string_view line) {
    Switch found{.line = line_};
    bool is_named = false;
    ++listed_nodes_;
    while (!line.empty()) {
      const size_t end = std::min(line.find_first_of(" \t"), line.size());
      const std::string_view word = line.substr(0, end);
      line = trim(line.substr(end));
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) throw bad(in_quotes(word) + " is not of the form Name=value");
      is_named |= read_word(word.substr(0, equals), word.substr(equals + 1), found);
    }
    if (!is_named) return;
    if (found.switches.empty() && found.nodes.empty()) {
      throw bad(found.name + " has neither Switches nor Nodes beneath it");
    }
    if (!place_.emplace(found.name, all_.size()).second) throw bad(in_quotes(found.name) + " is declared twice");
    all_.push_back(std::move(found));
  }

  // Refused before the names are made: a few bytes can ask for billions. `listed` is how many there are already.
  std::vector<std::string> read_list(std::string_view value, uint64_t& listed) const {
    try {
      const HostlistSize size = measure_hostlist(value);
      if (size.most_bytes > Fabric::kMaxNameBytes) {
        throw invalid("list " + in_quotes(value) + " has a name of more than " + std::to_string(Fabric::kMaxNameBytes) +
                      " bytes");
      }
      if (listed > Fabric::kMaxNodes || size.names > Fabric::kMaxNodes - listed) {
        throw invalid("list " + in_quotes(value) + " makes more than " + std::to_string(Fabric::kMaxNodes) +
                      " nodes, switches included; a fabric has no more");
      }
      listed += size.names;
      return expand_hostlist(value);
    } catch (const Error& error) {
      throw bad(error.message());
    }
  }

  bool read_word(std::string_view key, std::string_view value, Switch& found) {
    if (is_key(key, "SwitchName") || is_key(key, "BlockName")) {
      found.name = value;
      has_blocks_ |= is_key(key, "BlockName");
      has_switches_ |= is_key(key, "SwitchName");
      if (has_blocks_ && has_switches_) throw bad("a file has either switches (topology/tree) or blocks, not both");
      return true;
    }
    if (is_key(key, "Switches")) {
      found.switches = read_list(value, listed_switches_);
    } else if (is_key(key, "Nodes")) {
      found.nodes = read_list(value, listed_nodes_);
    } else if (is_key(key, "LinkSpeed")) {
      const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), found.link_speed);
      const bool is_good = code == std::errc() && end == value.data() + value.size() && found.link_speed > 0;
      if (!is_good || found.link_speed > 1'000'000'000) {
        throw bad("LinkSpeed is " + in_quotes(value) + " but must be a whole number from 1 to 1000000000");
      }
    } else if (!is_key(key, "BlockSizes") && !is_key(key, "SubBlocks")) {
      NearestName nearest{std::string(key.substr(0, NearestName::kMaxLength))};
      std::string known;
      for (const std::string_view name : kKeys) {
        nearest.offer(name);
        known += (known.empty() ? "" : ", ") + std::string(name);
      }
      throw bad("key " + in_quotes(key) + " is not known" + nearest.hint() + "; known are " + known);
    }
    return false;
  }

  void find_parents() {
    for (size_t i = 0; i < all_.size(); ++i) {
      line_ = all_[i].line;
      for (const std::string& child : all_[i].switches) {
        const auto found = place_.find(child);
        if (found == place_.end()) throw bad("switch " + in_quotes(child) + " has no line of its own");
        Switch& below = all_[found->second];
        if (below.parent != SIZE_MAX) {
          throw bad("switch " + in_quotes(child) + " is below both " + all_[below.parent].name + " and " +
                    all_[i].name + "; in a tree one switch is above each");
        }
        below.parent = i;
      }
    }
    line_ = 0;
  }

  // Those below a switch come before it.
  std::vector<size_t> from_below() {
    std::vector<size_t> below(all_.size(), 0), order;
    for (const Switch& node : all_) {
      if (node.parent != SIZE_MAX) ++below[node.parent];
    }
    for (size_t i = 0; i < all_.size(); ++i) {
      if (below[i] == 0) order.push_back(i);
    }
    for (size_t next = 0; next < order.size(); ++next) {
      const size_t parent = all_[order[next]].parent;
      if (parent != SIZE_MAX && --below[parent] == 0) order.push_back(parent);
    }
    for (size_t i = 0; i < all_.size(); ++i) {
      line_ = all_[i].line;
      if (below[i] > 0) throw bad("switch " + in_quotes(all_[i].name) + " is above itself");
    }
    line_ = 0;
    return order;
  }

  void join_blocks() {
    if (all_.size() == 1) return;
    std::string name = "network";
    while (place_.contains(name)) name += "0";
    for (Switch& block : all_) block.parent = all_.size();
    all_.push_back({.name = std::move(name)});
  }

  // A leaf whose LinkSpeed is twice that of the slowest leaf has ports twice as fast.
  void add_ranks(Bandwidth port) {
    uint64_t slowest = UINT64_MAX;
    bool has_speeds = true;
    for (const Switch& leaf : all_) {
      if (leaf.nodes.empty()) continue;
      slowest = std::min(slowest, leaf.link_speed);
      has_speeds = has_speeds && leaf.link_speed > 0;
    }
    std::map<std::string, size_t> leaf_of;
    for (size_t i = 0; i < all_.size(); ++i) {
      Switch& leaf = all_[i];
      line_ = leaf.line;
      const unsigned __int128 own = static_cast<unsigned __int128>(port.bytes_per_second()) *
                                    (has_speeds ? leaf.link_speed : 1) / (has_speeds && slowest > 0 ? slowest : 1);
      if (!leaf.nodes.empty() && own > Bandwidth::kMaxBytesPerSecond) throw bad("ports of more than 1 PB/s");
      for (const std::string& node : leaf.nodes) {
        const auto [other, is_new] = leaf_of.emplace(node, i);
        if (!is_new)
          throw bad("node " + in_quotes(node) + " hangs on both " + all_[other->second].name + " and " + leaf.name);
        cables_.push_back({.rank = builder_.add_rank(node), .leaf = i, .bytes_per_second = static_cast<uint64_t>(own)});
      }
    }
    line_ = 0;
  }

  void add_cables(std::vector<std::string>& notes) {
    const auto ranks = static_cast<uint32_t>(cables_.size());
    const auto node = [&](size_t place) { return NodeId{static_cast<uint32_t>(ranks + place)}; };
    for (const Cable& cable : cables_) {
      builder_.add_cable({.from = cable.rank,
                          .to = node(cable.leaf),
                          .bandwidth = Bandwidth::bytes_per_second(cable.bytes_per_second)});
      all_[cable.leaf].bytes_per_second += cable.bytes_per_second;
    }
    bool has_trunks = false;
    for (const size_t i : from_below()) {
      const Switch& below = all_[i];
      if (below.parent == SIZE_MAX) continue;
      if (below.bytes_per_second == 0) throw invalid("no node is below switch " + in_quotes(below.name));
      if (below.bytes_per_second > Bandwidth::kMaxBytesPerSecond) {
        throw Error(ErrorCode::unsupported, "the nodes below " + in_quotes(below.name) + " have more than 1 PB/s");
      }
      builder_.add_cable({.from = node(i),
                          .to = node(below.parent),
                          .bandwidth = Bandwidth::bytes_per_second(static_cast<uint64_t>(below.bytes_per_second))});
      all_[below.parent].bytes_per_second += below.bytes_per_second;
      has_trunks = true;
    }
    if (has_trunks) {
      notes.push_back(std::string(has_blocks_ ? "blocks are joined by a network that never blocks"
                                              : "switches are joined so that the tree never blocks") +
                      ": the file does not say how wide it is; change it by --degrade");
    }
  }

  struct Cable {
    NodeId rank{};
    size_t leaf = 0;
    uint64_t bytes_per_second = 0;
  };

  uint64_t listed_nodes_ = 0, listed_switches_ = 0;  // names in lists; a line's switch is one of the nodes
  std::vector<Switch> all_;
  std::map<std::string, size_t> place_;  // in all_, by name
  bool has_blocks_ = false, has_switches_ = false;
  std::vector<Cable> cables_;
  Fabric::Builder builder_;
};

}  // namespace

bool is_slurm_topology(std::string_view text) {
  bool is_one = false;
  for_each_line(text, [&](std::string_view line, size_t) {
    const std::string_view words = trim(line);
    for (const std::string_view key : {"SwitchName=", "BlockName=", "BlockSizes="}) {
      is_one = is_one || is_key(words.substr(0, key.size()), key);
    }
    return !is_one && (words.empty() || words.starts_with('#'));
  });
  return is_one;
}

Fabric parse_slurm_topology(std::string_view text, std::optional<Bandwidth> port, const std::string& where,
                            std::vector<std::string>& notes) {
  try {
    SlurmReader reader;
    reader.read(text);
    if (!port) {
      throw invalid(
          "a topology.conf does not say how fast links are; put the speed of a node's cable behind its name: " + where +
          "@400Gb/s");
    }
    return std::move(reader).build(*port, notes);
  } catch (const Error& error) {
    throw error.within(where);
  }
}

}  // namespace banyan::fabric
