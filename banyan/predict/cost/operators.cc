#include "banyan/predict/cost/operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "banyan/base/error.h"

namespace banyan::predict {
namespace {

// Tiles of the output, and how fast their inner loops are against the largest: a smaller tile loads more per product
// (section 2.3 of the guide named in the header).
struct Tile {
  uint64_t rows, columns;
  double speed;
};
constexpr std::array<Tile, 6> kTiles = {
    {{256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.9}, {128, 64, 0.75}, {64, 128, 0.75}, {64, 64, 0.55}}};

constexpr double kBytesPerElement16 = 2;

uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// 0 where rows are a multiple of 16 bytes, 1 where they have an odd number of 2-byte elements.
double misalignment(const MatrixProduct& product) {
  const uint64_t all = product.m | product.n | product.k;
  if (all % 8 == 0) return 0;
  if (all % 4 == 0) return 1.0 / 3;
  return all % 2 == 0 ? 2.0 / 3 : 1.0;
}

}  // namespace

void Operator::add(const Operator& other) {
  products_.insert(products_.end(), other.products_.begin(), other.products_.end());
  bytes_ += other.bytes_;
  memory_kernels_ += other.memory_kernels_;
}

double Operator::flop() const {
  double sum = 0;
  for (const MatrixProduct& product : products_) sum += product.flop();
  return sum;
}

double product_seconds(const MatrixProduct& product, const Device& device, Precision precision) {
  const double peak = device.rate(precision);
  if (!(peak > 0)) {
    throw Error(ErrorCode::unsupported, "device '" + device.name + "' has no rate for " +
                                            std::string(to_string(precision)) + "; choose another --precision");
  }
  const DeviceEfficiency& efficiency = device.efficiency;
  const double rate = peak * efficiency.matrix / device.multiprocessors;
  const double depth = static_cast<double>(product.k) + efficiency.matrix_fill;
  double compute = INFINITY;
  for (const Tile& tile : kTiles) {
    const uint64_t tiles = divide_up(product.m, tile.rows) * divide_up(product.n, tile.columns) * product.batch;
    const double waves = static_cast<double>(divide_up(tiles, device.multiprocessors));
    const double flop = 2.0 * static_cast<double>(tile.rows * tile.columns) * depth;
    compute = std::min(compute, waves * flop / (rate * tile.speed));
  }
  compute /= std::pow(efficiency.unaligned, misalignment(product));
  const double m = static_cast<double>(product.m), n = static_cast<double>(product.n),
               k = static_cast<double>(product.k);
  const double element = precision == Precision::fp8 ? 1 : bytes_of(precision);
  const double bytes =
      static_cast<double>(product.batch) * (element * (m * k + k * n) + std::max(element, kBytesPerElement16) * m * n);
  const double bandwidth = static_cast<double>(device.memory_bandwidth.bytes_per_second()) * efficiency.memory;
  return std::max(compute, bytes / bandwidth);
}

double OperatorTime::fixed() const {
  const double at_twice_the_speed = std::max(host, (device + gaps) / 2);
  return std::max(0.0, 2 * at_twice_the_speed - seconds());
}

OperatorTime operator_time(const Operator& work, const Device& device, Precision precision) {
  const auto seconds = [](Picoseconds time) { return static_cast<double>(time.count()) * 1e-12; };
  OperatorTime time;
  for (const MatrixProduct& product : work.products()) time.device += product_seconds(product, device, precision);
  time.device += work.memory_bytes() /
                 (static_cast<double>(device.memory_bandwidth.bytes_per_second()) * device.efficiency.memory);
  time.gaps = work.kernels() * seconds(device.efficiency.kernel_gap);
  time.device += time.gaps;
  time.host = work.kernels() * seconds(device.efficiency.host_launch);
  return time;
}

Picoseconds to_picoseconds(double seconds) {
  constexpr double kMost = 4.6e6;  // 2^62 ps are 4.61 million seconds
  if (!(seconds >= 0 && seconds < kMost))
    throw Error(ErrorCode::unsupported, "a duration is above 53 days; is a rate or a size in the wrong unit?");
  return Picoseconds(static_cast<int64_t>(std::llround(seconds * 1e12)));
}

}  // namespace banyan::predict
