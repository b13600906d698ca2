#include "banyan/tensor/rate_coder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/tensor/number_bytes.h"

namespace banyan::tensor {
namespace {

// ---- Binary decisions ----

// The probability of a 0, which is learnt: as the share of zeros at first, then of the last hundred or so.
class Probability {
 public:
  uint32_t of_zero() const { return zero_; }  // in 1 / 2^16, of which neither 0 nor 2^16 is reached
  void learn(bool bit) {
    const int32_t missed = (bit ? kLeast : 65'536 - kLeast) - static_cast<int32_t>(zero_);
    zero_ = static_cast<uint16_t>(static_cast<int32_t>(zero_) + ((missed * kShares[learnt_]) >> 15));
    learnt_ = static_cast<uint8_t>(std::min<size_t>(learnt_ + size_t{1}, kShares.size() - 1));
  }

 private:
  static constexpr int32_t kLeast = 32;
  // What the n-th decision counts for, in 1 / 2^15.
  static constexpr auto kShares = [] {
    std::array<int32_t, 160> shares{};
    for (size_t n = 0; n < shares.size(); ++n) shares[n] = static_cast<int32_t>(65'536 / (2 * n + 4));
    return shares;
  }();
  uint16_t zero_ = 32'768;
  uint8_t learnt_ = 0;
};

constexpr uint32_t kLeastRange = uint32_t{1} << 24;

class RangeEncoder {
 public:
  explicit RangeEncoder(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  bool bit(Probability& probability, bool bit) {
    const uint32_t bound = (range_ >> 16) * probability.of_zero();
    if (bit) {
      low_ += bound;
      range_ -= bound;
    } else {
      range_ = bound;
    }
    probability.learn(bit);
    normalise();
    return bit;
  }
  // The lower bits of a number, 8 at most.
  uint32_t plain(uint32_t number, int bits) {
    range_ >>= bits;
    low_ += uint64_t{range_} * number;
    normalise();
    return number;
  }
  void finish() {
    for (int i = 0; i < 5; ++i) shift();
  }

 private:
  void normalise() {
    while (range_ < kLeastRange) {
      range_ <<= 8;
      shift();
    }
  }
  // The highest byte goes out once it is known whether a carry comes: bytes of ones wait.
  void shift() {
    if (low_ < 0xff000000 || low_ >= (uint64_t{1} << 32)) {
      const auto carry = static_cast<uint8_t>(low_ >> 32);
      if (has_first_) bytes_.push_back(static_cast<std::byte>(first_ + carry));
      for (; waiting_ > 0; --waiting_) bytes_.push_back(static_cast<std::byte>(static_cast<uint8_t>(0xff + carry)));
      first_ = static_cast<uint8_t>(low_ >> 24);
      has_first_ = true;
    } else {
      ++waiting_;
    }
    low_ = (low_ << 8) & 0xffffffff;
  }

  std::vector<std::byte>& bytes_;
  uint64_t low_ = 0, waiting_ = 0;
  uint32_t range_ = 0xffffffff;
  uint8_t first_ = 0;
  bool has_first_ = false;
};

class RangeDecoder {
 public:
  explicit RangeDecoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) shift();
  }

  bool bit(Probability& probability, bool) {
    const uint32_t bound = (range_ >> 16) * probability.of_zero();
    const bool bit = code_ >= bound;
    if (bit) {
      code_ -= bound;
      range_ -= bound;
    } else {
      range_ = bound;
    }
    probability.learn(bit);
    normalise();
    return bit;
  }
  uint32_t plain(uint32_t, int bits) {
    range_ >>= bits;
    const uint32_t number = std::min(code_ / range_, (uint32_t{1} << bits) - 1);
    code_ -= number * range_;
    normalise();
    return number;
  }
  // Of the bytes, those behind their end counted, too.
  size_t taken() const { return at_; }

 private:
  void normalise() {
    while (range_ < kLeastRange) {
      range_ <<= 8;
      shift();
    }
  }
  void shift() {
    code_ = (code_ << 8) | (at_ < bytes_.size() ? std::to_integer<uint32_t>(bytes_[at_]) : 0);
    ++at_;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  uint32_t range_ = 0xffffffff, code_ = 0;
};

// ---- Whole numbers ----

constexpr int kMostWidth = 35, kNotFinite = kMostWidth + 1;
constexpr int kLearntBits = 2;  // of a magnitude, below its highest one

// Eight times the binary logarithm, rounded down a little unevenly.
int logarithm(uint64_t number) {
  const auto width = static_cast<int>(std::bit_width(number));
  const auto upper = static_cast<int>(width > 4 ? number >> (width - 4) : number << (4 - width));
  return 8 * width + (upper & 7);
}

// A mean of magnitudes that follows them: of all at first, of the last 2^slowest or so later.
class Magnitude {
 public:
  static constexpr int kFraction = 12;
  explicit Magnitude(uint64_t mean = uint64_t{1} << kFraction) : mean_(mean) {}
  int logarithm() const { return tensor::logarithm(mean_ + 16); }
  uint64_t mean() const { return mean_; }
  void add(uint64_t magnitude, int slowest) {
    const auto difference = static_cast<int64_t>(magnitude << kFraction) - static_cast<int64_t>(mean_);
    mean_ = static_cast<uint64_t>(static_cast<int64_t>(mean_) + (difference >> share_));
    if (++count_ >> share_ != 0 && share_ < slowest) ++share_;
  }

 private:
  uint64_t mean_;
  uint32_t count_ = 0;
  int share_ = 1;
};

// Numbers in rows, coded by either coder: `code` takes the number from the encoder, and gives what was decoded.
class NumberModel {
 public:
  explicit NumberModel(size_t columns) : columns_(columns) {}

  void begin_row() {
    row_ = Magnitude(all_.mean());
    ++rows_;
  }

  // nullopt: not finite.
  template <typename Coder>
  std::optional<int64_t> code(Coder& coder, size_t column, std::optional<int64_t> number) {
    if (rows_ == 1) columns_[column] = Magnitude(all_.mean());
    Node& node = nodes_[context(column)];
    const uint64_t magnitude = number ? static_cast<uint64_t>(std::abs(*number)) : 0;
    const int wanted = number ? static_cast<int>(std::bit_width(magnitude)) : kNotFinite;
    int width = 0;
    while (width < kNotFinite && coder.bit(node.widths[static_cast<size_t>(width)], wanted > width)) ++width;
    if (width == kNotFinite) return std::nullopt;
    uint64_t coded = width > 0 ? 1 : 0;
    int left = std::max(width - 1, 0);
    for (int i = 0; i < kLearntBits && left > 0; ++i) {
      Probability& probability = node.uppers[static_cast<size_t>(width)][coded];
      coded = 2 * coded + (coder.bit(probability, (magnitude >> --left & 1) != 0) ? 1 : 0);
    }
    while (left > 0) {
      const int bits = std::min(left, 8);
      left -= bits;
      coded = coded << bits | coder.plain(static_cast<uint32_t>(magnitude >> left & ((uint32_t{1} << bits) - 1)), bits);
    }
    const bool is_negative = width > 0 && coder.plain(number && *number < 0 ? 1 : 0, 1) != 0;
    learn(column, std::min(coded, uint64_t{1} << 40));
    return is_negative ? -static_cast<int64_t>(coded) : static_cast<int64_t>(coded);
  }

 private:
  struct Node {
    std::array<Probability, kNotFinite> widths;
    std::array<std::array<Probability, 1 << kLearntBits>, kMostWidth + 1> uppers;
  };
  static constexpr int kContexts = 64, kEighths = 3;  // contexts are three eighths of an octave apart
  static constexpr int kLowest = 8 * (Magnitude::kFraction - 5);

  size_t context(size_t column) const {
    const int expected = columns_[column].logarithm() + row_.logarithm() - all_.logarithm();
    return static_cast<size_t>(std::clamp((expected - kLowest) / kEighths, 0, kContexts - 1));
  }
  void learn(size_t column, uint64_t magnitude) {
    columns_[column].add(magnitude, 5);
    row_.add(magnitude, 5);
    all_.add(magnitude, 12);
  }

  std::vector<Magnitude> columns_;
  Magnitude row_, all_;
  uint64_t rows_ = 0;
  std::vector<Node> nodes_ = std::vector<Node>(kContexts);
};

// ---- Values ----

constexpr std::array<int, 4> kPredictions = {0, 1, 4, 8};  // sixteenths
constexpr int kParts = 256;                                // of a step, in which predictions are counted

// A magnitude decodes to this much less, as smaller values are more frequent than larger ones: of 1, of 2, of more.
using Shrinkage = std::array<uint8_t, 3>;

struct Quantiser {
  float step = 1;
  uint8_t prediction = 0;  // of kPredictions
  Shrinkage shrinkage = {};
};

size_t shrinkage_of(int64_t number) { return static_cast<size_t>(std::min<int64_t>(std::abs(number), 3) - 1); }

class ColumnPredictor {
 public:
  ColumnPredictor(size_t columns, const Quantiser& quantiser)
      : shrinkage_(quantiser.shrinkage), share_(kPredictions[quantiser.prediction]), predictions_(columns, 0) {}

  int64_t operator[](size_t column) const { return predictions_[column]; }
  // What the number decodes to, in parts of a step.
  int64_t decode(size_t column, int64_t number) {
    int64_t parts = number * kParts;
    if (number != 0) parts += (number > 0 ? -1 : 1) * int64_t{shrinkage_[shrinkage_of(number)]};
    int64_t& prediction = predictions_[column];
    constexpr int64_t kMost = int64_t{1} << 50;
    parts = std::clamp(prediction + parts, -kMost, kMost);
    prediction += ((parts - prediction) * share_) >> 4;
    return parts;
  }

 private:
  const Shrinkage shrinkage_;
  const int64_t share_;
  std::vector<int64_t> predictions_;
};

constexpr std::array<char, 4> kRateMagic = {'B', 'N', 'R', '1'};
constexpr size_t kRateHeaderBytes = 24;

struct Header {
  uint64_t elements = 0;
  uint32_t row_elements = 0;
  Quantiser quantiser;
};

struct Pass {
  std::vector<std::byte> coded;
  Shrinkage shrinkage = {};  // that would have been best
};

// Rounds down a little more often than up: the bits of the smaller number are fewer.
constexpr double kRoundsUpFrom = 0.54;

Pass encode_by(const Quantiser& quantiser, std::span<const float> values, size_t row_elements) {
  Pass pass;
  pass.coded.reserve(kRateHeaderBytes + values.size());
  append_number(pass.coded, kRateMagic);
  append_number(pass.coded, uint64_t{values.size()});
  append_number(pass.coded, static_cast<uint32_t>(row_elements));
  append_number(pass.coded, quantiser.step);
  append_number(pass.coded, quantiser.prediction);
  append_number(pass.coded, quantiser.shrinkage);
  RangeEncoder coder(pass.coded);
  NumberModel model(row_elements);
  ColumnPredictor predictor(row_elements, quantiser);
  const double parts_per_unit = kParts / double{quantiser.step};
  std::array<double, 3> missed = {}, counts = {};
  for (size_t first = 0; first < values.size(); first += row_elements) {
    model.begin_row();
    for (size_t column = 0; column < row_elements; ++column) {
      const float value = values[first + column];
      if (!std::isfinite(value)) {
        model.code(coder, column, std::nullopt);
        continue;
      }
      const double wanted = (double{value} * parts_per_unit - static_cast<double>(predictor[column])) * (1.0 / kParts);
      const auto magnitude = static_cast<int64_t>(std::abs(wanted) + (1 - kRoundsUpFrom));
      const int64_t number = std::signbit(wanted) ? -magnitude : magnitude;
      model.code(coder, column, number);
      predictor.decode(column, number);
      if (number == 0) continue;
      missed[shrinkage_of(number)] += static_cast<double>(magnitude) - std::abs(wanted);
      counts[shrinkage_of(number)] += 1;
    }
  }
  coder.finish();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    pass.shrinkage[i] = static_cast<uint8_t>(std::clamp(std::lround(missed[i] / counts[i] * kParts), 0L, 127L));
  }
  return pass;
}

// ---- The rate ----

struct Extent {
  double root_mean_square = 0, greatest = 0;
};
Extent extent_of(std::span<const float> values) {
  double squares = 0, greatest = 0;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    squares += double{value} * double{value};
    greatest = std::max(greatest, std::abs(double{value}));
  }
  return {.root_mean_square = std::sqrt(squares / static_cast<double>(values.size())), .greatest = greatest};
}

// Looks for the step by its binary logarithm: far from the limits a bit more halves it.
class StepSearch {
 public:
  // `start` is the logarithm of a step; `greatest` the largest magnitude of the values; `target` are bytes.
  StepSearch(double start, double greatest, double target)
      : most_(std::log2(greatest) + 2), least_(most_ - 32), target_(target), at_(std::clamp(start, least_, most_)) {}

  float step() const { return static_cast<float>(std::exp2(std::clamp(at_, -126.0, 127.0))); }
  double at() const { return at_; }
  double target() const { return target_; }
  // The result of the step. False when there is no better one to try; `bits_a_byte`: of a value for each byte.
  bool next(double bytes, double values) {
    const double over = 8 * (bytes - kAim * target_) / values;  // bits a value
    if (bytes > target_) {
      too_small_ = at_;
    } else {
      too_large_ = at_;
    }
    if (bytes <= target_ && (bytes >= kLeast * target_ || at_ <= least_)) return false;
    if (bytes > target_ && at_ >= most_) return false;
    double slope = -1;
    if (tries_ > 0 && before_ != at_) slope = (over - over_before_) / (at_ - before_);
    before_ = at_;
    over_before_ = over;
    if (!(slope < -0.02)) slope = -0.02;
    double wanted = at_ + std::clamp(-over / slope, -6.0, 6.0);
    if (too_small_ > kNone && too_large_ > kNone) {
      const double margin = 0.02 * (too_large_ - too_small_);
      if (margin < 1e-6) return false;
      if (++narrowed_ % 4 == 0) wanted = (too_small_ + too_large_) / 2;
      wanted = std::clamp(wanted, too_small_ + margin, too_large_ - margin);
    }
    at_ = std::clamp(wanted, least_, most_);
    return ++tries_ < kMostTries;
  }

 private:
  static constexpr double kAim = 0.993, kLeast = 0.985;
  static constexpr int kMostTries = 24;
  const double most_, least_, target_;
  double at_;
  static constexpr double kNone = -1e9;
  double too_small_ = kNone, too_large_ = kNone;
  double before_ = 0, over_before_ = 0;  // of the try before
  int tries_ = 0, narrowed_ = 0;
};

// The longest result that is not longer than the target of the search, else the shortest. Returns it, and the logarithm
// of the step that was tried last.
struct Found {
  std::vector<std::byte> coded;
  double at;
};
Found find_step(StepSearch search, Quantiser& quantiser, std::span<const float> values, size_t row_elements) {
  const double target = search.target();
  Found found;
  std::vector<std::byte>& best = found.coded;
  for (bool goes_on = true; goes_on;) {
    quantiser.step = search.step();
    found.at = search.at();
    Pass pass = encode_by(quantiser, values, row_elements);
    const auto size = static_cast<double>(pass.coded.size());
    goes_on = search.next(size, static_cast<double>(values.size()));
    quantiser.shrinkage = pass.shrinkage;
    const bool is_better =
        best.empty() || (size <= target ? best.size() < pass.coded.size() || static_cast<double>(best.size()) > target
                                        : best.size() > pass.coded.size());
    if (is_better) best = std::move(pass.coded);
  }
  return found;
}

constexpr size_t kSampleValues = size_t{1} << 18;

Error damaged_values(const std::string& what) {
  return invalid("values coded at a rate: " + what + "; they are damaged");
}

Header read_header(std::span<const std::byte> coded) {
  if (coded.size() < kRateHeaderBytes || std::memcmp(coded.data(), kRateMagic.data(), kRateMagic.size()) != 0) {
    throw invalid("values coded at a rate begin with 'BNR1' and have a header of 24 bytes; these " +
                  std::to_string(coded.size()) + " bytes do not");
  }
  Header header{.elements = number_at<uint64_t>(coded, 4),
                .row_elements = number_at<uint32_t>(coded, 12),
                .quantiser = {.step = number_at<float>(coded, 16),
                              .prediction = number_at<uint8_t>(coded, 20),
                              .shrinkage = number_at<Shrinkage>(coded, 21)}};
  if (header.elements == 0 || header.elements >> 48 != 0) {
    throw damaged_values(std::to_string(header.elements) + " of them cannot be");
  }
  if (header.row_elements == 0 || header.elements % header.row_elements != 0) {
    throw damaged_values(std::to_string(header.elements) + " of them are no rows of " +
                         std::to_string(header.row_elements));
  }
  if (!std::isfinite(header.quantiser.step) || !(header.quantiser.step > 0))
    throw damaged_values("their step is no step");
  if (header.quantiser.prediction >= kPredictions.size()) {
    throw damaged_values("there is no prediction " + std::to_string(header.quantiser.prediction));
  }
  return header;
}

}  // namespace

std::vector<std::byte> encode_at_rate(std::span<const float> values, const RateOptions& options) {
  const size_t row = options.row_elements;
  CHECK(!values.empty() && values.size() >> 48 == 0 && row > 0 && values.size() % row == 0) << values.size();
  CHECK(row <= std::numeric_limits<uint32_t>::max()) << row;
  CHECK(options.bits >= kLeastRate && options.bits <= kMostRate) << options.bits;
  const Extent extent = extent_of(values);
  if (extent.greatest == 0) return encode_by({}, values, row).coded;

  // The prediction and about the step, on the first rows. Predictions are compared at the same step, which has the same
  // error.
  const std::span<const float> sample =
      values.first(std::min(values.size(), std::max(kSampleValues / row, size_t{1}) * row));
  Quantiser best{.step = 1, .prediction = 0, .shrinkage = {}};
  const auto find = [&](std::span<const float> of, double start) {
    const double target = options.bits * static_cast<double>(of.size()) / 8;
    return find_step(StepSearch(start, extent.greatest, target), best, of, row);
  };
  double at = find(sample, std::log2(extent.root_mean_square) + 2.05 - options.bits).at;
  size_t least = std::numeric_limits<size_t>::max();
  Quantiser tried = best;
  for (uint8_t prediction = 0; prediction < kPredictions.size(); ++prediction) {
    tried.prediction = prediction;
    const size_t size = encode_by(tried, sample, row).coded.size();
    if (size < least) least = size, best.prediction = prediction;
  }
  if (best.prediction != 0) at = find(sample, at).at;
  return find(values, at).coded;
}

RateContent read_at_rate(std::span<const std::byte> coded) {
  const Header header = read_header(coded);
  return {.elements = static_cast<size_t>(header.elements), .row_elements = header.row_elements};
}

void decode_at_rate(std::span<const std::byte> coded, std::span<float> values) {
  const Header header = read_header(coded);
  CHECK_EQ(static_cast<size_t>(header.elements), values.size());
  const size_t row = header.row_elements;
  const std::span<const std::byte> body = coded.subspan(kRateHeaderBytes);
  RangeDecoder coder(body);
  NumberModel model(row);
  ColumnPredictor predictor(row, header.quantiser);
  const double unit = double{header.quantiser.step} / kParts;
  constexpr double kGreatest = std::numeric_limits<float>::max();
  for (size_t first = 0; first < values.size(); first += row) {
    if (coder.taken() > body.size()) break;
    model.begin_row();
    for (size_t column = 0; column < row; ++column) {
      const std::optional<int64_t> number = model.code(coder, column, std::nullopt);
      values[first + column] =
          number ? static_cast<float>(
                       std::clamp(static_cast<double>(predictor.decode(column, *number)) * unit, -kGreatest, kGreatest))
                 : std::numeric_limits<float>::quiet_NaN();
    }
  }
  if (coder.taken() != body.size()) {
    throw damaged_values("there are " + std::to_string(body.size()) + " bytes behind the header, too " +
                         (coder.taken() > body.size() ? "few" : "many"));
  }
}

}  // namespace banyan::tensor
