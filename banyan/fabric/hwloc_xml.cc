#include "banyan/fabric/hwloc_xml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/fabric/nccl_box.h"
#include "banyan/fabric/xml_file.h"

namespace banyan::fabric {
namespace {

constexpr int kMaxObjectDepth = 200;  // real machines stay below 30
constexpr size_t kMaxPciDevices = 10'000;

// A PCI device or bridge that leads to a GPU or a NIC.
struct PciObject {
  enum class Kind : uint8_t { bridge, gpu, nic } kind = Kind::bridge;
  std::string busid;
  std::optional<Bandwidth> speed;  // of the link above it; none where the file gives 0
  size_t line = 0;
  std::optional<int64_t> number = {};  // of a GPU, as its driver counts
  bool is_infiniband = false;          // a NIC with verbs
  std::vector<PciObject> below = {};
};

class HwlocReader {
 public:
  HwlocReader(std::string_view xml, std::optional<Bandwidth> pci) : file_(xml), pci_(pci) {}

  NcclBox read() && {
    const pugi::xml_node root = file_.root();
    for (const pugi::xml_node object : root.children("object")) visit(object, 0);
    if (box_.gpus.empty()) {
      throw bad(root,
                "no GPU is in this file; run lstopo on a machine with GPUs, with their devices shown (lstopo "
                "--whole-io topo.xml)");
    }
    const bool has_verbs = std::any_of(is_infiniband_.begin(), is_infiniband_.end(), [](bool is) { return is; });
    for (size_t i = box_.nics.size(); has_verbs && i-- > 0;) {
      if (!is_infiniband_[i]) box_.nics.erase(box_.nics.begin() + static_cast<ptrdiff_t>(i));
    }
    return std::move(box_);
  }

 private:
  Error bad(pugi::xml_node node, const std::string& message) const { return file_.bad(node, message); }

  static bool is_pci(std::string_view type) { return type == "Bridge" || type == "PCIDev"; }

  // A part of the machine: packages, groups, NUMA nodes. Bridges hang on the part that they stand in.
  void visit(pugi::xml_node object, int depth) {
    if (depth > kMaxObjectDepth) throw bad(object, "objects are nested too deep");
    const std::string_view type = object.attribute("type").value();
    if (type == "Package" || type == "Socket") link_ = cpu_link_of(object);
    uint32_t cpu = NcclBox::kNone;
    for (const pugi::xml_node child : object.children("object")) {
      if (!is_pci(child.attribute("type").value())) {
        visit(child, depth + 1);
        continue;
      }
      std::vector<PciObject> found;
      read_pci(child, depth + 1, found);
      if (found.empty()) continue;
      if (cpu == NcclBox::kNone) cpu = add_cpu();
      for (const PciObject& device : found) add_pci(device, cpu, cpu);
    }
  }

  uint32_t add_cpu() {
    const auto node = static_cast<uint32_t>(box_.switches.size());
    box_.switches.push_back({.name = "cpu" + std::to_string(box_.cpus.size())});
    box_.cpus.push_back({.node = node, .host = 0, .to_peer = link_});
    return node;
  }

  static Bandwidth cpu_link_of(pugi::xml_node package) {
    const auto info = [&](const char* name) {
      return std::string_view(package.find_child_by_attribute("info", "name", name).attribute("value").value());
    };
    const auto number = [&](const char* name) {
      int64_t value = 0;
      const std::string_view text = info(name);
      std::from_chars(text.data(), text.data() + text.size(), value);
      return value;
    };
    const std::string_view architecture = info("CPUModel").find("POWER") != std::string_view::npos ? "ppc64" : "x86_64";
    return nccl_cpu_link(architecture, info("CPUVendor"), number("CPUFamilyNumber"), number("CPUModelNumber"));
  }

  // Appends what of the object and beneath it leads to GPUs and NICs. The host bridge is no device of its own.
  void read_pci(pugi::xml_node object, int depth, std::vector<PciObject>& found) {
    if (depth > kMaxObjectDepth) throw bad(object, "objects are nested too deep");
    if (++devices_ > kMaxPciDevices) throw bad(object, "more than " + std::to_string(kMaxPciDevices) + " PCI devices");
    const bool is_bridge = std::string_view(object.attribute("type").value()) == "Bridge";
    const bool is_host_bridge = is_bridge && std::string_view(object.attribute("bridge_type").value()).starts_with("0");
    PciObject own{.busid = busid_of(object, is_host_bridge),
                  .speed = is_host_bridge ? std::nullopt : speed_of(object),
                  .line = file_.line(object)};
    if (is_bridge) {
      for (const pugi::xml_node child : object.children("object")) {
        if (is_pci(child.attribute("type").value())) read_pci(child, depth + 1, is_host_bridge ? found : own.below);
      }
      if (is_host_bridge || own.below.empty()) return;
      if (own.below.size() == 1) own = contracted(std::move(own));
      found.push_back(std::move(own));
    } else if (classify(object, own)) {
      found.push_back(std::move(own));
    }
  }

  // A bridge with one device beneath it is a part of the way there, as narrow as its narrowest link.
  static PciObject contracted(PciObject bridge) {
    PciObject device = std::move(bridge.below.front());
    if (bridge.speed && device.speed) device.speed = std::min(*bridge.speed, *device.speed);
    if (!device.speed) device.speed = bridge.speed;
    return device;
  }

  std::string busid_of(pugi::xml_node object, bool is_host_bridge) const {
    const std::string busid = lower(object.attribute("pci_busid").value());
    const bool plain = std::all_of(busid.begin(), busid.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == ':' || c == '.';
    });
    if (!is_host_bridge && (busid.empty() || busid.size() > 20 || !plain)) {
      throw bad(object, "pci_busid is " + in_quotes(busid) + " but must be like 0000:1a:00.0");
    }
    return busid;
  }

  // "31.507692", in GB/s.
  std::optional<Bandwidth> speed_of(pugi::xml_node object) const {
    const std::string_view text = object.attribute("pci_link_speed").value();
    double gigabytes = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), gigabytes);
    const bool is_number = text.empty() || (code == std::errc() && end == text.data() + text.size());
    if (!is_number || !std::isfinite(gigabytes) || gigabytes < 0 || gigabytes > 10'000) {
      throw bad(object, "pci_link_speed is " + in_quotes(text) + " but must be a number of GB/s");
    }
    const auto bytes = static_cast<uint64_t>(std::llround(gigabytes * 1e9));
    if (bytes == 0) return std::nullopt;
    return Bandwidth::bytes_per_second(bytes);
  }

  // Whether it is a GPU or a NIC. A console is a display, too, but no driver of GPUs knows it.
  bool classify(pugi::xml_node object, PciObject& device) {
    const std::string type = lower(object.attribute("pci_type").value()).substr(0, 4);
    bool computes = type == "0302" || type.starts_with("12"), is_network = false;
    for (const pugi::xml_node child : object.children("object")) {
      if (std::string_view(child.attribute("type").value()) != "OSDev") continue;
      const std::string_view name = child.attribute("name").value(), kind = child.attribute("osdev_type").value();
      for (const std::string_view driver : {"nvml", "rsmi", "cuda", "ze"}) {
        if (!name.starts_with(driver)) continue;
        computes = true;
        int64_t number = 0;
        const std::string_view digits = name.substr(driver.size());
        const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
        if (code == std::errc() && end == digits.data() + digits.size() && number >= 0) device.number = number;
      }
      computes = computes || kind == "5";
      is_network = is_network || kind == "2" || kind == "3";
      device.is_infiniband = device.is_infiniband || kind == "3";
    }
    if (computes && !type.starts_with("02")) {
      device.kind = PciObject::Kind::gpu;
      return true;
    }
    device.kind = PciObject::Kind::nic;
    return is_network && type.starts_with("02");
  }

  void add_pci(const PciObject& device, uint32_t parent, uint32_t cpu) {
    const std::optional<Bandwidth> speed = device.speed ? device.speed : pci_;
    if (!speed) {
      throw Error(ErrorCode::invalid_input,
                  "the file does not say how fast the link of PCI device " + device.busid +
                      " is (pci_link_speed is 0: lstopo had not the rights to ask); run lstopo as root, or put the "
                      "speed behind the file's name, as in topo.xml@24GB/s",
                  "line " + std::to_string(device.line));
    }
    if (device.kind == PciObject::Kind::gpu) {
      box_.gpus.push_back(
          {.busid = device.busid, .host = 0, .cpu = cpu, .node = parent, .up = *speed, .dev = device.number});
    } else if (device.kind == PciObject::Kind::nic) {
      box_.nics.push_back({.node = parent, .up = *speed});
      is_infiniband_.push_back(device.is_infiniband);
    } else {
      if (!busids_.insert(device.busid).second) throw invalid("PCI bridge " + device.busid + " occurs twice");
      const auto node = static_cast<uint32_t>(box_.switches.size());
      box_.switches.push_back({.name = "pci" + device.busid, .parent = parent, .up = *speed});
      for (const PciObject& below : device.below) add_pci(below, node, cpu);
    }
  }

  const XmlFile file_;
  const std::optional<Bandwidth> pci_;
  NcclBox box_;
  std::vector<bool> is_infiniband_;               // by NIC
  std::set<std::string> busids_;                  // of bridges
  Bandwidth link_ = nccl_cpu_link("", "", 0, 0);  // between the packages seen so far
  size_t devices_ = 0;
};

}  // namespace

bool is_hwloc_xml(std::string_view xml) {
  const size_t topology = xml.find("<topology"), system = xml.find("<system");
  return topology != std::string_view::npos && topology < system;
}

Fabric parse_hwloc_xml(std::string_view xml, const BoxOptions& options, std::optional<Bandwidth> pci,
                       const std::string& where, std::vector<std::string>& notes) {
  try {
    Fabric fabric = build_nccl_fabric(HwlocReader(xml, pci).read(), options);
    if (options.gpu.empty()) {
      notes.push_back(
          "GPUs are joined by PCI only: the file does not tell of NVLink or xGMI; add it by --gpu, such as "
          "--gpu h100");
    }
    notes.push_back("links between CPUs are as fast as NCCL takes them: the file does not say");
    return fabric;
  } catch (const Error& error) {
    throw error.within(where);
  }
}

}  // namespace banyan::fabric
