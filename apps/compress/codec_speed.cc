#include "apps/compress/codec_speed.h"

#include <algorithm>
#include <chrono>

#include "banyan/tensor/lossless.h"
#include "banyan/tensor/rate_coder.h"

namespace banyan::app {
namespace {

constexpr size_t kMeasuredBytes = size_t{64} << 20;
constexpr size_t kMeasuredAtRate = size_t{1} << 20;  // values
constexpr int kRounds = 5;
constexpr double kLeastSeconds = 5e-3;  // of a round: less is no measurement

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <typename Work>
double best_rate(size_t bytes, Work work) {
  work();  // touches the memory
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Clock::time_point start = Clock::now();
    double done = 0, seconds = 0;
    while (seconds < kLeastSeconds) {
      work();
      done += static_cast<double>(bytes);
      seconds = seconds_since(start);
    }
    best = std::max(best, done / seconds);
  }
  return best;
}

}  // namespace

std::vector<double> measure_encoding(const tensor::Tensor& tensor, std::span<const double> bits,
                                     const std::function<void(double)>& progress) {
  const std::vector<codec::Codec> codecs = tensor::every_codec();
  const size_t size = element::size_of(tensor.type);
  const auto elements = tensor.elements.first(std::min(tensor.elements.size(), kMeasuredBytes / size * size));
  std::vector<double> rates = {
      best_rate(elements.size(), [&] { tensor::encode_lossless(elements, {.element_bytes = size}); })};
  std::vector<float> values(kMeasuredBytes / sizeof(float));
  for (size_t first = 0; first < values.size(); first += tensor.count()) {
    tensor::read_values(tensor, 0, std::span(values).subspan(first, std::min(tensor.count(), values.size() - first)));
  }
  std::vector<std::byte> coded;
  for (const codec::Codec& each : codecs) {
    progress(static_cast<double>(rates.size()) / static_cast<double>(codecs.size() + bits.size() + 1));
    coded.resize(codec::coded_bytes(each, values.size()));
    rates.push_back(best_rate(kMeasuredBytes, [&] {
      codec::encode({.codec = each, .values = values.data(), .count = values.size()}, coded.data());
    }));
  }
  for (const double each : bits) {
    progress(static_cast<double>(rates.size()) / static_cast<double>(codecs.size() + bits.size() + 1));
    const size_t most = std::min(values.size(), kMeasuredAtRate), row = std::min(tensor.row_elements, most);
    const std::span<const float> some(values.data(), most / row * row);
    const Clock::time_point start = Clock::now();
    tensor::encode_at_rate(some, {.bits = each, .row_elements = row});
    rates.push_back(static_cast<double>(some.size_bytes()) / seconds_since(start));
  }
  return rates;
}

}  // namespace banyan::app
