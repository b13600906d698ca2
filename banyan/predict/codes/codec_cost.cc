#include "banyan/predict/codes/codec_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/split_list.h"

namespace banyan::predict {
namespace {

constexpr size_t kMeasuredValues = (size_t{64} << 20) / sizeof(float);
constexpr int kPasses = 3;

// Normal enough for a measurement: no kernel branches on values.
void fill(std::vector<float>& values) {
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31F;
  }
}

class Buffers {
 public:
  explicit Buffers(const codec::Codec& codec)
      : codec_(codec),
        values_(kMeasuredValues),
        sums_(kMeasuredValues, 0.0F),
        coded_(coded_bytes(codec, kMeasuredValues)) {
    fill(values_);
  }

  CodecSpeed measure() {
    const bool keeps = traits_of(codec_).needs_residual;
    CodecSpeed speed;
    speed.encode = seconds_a_byte([&] {
      codec::encode({.codec = codec_,
                     .values = values_.data(),
                     .residual = keeps ? sums_.data() : nullptr,
                     .lost = keeps ? sums_.data() : nullptr,
                     .count = kMeasuredValues},
                    coded_.data());
    });
    speed.decode = seconds_a_byte([&] { codec::decode(codec_, coded_.data(), values_.data(), kMeasuredValues); });
    speed.decode_add = seconds_a_byte([&] { codec::decode_add(codec_, coded_.data(), sums_.data(), kMeasuredValues); });
    return speed;
  }

 private:
  template <typename Work>
  static double seconds_a_byte(const Work& work) {
    using Clock = std::chrono::steady_clock;
    double best = 0;
    for (int pass = 0; pass < kPasses; ++pass) {
      const auto begin = Clock::now();
      work();
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (pass == 0 || seconds < best) best = seconds;
    }
    return best / static_cast<double>(kMeasuredValues * sizeof(float));
  }

  const codec::Codec codec_;
  std::vector<float> values_, sums_;
  std::vector<std::byte> coded_;
};

}  // namespace

Bytes CodecCost::coded(Bytes float32) const { return Bytes(coded_bytes(codec, float32.count() / sizeof(float))); }

double CodecCost::share() const {
  return static_cast<double>(traits_of(codec).block_bytes) / (codec::kBlockValues * sizeof(float));
}

std::vector<codec::Codec> codecs_by_loss() {
  std::vector<codec::Codec> all;  // of equal loss, the later code first
  for (size_t code = codec::kValueCodes; code-- > 0;) all.push_back({.code = static_cast<codec::ValueCode>(code)});
  std::ranges::stable_sort(all, {}, [](const codec::Codec& a) { return relative_loss(a); });
  return all;
}

double relative_loss(const codec::Codec& codec) { return traits_of(codec).relative_loss; }

double allreduce_work(const CodecSpeed& speed, uint32_t ranks) {
  const double own = 1.0 / ranks;
  return (1 - own) * (speed.encode + speed.decode_add) + own * speed.encode + speed.decode;
}

CodecSpeed measured_speed(const codec::Codec& codec) {
  static std::mutex mutex;  // of `known`; held while measuring, so that measurements do not disturb each other
  static std::map<std::pair<codec::ValueCode, bool>, CodecSpeed> known;
  const std::lock_guard lock(mutex);
  const std::pair key{codec.code, codec.is_stochastic};
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = Buffers(codec).measure();
}

CodecCost cost_on(const Device& device, const codec::Codec& codec) {
  const double bytes_per_second =
      static_cast<double>(device.memory_bandwidth.bytes_per_second()) * device.efficiency.memory;
  CodecCost cost{.codec = codec, .speed = {}, .launch = device.efficiency.kernel_gap};
  const double share = cost.share();
  const double residual = traits_of(codec).needs_residual ? 2 : 0;  // read and written
  cost.speed = {.encode = (1 + residual + share) / bytes_per_second,
                .decode = (1 + share) / bytes_per_second,
                .decode_add = (2 + share) / bytes_per_second};
  return cost;
}

CodecSpeed parse_codec_speed(std::string_view text) {
  std::vector<double> seconds;
  for (const std::string& rate : split_list(text, "")) {
    const auto bytes = static_cast<double>(Bandwidth::parse(rate).bytes_per_second());
    if (bytes == 0) throw invalid("'" + rate + "' is no speed; give one such as 20GB/s");
    seconds.push_back(1 / bytes);
  }
  if (seconds.size() == 1) return {.encode = seconds[0], .decode = seconds[0], .decode_add = seconds[0]};
  if (seconds.size() == 3) return {.encode = seconds[0], .decode = seconds[1], .decode_add = seconds[2]};
  throw invalid("'" + std::string(text) + "' has " + std::to_string(seconds.size()) +
                " speeds; give one for all, or those of encoding, decoding, and decoding with adding");
}

}  // namespace banyan::predict
