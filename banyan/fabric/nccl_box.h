// One box as a description of a server tells of it, and the fabric of N such boxes: a reader (nccl_xml.cc,
// hwloc_xml.cc, gpu_matrix.cc) fills a NcclBox, build_nccl_fabric makes the graph, by the rules of gpu_links.h and
// box_pci.h, which are the same for all readers. Private to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/box_options.h"
#include "banyan/fabric/cpu_table.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct NcclBox {
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Speed {
    Bandwidth rate{};
    bool assumed = false;  // Link::assumed
  };
  // A CPU or a PCI switch. Parents come before their children; a CPU has none.
  struct Switch {
    std::string name;
    uint32_t parent = kNone;
    Speed up{};  // to the parent
  };
  struct Cpu {
    uint32_t node;             // its Switch
    uint32_t host;             // several hosts share one file where NVLink joins them
    Bandwidth to_peer;         // to other CPUs, as far as this one allows: a guess (cpu_table.h)
    std::string_view model{};  // whose figure that is; empty where the file does not name the CPU
  };
  // A row `nvlink` or `xgmi`: `count` links to one target, or `rate` where the file tells that instead.
  struct LinkRow {
    enum class Target : uint8_t { unknown, gpu, nvswitch, cpu } kind;  // by its PCI class
    std::string busid;
    uint32_t count;
    size_t line;
    Bandwidth rate{};
  };
  struct Gpu {
    std::string busid;
    uint32_t host, cpu;  // cpu: the Switch of its CPU
    uint32_t node;       // the Switch it is plugged into
    Speed up{};
    std::optional<int64_t> dev{};
    Speed link{};             // of one of its own links, by its generation
    uint32_t most_links = 0;  // that its generation has; 0: not known
    std::vector<LinkRow> rows{};
    Bandwidth c2c{};  // to its CPU beside PCI; zero when there is none
  };
  struct Nic {
    uint32_t node;
    std::optional<Speed> up{};            // absent when it hangs on a CPU without a PCI slot
    std::optional<Speed> net{};           // sum of its ports; absent when the file has no net element for it
    std::vector<std::string> names = {};  // any of which --nics may say
  };

  // The Switch of a CPU that is added.
  uint32_t add_cpu(uint32_t host, const CpuLink& link);

  std::vector<Switch> switches;
  std::vector<Cpu> cpus;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  bool gpus_guessed = false;    // by PCI class: the file has no gpu elements
  bool rows_are_pairs = false;  // a row tells how many links two GPUs have in common, be it through an NVSwitch
};

// True for the PCI bus id of a device in lower case, such as 0000:1a:00.0.
bool is_busid(std::string_view text);

// All that was assumed or left out is appended to `notes`. Throws Error naming the line or the option to mend.
Fabric build_nccl_fabric(NcclBox box, const BoxOptions& options, std::vector<std::string>& notes);

}  // namespace banyan::fabric
