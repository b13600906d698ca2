#include "banyan/predict/cost/devices.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <optional>

#include "banyan/base/file.h"
#include "banyan/predict/cost/devices_json.h"
#include "banyan/predict/cost/json_object.h"

namespace banyan {
namespace {

using cost_json::invalid;
using cost_json::Json;
using cost_json::Object;

constexpr const char* kFormat = "devices/1";
constexpr std::array<std::string_view, kPrecisions> kPrecisionNames = {"fp32", "fp16", "bf16", "fp8"};
constexpr uint64_t kMaxFileBytes = 16 << 20;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// "312 TFLOP/s", "0.5 PFLOP/s".
double parse_rate(const std::string& text, const std::string& place) {
  double number = 0;
  char unit[16] = "";
  int end = 0;
  const bool good = std::sscanf(text.c_str(), "%lf %15s%n", &number, unit, &end) == 2 &&
                    static_cast<size_t>(end) == text.size() && std::isfinite(number) && number >= 0;
  const std::string_view name = unit;
  const double scale = name == "GFLOP/s" ? 1e9 : name == "TFLOP/s" ? 1e12 : name == "PFLOP/s" ? 1e15 : 0;
  if (!good || scale == 0 || number * scale > 1e18)
    throw invalid(place + ": '" + text.substr(0, 60) + "' is not a rate with a unit, such as 312 TFLOP/s");
  return number * scale;
}

void read_peak(const Json& json, const std::string& place, Device& device) {
  const Object object(json, place, {"fp32", "fp16", "bf16", "fp8"});
  for (size_t i = 0; i < kPrecisions; ++i) {
    const char* key = kPrecisionNames[i].data();
    if (object.has(key)) device.peak[i] = parse_rate(object.text(key), object.at_key(key));
  }
}

void read_efficiency(const Json& json, const std::string& place, DeviceEfficiency& to) {
  const Object object(json, place, {"matrix", "matrix_fill", "unaligned", "memory", "kernel_gap", "host_launch"});
  if (object.has("matrix")) to.matrix = object.ratio("matrix", 0.001, 1);
  if (object.has("matrix_fill")) to.matrix_fill = object.ratio("matrix_fill", 0, 100'000);
  if (object.has("unaligned")) to.unaligned = object.ratio("unaligned", 0.001, 1);
  if (object.has("memory")) to.memory = object.ratio("memory", 0.001, 1);
  if (object.has("kernel_gap")) to.kernel_gap = object.duration("kernel_gap");
  if (object.has("host_launch")) to.host_launch = object.duration("host_launch");
}

void read_links(const Json& json, const std::string& place, LinkEfficiency& to) {
  const Object object(json, place, {"scale_up", "network", "latency"});
  if (object.has("scale_up")) to.scale_up = object.ratio("scale_up", 0.001, 1);
  if (object.has("network")) to.network = object.ratio("network", 0.001, 1);
  if (object.has("latency")) to.latency = object.duration("latency");
}

void read_cluster(const Json& json, const std::string& place, ClusterShape& to) {
  const Object object(json, place, {"box", "scale_up", "network"});
  if (object.has("box")) to.box = static_cast<uint32_t>(object.whole("box", 1, 1'000'000));
  if (object.has("scale_up")) to.scale_up = object.bandwidth("scale_up");
  if (object.has("network")) to.network = object.bandwidth("network");
}

std::vector<std::string> texts(const Object& object, const char* key) {
  std::vector<std::string> list;
  for (const Json& value : object.array(key)) {
    if (!value.is_string()) throw invalid(object.at_key(key) + " holds something that is not a text");
    list.push_back(value.get<std::string>());
  }
  return list;
}

// By name before by alias.
std::optional<size_t> find(std::span<const Device> devices, std::string_view name) {
  const std::string wanted = lower(name);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (lower(devices[i].name) == wanted) return i;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    for (const std::string& alias : devices[i].aliases) {
      if (lower(alias) == wanted) return i;
    }
  }
  return std::nullopt;
}

Error unknown_device(std::string_view name, std::span<const Device> known) {
  NearestName nearest(lower(name));
  std::string list;
  for (const Device& device : known) {
    nearest.offer(device.name);
    for (const std::string& alias : device.aliases) nearest.offer(alias);
    list += (list.empty() ? "" : ", ") + device.name;
  }
  return Error(ErrorCode::not_found, "device '" + std::string(name.substr(0, 60)) + "' is not known" + nearest.hint() +
                                         "; known are " + list);
}

Device read_device(const Json& json, const std::string& place, std::span<const Device> known) {
  const Object object(json, place,
                      {"name", "like", "aliases", "description", "peak", "multiprocessors", "memory",
                       "memory_bandwidth", "efficiency", "links", "cluster", "sources"});
  Device device;
  const std::string name = object.text("name");
  if (name.empty() || name.size() > 60) throw invalid(object.at_key("name") + " is empty or longer than 60 bytes");
  if (object.has("like")) {
    const std::optional<size_t> like = find(known, object.text("like"));
    if (!like) throw unknown_device(object.text("like"), known).within(object.at_key("like"));
    device = known[*like];
    if (lower(device.name) != lower(name)) device.aliases.clear();
  }
  device.name = name;
  if (object.has("aliases")) device.aliases = texts(object, "aliases");
  if (object.has("description")) device.description = object.text("description");
  if (object.has("peak")) read_peak(object.at("peak"), object.at_key("peak"), device);
  if (object.has("multiprocessors"))
    device.multiprocessors = static_cast<uint32_t>(object.whole("multiprocessors", 1, 1'000'000));
  if (object.has("memory")) device.memory = object.bytes("memory");
  if (object.has("memory_bandwidth")) device.memory_bandwidth = object.bandwidth("memory_bandwidth");
  if (object.has("efficiency"))
    read_efficiency(object.at("efficiency"), object.at_key("efficiency"), device.efficiency);
  if (object.has("links")) read_links(object.at("links"), object.at_key("links"), device.links);
  if (object.has("cluster")) read_cluster(object.at("cluster"), object.at_key("cluster"), device.cluster);
  if (object.has("sources")) device.sources = texts(object, "sources");
  const bool computes = std::any_of(device.peak.begin(), device.peak.end(), [](double rate) { return rate > 0; });
  if (!computes || device.memory.count() == 0 || device.memory_bandwidth.bytes_per_second() == 0 ||
      device.cluster.scale_up.bytes_per_second() == 0 || device.cluster.network.bytes_per_second() == 0)
    throw invalid(
        place +
        " needs \"peak\", \"memory\", \"memory_bandwidth\" and \"cluster\", or \"like\" a device that has them");
  return device;
}

}  // namespace

std::string_view to_string(Precision precision) { return kPrecisionNames[static_cast<size_t>(precision)]; }

Precision parse_precision(std::string_view text) {
  for (size_t i = 0; i < kPrecisions; ++i) {
    if (kPrecisionNames[i] == text) return static_cast<Precision>(i);
  }
  throw invalid("'" + std::string(text.substr(0, 60)) + "' is no precision; known are fp32, fp16, bf16, fp8");
}

uint32_t bytes_of(Precision precision) { return precision == Precision::fp32 ? 4 : 2; }

const DeviceTable& DeviceTable::builtin() {
  static const DeviceTable table = parse(devices_json(), DeviceTable());
  return table;
}

DeviceTable DeviceTable::parse(std::string_view json, const DeviceTable& base) {
  const Json root_json = cost_json::parse(json);
  const Object root(root_json, "the file", {"banyan", "note", "devices"});
  if (root.text("banyan") != kFormat)
    throw invalid("is not a file of devices: \"banyan\" is '" + root.text("banyan").substr(0, 60) + "', not '" +
                  kFormat + "'");
  DeviceTable table = base;
  size_t number = 0;
  for (const Json& entry : root.array("devices")) {
    Device device = read_device(entry, "devices[" + std::to_string(number++) + "]", table.devices_);
    const std::optional<size_t> known = find(table.devices_, device.name);
    if (known && lower(table.devices_[*known].name) == lower(device.name)) {
      table.devices_[*known] = std::move(device);
    } else {
      table.devices_.push_back(std::move(device));
    }
  }
  return table;
}

DeviceTable DeviceTable::read(const std::string& path, const DeviceTable& base) {
  try {
    return parse(read_file(path, kMaxFileBytes), base);
  } catch (const Error& error) {
    throw error.where().empty() && error.code() == ErrorCode::invalid_input ? error.within(path) : error;
  }
}

const Device& DeviceTable::at(std::string_view name) const {
  const std::optional<size_t> found = find(devices_, name);
  if (!found) throw unknown_device(name, devices_);
  return devices_[*found];
}

std::string format_calibrated(const Device& device, const std::string& source) {
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  const auto nanoseconds = [](Picoseconds time) { return to_string(Picoseconds(time.count() / 1000 * 1000)); };
  const DeviceEfficiency& efficiency = device.efficiency;
  const Json entry = {{"name", device.name},
                      {"like", device.name},
                      {"efficiency",
                       {{"matrix", rounded(efficiency.matrix)},
                        {"matrix_fill", rounded(efficiency.matrix_fill)},
                        {"unaligned", rounded(efficiency.unaligned)},
                        {"memory", rounded(efficiency.memory)},
                        {"kernel_gap", nanoseconds(efficiency.kernel_gap)},
                        {"host_launch", nanoseconds(efficiency.host_launch)}}},
                      {"links",
                       {{"scale_up", rounded(device.links.scale_up)},
                        {"network", rounded(device.links.network)},
                        {"latency", nanoseconds(device.links.latency)}}},
                      {"sources", Json::array({source})}};
  const Json root = {{"banyan", kFormat}, {"devices", Json::array({entry})}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace banyan
