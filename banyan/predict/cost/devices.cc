#include "banyan/predict/cost/devices.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/nearest.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/predict/cost/devices_json.h"

namespace banyan::predict {
namespace {
using Json = nlohmann::ordered_json;

constexpr JsonForm kForm{.name = "file of devices", .format = "devices/1", .depth = 16};
constexpr std::array<std::string_view, kPrecisions> kPrecisionNames = {"fp32", "fp16", "bf16", "fp8"};
constexpr uint64_t kMaxFileBytes = 16 << 20;

// "312 TFLOP/s", "0.5 PFLOP/s".
double parse_rate(const std::string& text) {
  double number = 0;
  char unit[16] = "";
  int end = 0;
  const bool good = std::sscanf(text.c_str(), "%lf %15s%n", &number, unit, &end) == 2 &&
                    static_cast<size_t>(end) == text.size() && std::isfinite(number) && number >= 0;
  const std::string_view name = unit;
  const double scale = name == "GFLOP/s" ? 1e9 : name == "TFLOP/s" ? 1e12 : name == "PFLOP/s" ? 1e15 : 0;
  if (!good || scale == 0 || number * scale > 1e18)
    throw invalid("'" + text.substr(0, 60) + "' is not a rate with a unit, such as 312 TFLOP/s");
  return number * scale;
}

double ratio(JsonNode node) { return node.number(0.001, 1); }

void read_peak(JsonNode object, Device& device) {
  object.with_keys({"fp32", "fp16", "bf16", "fp8"});
  for (size_t i = 0; i < kPrecisions; ++i) {
    if (const auto peak = object.find(kPrecisionNames[i])) device.peak[i] = peak->parsed(parse_rate);
  }
}

void read_efficiency(JsonNode object, DeviceEfficiency& to) {
  object.with_keys({"matrix", "matrix_fill", "unaligned", "memory", "kernel_gap", "host_launch"});
  if (const auto matrix = object.find("matrix")) to.matrix = ratio(*matrix);
  if (const auto fill = object.find("matrix_fill")) to.matrix_fill = fill->number(0, 100'000);
  if (const auto unaligned = object.find("unaligned")) to.unaligned = ratio(*unaligned);
  if (const auto memory = object.find("memory")) to.memory = ratio(*memory);
  if (const auto gap = object.find("kernel_gap")) to.kernel_gap = gap->duration();
  if (const auto launch = object.find("host_launch")) to.host_launch = launch->duration();
}

void read_links(JsonNode object, LinkEfficiency& to) {
  object.with_keys({"scale_up", "network", "latency"});
  if (const auto scale_up = object.find("scale_up")) to.scale_up = ratio(*scale_up);
  if (const auto network = object.find("network")) to.network = ratio(*network);
  if (const auto latency = object.find("latency")) to.latency = latency->duration();
}

void read_cluster(JsonNode object, ClusterShape& to) {
  object.with_keys({"box", "scale_up", "network"});
  if (const auto box = object.find("box")) to.box = static_cast<uint32_t>(box->whole(1, 1'000'000));
  if (const auto scale_up = object.find("scale_up")) to.scale_up = scale_up->bandwidth();
  if (const auto network = object.find("network")) to.network = network->bandwidth();
}

std::vector<std::string> texts(JsonNode list) {
  std::vector<std::string> texts;
  for (const JsonNode text : list.items()) texts.push_back(text.text());
  return texts;
}

// By name before by alias.
std::optional<size_t> number_of(std::span<const Device> devices, std::string_view name) {
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
                                         "; known are " + list + "; --devices FILE adds others");
}

Device read_device(JsonNode object, std::span<const Device> known) {
  object.with_keys({"name", "like", "aliases", "description", "peak", "multiprocessors", "memory", "memory_bandwidth",
                    "efficiency", "links", "cluster", "sources"});
  Device device;
  const std::string name = object.at("name").text();
  if (name.empty() || name.size() > 60) throw object.at("name").error("is empty or longer than 60 bytes");
  if (const auto like = object.find("like")) {
    const std::optional<size_t> number = number_of(known, like->text());
    if (!number) throw unknown_device(like->text(), known).within(like->place());
    device = known[*number];
    if (lower(device.name) != lower(name)) {
      if (device.efficiency_of.empty()) device.efficiency_of = device.name;
      if (device.links_of.empty()) device.links_of = device.name;
      device.description = "like " + device.name;
      device.aliases = device.sources = {};
    }
  }
  device.name = name;
  if (const auto aliases = object.find("aliases")) device.aliases = texts(*aliases);
  if (const auto description = object.find("description")) device.description = description->text();
  if (const auto peak = object.find("peak")) read_peak(*peak, device);
  if (const auto count = object.find("multiprocessors"))
    device.multiprocessors = static_cast<uint32_t>(count->whole(1, 1'000'000));
  if (const auto memory = object.find("memory")) device.memory = memory->bytes();
  if (const auto bandwidth = object.find("memory_bandwidth")) device.memory_bandwidth = bandwidth->bandwidth();
  if (const auto efficiency = object.find("efficiency")) {
    read_efficiency(*efficiency, device.efficiency);
    if (efficiency->has("matrix")) device.efficiency_of.clear();
  }
  if (const auto links = object.find("links")) {
    read_links(*links, device.links);
    device.links_of.clear();
  }
  if (const auto cluster = object.find("cluster")) read_cluster(*cluster, device.cluster);
  if (const auto sources = object.find("sources")) device.sources = texts(*sources);
  const bool computes = std::any_of(device.peak.begin(), device.peak.end(), [](double rate) { return rate > 0; });
  if (!computes || device.memory.count() == 0 || device.memory_bandwidth.bytes_per_second() == 0 ||
      device.cluster.scale_up.bytes_per_second() == 0 || device.cluster.network.bytes_per_second() == 0)
    throw object.error(
        "needs \"peak\", \"memory\", \"memory_bandwidth\" and \"cluster\", or \"like\" a device that has them");
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
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"banyan", "note", "devices"});
  DeviceTable table = base;
  for (const JsonNode entry : root.at("devices").items()) {
    Device device = read_device(entry, table.devices_);
    const std::optional<size_t> known = number_of(table.devices_, device.name);
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
    return parse(read_plain_text(path, kMaxFileBytes).text, base);
  } catch (const Error& error) {
    throw error.where().empty() && error.code() == ErrorCode::invalid_input ? error.within(path) : error;
  }
}

const Device* DeviceTable::find(std::string_view name) const {
  const std::optional<size_t> found = number_of(devices_, name);
  return found ? &devices_[*found] : nullptr;
}

const Device& DeviceTable::at(std::string_view name) const {
  const Device* const found = find(name);
  if (found == nullptr) throw unknown_device(name, devices_);
  return *found;
}

std::string borrowed_figures(const Device& device) {
  const auto number = [](double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return std::string(text);
  };
  std::string text;
  if (!device.efficiency_of.empty()) {
    text = "what programs reach of its peaks (matrix " + number(device.efficiency.matrix) + ", memory " +
           number(device.efficiency.memory) + ", " + banyan::to_string(device.efficiency.host_launch) +
           " a launch) was measured on " + device.efficiency_of;
  }
  if (!device.links_of.empty()) {
    text += (text.empty() ? "" : "; ") + std::string("what collectives reach of its links (") +
            number(device.links.scale_up) + " inside a box, " + number(device.links.network) + " of the network, " +
            banyan::to_string(device.links.latency) + " a doubling) was measured on " + device.links_of;
  }
  return text.empty() ? "" : device.name + ": " + text + "; calibrate it (banyan predict calibrate)";
}

std::string format_calibrated(const Device& device, const std::string& source) {
  const auto rounded = [](double value) { return std::round(value * 1e4) / 1e4; };
  const auto nanoseconds = [](Picoseconds time) { return banyan::to_string(Picoseconds(time.count() / 1000 * 1000)); };
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
  const Json root = {{"banyan", kForm.format}, {"devices", Json::array({entry})}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace banyan::predict
