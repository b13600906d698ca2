#include "banyan/fabric/slurm_topology.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"
#include "banyan/fabric/hostlist.h"
#include "banyan/fabric/node_names.h"
#include "banyan/fabric/parts.h"

namespace banyan::fabric {
namespace {

constexpr std::string_view kKeys[] = {"SwitchName", "Switches",   "Nodes",     "LinkSpeed", "Level",
                                      "BlockName",  "BlockSizes", "SubBlocks", "BlockSize", "BlockIndex"};
// Of lines alone, which scontrol's output and Slurm's own sites have: what they say changes no link.
constexpr std::string_view kWithoutMeaning[] = {"Level", "BlockSizes", "SubBlocks", "BlockSize", "BlockIndex"};
constexpr int kMostIncludes = 8;  // one in the other
// Upper switches may repeat the nodes below them, level by level.
constexpr uint64_t kMostRepeated = uint64_t{4} * Fabric::kMaxNodes;

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
  SlurmReader(const SlurmOptions& options, std::vector<std::string>& notes) : options_(options), notes_(notes) {}

  void read(std::string_view text) {
    read_lines(text, 0);
    line_ = 0;
    if (all_.empty()) throw bad("the file has no SwitchName and no BlockName");
    if (not_read_ > 0)
      notes_.push_back(plural(not_read_, "line") + " without a 'Name=' " + (not_read_ == 1 ? "was" : "were") +
                       " passed over");
    leave_out();
  }

  Fabric build(Bandwidth port) && {
    find_parents();
    if (has_blocks_) join_blocks();
    add_ranks(port);
    for (const Switch& node : all_) builder_.add_switch(node.name);
    check_parts();
    add_cables();
    notes_.push_back("every node has one cable of " + port.to_string() + " (given after '@')");
    return std::move(builder_).build();
  }

 private:
  // Before anything is checked: a name that is not known is not hidden by what is wrong without it.
  void leave_out() {
    if (options_.left_out.empty()) return;
    std::vector<std::string_view> known;
    for (const Switch& node : all_) {
      known.push_back(node.name);
      known.insert(known.end(), node.nodes.begin(), node.nodes.end());
    }
    const auto named = NodeNames(std::move(known)).removed(options_.left_out);
    for (Switch& above : all_) {
      std::erase_if(above.nodes, [&](const std::string& node) {
        if (!named.contains(node)) return false;
        if (options_.met != nullptr) options_.met->push_back(node);
        return true;
      });
    }
  }

  // Lines that end in a backslash go on in the next one.
  void read_lines(std::string_view text, int depth) {
    std::string whole;
    size_t first = 0;
    for_each_line(text, [&](std::string_view line, size_t number) {
      line = trim(line.substr(0, line.find('#')));
      if (whole.empty()) first = number;
      const bool goes_on = line.ends_with('\\');
      if (goes_on) line.remove_suffix(1);
      whole += line;
      if (goes_on) {
        whole += ' ';
        return true;
      }
      line_ = first;
      read_whole(whole, depth);
      whole.clear();
      return true;
    });
    line_ = first;
    read_whole(whole, depth);
  }

  void read_whole(std::string_view line, int depth) {
    line = trim(line);
    if (line.empty()) return;
    const size_t end = std::min(line.find_first_of(" \t="), line.size());
    if (is_key(line.substr(0, end), "Include")) return read_include(unquoted(trim(line.substr(end))), depth);
    if (line.find('=') == std::string_view::npos) {
      ++not_read_;  // what a terminal showed besides
      return;
    }
    read_line(line);
  }

  void read_include(std::string_view name, int depth) {
    if (!options_.include)
      throw bad("Include is followed in files only; put the lines of " + in_quotes(name) + " here");
    if (depth == kMostIncludes) throw bad("more than " + std::to_string(kMostIncludes) + " files include one another");
    const size_t line = line_;
    at_place("line " + std::to_string(line) + ": Include " + in_quotes(name),
             [&] { read_lines(options_.include(std::string(name)), depth + 1); });
    line_ = line;
  }

  static std::string_view unquoted(std::string_view value) {
    if (value.size() < 2 || value.front() != '"' || value.back() != '"') return value;
    return value.substr(1, value.size() - 2);
  }

  // The next "Name=value" of a line: blanks may stand around '=', and inside of quotes.
  std::pair<std::string_view, std::string_view> take_word(std::string_view& line) const {
    const size_t equals = line.find('=');
    const std::string_view key = trim(line.substr(0, equals));
    if (equals == std::string_view::npos || key.empty() || key.find_first_of(" \t") != std::string_view::npos) {
      throw bad(in_quotes(key.substr(0, key.find_first_of(" \t"))) + " is not of the form Name=value");
    }
    line = trim(line.substr(equals + 1));
    size_t end = std::min(line.find_first_of(" \t"), line.size());
    if (line.starts_with('"')) {
      end = line.find('"', 1);
      if (end == std::string_view::npos) throw bad("the value of " + std::string(key) + " has no second quote");
      ++end;
    } else if (line.substr(0, end).find('=') != std::string_view::npos) {
      end = 0;  // "Switches= Nodes=n1": the value is empty
    }
    const std::string_view value = unquoted(line.substr(0, end));
    line = trim(line.substr(end));
    return {key, value};
  }

  // "SwitchName=s0 Nodes=tux[0-3] LinkSpeed=100".
  void read_line(std::string_view line) {
    Switch found{.line = line_};
    bool is_named = false;
    std::string_view nodes;
    ++listed_nodes_;
    while (!line.empty()) {
      const auto [key, value] = take_word(line);
      if (is_key(key, "Nodes")) {
        nodes = value;
      } else {
        is_named |= read_word(key, value, found);
      }
    }
    found.nodes = read_list(nodes, found.switches.empty() ? listed_nodes_ : listed_again_,
                            found.switches.empty() ? Fabric::kMaxNodes : kMostRepeated);
    if (!is_named) return;
    if (found.switches.empty() && found.nodes.empty()) {
      throw bad(found.name + " has neither Switches nor Nodes beneath it");
    }
    if (!place_.emplace(found.name, all_.size()).second) throw bad(in_quotes(found.name) + " is declared twice");
    all_.push_back(std::move(found));
  }

  // Refused before the names are made: a few bytes can ask for billions. `listed` is how many there are already.
  std::vector<std::string> read_list(std::string_view value, uint64_t& listed,
                                     uint64_t most = Fabric::kMaxNodes) const {
    if (value.empty()) return {};
    try {
      const HostlistSize size = measure_hostlist(value);
      if (size.most_bytes > Fabric::kMaxNameBytes) {
        throw invalid("list " + in_quotes(value) + " has a name of more than " + std::to_string(Fabric::kMaxNameBytes) +
                      " bytes");
      }
      if (listed > most || size.names > most - listed) {
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
    } else if (is_key(key, "LinkSpeed")) {
      const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), found.link_speed);
      const bool is_good = code == std::errc() && end == value.data() + value.size() && found.link_speed > 0;
      if (!is_good || found.link_speed > 1'000'000'000) {
        throw bad("LinkSpeed is " + in_quotes(value) + " but must be a whole number from 1 to 1000000000");
      }
    } else if (std::none_of(std::begin(kWithoutMeaning), std::end(kWithoutMeaning),
                            [&](std::string_view known) { return is_key(key, known); })) {
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
    for (const bool is_leaf : {true, false}) {
      for (size_t i = 0; i < all_.size(); ++i) {
        const Switch& leaf = all_[i];
        if (leaf.switches.empty() != is_leaf) continue;
        line_ = leaf.line;
        const unsigned __int128 own = static_cast<unsigned __int128>(port.bytes_per_second()) *
                                      (has_speeds ? leaf.link_speed : 1) / (has_speeds && slowest > 0 ? slowest : 1);
        if (!leaf.nodes.empty() && own > Bandwidth::kMaxBytesPerSecond) throw bad("ports of more than 1 PB/s");
        for (size_t n = 0; n < leaf.nodes.size(); ++n) {
          const std::string& node = leaf.nodes[n];
          const auto [other, is_new] = leaf_of.emplace(node, i);
          if (!is_new && is_below(other->second, i)) continue;  // scontrol repeats what is below
          if (!is_new)
            throw bad("node " + in_quotes(node) + " hangs on both " + all_[other->second].name + " and " + leaf.name);
          cables_.push_back(
              {.rank = builder_.add_rank(node), .leaf = i, .place = n, .bytes_per_second = static_cast<uint64_t>(own)});
        }
      }
    }
    line_ = 0;
  }

  bool is_below(size_t place, size_t above) const {
    // A switch above itself is found later: no more steps than there are switches.
    for (size_t steps = 0; place != SIZE_MAX && place != above && steps <= all_.size(); ++steps) {
      place = all_[place].parent;
    }
    return place == above;
  }

  // Names what does not hang together, and how to go on without it.
  void check_parts() const {
    std::map<size_t, std::vector<size_t>> cables_of;  // by the topmost switch
    for (size_t i = 0; i < cables_.size(); ++i) {
      size_t top = cables_[i].leaf;
      for (size_t steps = 0; all_[top].parent != SIZE_MAX && steps <= all_.size(); ++steps) top = all_[top].parent;
      cables_of[top].push_back(i);
    }
    if (cables_of.size() < 2) return;
    std::vector<NetworkPart> parts;
    for (const auto& [top, cables] : cables_of) {
      NetworkPart& part = parts.emplace_back(NetworkPart{.where = "below " + in_quotes(all_[top].name), .ranks = {}});
      for (const size_t cable : cables) part.ranks.push_back(name_of(cables_[cable]));
    }
    throw in_parts("the tree", "node", parts);
  }

  void add_cables() {
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
      if (below.bytes_per_second == 0 && !options_.left_out.empty()) continue;  // its nodes were left out
      if (below.bytes_per_second == 0) throw invalid("no node is below switch " + in_quotes(below.name));
      if (below.bytes_per_second > Bandwidth::kMaxBytesPerSecond) {
        throw Error(ErrorCode::unsupported, "the nodes below " + in_quotes(below.name) + " have more than 1 PB/s");
      }
      builder_.add_cable({.from = node(i),
                          .to = node(below.parent),
                          .bandwidth = Bandwidth::bytes_per_second(static_cast<uint64_t>(below.bytes_per_second)),
                          .assumed = true});
      all_[below.parent].bytes_per_second += below.bytes_per_second;
      has_trunks = true;
    }
    if (has_trunks) {
      notes_.push_back(std::string(has_blocks_ ? "blocks are joined by a network that never blocks"
                                               : "switches are joined so that the tree never blocks") +
                       ": the file does not say how wide it is; change it by --degrade");
    }
  }

  struct Cable {
    NodeId rank{};
    size_t leaf = 0, place = 0;  // its switch, and which of the nodes there it is
    uint64_t bytes_per_second = 0;
  };
  const std::string& name_of(const Cable& cable) const { return all_[cable.leaf].nodes[cable.place]; }

  const SlurmOptions& options_;
  std::vector<std::string>& notes_;
  size_t not_read_ = 0;  // lines
  uint64_t listed_nodes_ = 0, listed_switches_ = 0,
           listed_again_ = 0;  // names in lists; a line's switch is one of the nodes
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
    const size_t equals = words.find('=');
    const std::string_view own = trim(words.substr(0, std::min(equals, words.size())));
    for (const std::string_view key : {"SwitchName", "BlockName", "BlockSizes"}) {
      is_one = is_one || (equals != std::string_view::npos && is_key(own, key));
    }
    const size_t blank = words.find_first_of(" \t");
    const bool has_two =
        blank != std::string_view::npos && trim(words.substr(blank)).find_first_of(" \t") == std::string_view::npos;
    is_one = is_one || (has_two && words.substr(0, blank) == "Include");
    return !is_one && (words.empty() || words.starts_with('#'));
  });
  return is_one;
}

Fabric parse_slurm_topology(const SiteFile& file, std::vector<std::string>& notes, const SlurmOptions& options) {
  return at_place(file.name, [&] {
    SlurmReader reader(options, notes);
    reader.read(file.text);
    if (!file.bandwidth) {
      throw invalid(
          "a topology.conf does not say how fast links are; put the speed of a node's cable behind its name: " +
          file.name + "@400Gb/s");
    }
    return std::move(reader).build(*file.bandwidth);
  });
}

}  // namespace banyan::fabric
