#include "banyan/fabric/hwloc_xml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
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

constexpr int kMaxObjectDepth = 200;  // real machines stay below 30
constexpr size_t kMaxPciDevices = 10'000;
constexpr size_t kMaxMatrixObjects = 2048;

// A PCI device or bridge that leads to a GPU or a NIC.
struct PciObject {
  enum class Kind : uint8_t { bridge, gpu, nic } kind = Kind::bridge;
  std::string busid;
  std::optional<Bandwidth> speed;  // of the link above it; none where the file gives 0
  size_t line = 0;
  std::optional<int64_t> number = {};   // of a GPU, as its driver counts
  bool is_infiniband = false;           // a NIC with verbs
  std::vector<std::string> names = {};  // of a NIC, in the operating system
  std::vector<PciObject> below = {};
};

class HwlocReader {
 public:
  HwlocReader(std::string_view xml, std::optional<Bandwidth> pci, bool wants_xgmi)
      : file_(xml), pci_(pci), wants_xgmi_(wants_xgmi) {}

  NcclBox read() && {
    const pugi::xml_node root = file_.root();
    for (const pugi::xml_node object : root.children("object")) visit(object, 0);
    if (box_.gpus.empty()) {
      throw bad(root,
                "no GPU is in this file; run lstopo on a machine with GPUs, with their devices shown (lstopo "
                "--whole-io topo.xml)");
    }
    for (const pugi::xml_node child : root.children()) read_matrix(child);
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
    ends_.emplace(gp_index(object),
                  NcclBox::LinkRow{.kind = NcclBox::LinkRow::Target::cpu, .busid = "cpu", .count = 1, .line = 0});
    uint32_t cpu = NcclBox::kNone;
    for (const pugi::xml_node child : object.children("object")) {
      if (!is_pci(child.attribute("type").value())) {
        visit(child, depth + 1);
        continue;
      }
      std::vector<PciObject> found;
      read_pci(child, depth + 1, found);
      if (found.empty()) continue;
      if (cpu == NcclBox::kNone) cpu = box_.add_cpu(0, link_);
      for (const PciObject& device : found) add_pci(device, cpu, cpu);
    }
  }

  static CpuLink cpu_link_of(pugi::xml_node package) {
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
    return cpu_link(architecture, info("CPUVendor"), number("CPUFamilyNumber"), number("CPUModelNumber"));
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
    } else {
      const bool leads_on = classify(object, own);
      remember_ends(object, own);
      if (leads_on) found.push_back(std::move(own));
    }
  }

  static std::string gp_index(pugi::xml_node object) { return object.attribute("gp_index").value(); }

  // What the matrices of bandwidths may name: a GPU's devices, a switch of NVLink, a part of the machine with CPUs.
  void remember_ends(pugi::xml_node object, const PciObject& device) {
    using Target = NcclBox::LinkRow::Target;
    const bool is_nvswitch = std::string_view(object.attribute("subtype").value()) == "NVSwitch" ||
                             lower(object.attribute("pci_type").value()).starts_with("0680 [10de");
    if (device.kind != PciObject::Kind::gpu && !is_nvswitch) return;
    const NcclBox::LinkRow end{
        .kind = is_nvswitch ? Target::nvswitch : Target::gpu, .busid = device.busid, .count = 1, .line = device.line};
    ends_.emplace(gp_index(object), end);
    for (const pugi::xml_node child : object.children("object")) ends_.emplace(gp_index(child), end);
  }

  // "OSDev:332 OSDev:333" or "332 333", and values row by row in MB/s; both may be divided among several elements.
  void read_matrix(pugi::xml_node matrix) {
    const std::string_view element = matrix.name(), name = matrix.attribute("name").value();
    const bool is_hetero = element == "distances2hetero";
    if (!is_hetero && element != "distances2") return;
    if (name != "NVLinkBandwidth" && !(name == "XGMIBandwidth" && wants_xgmi_)) return;
    const auto words_of = [&](const char* parts) {
      std::vector<std::string_view> words;
      for (const pugi::xml_node part : matrix.children(parts)) {
        for (const std::string_view word : split_words(part.child_value())) words.push_back(word);
      }
      return words;
    };
    const std::vector<std::string_view> indexes = words_of("indexes"), values = words_of("u64values");
    if (!is_hetero && std::string_view(matrix.attribute("indexing").value()) != "gp") {
      throw bad(matrix, "matrix " + std::string(name) + " names its objects by '" +
                            std::string(matrix.attribute("indexing").value()).substr(0, 20) + "', not by 'gp'");
    }
    if (indexes.size() > kMaxMatrixObjects || values.size() != indexes.size() * indexes.size()) {
      throw bad(matrix, "matrix " + std::string(name) + " has " + std::to_string(values.size()) + " values for " +
                            std::to_string(indexes.size()) + " objects, of which there may be " +
                            std::to_string(kMaxMatrixObjects) + "; it needs one for every two");
    }
    std::vector<const NcclBox::LinkRow*> ends;
    for (const std::string_view index : indexes) {
      const auto end = ends_.find(std::string(index.substr(is_hetero ? index.find(':') + 1 : 0)));
      ends.push_back(end == ends_.end() ? nullptr : &end->second);
    }
    std::map<std::string, NcclBox::Gpu*> gpus;
    for (NcclBox::Gpu& gpu : box_.gpus) gpus.emplace(gpu.busid, &gpu);
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] == nullptr || ends[i]->kind != NcclBox::LinkRow::Target::gpu) continue;
      const auto gpu = gpus.find(ends[i]->busid);
      for (size_t j = 0; j < ends.size() && gpu != gpus.end(); ++j) {
        const Bandwidth rate = matrix_value(matrix, values[i * ends.size() + j]);
        if (ends[j] == nullptr || ends[j]->busid == ends[i]->busid || rate == Bandwidth()) continue;
        gpu->second->rows.push_back(*ends[j]);
        gpu->second->rows.back().rate = rate;
      }
    }
  }

  Bandwidth matrix_value(pugi::xml_node matrix, std::string_view text) const {
    uint64_t megabytes = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), megabytes);
    if (code != std::errc() || end != text.data() + text.size() || megabytes > 1'000'000'000) {
      throw bad(matrix, "a value of the matrix is " + in_quotes(text) + " but must be a whole number of MB/s");
    }
    return Bandwidth::bytes_per_second(megabytes * 1'000'000);
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
    if (!is_host_bridge && !is_busid(busid)) {
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

  struct OsDevice {
    bool computes = false, is_network = false, is_infiniband = false;
  };
  // osdev_type is a number up to version 2 (2 network, 3 OpenFabrics, 5 co-processor), and bits from version 3 on.
  OsDevice os_device_of(std::string_view kind) const {
    if (!std::string_view(file_.root().attribute("version").value()).starts_with('3'))
      return {.computes = kind == "5", .is_network = kind == "2" || kind == "3", .is_infiniband = kind == "3"};
    constexpr uint32_t kCoprocessor = 8, kNetwork = 16, kOpenFabrics = 32;
    uint32_t bits = 0;
    std::from_chars(kind.data(), kind.data() + kind.size(), bits);
    return {.computes = (bits & kCoprocessor) != 0,
            .is_network = (bits & (kNetwork | kOpenFabrics)) != 0,
            .is_infiniband = (bits & kOpenFabrics) != 0};
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
      const OsDevice does = os_device_of(kind);
      computes |= does.computes;
      is_network |= does.is_network;
      if (does.is_network) device.names.emplace_back(name.substr(0, 60));
      device.is_infiniband |= does.is_infiniband;
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
      throw invalid("the file does not say how fast the link of PCI device " + device.busid +
                    " is (pci_link_speed is 0: lstopo had not the rights to ask); run lstopo as root, or put the "
                    "speed behind the file's name, as in topo.xml@24GB/s")
          .within("line " + std::to_string(device.line));
    }
    if (device.kind == PciObject::Kind::gpu) {
      box_.gpus.push_back(
          {.busid = device.busid, .host = 0, .cpu = cpu, .node = parent, .up = {*speed}, .dev = device.number});
    } else if (device.kind == PciObject::Kind::nic) {
      box_.nics.push_back({.node = parent, .up = NcclBox::Speed{*speed}, .names = device.names});
      box_.nics.back().names.push_back(device.busid);
      is_infiniband_.push_back(device.is_infiniband);
    } else {
      if (!busids_.insert(device.busid).second) throw invalid("PCI bridge " + device.busid + " occurs twice");
      const auto node = static_cast<uint32_t>(box_.switches.size());
      box_.switches.push_back({.name = "pci" + device.busid, .parent = parent, .up = {*speed}});
      for (const PciObject& below : device.below) add_pci(below, node, cpu);
    }
  }

  const XmlFile file_;
  const std::optional<Bandwidth> pci_;
  const bool wants_xgmi_;
  NcclBox box_;
  std::vector<bool> is_infiniband_;               // by NIC
  std::set<std::string> busids_;                  // of bridges
  CpuLink link_ = cpu_link("", "", 0, 0);         // between the packages seen so far
  std::map<std::string, NcclBox::LinkRow> ends_;  // by gp_index: what a link to that object is
  size_t devices_ = 0;
};

}  // namespace

bool is_hwloc_xml(std::string_view xml) {
  const size_t topology = xml.find("<topology"), system = xml.find("<system");
  return topology != std::string_view::npos && topology < system;
}

Fabric parse_hwloc_xml(const SiteFile& file, const BoxOptions& options, std::vector<std::string>& notes) {
  return at_place(file.name, [&] {
    NcclBox box = HwlocReader(file.text, file.bandwidth, options.gpu.empty()).read();
    const bool has_matrix = std::ranges::any_of(box.gpus, [](const auto& gpu) { return !gpu.rows.empty(); });
    if (options.gpu.empty() && !has_matrix && box.gpus.size() > 1) {
      notes.push_back(
          "GPUs are joined by PCI only: the file has no matrix of NVLink or xGMI, which lstopo writes where NVML or "
          "ROCm "
          "SMI is there; add links by --gpu, such as --gpu h100");
    }
    return build_nccl_fabric(std::move(box), options, notes);
  });
}

}  // namespace banyan::fabric
