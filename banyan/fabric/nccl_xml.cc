#include "banyan/fabric/nccl_xml.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/base/text.h"
#include "banyan/fabric/nccl_box.h"
#include "banyan/fabric/xml_file.h"

namespace banyan::fabric {
namespace {

constexpr size_t kMaxCpus = 1024;  // NCCL itself stops at 256; every two CPUs of a host are joined
constexpr int kMaxDepth = 64;      // of nested pci elements; real trees have five or six
constexpr int64_t kMaxLinkCount = 1000;
constexpr size_t kMaxRows = 1000;  // of one GPU

bool starts_with_digits(std::string_view text) { return !text.empty() && text.front() >= '0' && text.front() <= '9'; }

// NVLink, one link one way, by compute capability; NCCL's own constants (nccl src/graph/topo.h), which are what it
// measured and lie below the nominal figures of the device table. Where the file has no sm it is a guess.
Bandwidth nvlink_of(int64_t sm) {
  const auto tenths = [](uint64_t value) { return Bandwidth::bytes_per_second(value * 100'000'000); };
  if (sm >= 100) return tenths(401);
  if (sm >= 90) return tenths(206);
  if (sm == 86) return tenths(120);
  if (sm >= 70 || sm == 0) return tenths(200);
  return tenths(180);
}

// How many of them a GPU has at most; 0: not known.
uint32_t most_nvlinks(int64_t sm) {
  static constexpr std::pair<int64_t, uint32_t> kLinks[] = {{100, 36}, {90, 18}, {86, 4}, {80, 12}, {70, 6}, {60, 4}};
  for (const auto& [least, links] : kLinks) {
    if (sm >= least) return links;
  }
  return 0;
}

// xGMI likewise (rccl src/graph/topo.h). gcn is "gfx942", "gfx90a", or a number such as 910 in older dumps.
Bandwidth xgmi_of(std::string_view gcn) {
  if (gcn.starts_with("gfx94") || gcn.starts_with("94")) return Bandwidth::gigabytes_per_second(48);
  if (gcn.starts_with("gfx90a") || gcn.starts_with("910")) return Bandwidth::gigabytes_per_second(36);
  return Bandwidth::gigabytes_per_second(24);
}

enum class DeviceClass : uint8_t { none, bridge, nvswitch, gpu, nic, other };

DeviceClass class_of(std::string_view text) {
  const std::string code = lower(text);
  if (code.empty()) return DeviceClass::none;
  if (code.starts_with("0x0604")) return DeviceClass::bridge;
  if (code.starts_with("0x0680")) return DeviceClass::nvswitch;
  if (code.starts_with("0x03") || code.starts_with("0x12")) return DeviceClass::gpu;
  if (code.starts_with("0x02")) return DeviceClass::nic;
  return DeviceClass::other;
}

class NcclXmlReader {
 public:
  explicit NcclXmlReader(std::string_view xml) : file_(xml) {}

  NcclBox read() && {
    const pugi::xml_node root = file_.root();
    const std::string name = root.name();
    if (name == "topology") {
      throw bad(root, "this is XML of hwloc (lstopo), not of NCCL");
    }
    if (name != "system")
      throw bad(root, "the root element is '" + name.substr(0, 40) + "' but NCCL's topology has 'system'");
    const std::string_view version = root.attribute("version").value();
    if (!version.empty() && version != "1" && version != "2") {
      throw bad(root, "system version '" + shown(version) + "' is not known; 1 and 2 are");
    }
    for (const pugi::xml_node cpu : root.children("cpu")) read_cpu(cpu);
    choose_gpus(root);
    return std::move(box_);
  }

 private:
  static std::string shown(std::string_view text) { return std::string(text.substr(0, 60)); }

  Error bad(pugi::xml_node node, const std::string& message) const { return file_.bad(node, message); }
  size_t line(pugi::xml_node node) const { return file_.line(node); }

  // A whole number within the range; nothing where it is missing or empty.
  std::optional<int64_t> number(pugi::xml_node node, const char* name, int64_t max, int64_t min = 0) const {
    std::string_view text = node.attribute(name).value();
    if (text.empty()) return std::nullopt;
    const std::string_view quoted = text;
    const int base = text.starts_with("0x") ? 16 : 10;
    if (base == 16) text.remove_prefix(2);
    int64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (code == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
    throw bad(node, std::string(node.name()) + " " + name + " is '" + shown(quoted) +
                        "' but must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  }

  void read_cpu(pugi::xml_node cpu) {
    if (box_.cpus.size() >= kMaxCpus) throw bad(cpu, "more than " + std::to_string(kMaxCpus) + " cpu elements");
    const std::string hash = cpu.attribute("host_hash").value();
    const uint32_t host = hosts_.emplace(hash, static_cast<uint32_t>(hosts_.size())).first->second;
    const CpuLink link =
        cpu_link(cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                 number(cpu, "familyid", INT32_MAX).value_or(0), number(cpu, "modelid", INT32_MAX).value_or(0));
    const uint32_t node = box_.add_cpu(host, link);
    host_ = host;
    cpu_ = node;
    for (const pugi::xml_node pci : cpu.children("pci")) read_pci(pci, node, 1);
    for (const pugi::xml_node nic : cpu.children("nic")) read_nic(nic, node, std::nullopt, "");
  }

  // What is plugged into `parent`. A device with one function is joined to it directly; a device with more beneath it
  // (a bridge, or several GPUs that share a slot) is a switch of its own.
  void read_pci(pugi::xml_node pci, uint32_t parent, int depth) {
    if (depth > kMaxDepth) throw bad(pci, "pci elements are nested more than " + std::to_string(kMaxDepth) + " deep");
    const std::string busid = read_busid(pci);
    const NcclBox::Speed up = pci_speed(pci);
    const auto count = [&](const char* name) {
      return std::distance(pci.children(name).begin(), pci.children(name).end());
    };
    const auto gpus = count("gpu"), nics = count("nic"), bridged = count("pci");
    const DeviceClass device = class_of(pci.attribute("class").value());
    if (gpus + nics == 0 && bridged == 0) {
      if (device == DeviceClass::gpu) guessed_gpus_.push_back(new_gpu(busid, parent, up));
      if (device == DeviceClass::nic) box_.nics.push_back({.node = parent, .up = up, .names = {busid}});
      return;  // an empty bridge, an NVSwitch (which the nvlink rows name), a disk
    }
    uint32_t node = parent;
    if (gpus + nics > 1 || bridged > 0) {
      node = static_cast<uint32_t>(box_.switches.size());
      const std::string host = host_ == 0 ? "" : "host" + std::to_string(host_) + "/";
      box_.switches.push_back({.name = host + "pci" + busid, .parent = parent, .up = up});
    }
    for (const pugi::xml_node gpu : pci.children("gpu")) read_gpu(gpu, busid, node, up);
    for (const pugi::xml_node nic : pci.children("nic")) read_nic(nic, node, up, busid);
    for (const pugi::xml_node child : pci.children("pci")) read_pci(child, node, depth + 1);
  }

  std::string read_busid(pugi::xml_node pci) {
    const std::string busid = normal_busid(pci.attribute("busid").value());
    if (!is_busid(busid)) {
      throw bad(pci, "pci busid is '" + shown(busid) + "' but must be like 0000:1a:00.0");
    }
    if (!busids_.emplace(host_, busid).second) throw bad(pci, "pci busid " + busid + " occurs twice");
    return busid;
  }

  // Domains are written with four digits or with eight.
  static std::string normal_busid(std::string_view text) {
    std::string busid = lower(text);
    const size_t colon = busid.find(':');
    if (colon != std::string::npos && colon > 4) busid.erase(0, std::min(busid.find_first_not_of('0'), colon - 4));
    return busid;
  }

  // Lanes times what a lane carries after encoding and headers, in units of 1/80 GB/s: NCCL's table.
  NcclBox::Speed pci_speed(pugi::xml_node pci) const {
    const int64_t lanes = number(pci, "link_width", 256).value_or(16);
    const std::string_view speed = pci.attribute("link_speed").value();
    uint64_t per_lane = 0;
    static constexpr std::pair<std::string_view, uint64_t> kPciSpeeds[] = {{"2.5", 15}, {"5", 30},   {"8", 60},
                                                                           {"16", 120}, {"32", 240}, {"64", 480}};
    for (const auto& [figure, value] : kPciSpeeds) {
      std::string_view rest = speed;
      if (!rest.starts_with(figure)) continue;
      rest.remove_prefix(figure.size());
      if (rest.starts_with(".0")) rest.remove_prefix(2);
      if (!starts_with_digits(rest) && rest.starts_with(" GT/s")) per_lane = value;
    }
    const bool assumed = lanes == 0 || per_lane == 0 || pci.attribute("link_width").empty();
    if (per_lane == 0) per_lane = 60;  // Gen3, which NCCL takes for any speed that it does not know
    const uint64_t rate = static_cast<uint64_t>(lanes == 0 ? 16 : lanes) * per_lane * 12'500'000;
    return {.rate = Bandwidth::bytes_per_second(rate), .assumed = assumed};
  }

  NcclBox::Gpu new_gpu(const std::string& busid, uint32_t plug, NcclBox::Speed up) const {
    return {.busid = busid, .host = host_, .cpu = cpu_, .node = plug, .up = up};
  }

  void read_gpu(pugi::xml_node node, const std::string& busid, uint32_t plug, NcclBox::Speed up) {
    NcclBox::Gpu gpu = new_gpu(busid, plug, up);
    if (node.attribute("dev")) gpu.dev = number(node, "dev", INT32_MAX).value_or(0);
    const bool amd = !node.child("xgmi").empty() || node.attribute("gcn");
    const int64_t sm = number(node, "sm", 10'000).value_or(0);
    gpu.link = amd ? NcclBox::Speed{.rate = xgmi_of(node.attribute("gcn").value())}
                   : NcclBox::Speed{.rate = nvlink_of(sm), .assumed = sm == 0};
    if (!amd) gpu.most_links = most_nvlinks(sm);
    for (const pugi::xml_node row : node.children()) {
      const std::string_view name = row.name();
      if (name == "nvlink" || name == "xgmi") read_link_row(row, gpu);
      if (name == "c2c") {
        // bw is in MB/s.
        const int64_t megabytes = number(row, "bw", 1'000'000'000).value_or(0),
                      links = number(row, "count", kMaxLinkCount).value_or(1);
        const uint64_t more = static_cast<uint64_t>(megabytes) * static_cast<uint64_t>(links) * 1'000'000;
        if (more > Bandwidth::kMaxBytesPerSecond) throw bad(row, "c2c links of more than 1 PB/s");
        gpu.c2c = Bandwidth::bytes_per_second(more);
      }
    }
    box_.gpus.push_back(std::move(gpu));
  }

  void read_link_row(pugi::xml_node row, NcclBox::Gpu& gpu) const {
    using Target = NcclBox::LinkRow::Target;
    if (gpu.rows.size() >= kMaxRows) throw bad(row, "a GPU with more than " + std::to_string(kMaxRows) + " link rows");
    const std::string target = normal_busid(row.attribute("target").value());
    if (target.empty()) throw bad(row, std::string(row.name()) + " has no target");
    const int64_t count = number(row, "count", kMaxLinkCount).value_or(1);
    if (count == 0) return;  // no link of it is up
    const std::string code = lower(row.attribute("tclass").value());
    Target kind = Target::unknown;
    if (code.starts_with("0x068001")) {
      kind = Target::cpu;
    } else if (class_of(code) == DeviceClass::nvswitch || target.starts_with("fffffff:")) {
      kind = Target::nvswitch;  // all f: a switch that the driver hides from containers and on GB200
    } else if (class_of(code) == DeviceClass::gpu) {
      kind = Target::gpu;
    }
    gpu.rows.push_back(
        {.kind = kind, .busid = shown(target), .count = static_cast<uint32_t>(count), .line = line(row)});
  }

  void read_nic(pugi::xml_node node, uint32_t plug, std::optional<NcclBox::Speed> up, const std::string& busid) {
    NcclBox::Nic nic{.node = plug, .up = up};
    for (const pugi::xml_node net : node.children("net")) {
      constexpr int64_t kUnknown = 10'000;  // what NCCL takes when the driver does not say
      const int64_t megabits = number(net, "speed", INT32_MAX, INT32_MIN).value_or(kUnknown);
      const uint64_t rate = static_cast<uint64_t>(megabits <= 0 ? kUnknown : megabits) * 125'000;
      const uint64_t sum = rate + (nic.net ? nic.net->rate.bytes_per_second() : 0);
      if (sum > Bandwidth::kMaxBytesPerSecond) throw bad(net, "a nic of more than 1 PB/s; speed is in Mb/s");
      const bool assumed = megabits <= 0 || net.attribute("speed").empty() || (nic.net && nic.net->assumed);
      nic.net = NcclBox::Speed{.rate = Bandwidth::bytes_per_second(sum), .assumed = assumed};
      if (const std::string name = net.attribute("name").value(); !name.empty()) nic.names.push_back(shown(name));
    }
    if (!busid.empty()) nic.names.push_back(busid);
    box_.nics.push_back(nic);
  }

  // A dump has gpu elements, and other devices of display class are consoles. A skeleton has none.
  void choose_gpus(pugi::xml_node root) {
    if (box_.gpus.empty()) {
      box_.gpus = std::move(guessed_gpus_);
      box_.gpus_guessed = true;
    }
    if (box_.gpus.empty()) {
      throw bad(root,
                "no GPU is in this file: neither gpu elements nor pci elements of class 0x03 or 0x12 under a cpu; "
                "dump it on a machine with GPUs by NCCL_TOPO_DUMP_FILE=topo.xml");
    }
  }

  const XmlFile file_;
  NcclBox box_;
  std::vector<NcclBox::Gpu> guessed_gpus_;
  std::map<std::string, uint32_t> hosts_;
  std::set<std::pair<uint32_t, std::string>> busids_;
  uint32_t host_ = 0, cpu_ = 0;  // of the cpu element that is being read
};

}  // namespace

Fabric parse_nccl_xml(std::string_view xml, const BoxOptions& options, const std::string& where,
                      std::vector<std::string>& notes) {
  return at_place(where, [&] { return build_nccl_fabric(NcclXmlReader(xml).read(), options, notes); });
}

}  // namespace banyan::fabric
