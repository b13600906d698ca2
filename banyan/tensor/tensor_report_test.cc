#include "banyan/tensor/tensor_report.h"

#include <limits>

#include "banyan/base/file.h"
#include "banyan/tensor/lossless.h"
#include "banyan/tensor/npy.h"
#include "banyan/tensor/test_values.h"
#include "banyan/testing/test.h"

namespace banyan::tensor {
namespace {

using codec::Codec;
using codec::parse_codec;
using element::DataType;

Tensor tensor_of(const std::vector<float>& values, size_t row_elements = 1) {
  return {.type = DataType::float32, .elements = std::as_bytes(std::span(values)), .row_elements = row_elements};
}

TensorReport report_of(const std::vector<float>& values, size_t row_elements = 1, uint32_t ranks = 8) {
  return report_on(tensor_of(values, row_elements), {.ranks = ranks});
}

const CodecReport& of(const TensorReport& report, const std::string& name) {
  const Codec codec = parse_codec(name);
  for (const CodecReport& each : report.codecs) {
    if (each.codec == codec) return each;
  }
  ADD_FAILURE() << name;
  return report.codecs.front();
}

// All figures worked out by hand.
TEST(TensorReport, IsThatOfFourRowsOfTwo) {
  const TensorReport report = report_of({0, 0, 3, -4, 0, -0.0F, 0, 0}, 2, 2);
  EXPECT_EQ(report.elements, 8u);
  EXPECT_EQ(report.bytes, 32u);
  EXPECT_EQ(report.nonzero_elements, 2u);
  EXPECT_EQ(report.rows, 4u);
  EXPECT_EQ(report.nonzero_rows, 1u);
  EXPECT_EQ(report.not_finite, 0u);
  EXPECT_EQ(report.contiguous_skew, 2) << "one shard has all, the mean is a half";
  EXPECT_EQ(report.permuted_skew, 2);
  EXPECT_DOUBLE_EQ(report.median_crest.value(), 4 / std::sqrt(25.0 / 8));
  EXPECT_EQ(report.greatest_crest, report.median_crest);
  EXPECT_EQ(report.energy_of_largest, 16.0 / 25) << "of one element";
  for (const char* exact : {"bfloat16", "float16"}) {
    EXPECT_EQ(of(report, exact).bytes, 512u);
    EXPECT_EQ(of(report, exact).error, 0) << exact;
    EXPECT_EQ(of(report, exact).error_of_mean.value(), 0) << exact;
    EXPECT_EQ(of(report, exact).greatest_error, 0) << exact;
  }
  // A step is 4/127: 3 is 95.25 of them, of which 95 are sent; in ten codings 952 or 953 of 952.5.
  const CodecReport& int8 = of(report, "int8");
  EXPECT_EQ(int8.bytes, 260u);
  EXPECT_EQ(int8.ratio, 32.0 / 260);
  EXPECT_NEAR(int8.greatest_error, 0.25 * 4 / 127, 1e-6);
  EXPECT_NEAR(int8.error, 0.25 * 4 / 127 / 5, 1e-6);
  EXPECT_NEAR(int8.error_of_mean.value(), 0.05 * 4 / 127 / 5, 1e-6);
  // Each is 7/8 or -7/8.
  const double sign_error = 6 * 0.875 * 0.875 + (3 - 0.875) * (3 - 0.875) + (4 - 0.875) * (4 - 0.875);
  EXPECT_NEAR(of(report, "sign").error, std::sqrt(sign_error) / 5, 1e-6);
  EXPECT_NEAR(of(report, "sign").greatest_error, 4 - 0.875, 1e-6);
}

// What numpy made of the same file, in double, from the definitions of the codecs; see the header.
TEST(TensorReport, AgreesWithNumpy) {
  const std::string file = read_file(BANYAN_SOURCE_DIR "/examples/embedding_gradient.npy");
  const tensor::NpyArray array = tensor::read_npy(file);
  ASSERT_THAT(array.shape, ::testing::ElementsAre(512, 16));
  const TensorReport report = report_on(
      {.type = array.type, .elements = std::as_bytes(std::span(file)).subspan(array.first_byte), .row_elements = 16},
      {.ranks = 8});
  EXPECT_EQ(report.nonzero_elements, 784u);
  EXPECT_EQ(report.rows, 512u);
  EXPECT_EQ(report.nonzero_rows, 49u);
  EXPECT_DOUBLE_EQ(report.contiguous_skew.value(), 5.714285714285714);
  EXPECT_DOUBLE_EQ(report.permuted_skew.value(), 1.469387755102041);
  EXPECT_NEAR(report.median_crest.value(), 7.161487432894073, 1e-12);
  EXPECT_NEAR(report.greatest_crest.value(), 10.497494292471256, 1e-12);
  EXPECT_NEAR(report.energy_of_largest.value(), 0.7840083861467546, 1e-12);
  struct Expected {
    const char* codec;
    double error, error_of_mean, greatest_error;
  };
  for (const Expected& each :
       {Expected{"bfloat16", 0.0015586804761926552, 0.00015520829384197207, 3.680028021335602e-05},
        Expected{"float16", 0.00025040205962980944, 2.0731517035078453e-05, 7.545575499534607e-06},
        Expected{"int8", 0.012145266136605375, 0.0012027926005108841, 0.00010322366142645478},
        Expected{"sign", 0.8301879968855872, 0.48214723344846694, 0.02361553395166993}}) {
    const CodecReport& codec = of(report, each.codec);
    const double tolerance = std::string(each.codec) == "sign" ? 1e-5 : 1e-9;  // its mean is a sum of float32
    EXPECT_NEAR(codec.error / each.error, 1, tolerance) << each.codec;
    EXPECT_NEAR(codec.error_of_mean.value() / each.error_of_mean, 1, tolerance) << each.codec;
    EXPECT_NEAR(codec.greatest_error / each.greatest_error, 1, tolerance) << each.codec;
  }
}

TEST(TensorReport, HasEveryCodecAndLosslessCodingFirst) {
  const std::vector<float> values = gaussian(1000, 1);
  const TensorReport report = report_of(values);
  const std::vector<Codec> codecs = every_codec();
  ASSERT_EQ(codecs.size(), 13u) << "eight to nearest, five of which round stochastically, too";
  ASSERT_EQ(report.codecs.size(), 14u);
  EXPECT_FALSE(report.codecs.front().codec.has_value());
  EXPECT_EQ(report.codecs.front().bytes, encode_lossless(std::as_bytes(std::span(values)), {}).size());
  for (size_t i = 0; i < codecs.size(); ++i) {
    EXPECT_EQ(report.codecs[i + 1].codec, codecs[i]);
    EXPECT_EQ(report.codecs[i + 1].bytes, coded_bytes(codecs[i], values.size()));
  }
}

// A tensor of many pieces is coded as a whole is: the same codes, the same random numbers.
TEST(TensorReport, IsThatOfTheWholeTensorCodedAtOnce) {
  const std::vector<float> values = gaussian(100'003, 2);
  const TensorReport report = report_of(values);
  for (const Codec& codec : every_codec()) {
    std::vector<std::byte> coded(coded_bytes(codec, values.size()));
    std::vector<float> decoded(values.size());
    codec::encode({.codec = codec, .values = values.data(), .count = values.size()}, coded.data());
    codec::decode(codec, coded.data(), decoded.data(), decoded.size());
    double squares = 0, energy = 0, greatest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
      squares += error * error;
      energy += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      greatest = std::max(greatest, std::fabs(error));
    }
    const CodecReport& found = of(report, to_string(codec));
    EXPECT_NEAR(found.error, std::sqrt(squares / energy), 1e-12) << to_string(codec);
    EXPECT_EQ(found.greatest_error, greatest) << to_string(codec);
  }
}

// What is lost is added the next time, so the mean of ten is off by a tenth of one residual; stochastic codes lose more
// at once and as little in the end.
TEST(TensorReport, ShowsThatResidualsKeepWhatCodesLose) {
  const TensorReport report = report_of(gaussian(50'000, 3));
  for (const CodecReport& each : report.codecs) {
    if (!each.codec) continue;
    const std::string name = to_string(*each.codec);
    EXPECT_GT(each.error, 0) << name;
    EXPECT_LT(each.error_of_mean.value(), 0.5 * each.error) << name;
    if (each.codec->is_stochastic) {
      EXPECT_GT(each.error, of(report, name.substr(0, name.find(':'))).error) << name;
      EXPECT_LT(each.error_of_mean.value(), 0.2 * each.error) << name;
    }
  }
  EXPECT_LT(of(report, "int8").error, of(report, "int4").error);
  EXPECT_LT(of(report, "int4").error, of(report, "sign").error);
}

TEST(TensorReport, TakesEveryTypeOfFloats) {
  const std::vector<double> numbers = {0, 1, -2.5, 0, 0.75, -0.125, 96, 0};
  const std::vector<float> floats(numbers.begin(), numbers.end());
  const TensorReport expected = report_of(floats, 2);
  for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float64}) {
    std::vector<std::byte> elements(numbers.size() * size_of(type));
    for (size_t i = 0; i < numbers.size(); ++i) write_element(type, &elements[i * size_of(type)], numbers[i]);
    const TensorReport report = report_on({.type = type, .elements = elements, .row_elements = 2}, {.ranks = 8});
    EXPECT_EQ(report.bytes, elements.size());
    EXPECT_EQ(report.nonzero_rows, expected.nonzero_rows);
    EXPECT_EQ(report.median_crest, expected.median_crest);
    for (size_t i = 1; i < report.codecs.size(); ++i) {
      EXPECT_EQ(report.codecs[i].error, expected.codecs[i].error);
      EXPECT_EQ(report.codecs[i].bytes, expected.codecs[i].bytes);
      EXPECT_EQ(report.codecs[i].ratio,
                static_cast<double>(elements.size()) / static_cast<double>(report.codecs[i].bytes));
    }
  }
}

TEST(TensorReport, CountsWhatIsNotFiniteAndWhatItSpoils) {
  std::vector<float> values = gaussian(1000, 4);
  values[300] = std::numeric_limits<float>::quiet_NaN();
  values[301] = -std::numeric_limits<float>::infinity();
  const TensorReport report = report_of(values);
  EXPECT_EQ(report.not_finite, 2u);
  EXPECT_EQ(report.nonzero_elements, 1000u);
  EXPECT_EQ(of(report, "bfloat16").not_finite, 0u);
  EXPECT_EQ(of(report, "int8").not_finite, 254u) << "the rest of its block of 256";
  EXPECT_EQ(of(report, "int4").not_finite, 30u) << "the rest of its 32";
  for (const CodecReport& each : report.codecs) {
    EXPECT_TRUE(std::isfinite(each.error) && std::isfinite(each.error_of_mean.value()) &&
                std::isfinite(each.greatest_error));
  }
  EXPECT_TRUE(std::isfinite(report.greatest_crest.value()));
  EXPECT_TRUE(std::isfinite(report.energy_of_largest.value()));

  const std::vector<double> beyond = {1, 1e300, -1e300, 3};
  const TensorReport doubles = report_on({.type = DataType::float64, .elements = std::as_bytes(std::span(beyond))}, {});
  EXPECT_EQ(doubles.not_finite, 2u) << "in float32";
}

TEST(TensorReport, OfZerosHasNoSkewNoCrestAndNoErrors) {
  const TensorReport report = report_of(std::vector<float>(600, 0));
  EXPECT_EQ(report.nonzero_rows, 0u);
  EXPECT_FALSE(report.contiguous_skew || report.permuted_skew || report.median_crest || report.greatest_crest ||
               report.energy_of_largest);
  for (const CodecReport& each : report.codecs)
    EXPECT_EQ(each.error + each.error_of_mean.value() + each.greatest_error, 0);
}

TEST(TensorReport, OfExtremesIsFinite) {
  const float most = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& values : {std::vector<float>(300, most), {most, -most, least, 1}, {least}, {most}}) {
    const TensorReport report = report_of(values);
    for (const CodecReport& each : report.codecs) {
      EXPECT_TRUE(std::isfinite(each.error) && std::isfinite(each.error_of_mean.value())) << values.size();
    }
    EXPECT_GE(report.energy_of_largest.value(), 0.01);
  }
}

TEST(TensorReport, FollowsRowsAcrossPieces) {
  std::vector<float> values(3 * 50'001, 0);
  values[50'000] = 1;      // the last of row 0
  values[2 * 50'001] = 2;  // the first of row 2
  const TensorReport report = report_of(values, 50'001, 3);
  EXPECT_EQ(report.rows, 3u);
  EXPECT_EQ(report.nonzero_rows, 2u);
  EXPECT_EQ(report.contiguous_skew, 1.5);
  EXPECT_EQ(report.permuted_skew, 1.5);
}

// A permutation loses no row: where all are there, its shards are as large as those of neighbours.
TEST(TensorReport, PermutesAnyNumberOfRows) {
  for (const size_t rows : {1, 2, 3, 4, 6, 7, 12, 30, 97, 210, 256, 1000, 2310}) {
    for (const uint32_t ranks : {1, 2, 3, 7, 16}) {
      const TensorReport report = report_of(std::vector<float>(rows, 1), 1, ranks);
      EXPECT_EQ(report.permuted_skew, report.contiguous_skew) << rows << " rows, " << ranks << " ranks";
      EXPECT_EQ(report.nonzero_rows, rows);
    }
  }
}

TEST(TensorReport, SpreadsTheFrequentRowsAtTheBeginning) {
  std::vector<float> values(40'000, 0);
  for (size_t row = 0; row < values.size(); row = row < 400 ? row + 1 : row + 997) values[row] = 1;
  const TensorReport report = report_of(values);
  EXPECT_GT(report.contiguous_skew.value(), 7);
  EXPECT_LT(report.permuted_skew.value(), 1.15);
}

TEST(TensorReport, FindsTheEnergyOfTheLargestHundredth) {
  EXPECT_DOUBLE_EQ(report_of(std::vector<float>(1000, -3)).energy_of_largest.value(), 0.01) << "all alike";
  EXPECT_EQ(report_of({0, 7, 0}).energy_of_largest, 1);
  for (const size_t count : {1, 99, 101, 5000, 70'001}) {
    const std::vector<float> values = gaussian(count, 5);
    std::vector<double> squares;
    for (const float value : values) squares.push_back(static_cast<double>(value) * static_cast<double>(value));
    std::sort(squares.rbegin(), squares.rend());
    double all = 0, largest = 0;
    for (size_t i = 0; i < count; ++i) {
      all += squares[i];
      if (i < (count + 99) / 100) largest += squares[i];
    }
    EXPECT_NEAR(report_of(values).energy_of_largest.value(), largest / all, 1e-12) << count;
  }
}

// The error of a uniform quantiser of independent normal values is at least that of the rate-distortion bound, and with
// an entropy coder at most 0.254 bits a value above it (Gish and Pierce, 1968).
TEST(TensorReport, CodesAtTheRatesThatAreWanted) {
  const std::vector<float> values = gaussian(40'000, 6);
  const TensorReport report = report_on(tensor_of(values), {.bits = {2, 3, 4.5}});
  ASSERT_EQ(report.codecs.size(), every_codec().size() + 4);
  const auto rates = std::span(report.codecs).last(3);
  const double wanted[] = {2, 3, 4.5};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rates[i].bits, wanted[i]);
    EXPECT_FALSE(rates[i].codec || rates[i].error_of_mean);
    const double bits = static_cast<double>(rates[i].bytes) * 8 / 40'000;
    EXPECT_LE(bits, wanted[i]);
    EXPECT_GE(bits, wanted[i] * 0.98);
    EXPECT_GE(rates[i].error, std::pow(2, -bits));
    EXPECT_LE(rates[i].error, std::pow(2, -bits + 0.3));
    EXPECT_GT(rates[i].greatest_error, 0);
  }
  std::vector<float> spoilt = values;
  spoilt[7] = std::numeric_limits<float>::infinity();
  const TensorReport other = report_on(tensor_of(spoilt), {.bits = {4}});
  EXPECT_EQ(other.codecs.back().not_finite, 0u);
  EXPECT_TRUE(std::isfinite(other.codecs.back().error));
}

TEST(TensorReport, SaysHowFarItIs) {
  std::vector<double> parts;
  const std::vector<float> values(100'000, 1);
  report_on(tensor_of(values), {.progress = [&](double part) { parts.push_back(part); }});
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_GT(parts.size(), 2u);
  EXPECT_EQ(parts.back(), 1);
}

}  // namespace
}  // namespace banyan::tensor
