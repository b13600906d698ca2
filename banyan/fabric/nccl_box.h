// One box as an NCCL topology XML describes it, and the fabric of N such boxes: a reader (nccl_xml.cc, hwloc_xml.cc,
// gpu_matrix.cc) fills a NcclBox, build_nccl_fabric makes the graph. Private to them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/box_options.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct NcclBox {
  static constexpr uint32_t kNone = UINT32_MAX;

  // A CPU or a PCI switch. Parents come before their children; a CPU has none.
  struct Switch {
    std::string name;
    uint32_t parent = kNone;
    Bandwidth up{};  // to the parent
  };
  struct Cpu {
    uint32_t node;      // its Switch
    uint32_t host;      // several hosts share one file where NVLink joins them
    Bandwidth to_peer;  // to other CPUs, as far as this one allows
  };
  // A row `nvlink` or `xgmi`: `count` links to one target.
  struct LinkRow {
    enum class Target : uint8_t { unknown, gpu, nvswitch, cpu } kind;  // by its PCI class
    std::string busid;
    uint32_t count;
    size_t line;
  };
  struct Gpu {
    std::string busid;
    uint32_t host, cpu;  // cpu: the Switch of its CPU
    uint32_t node;       // the Switch it is plugged into
    Bandwidth up{};
    std::optional<int64_t> dev{};
    Bandwidth link{};  // of one of its own links, by its generation
    std::vector<LinkRow> rows{};
    Bandwidth c2c{};  // to its CPU beside PCI; zero when there is none
  };
  struct Nic {
    uint32_t node;
    std::optional<Bandwidth> up{};   // absent when it hangs on a CPU without a PCI slot
    std::optional<Bandwidth> net{};  // sum of its ports; absent when the file has no net element for it
  };

  std::vector<Switch> switches;
  std::vector<Cpu> cpus;
  std::vector<Gpu> gpus;
  std::vector<Nic> nics;
  bool gpus_guessed = false;  // by PCI class: the file has no gpu elements
};

// Between two CPUs of a host, by NCCL's constants: slow where vendor and model are not known.
Bandwidth nccl_cpu_link(std::string_view arch, std::string_view vendor, int64_t family, int64_t model);

// Throws Error naming the line or the option to mend.
Fabric build_nccl_fabric(NcclBox box, const BoxOptions& options);

}  // namespace banyan::fabric
