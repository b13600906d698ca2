// Devices: how fast an accelerator computes and moves memory, in peak rates of its data sheet and in what programs
// reach of them.
//
// The table is a data file, devices.json, with units and sources; it is compiled in, and a file of the same form may
// add to it or replace parts of it (`--devices FILE`, and what calibration writes). There are two kinds of figures:
// *peak* ones, which the vendor states, and *efficiencies*, which are measured: docs/predict-costs.md says how, and
// which devices have only been given those of another.
//
// Immutable values. Safe to read from several threads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"

namespace banyan::predict {

// The type of the numbers that matrix products multiply. Sums are in fp32 for all of them.
enum class Precision : uint8_t { fp32, fp16, bf16, fp8 };
constexpr size_t kPrecisions = 4;
std::string_view to_string(Precision precision);
Precision parse_precision(std::string_view text);  // throws Error{invalid_input} with the known ones
uint32_t bytes_of(Precision precision);            // of an activation or parameter: 4, 2, 2, 2 (fp8 stores bf16)

// The efficiency that programs reach, against the peaks. All of it can be calibrated; calibrate.h says from what.
struct DeviceEfficiency {
  double matrix = 0.89;     // of the peak rate, in the inner loop of a large, aligned matrix product
  double matrix_fill = 64;  // filling and draining a tile's pipeline costs as much as so many more elements of the
                            // dimension that is summed over
  double unaligned = 0.54;  // speed of a product with rows of an odd number of 2-byte elements, over an aligned one's
  double memory = 0.53;     // of the peak bandwidth, in elementwise kernels
  Picoseconds kernel_gap{5'600'000};    // on the device between two kernels
  Picoseconds host_launch{59'000'000};  // the host's time for one kernel: framework, launch. Not the device's own,
                                        // but it is what small operators take.
};

// The efficiency that collectives reach on the links they cross; see collective_cost.h for curves that are measured.
struct LinkEfficiency {
  double scale_up = 0.8;            // of links inside a box
  double network = 0.55;            // of the NIC, and links beyond
  Picoseconds latency{35'000'000};  // per doubling of the ranks that take part
};

// The box that the device usually stands in, for estimates without a fabric.
struct ClusterShape {
  uint32_t box = 8;    // ranks that share fast links
  Bandwidth scale_up;  // of one rank inside a box, one direction
  Bandwidth network;   // of one rank's NIC
};

struct Device {
  std::string name;                        // "a100-80g"
  std::vector<std::string> aliases;        // "a100"
  std::string description;                 // one line
  std::array<double, kPrecisions> peak{};  // FLOP/s by Precision, dense; zero: not supported
  uint32_t multiprocessors = 1;            // that tiles of a matrix product are dealt out to
  Bytes memory;
  Bandwidth memory_bandwidth;
  DeviceEfficiency efficiency;
  LinkEfficiency links;
  ClusterShape cluster;
  std::vector<std::string> sources;
  // The devices whose measured figures these are; empty: its own.
  std::string efficiency_of, links_of;

  double rate(Precision precision) const { return peak[static_cast<size_t>(precision)]; }
};

class DeviceTable {
 public:
  // The table that is compiled in.
  static const DeviceTable& builtin();
  // A file that adds to `base`: a device of a name known there replaces it; "like" starts from the figures of one
  // that is known, so that only what differs need be said. Throws Error{invalid_input} with the place in the file.
  static DeviceTable parse(std::string_view json, const DeviceTable& base);
  static DeviceTable read(const std::string& path, const DeviceTable& base);  // throws also Error{not_found, io}

  std::span<const Device> devices() const { return devices_; }
  // Finds a device by name or alias, without regard to case; null if there is none.
  const Device* find(std::string_view name) const;
  // The same. Throws Error{not_found} with the nearest and all known names.
  const Device& at(std::string_view name) const;

 private:
  std::vector<Device> devices_;
};

// For people: which figures of the device were measured on another, and what they are. Empty where all are its own.
std::string borrowed_figures(const Device& device);

// A file that parse() reads: `device` like the one of its name, with its efficiencies.
std::string format_calibrated(const Device& device, const std::string& source);

}  // namespace banyan::predict
