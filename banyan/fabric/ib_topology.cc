#include "banyan/fabric/ib_topology.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/base/text_lines.h"
#include "banyan/fabric/disjoint_sets.h"
#include "banyan/fabric/node_names.h"
#include "banyan/fabric/parts.h"

namespace banyan::fabric {
namespace {

// What a lane of a speed carries one way, after the encoding of the line (8b/10b to QDR, 64b/66b from FDR10 on).
struct LaneSpeed {
  std::string_view name;
  uint64_t bytes_per_second;
};
constexpr LaneSpeed kSpeeds[] = {{"SDR", 250'000'000},     {"DDR", 500'000'000},    {"QDR", 1'000'000'000},
                                 {"FDR10", 1'250'000'000}, {"FDR", 1'704'545'454},  {"EDR", 3'125'000'000},
                                 {"HDR", 6'250'000'000},   {"NDR", 12'500'000'000}, {"XDR", 25'000'000'000}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a line from its beginning.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  std::string_view rest() const { return text_; }
  void skip_blanks() { text_ = trim(text_); }
  bool take(char c) {
    if (!text_.starts_with(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  std::optional<uint32_t> take_number() {
    uint32_t value = 0;
    const auto [end, code] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (code != std::errc()) return std::nullopt;
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    return value;
  }
  // "[12]"
  std::optional<uint32_t> take_port() {
    if (!take('[')) return std::nullopt;
    const auto port = take_number();
    return port && take(']') ? port : std::nullopt;
  }
  // What stands between quotes.
  std::optional<std::string_view> take_quoted() {
    if (!take('"')) return std::nullopt;
    const size_t end = text_.find('"');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view quoted = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return quoted;
  }
  // "[ext 3]", "(0002c903004f2a13)"
  void skip_remark(char open, char close) {
    if (!text_.starts_with(open)) return;
    const size_t end = text_.find(close);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  }

 private:
  std::string_view text_;
};

// "4xHDR" somewhere behind the last quote of a line.
std::optional<Bandwidth> speed_in(std::string_view line) {
  const size_t quote = line.rfind('"');
  if (quote != std::string_view::npos) line.remove_prefix(quote + 1);
  for (size_t x = line.find('x'); x != std::string_view::npos; x = line.find('x', x + 1)) {
    size_t begin = x;
    while (begin > 0 && is_digit(line[begin - 1])) --begin;
    if (begin == x || x - begin > 2) continue;
    uint64_t lanes = 0;
    std::from_chars(line.data() + begin, line.data() + x, lanes);
    const std::string_view name = line.substr(x + 1, line.find_first_of(" \t\r", x) - x - 1);
    for (const LaneSpeed& speed : kSpeeds) {
      if (speed.name == name && lanes > 0) return Bandwidth::bytes_per_second(lanes * speed.bytes_per_second);
    }
  }
  return std::nullopt;
}

// "node2" before "node10".
bool naturally_less(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto digits = [](std::string_view& text) {
        const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
        std::string_view number = text.substr(0, end);
        text.remove_prefix(end);
        number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
        return number;
      };
      const std::string_view x = digits(a), y = digits(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.size() < b.size();
}

struct Device {
  enum class Kind : uint8_t { adapter, switch_, other } kind = Kind::other;
  std::string id;                // "H-0002c903004f2a12"
  std::string description = {};  // "node7 mlx5_0"
  std::string name = {};         // "node7/mlx5_0"
  bool is_connected = false;
};

class IbReader : LineReader {
 public:
  explicit IbReader(const IbOptions& options) : options_(options) {}

  void read(std::string_view text) {
    for_each_line(text, [&](std::string_view line, size_t number) {
      line_ = number;
      read_line(trim(line));
      return true;
    });
    line_ = 0;
  }

  Fabric build(std::vector<std::string>& notes) && {
    for (const auto& [ends, cable] : cables_) {
      line_ = cable.line;
      for (const End* end : {&ends.first, &ends.second}) {
        const auto device = place_.find(end->first);
        if (device == place_.end()) throw bad("device " + in_quotes(end->first) + " has no entry of its own");
        devices_[device->second].is_connected = true;
      }
    }
    line_ = 0;
    std::vector<size_t> ranks, switches;
    size_t lone = 0, others = 0;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const Device& device = devices_[i];
      if (device.kind == Device::Kind::switch_) switches.push_back(i);
      const bool is_rank = device.kind == Device::Kind::adapter && device.is_connected;
      if (is_rank) ranks.push_back(i);
      lone += device.kind == Device::Kind::adapter && !is_rank ? 1 : 0;
      others += device.kind == Device::Kind::other ? 1 : 0;
    }
    std::sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
      const Device &x = devices_[a], &y = devices_[b];
      if (naturally_less(x.description, y.description)) return true;
      if (naturally_less(y.description, x.description)) return false;
      return std::tie(x.description, x.id) < std::tie(y.description, y.id);
    });
    for (const std::vector<size_t>* devices : {&ranks, &switches}) name_devices(*devices);
    leave_out(ranks, switches);
    add_nodes(ranks, NodeKind::rank);
    add_nodes(switches, NodeKind::switch_);
    check_parts(ranks);
    add_cables();
    notes.push_back("every channel adapter is a rank, joined to those of the same host by the network only");
    if (nameless_ > 0) notes.push_back(plural(nameless_, "device") + " without a host's name called by the id");
    if (lone > 0) notes.push_back(plural(lone, "channel adapter") + " without a cable left out");
    if (others > 0) notes.push_back(plural(others, "router or aggregation node") + " left out");
    return std::move(builder_).build();
  }

 private:
  using End = std::pair<std::string, uint32_t>;  // a device's id and the port of it

  void read_line(std::string_view line) {
    if (line.starts_with('[')) return read_cable(line);
    const auto begins = [&](std::string_view word) {
      return line.starts_with(word) && line.size() > word.size() &&
             (line[word.size()] == ' ' || line[word.size()] == '\t');
    };
    if (begins("Switch")) read_device(line.substr(6), Device::Kind::switch_);
    if (begins("Ca")) read_device(line.substr(2), Device::Kind::adapter);
    if (begins("Rt")) read_device(line.substr(2), Device::Kind::other);
  }

  // "	40 "S-0002c90300a1b2c0"		# "leaf1" enhanced port 0 lid 3 lmc 0"
  void read_device(std::string_view text, Device::Kind kind) {
    Cursor cursor(text);
    cursor.skip_blanks();
    const auto ports = cursor.take_number();
    cursor.skip_blanks();
    const auto id = cursor.take_quoted();
    if (!ports || !id || id->empty()) throw bad("a device should read as in: Switch 40 \"S-0002c90300a1b2c0\"");
    Device device{.kind = kind, .id = std::string(*id)};
    const size_t quote = cursor.rest().find('"');
    if (quote != std::string_view::npos) {
      Cursor remark(cursor.rest().substr(quote));
      device.description = remark.take_quoted().value_or("");
    }
    // As adapters call themselves that nobody gave the name of their host: "MT4129 ConnectX7   Mellanox Technologies".
    if (device.description.starts_with("MT") && device.description.find("Mellanox Technologies") != std::string::npos) {
      device.description.clear();
      ++nameless_;
    }
    // What a switch reduces with shows itself as an adapter.
    if (device.description.find("Aggregation Node") != std::string::npos) device.kind = Device::Kind::other;
    if (!place_.emplace(device.id, devices_.size()).second)
      throw bad("device " + in_quotes(device.id) + " occurs twice");
    devices_.push_back(std::move(device));
  }

  // "[1](2c9030...)  "S-0002c90300a1b2c0"[17]   # lid 4 lmc 0 "leaf1" lid 3 4xHDR", and the same at the other end.
  void read_cable(std::string_view line) {
    if (devices_.empty()) throw bad("a port before the first device");
    Cursor cursor(line);
    const auto own = cursor.take_port();
    cursor.skip_remark('[', ']');
    cursor.skip_remark('(', ')');
    cursor.skip_blanks();
    const auto peer = cursor.take_quoted();
    const auto port = cursor.take_port();
    if (!own || !peer || !port) throw bad("a port should read as in: [1] \"S-0002c90300a1b2c0\"[17] # ... 4xHDR");
    End a(devices_.back().id, *own), b(std::string(*peer), *port);
    if (a.first == b.first) return;  // a plug for tests
    if (b < a) std::swap(a, b);
    Cable& cable = cables_[{std::move(a), std::move(b)}];
    cable.line = line_;
    if (!cable.bandwidth) cable.bandwidth = speed_in(line);
  }

  // By its description where no other device has the same.
  void name_devices(const std::vector<size_t>& devices) {
    std::map<std::string, size_t> count;
    for (const Device& device : devices_) ++count[name_of(device.description)];
    for (const size_t i : devices) {
      std::string name = name_of(devices_[i].description);
      if (name.empty() || count[name] > 1) name += (name.empty() ? "" : "@") + name_of(devices_[i].id);
      devices_[i].name = std::move(name);
    }
  }

  // Before parts are counted: a name that is not known is not hidden by what is wrong without it.
  void leave_out(std::vector<size_t>& ranks, std::vector<size_t>& switches) const {
    if (options_.left_out.empty()) return;
    std::vector<std::string_view> known;
    for (const std::vector<size_t>* devices : {&ranks, &switches}) {
      for (const size_t i : *devices) known.push_back(devices_[i].name);
    }
    const auto named = NodeNames(std::move(known)).removed(options_.left_out);
    for (std::vector<size_t>* devices : {&ranks, &switches}) {
      std::erase_if(*devices, [&](size_t i) { return named.contains(devices_[i].name); });
    }
    if (options_.met != nullptr) options_.met->insert(options_.met->end(), named.begin(), named.end());
  }

  void add_nodes(const std::vector<size_t>& devices, NodeKind kind) {
    for (const size_t i : devices) {
      node_.emplace(devices_[i].id, builder_.add_node({.name = devices_[i].name, .kind = kind}));
    }
  }

  // Without blanks, and of a length that a node may have.
  static std::string name_of(std::string_view text) {
    constexpr size_t kMost = 120;
    std::string name(trim(text.substr(0, kMost)));
    for (char& c : name) {
      if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) c = '/';
    }
    return name;
  }

  // Names what does not hang together, and how to go on without it.
  void check_parts(const std::vector<size_t>& ranks) const {
    DisjointSets<size_t> joined(devices_.size());
    for (const auto& [ends, cable] : cables_) {
      if (!node_.contains(ends.first.first) || !node_.contains(ends.second.first)) continue;
      joined.join(place_.at(ends.first.first), place_.at(ends.second.first));
    }
    std::vector<NetworkPart> parts;
    std::map<size_t, size_t> number;
    for (const size_t rank : ranks) {
      const std::string& name = devices_[rank].name;
      const auto [found, is_new] = number.emplace(joined.find(rank), parts.size());
      if (is_new) parts.push_back({.where = "with " + in_quotes(name), .ranks = {}});
      parts[found->second].ranks.push_back(name);
    }
    if (parts.size() > 1) throw in_parts("the network", "adapter", parts);
  }

  void add_cables() {
    for (const auto& [ends, cable] : cables_) {
      const auto a = node_.find(ends.first.first), b = node_.find(ends.second.first);
      if (a == node_.end() || b == node_.end()) continue;  // it leads to what was left out
      const std::optional<Bandwidth> bandwidth = cable.bandwidth ? cable.bandwidth : options_.fallback;
      line_ = cable.line;
      if (!bandwidth) {
        throw bad(
            "the cable has no width and speed such as 4xHDR at the end of its line; put the speed of such cables "
            "behind the file's name, as in net.txt@200Gb/s");
      }
      builder_.add_cable({.from = a->second, .to = b->second, .bandwidth = *bandwidth});
    }
    line_ = 0;
  }

  struct Cable {
    std::optional<Bandwidth> bandwidth;
    size_t line = 0;
  };

  const IbOptions& options_;
  std::vector<Device> devices_;
  size_t nameless_ = 0;                  // devices
  std::map<std::string, size_t> place_;  // in devices_, by id
  std::map<std::pair<End, End>, Cable> cables_;
  std::map<std::string, NodeId> node_;  // by id
  Fabric::Builder builder_;
};

}  // namespace

bool is_ib_topology(std::string_view text) {
  bool is_one = false;
  for_each_line(text, [&](std::string_view line, size_t) {
    for (const std::string_view mark : {"vendid=", "sysimgguid=", "switchguid=", "caguid=", "Switch\t", "Ca\t"}) {
      is_one = is_one || line.starts_with(mark);
    }
    const std::string_view words = trim(line);
    return !is_one && (words.empty() || words.starts_with('#') || words.find("Chassis") != std::string_view::npos);
  });
  return is_one;
}

Fabric parse_ib_topology(std::string_view text, const std::string& where, std::vector<std::string>& notes,
                         const IbOptions& options) {
  return at_place(where, [&] {
    IbReader reader(options);
    reader.read(text);
    return std::move(reader).build(notes);
  });
}

}  // namespace banyan::fabric
