#include "banyan/tensor/tensor_report.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "banyan/base/check.h"
#include "banyan/codec/wire_type.h"
#include "banyan/sparse/row_shards.h"
#include "banyan/tensor/float_values.h"
#include "banyan/tensor/lossless.h"
#include "banyan/tensor/rate_coder.h"

namespace banyan::tensor {
namespace {

// Codecs code blocks apart, so what is coded at once may be a piece that stays in the cache.
constexpr size_t kPieceValues = size_t{1} << 15;
static_assert(kPieceValues % codec::kBlockValues == 0);

double square(double value) { return value * value; }

// Calls visit(values, first) for all pieces in their order.
template <typename Visit>
void for_each_piece(const Tensor& tensor, Visit visit) {
  std::vector<float> values(std::min(kPieceValues, tensor.count()));
  for (size_t first = 0; first < tensor.count(); first += kPieceValues) {
    const std::span<float> piece(values.data(), std::min(kPieceValues, tensor.count() - first));
    read_values(tensor, first, piece);
    visit(std::span<const float>(piece), first);
  }
}

// Rows that are not zero, by the shards that would hold them.
class RowCensus {
 public:
  RowCensus(size_t row_elements, size_t rows, uint32_t ranks)
      : row_elements_(row_elements),
        rows_(rows),
        shards_(static_cast<uint32_t>(rows), ranks, 0),
        contiguous_(ranks, 0),
        permuted_(ranks, 0) {}

  void add(std::span<const float> values) {
    while (!values.empty()) {
      const std::span<const float> part = values.first(std::min(values.size(), row_elements_ - in_row_));
      const auto nonzero =
          static_cast<uint64_t>(std::count_if(part.begin(), part.end(), [](float value) { return !(value == 0); }));
      elements_ += nonzero;
      row_is_zero_ = row_is_zero_ && nonzero == 0;
      in_row_ += part.size();
      if (in_row_ == row_elements_) end_row();
      values = values.subspan(part.size());
    }
  }

  void report(TensorReport& report) const {
    report.nonzero_elements = elements_;
    report.nonzero_rows = std::accumulate(contiguous_.begin(), contiguous_.end(), uint64_t{0});
    if (report.nonzero_rows == 0) return;
    const auto skew = [&](const std::vector<uint64_t>& shards) {
      const uint64_t busiest = *std::max_element(shards.begin(), shards.end());
      return static_cast<double>(busiest) * static_cast<double>(shards.size()) /
             static_cast<double>(report.nonzero_rows);
    };
    report.contiguous_skew = skew(contiguous_);
    report.permuted_skew = skew(permuted_);
  }

 private:
  void end_row() {
    if (!row_is_zero_) {
      ++contiguous_[row_ * contiguous_.size() / rows_];
      ++permuted_[shards_.place_of(static_cast<uint32_t>(row_)).shard];
    }
    ++row_;
    in_row_ = 0;
    row_is_zero_ = true;
  }

  const size_t row_elements_, rows_;
  const sparse::RowShards shards_;
  uint64_t elements_ = 0, row_ = 0;
  size_t in_row_ = 0;
  bool row_is_zero_ = true;
  std::vector<uint64_t> contiguous_, permuted_;
};

// The largest values by a histogram of the upper 16 bits of their magnitudes, which are in the order of these.
class LargestCensus {
 public:
  static size_t bin_of(float value) { return std::bit_cast<uint32_t>(std::fabs(value)) >> 15; }

  void add(std::span<const float> values) {
    for (const float value : values) {
      if (!std::isfinite(value)) continue;
      Bin& bin = bins_[bin_of(value)];
      ++bin.count;
      bin.energy += square(value);
    }
  }

  // Of the `most` largest values and of all.
  std::optional<double> share(const Tensor& tensor, uint64_t most) const {
    double all = 0, largest = 0;
    for (const Bin& bin : bins_) all += bin.energy;
    if (all == 0) return std::nullopt;
    size_t at = bins_.size();
    while (at > 0 && bins_[at - 1].count <= most) {
      largest += bins_[--at].energy;
      most -= bins_[at].count;
    }
    if (at > 0 && most > 0) largest += energy_in_bin(tensor, at - 1, most);
    return std::min(largest / all, 1.0);
  }

 private:
  struct Bin {
    uint64_t count = 0;
    double energy = 0;
  };

  double energy_in_bin(const Tensor& tensor, size_t bin, uint64_t most) const {
    std::vector<float> inside;
    inside.reserve(bins_[bin].count);
    for_each_piece(tensor, [&](std::span<const float> values, size_t) {
      for (const float value : values) {
        if (std::isfinite(value) && bin_of(value) == bin) inside.push_back(std::fabs(value));
      }
    });
    const auto last = inside.begin() + static_cast<ptrdiff_t>(most);
    std::nth_element(inside.begin(), last - 1, inside.end(), std::greater<>());
    return std::accumulate(inside.begin(), last, 0.0, [](double sum, float value) { return sum + square(value); });
  }

  std::vector<Bin> bins_ = std::vector<Bin>(size_t{1} << 16);
};

class CrestCensus {
 public:
  void add(std::span<const float> values) {
    for (size_t first = 0; first < values.size(); first += codec::kBlockValues) {
      const std::span<const float> block = values.subspan(first, std::min(codec::kBlockValues, values.size() - first));
      double greatest = 0, energy = 0;
      bool is_finite = true;
      for (const float value : block) {
        is_finite = is_finite && std::isfinite(value);
        greatest = std::max(greatest, std::fabs(static_cast<double>(value)));
        energy += square(value);
      }
      if (!is_finite || greatest == 0) continue;
      crests_.push_back(greatest / std::sqrt(energy / static_cast<double>(block.size())));
    }
  }

  void report(TensorReport& report) && {
    if (crests_.empty()) return;
    std::sort(crests_.begin(), crests_.end());
    const size_t middle = crests_.size() / 2;
    report.median_crest = crests_.size() % 2 == 1 ? crests_[middle] : (crests_[middle - 1] + crests_[middle]) / 2;
    report.greatest_crest = crests_.back();
  }

 private:
  std::vector<double> crests_;
};

// What one codec loses.
class CodecTrial {
 public:
  explicit CodecTrial(const codec::Codec& codec) : codec_(codec), coded_(codec::coded_bytes(codec, kPieceValues)) {}

  void add(std::span<const float> values, size_t first) {
    const size_t count = values.size();
    std::fill(residual_.begin(), residual_.end(), 0.0F);
    std::fill(sums_.begin(), sums_.end(), 0.0);
    for (int coding = 0; coding < kCodings; ++coding) {
      codec::encode({.codec = codec_,
                     .values = values.data(),
                     .residual = residual_.data(),
                     .lost = residual_.data(),
                     .count = count,
                     .randomness = {.seed = static_cast<uint64_t>(coding), .first = first}},
                    coded_.data());
      std::vector<float>& result = coding == 0 ? once_ : decoded_;
      codec::decode(codec_, coded_.data(), result.data(), count);
      for (size_t i = 0; i < count; ++i) sums_[i] += static_cast<double>(result[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(values[i])) judge(static_cast<double>(values[i]), static_cast<double>(once_[i]), sums_[i]);
    }
  }

  CodecReport report(const Tensor& tensor) const {
    const uint64_t bytes = codec::coded_bytes(codec_, tensor.count());
    const auto relative = [&](double squares) { return squares == 0 ? 0 : std::sqrt(squares / energy_); };
    return {.codec = codec_,
            .bytes = bytes,
            .ratio = static_cast<double>(tensor.elements.size()) / static_cast<double>(bytes),
            .error = relative(squares_),
            .error_of_mean = relative(squares_of_mean_),
            .greatest_error = greatest_,
            .not_finite = not_finite_};
  }

 private:
  // The sum is not finite when one of the codings was not.
  void judge(double value, double once, double sum) {
    if (!std::isfinite(sum)) {
      ++not_finite_;
      return;
    }
    energy_ += square(value);
    squares_ += square(once - value);
    squares_of_mean_ += square(sum / kCodings - value);
    greatest_ = std::max(greatest_, std::fabs(once - value));
  }

  codec::Codec codec_;
  std::vector<std::byte> coded_;
  std::vector<float> residual_ = std::vector<float>(kPieceValues), once_ = residual_, decoded_ = residual_;
  std::vector<double> sums_ = std::vector<double>(kPieceValues);
  double energy_ = 0, squares_ = 0, squares_of_mean_ = 0, greatest_ = 0;
  uint64_t not_finite_ = 0;
};

CodecReport try_lossless(const Tensor& tensor) {
  const uint64_t bytes =
      tensor::encode_lossless(tensor.elements, {.element_bytes = element::size_of(tensor.type)}).size();
  return {.bytes = bytes, .ratio = static_cast<double>(tensor.elements.size()) / static_cast<double>(bytes)};
}

std::vector<CodecReport> try_rates(const Tensor& tensor, std::span<const double> rates) {
  if (rates.empty()) return {};
  std::vector<float> values(tensor.count()), decoded(tensor.count());
  read_values(tensor, 0, values);
  std::vector<CodecReport> reports;
  for (const double bits : rates) {
    const std::vector<std::byte> coded =
        tensor::encode_at_rate(values, {.bits = bits, .row_elements = tensor.row_elements});
    tensor::decode_at_rate(coded, decoded);
    CodecReport report{.bits = bits,
                       .bytes = coded.size(),
                       .ratio = static_cast<double>(tensor.elements.size()) / static_cast<double>(coded.size()),
                       .error_of_mean = std::nullopt};
    double energy = 0, squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      const double error = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
      if (!std::isfinite(error)) ++report.not_finite;
      energy += square(static_cast<double>(values[i]));
      squares += square(error);
      report.greatest_error = std::max(report.greatest_error, std::fabs(error));
    }
    report.error = squares == 0 ? 0 : std::sqrt(squares / energy);
    reports.push_back(report);
  }
  return reports;
}

void report_codecs(const Tensor& tensor, const TensorReportOptions& options, TensorReport& report) {
  report.codecs.push_back(try_lossless(tensor));
  std::vector<CodecTrial> trials;
  for (const codec::Codec& codec : every_codec()) trials.emplace_back(codec);
  for_each_piece(tensor, [&](std::span<const float> values, size_t first) {
    for (CodecTrial& trial : trials) trial.add(values, first);
    if (options.progress) {
      options.progress(static_cast<double>(first + values.size()) / static_cast<double>(tensor.count()));
    }
  });
  for (const CodecTrial& trial : trials) report.codecs.push_back(trial.report(tensor));
  const std::vector<CodecReport> at_rates = try_rates(tensor, options.bits);
  report.codecs.insert(report.codecs.end(), at_rates.begin(), at_rates.end());
}

}  // namespace

void read_values(const Tensor& tensor, size_t first, std::span<float> values) {
  const size_t size = element::size_of(tensor.type);
  tensor::read_floats(tensor.type, tensor.elements.subspan(first * size, values.size() * size), values);
}

std::vector<codec::Codec> every_codec() {
  std::vector<codec::Codec> all;
  for (size_t number = element::kDataTypes; number < codec::WireType::kCount; ++number) {
    if (codec::WireType::is_known(number))
      all.push_back(*codec::WireType::of_number(static_cast<uint8_t>(number)).codec());
  }
  return all;
}

TensorReport report_on(const Tensor& tensor, const TensorReportOptions& options) {
  CHECK(tensor.count() > 0 && tensor.elements.size() % element::size_of(tensor.type) == 0) << tensor.elements.size();
  CHECK(tensor.row_elements > 0 && tensor.count() % tensor.row_elements == 0) << tensor.row_elements;
  CHECK(tensor.count() / tensor.row_elements <= std::numeric_limits<uint32_t>::max()) << tensor.count();
  CHECK(options.ranks > 0 && options.ranks <= kMostRanks) << options.ranks;
  TensorReport report{
      .elements = tensor.count(), .bytes = tensor.elements.size(), .rows = tensor.count() / tensor.row_elements};
  RowCensus rows(tensor.row_elements, report.rows, options.ranks);
  LargestCensus largest;
  CrestCensus crests;
  for_each_piece(tensor, [&](std::span<const float> values, size_t) {
    rows.add(values);
    largest.add(values);
    crests.add(values);
    report.not_finite += static_cast<uint64_t>(
        std::count_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); }));
  });
  rows.report(report);
  report.energy_of_largest = largest.share(tensor, (report.elements + 99) / 100);
  std::move(crests).report(report);
  report_codecs(tensor, options, report);
  return report;
}

}  // namespace banyan::tensor
