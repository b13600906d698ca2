// `banyan compress` as a user sees it.

#include <nlohmann/json.hpp>
#include <pugixml.hpp>

#include "apps/test_banyan_process.h"
#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

const std::string kGradient = BANYAN_SOURCE_DIR "/examples/embedding_gradient.npy";
const std::string kCorpus = BANYAN_SOURCE_DIR "/banyan/tensor/corpus/npy/";

std::string raw_floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(CompressCli, ReportsARecordedGradient) {
  const auto json = json_of({"compress", kGradient, "--json"});
  EXPECT_EQ(json["banyan"], "compress/1");
  EXPECT_EQ(json["type"], "float32");
  EXPECT_THAT(json["shape"], ElementsAre(512, 16));
  EXPECT_EQ(json["row_elements"], 16);
  EXPECT_EQ(json["bytes"], 32768);
  EXPECT_EQ(json["nonzero_rows"], 49) << "numpy counted them";
  EXPECT_NEAR(json["contiguous_skew"], 5.714286, 1e-6);
  EXPECT_NEAR(json["permuted_skew"], 1.469388, 1e-6);
  ASSERT_EQ(json["codecs"].size(), 14u);
  EXPECT_EQ(json["codecs"][0]["codec"], "lossless");
  EXPECT_EQ(json["codecs"][0]["error"], 0);
  for (const auto& each : json["codecs"]) {
    EXPECT_FALSE(each.contains("encode_bytes_per_second")) << "differs from run to run";
    if (each["codec"] == "int8") {
      EXPECT_EQ(each["bytes"], 32 * 260);
      EXPECT_NEAR(each["error"], 0.012145266, 1e-9);
    }
  }
  EXPECT_EQ(json_of({"compress", kGradient, "--ranks", "1", "--json"})["contiguous_skew"], 1);
}

TEST(CompressCli, SaysTheSameInWordsWithTheSpeedOfThisMachine) {
  const Outcome outcome = run_banyan({"compress", kGradient});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("float32 [512 x 16], 8,192 elements, 32 KiB"),
                                 HasSubstr("9.6 % of the elements, 9.6 % of 512 rows of 16 elements"),
                                 HasSubstr("5.71 in 8 shards of neighbouring rows, 1.47 of permuted ones"),
                                 HasSubstr("median 7.16, greatest 10.50"), HasSubstr("78.4 % in the largest 1 %"),
                                 HasSubstr("encode (measured)"), HasSubstr("\nint8:stochastic "), HasSubstr("B/s\n"),
                                 Not(HasSubstr("NaN"))));
  const auto json = json_of({"compress", kGradient, "--json", "--speed"});
  for (const auto& each : json["codecs"]) EXPECT_GT(each["encode_bytes_per_second"], 1e6) << each["codec"];
}

TEST(CompressCli, CodesAtRatesWhenAsked) {
  const auto json = json_of({"compress", kGradient, "--bits", "2.5,0.5", "--json"});
  ASSERT_EQ(json["codecs"].size(), 16u);
  const auto& rate = json["codecs"][14];
  EXPECT_EQ(rate["codec"], "rate:2.5");
  EXPECT_LE(rate["bytes"], 8192 * 2.5 / 8);
  EXPECT_TRUE(rate["error_of_mean"].is_null());
  EXPECT_EQ(json["codecs"][15]["codec"], "rate:0.5");
  EXPECT_LT(rate["error"], json["codecs"][15]["error"]);
  const TemporaryFolder folder;
  const Outcome outcome = run_banyan({"compress", kGradient, "--bits", "3", "-o", folder.path("x.svg")});
  EXPECT_THAT(outcome.out, HasSubstr("\nrate:3 "));
  EXPECT_THAT(folder.read("x.svg"), HasSubstr(">rate:3<"));
}

TEST(CompressCli, IsTheSameEveryTime) {
  const TemporaryFolder folder;
  const auto pictured = [&](const char* name) {
    run_banyan({"compress", kGradient, "--json", "-o", folder.path(name)});
    return folder.read(name);
  };
  EXPECT_EQ(pictured("a.svg"), pictured("b.svg"));
  EXPECT_EQ(run_banyan({"compress", kGradient, "--json"}).out, run_banyan({"compress", kGradient, "--json"}).out);
}

TEST(CompressCli, DrawsBytesAndErrors) {
  const Outcome outcome = run_banyan({"compress", kGradient, "--json", "--plot", "-"});
  EXPECT_EQ(outcome.exit_code, 2) << "both want standard output";
  const TemporaryFolder folder;
  const Outcome drawn = run_banyan({"compress", kGradient, "-o", folder.path("x.svg")});
  EXPECT_THAT(drawn.out, HasSubstr("written    "));
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(folder.read("x.svg").c_str()));
  // Bytes of all, two errors of all but lossless coding; none of them is 0 here.
  EXPECT_EQ(document.select_nodes("//rect[title]").size(), 14u + 2 * 13);
  EXPECT_THAT(folder.read("x.svg"), AllOf(HasSubstr(">embedding_gradient.npy<"), HasSubstr(">mxfp4:stochastic<"),
                                          HasSubstr(">relative error<")));
}

TEST(CompressCli, ReadsElementsWithoutAHeader) {
  const TemporaryFolder folder;
  const std::string file = folder.write("bucket.bin", raw_floats({0, 0, 3, -4, 0, 0, 0, 0}));
  const auto json = json_of({"compress", file, "--type", "float32", "--row", "2", "--ranks", "2", "--json"});
  EXPECT_EQ(json["rows"], 4);
  EXPECT_EQ(json["nonzero_rows"], 1);
  EXPECT_EQ(json["contiguous_skew"], 2);
  EXPECT_EQ(json["energy_of_largest"], 16.0 / 25);
  EXPECT_EQ(json_of({"compress", file, "--type", "bf16", "--json"})["elements"], 16);
}

TEST(CompressCli, ReadsAllTypesAndVersionsOfNpyFiles) {
  for (const char* name : {"float32_v1", "float16_v2", "float64_v3"}) {
    const auto json = json_of({"compress", kCorpus + name, "--json"});
    EXPECT_THAT(json["shape"], ElementsAre(3, 4)) << name;
    EXPECT_EQ(json["nonzero_rows"], 2) << name << ": row 1 holds zeros and -0";
  }
  EXPECT_EQ(json_of({"compress", kCorpus + "one_dimension", "--json"})["rows"], 5) << "elements of a vector are rows";
  EXPECT_EQ(json_of({"compress", kCorpus + "scalar", "--json"})["elements"], 1);
}

TEST(CompressCli, ReadsATensorOfASafetensorsFileByName) {
  const std::string folder = BANYAN_SOURCE_DIR "/banyan/tensor/corpus/safetensors/";
  const auto only = json_of({"compress", folder + "one_tensor", "--json"});
  EXPECT_EQ(only["tensor"], "w");
  EXPECT_THAT(only["shape"], ElementsAre(4, 4));
  EXPECT_EQ(only["bytes"], 64);
  const auto named = json_of({"compress", folder + "several", "--tensor", "layer.0.weight", "--json"});
  EXPECT_EQ(named["type"], "bfloat16");
  EXPECT_THAT(named["shape"], ElementsAre(2, 3));
  EXPECT_EQ(named["nonzero_elements"], 6);
  EXPECT_TRUE(json_of({"compress", kGradient, "--json"})["tensor"].is_null());
  EXPECT_THAT(run_banyan({"compress", folder + "several", "--tensor", "bias"}).out,
              HasSubstr("several bias: float16 [4], 4 elements, 8 B"));
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{folder + "several"},
       "holds 5 tensors: bias (F16 4), layer.0.weight (BF16 2 3), step (I64), mask (BOOL 2), ...; "
       "name one: --tensor bias"},
      {{folder + "several", "--tensor", "layer.1.weight"},
       "has no tensor 'layer.1.weight' (did you mean 'layer.0.weight'?)"},
      {{folder + "several", "--tensor", "mask"}, "tensor 'mask' is of BOOL, and codes are for F64, F32, F16 and BF16"},
      {{folder + "one_tensor", "--type", "float32"}, "is a .safetensors file, which says types itself"},
      {{folder + "beyond"}, "is the file cut off?"},
      {{folder + "no_tensors"}, "holds no tensor"},
      {{kGradient, "--tensor", "w"}, "is no .safetensors file, and has no names; leave out --tensor"}};
  for (const auto& [arguments, reason] : cases) {
    std::vector<std::string> whole = arguments;
    whole.insert(whole.begin(), "compress");
    expect_refused(whole, reason);
  }
}

TEST(CompressCli, TellsOfZerosAndOfWhatIsNotFinite) {
  const TemporaryFolder folder;
  const std::string zeros = folder.write("zeros.bin", raw_floats(std::vector<float>(300, 0)));
  EXPECT_TRUE(json_of({"compress", zeros, "--type", "float32", "--json"})["permuted_skew"].is_null());
  EXPECT_THAT(run_banyan({"compress", zeros, "--type", "float32", "-o", folder.path("zeros.svg")}).out,
              AllOf(HasSubstr("0.0 % of the elements"), Not(HasSubstr("skew")), Not(HasSubstr("crest"))));
  const std::string nan = folder.write("nan.bin", raw_floats({1, 2, NAN}));
  EXPECT_THAT(run_banyan({"compress", nan, "--type", "float32"}).out,
              AllOf(HasSubstr("not finite 1 element, left out"), HasSubstr("made NaN")));
}

TEST(CompressCli, RefusesWhatItCannotRead) {
  const TemporaryFolder folder;
  const std::string raw = folder.write("raw.bin", raw_floats({1, 2, 3})), archive = folder.write("x.npz", "PK\x03\x04");
  const std::string empty = folder.write("empty", "");
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{raw}, "--type float32"},
      {{archive}, "numpy.save"},
      {{empty, "--type", "float32"}, "no elements"},
      {{raw, "--type", "float64"}, "12 bytes are not whole elements of 8"},
      {{raw, "--type", "int8"}, "--type: codes are for floats, not int8"},
      {{raw, "--type", "flaot32"}, "--type"},
      {{raw, "--type", "float32", "--row", "2"}, "--row: 3 elements are not whole rows of 2"},
      {{raw, "--type", "float32", "--row", "0"}, "--row: '0'"},
      {{raw, "--type", "float32", "--row", "4"}, "--row: '4'"},
      {{raw, "--type", "float32", "--ranks", "0"}, "--ranks: '0'"},
      {{raw, "--type", "float32", "--ranks", "65537"}, "--ranks: '65537'"},
      {{raw, "--type", "float32", "-o", "/no-such-folder/x.svg"}, "/no-such-folder"},
      {{raw, "--type", "float32", "-o", raw}, "-o"},
      {{kGradient, "--type", "float32"}, "leave out --type"},
      {{kGradient, "--bits", "0.1"}, "'0.1' is no number of bits from 0.25 to 24"},
      {{kGradient, "--bits", "3,,4"}, "--bits"},
      {{kGradient, "--bits", "3x"}, "--bits: '3x'"},
      {{folder.path("missing.npy")}, "missing.npy"},
      {{"/"}, "/"},
      {{kCorpus + "big_endian"}, "astype('<f4')"},
      {{kCorpus + "fortran"}, "numpy.ascontiguousarray"},
      {{kCorpus + "int64"}, "astype('float32')"},
      {{kCorpus + "no_elements"}, "no elements"},
      {{kCorpus + "cut_off"}, "needs 48 bytes, but 44 follow"},
      {{kCorpus + "overflow"}, "more bytes than any file has"},
      {{kCorpus + "huge_header"}, "4294967295 bytes"},
  };
  for (const auto& [arguments, reason] : cases) {
    std::vector<std::string> whole = arguments;
    whole.insert(whole.begin(), "compress");
    expect_refused(whole, reason);
    whole.emplace_back("--json");
    expect_refused(whole, reason);
  }
  EXPECT_EQ(folder.read("raw.bin"), raw_floats({1, 2, 3}));
  EXPECT_THAT(folder.names(), ElementsAre("empty", "raw.bin", "x.npz"));
}

TEST(CompressCli, NamesWhatWasMeant) {
  const Outcome outcome = run_banyan({"compres", kGradient});
  EXPECT_THAT(outcome.err, AllOf(StartsWith("banyan: "), HasSubstr("did you mean 'compress'")));
  expect_refused({"compress"}, "FILE is required");
}

}  // namespace
}  // namespace banyan::app
