#include "banyan/predict/cost/devices.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

std::string error_of(const std::string& devices) {
  const std::string text = R"({"banyan": "devices/1", "devices": [)" + devices + "]}";
  return testing::error_of([&] { DeviceTable::parse(text, DeviceTable::builtin()); });
}

TEST(Devices, TheTableHasTheFiguresOfTheDataSheets) {
  const Device& a100 = DeviceTable::builtin().at("A100-80G");
  EXPECT_DOUBLE_EQ(a100.rate(Precision::bf16), 312e12);
  EXPECT_EQ(a100.multiprocessors, 108u);
  EXPECT_EQ(a100.memory, Bytes(uint64_t{80} << 30));
  EXPECT_EQ(a100.memory_bandwidth, Bandwidth::gigabytes_per_second(2039));
  EXPECT_EQ(DeviceTable::builtin().at("a100-40g").memory_bandwidth, Bandwidth::gigabytes_per_second(1555));
  EXPECT_DOUBLE_EQ(DeviceTable::builtin().at("h200").rate(Precision::fp16), 989.4e12);
  EXPECT_EQ(DeviceTable::builtin().at("h200").memory_bandwidth, Bandwidth::gigabytes_per_second(4800));
  EXPECT_DOUBLE_EQ(DeviceTable::builtin().at("tpu-v4").rate(Precision::bf16), 275e12);
}

TEST(Devices, EveryOneHasSourcesAndCanCompute) {
  for (const Device& device : DeviceTable::builtin().devices()) {
    SCOPED_TRACE(device.name);
    EXPECT_FALSE(device.sources.empty());
    EXPECT_FALSE(device.description.empty());
    EXPECT_GT(std::max(device.rate(Precision::fp16), device.rate(Precision::bf16)), 1e14);
    EXPECT_GT(device.efficiency.matrix, 0.3);
  }
  for (const char* name : {"a100", "h100", "h200", "mi250", "v100", "tpu-v4"})
    EXPECT_NO_THROW(DeviceTable::builtin().at(name)) << name;
}

TEST(Devices, AnUnknownNameIsMendedByTheNearest) {
  try {
    DeviceTable::builtin().at("h20");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("did you mean 'h2"), HasSubstr("a100-80g")));
  }
}

TEST(Devices, AFileChangesWhatItNames) {
  const DeviceTable table = DeviceTable::parse(
      R"({"banyan": "devices/1", "devices": [
        {"name": "a100-80g", "like": "a100-80g", "efficiency": {"matrix": 0.5}},
        {"name": "mine", "like": "h100", "memory": "96 GB"}]})",
      DeviceTable::builtin());
  EXPECT_DOUBLE_EQ(table.at("a100").efficiency.matrix, 0.5) << "aliases stay";
  EXPECT_DOUBLE_EQ(table.at("a100").efficiency.memory, DeviceTable::builtin().at("a100").efficiency.memory);
  EXPECT_EQ(table.at("mine").memory, Bytes(96'000'000'000));
  EXPECT_EQ(table.at("mine").description, "like h100");
  EXPECT_EQ(table.devices().size(), DeviceTable::builtin().devices().size() + 1);
}

TEST(Devices, WhatCalibrationWritesIsRead) {
  Device device = DeviceTable::builtin().at("a100");
  device.efficiency.matrix = 0.8765;
  device.efficiency.host_launch = Picoseconds(12'345'000);
  device.links.network = 0.4321;
  const DeviceTable table = DeviceTable::parse(format_calibrated(device, "a test"), DeviceTable::builtin());
  EXPECT_DOUBLE_EQ(table.at("a100").efficiency.matrix, 0.8765);
  EXPECT_EQ(table.at("a100").efficiency.host_launch, Picoseconds(12'345'000));
  EXPECT_DOUBLE_EQ(table.at("a100").links.network, 0.4321);
}

TEST(Devices, SayWhoseFiguresTheyCarry) {
  const DeviceTable& table = DeviceTable::builtin();
  EXPECT_EQ(borrowed_figures(table.at("a100")), "");
  EXPECT_THAT(borrowed_figures(table.at("h200")),
              AllOf(HasSubstr("h200: "), HasSubstr("matrix 0.89"), HasSubstr("0.55 of the network"),
                    HasSubstr("was measured on a100-80g"), HasSubstr("calibrate")));
  EXPECT_THAT(borrowed_figures(table.at("tpu-v4")), ::testing::Not(HasSubstr("of the network")));
  Device own = table.at("h100");
  own.efficiency.matrix = 0.7;
  EXPECT_EQ(borrowed_figures(DeviceTable::parse(format_calibrated(own, "a test"), table).at("h100")), "");
}

TEST(Devices, NamesTheCulpritAndTheMend) {
  EXPECT_THAT(error_of(R"({"name": "x"})"), HasSubstr("devices[0] needs \"peak\""));
  EXPECT_THAT(error_of(R"({"name": "x", "like": "h1000"})"), HasSubstr("did you mean 'h100'"));
  EXPECT_THAT(error_of(R"({"name": "x", "like": "h100", "memry": "1 GB"})"), HasSubstr("did you mean 'memory'"));
  EXPECT_THAT(error_of(R"({"name": "x", "like": "h100", "peak": {"fp16": "312"}})"), HasSubstr("such as 312 TFLOP/s"));
  EXPECT_THAT(error_of(R"({"name": "x", "like": "h100", "efficiency": {"matrix": 1.5}})"),
              HasSubstr("from 0.001 to 1"));
  EXPECT_THROW(DeviceTable::parse("[", DeviceTable::builtin()), Error);
  EXPECT_THROW(DeviceTable::parse(R"({"banyan": "fabric/1", "devices": []})", DeviceTable::builtin()), Error);
}

}  // namespace
}  // namespace banyan::predict
