// `banyan compress --bits -o` and `banyan decompress` as a user sees them.

#include <nlohmann/json.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

const std::string kSmallArray = BANYAN_SOURCE_DIR "/examples/embedding_gradient.npy";
const std::string kSmallTensors = BANYAN_SOURCE_DIR "/banyan/tensor/corpus/safetensors/several";

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::string bytes_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

double relative_error(const std::vector<float>& values, const std::vector<float>& others) {
  double squares = 0, energy = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += std::pow(double{values[i]} - double{others[i]}, 2);
    energy += std::pow(double{values[i]}, 2);
  }
  return std::sqrt(squares / energy);
}

// With a header as the library writes it.
std::string safetensors_file(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::vector<float> wave_of(size_t count, float scale) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * std::sin(static_cast<float>(i * i % 997));
  return values;
}

TEST(PackedCli, AnArrayComesBackWithTheErrorThatWasTold) {
  const TemporaryFolder folder;
  const std::string packed = folder.path("g.bnp"), back = folder.path("g.npy");
  const auto told = json_of({"compress", kSmallArray, "--bits", "1", "-o", packed, "--json"});
  EXPECT_EQ(told["banyan"], "packed/1");
  EXPECT_EQ(told["kind"], ".npy");
  EXPECT_EQ(told["coded"], 1);
  EXPECT_EQ(told["packed_bytes"], folder.read("g.bnp").size());
  EXPECT_LE(told["bits"], 1);
  const auto unpacked = json_of({"decompress", packed, "-o", back, "--json"});
  EXPECT_EQ(unpacked["banyan"], "decompress/1");
  const std::string before = read_file(kSmallArray), after = folder.read("g.npy");
  ASSERT_EQ(before.size(), after.size());
  EXPECT_EQ(before.substr(0, 128), after.substr(0, 128)) << "the header";
  const double error = relative_error(floats_of(before.substr(128)), floats_of(after.substr(128)));
  EXPECT_NEAR(told["error"], error, 1e-9);
  EXPECT_GT(error, 1e-4);
  EXPECT_EQ(json_of({"compress", back, "--json"})["shape"], json_of({"compress", kSmallArray, "--json"})["shape"]);
}

TEST(PackedCli, OfSeveralTensorsMatricesOfFloatsAreCoded) {
  const TemporaryFolder folder;
  const std::vector<float> matrix = wave_of(6400, 1), vector = wave_of(100, 3);
  const std::string numbers(48, '\7');
  const std::string header =
      R"({"__metadata__":{"of":"a test"},"bias":{"dtype":"F32","shape":[100],"data_offsets":[25600,26000]},)"
      R"("empty":{"dtype":"F32","shape":[0,4],"data_offsets":[26000,26000]},)"
      R"("mask":{"dtype":"BOOL","shape":[48],"data_offsets":[26000,26048]},)"
      R"("weight":{"dtype":"F32","shape":[64,100],"data_offsets":[0,25600]}})";
  const std::string file = safetensors_file(header, bytes_of_floats(matrix) + bytes_of_floats(vector) + numbers);
  const std::string model = folder.write("m.safetensors", file), packed = folder.path("m.bnp");
  const Outcome outcome = run_banyan({"compress", model, "--bits", "4", "-o", packed});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("m.safetensors: 3 tensors of a .safetensors file, 26."),
                                 HasSubstr("coded      1 tensor at 3.9"), HasSubstr("bits a value, the others exactly"),
                                 HasSubstr("root mean square, relative to that of the values that are coded"),
                                 HasSubstr("written    " + packed)));
  EXPECT_LT(folder.read("m.bnp").size(), 4300u);
  const Outcome back = run_banyan({"decompress", packed, "-o", folder.path("back.safetensors")});
  EXPECT_EQ(back.exit_code, 0) << back.err;
  EXPECT_THAT(back.out, HasSubstr("unpacked   " + packed + ": 3 tensors of a .safetensors file, "));
  const std::string after = folder.read("back.safetensors");
  const size_t data = 8 + header.size();
  ASSERT_EQ(after.size(), file.size());
  EXPECT_EQ(after.substr(0, data), file.substr(0, data));
  EXPECT_EQ(after.substr(data + 25600), file.substr(data + 25600)) << "vectors and masks are kept exactly";
  const double error = relative_error(matrix, floats_of(after.substr(data, 25600)));
  EXPECT_GT(error, 0.01);
  EXPECT_LT(error, 0.1);
}

TEST(PackedCli, IsTheSameEveryTimeAndTellsOfWhatIsNotFinite) {
  const TemporaryFolder folder;
  std::vector<float> values = wave_of(800, 1);
  values[5] = INFINITY;
  const std::string file = folder.write(
      "x.safetensors",
      safetensors_file(R"({"w":{"dtype":"F32","shape":[8,100],"data_offsets":[0,3200]}})", bytes_of_floats(values)));
  const Outcome outcome = run_banyan({"compress", file, "--bits", "5", "-o", folder.path("a")});
  EXPECT_THAT(outcome.out, HasSubstr("not finite 1 value, which become NaN"));
  run_banyan({"compress", file, "--bits", "5", "-o", folder.path("b")});
  EXPECT_EQ(folder.read("a"), folder.read("b"));
  EXPECT_EQ(run_banyan({"decompress", folder.path("a"), "-o", "-"}).out.size(), read_file(file).size());
}

TEST(PackedCli, RefusesInWords) {
  const TemporaryFolder folder;
  const std::string packed = folder.path("g.bnp"), other = folder.path("other");
  ASSERT_EQ(run_banyan({"compress", kSmallArray, "--bits", "3", "-o", packed}).exit_code, 0);
  std::string changed = folder.read("g.bnp");
  changed[500] = static_cast<char>(changed[500] ^ 1);
  const std::string damaged = folder.write("damaged.bnp", changed);
  const std::string cut = folder.write("cut.bnp", folder.read("g.bnp").substr(0, 700));
  const std::string raw = folder.write("raw.bin", "12345678");
  const std::string gap =
      folder.write("gap.safetensors",
                   safetensors_file(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", std::string(12, 'x')));
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"compress", kSmallArray, "--bits", "3,4", "-o", other}, "--bits: a file is packed at one rate"},
      {{"compress", kSmallArray, "--bits", "99", "-o", other}, "'99' is no number of bits from 0.25 to 24"},
      {{"compress", kSmallArray, "--bits", "3", "--row", "4", "-o", other}, "--row: is for the report"},
      {{"compress", kSmallArray, "--bits", "3", "--ranks", "4", "-o", other}, "--ranks: is for the report"},
      {{"compress", kSmallTensors, "--bits", "3", "--tensor", "bias", "-o", other}, "--tensor: is for the report"},
      {{"compress", kSmallArray, "-o", "x.svg", "--plot", "y.svg"}, "-o: is a picture, as --plot is"},
      {{"compress", raw, "--bits", "3", "-o", other}, "raw.bin: is no .npy or .safetensors file, and only these"},
      {{"compress", gap, "--bits", "3", "-o", other}, "has bytes that belong to no tensor behind 'w'"},
      {{"compress", kSmallArray, "--bits", "3", "-o", "/no-such-folder/x"}, "/no-such-folder"},
      {{"compress", raw, "--bits", "3", "-o", raw}, "is FILE itself"},
      {{"decompress", packed}, "-o"},
      {{"decompress", packed, "-o", packed}, "is FILE itself"},
      {{"decompress", packed, "-o", folder.path("x.safetensors")}, "-o: a .npy file was packed; name it so"},
      {{"decompress", kSmallArray, "-o", other}, "is no packed file, as banyan compress --bits writes them"},
      {{"decompress", damaged, "-o", other}, "its checksum is that of other bytes"},
      {{"decompress", cut, "-o", other}, "it is damaged or was not written by banyan compress"},
      {{"decompress", folder.path("missing"), "-o", other}, "missing"},
  };
  for (const auto& [arguments, reason] : cases) expect_refused(arguments, reason);
  EXPECT_THAT(folder.names(), ElementsAre("cut.bnp", "damaged.bnp", "g.bnp", "gap.safetensors", "raw.bin"));
}

}  // namespace
}  // namespace banyan::app
