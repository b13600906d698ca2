#include "banyan/fabric/device_table.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"

namespace banyan::fabric {
namespace {

// The hybrid cube mesh of the DGX-1 and of the clouds' boxes of 8 V100: six NVLinks at each GPU, to four others.
constexpr GpuCable kDgx1Mesh[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                                  {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                                  {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};

// The DGX-1 of P100: four NVLinks at each GPU, to the three others of its quad and to one of the other quad.
constexpr GpuCable kDgx1P100Mesh[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 1}, {1, 2, 1}, {1, 3, 1}, {2, 3, 1},
                                      {4, 5, 1}, {4, 6, 1}, {4, 7, 1}, {5, 6, 1}, {5, 7, 1}, {6, 7, 1},
                                      {0, 4, 1}, {1, 5, 1}, {2, 6, 1}, {3, 7, 1}};

// Eight MI250: dies (GCDs) 2p and 2p + 1 share package p. Four xGMI links inside a package, one or two between
// packages.
constexpr GpuCable kMi250Mesh[] = {{0, 1, 4},   {2, 3, 4},   {4, 5, 4},   {6, 7, 4},  {8, 9, 4},  {10, 11, 4},
                                   {12, 13, 4}, {14, 15, 4}, {0, 4, 2},   {3, 7, 2},  {8, 12, 2}, {11, 15, 2},
                                   {0, 8, 1},   {1, 5, 1},   {1, 9, 1},   {1, 10, 1}, {2, 6, 1},  {2, 9, 1},
                                   {2, 10, 1},  {3, 11, 1},  {4, 6, 1},   {5, 6, 1},  {5, 7, 1},  {9, 13, 1},
                                   {10, 14, 1}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}};

constexpr Bandwidth gigabytes(uint64_t value) { return Bandwidth::gigabytes_per_second(value); }

// NVLink 3 of cards with four links: 112.5 GB/s in both directions together.
constexpr Bandwidth kBridgeLink = Bandwidth::bytes_per_second(14'062'500'000);
constexpr uint32_t kNvl72 = 72;

constexpr std::array kModels = {
    GpuModel{"p100", "P100 in a DGX-1 or alike: 4 NVLinks", gigabytes(20), 4, GpuWiring::mesh, 8, kDgx1P100Mesh},
    GpuModel{"v100", "V100 in a DGX-1 or alike: 6 NVLinks", gigabytes(25), 6, GpuWiring::mesh, 8, kDgx1Mesh},
    GpuModel{"v100-nvswitch", "V100 in a DGX-2: 6 NVLinks to NVSwitch", gigabytes(25), 6, GpuWiring::nvswitch, 0},
    GpuModel{"a100", "A100 SXM: 12 NVLinks to NVSwitch", gigabytes(25), 12, GpuWiring::nvswitch, 0},
    GpuModel{"a800", "A800 SXM: 8 NVLinks to NVSwitch", gigabytes(25), 8, GpuWiring::nvswitch, 0},
    GpuModel{"h100", "H100 SXM: 18 NVLinks to NVSwitch", gigabytes(25), 18, GpuWiring::nvswitch, 0},
    GpuModel{"h800", "H800 SXM: 8 NVLinks to NVSwitch", gigabytes(25), 8, GpuWiring::nvswitch, 0},
    GpuModel{"h20", "H20 SXM: 18 NVLinks to NVSwitch", gigabytes(25), 18, GpuWiring::nvswitch, 0},
    GpuModel{"h200", "H200 SXM: 18 NVLinks to NVSwitch", gigabytes(25), 18, GpuWiring::nvswitch, 0},
    GpuModel{"b200", "B200: 18 NVLinks to NVSwitch", gigabytes(50), 18, GpuWiring::nvswitch, 0},
    GpuModel{"b300", "B300: 18 NVLinks to NVSwitch", gigabytes(50), 18, GpuWiring::nvswitch, 0},
    GpuModel{"gb200",
             "GB200: 18 NVLinks to the NVSwitches of a rack (NVL72)",
             gigabytes(50),
             18,
             GpuWiring::nvswitch,
             0,
             {},
             kNvl72},
    GpuModel{"gb300",
             "GB300: 18 NVLinks to the NVSwitches of a rack (NVL72)",
             gigabytes(50),
             18,
             GpuWiring::nvswitch,
             0,
             {},
             kNvl72},
    GpuModel{"mi250", "MI250, each of its two dies: up to 7 xGMI links", gigabytes(50), 7, GpuWiring::mesh, 16,
             kMi250Mesh},
    GpuModel{"mi300x", "MI300X: 7 xGMI links, one to each other GPU", gigabytes(64), 7, GpuWiring::all_to_all, 8},
    GpuModel{"a40", "A40: a bridge of 4 NVLinks between two", kBridgeLink, 4, GpuWiring::bridge, 0},
    GpuModel{"a6000", "RTX A6000: a bridge of 4 NVLinks between two", kBridgeLink, 4, GpuWiring::bridge, 0},
    GpuModel{"rtx3090", "RTX 3090: a bridge of 4 NVLinks between two", kBridgeLink, 4, GpuWiring::bridge, 0},
    GpuModel{"pcie", "any GPU that has no links but PCIe", Bandwidth(), 0, GpuWiring::none, 0},
};

}  // namespace

std::span<const GpuModel> gpu_models() { return kModels; }

const GpuModel& gpu_model(std::string_view name) {
  std::string lower(name.substr(0, NearestName::kMaxLength));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  NearestName nearest(lower);
  std::string known;
  for (const GpuModel& model : kModels) {
    if (model.name == lower) return model;
    nearest.offer(model.name);
    known += (known.empty() ? "" : ", ") + std::string(model.name);
  }
  throw Error(ErrorCode::not_found,
              "GPU '" + lower + "' is not in the device table" + nearest.hint() + "; known are " + known);
}

}  // namespace banyan::fabric
