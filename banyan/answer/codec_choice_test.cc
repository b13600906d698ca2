#include "banyan/answer/codec_choice.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/choose.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

using codec::Codec;
using codec::ValueCode;

constexpr predict::CodecSpeed kTenGigabytes{.encode = 1e-10, .decode = 1e-10, .decode_add = 1e-10};

std::vector<plan::Candidate> plans_for_allreduce(const std::string& fabric) {
  const Fabric made = fabric::generate_fabric(fabric);
  return plan::plan_candidates(made, Collective::make(made, {.kind = CollectiveKind::all_reduce}));
}

CodecChoice choose_on(const std::string& fabric, Bytes total, const std::string& wish, uint32_t ranks_per_core = 1) {
  return choose_codec(plans_for_allreduce(fabric), total, parse_codec_wish(wish),
                      {.speed = kTenGigabytes, .ranks_per_core = ranks_per_core}, {});
}

CodecRow row(std::optional<ValueCode> code, double loss, double milliseconds) {
  CodecRow made{.loss = loss};
  if (code) made.codec = Codec{.code = *code};
  made.timed.simulation.time = Picoseconds(static_cast<int64_t>(milliseconds * 1e9));
  return made;
}

TEST(CodecChoice, CompressesOnSlowLinks) {
  const CodecChoice choice = choose_on("star:4@1Gb/s", Bytes(64 << 20), "auto");
  EXPECT_EQ(choice.rows.size(), 1 + codec::kValueCodes);
  EXPECT_EQ(choice.chosen().codec, Codec{.code = ValueCode::int8}) << choice.why;
  const double gain = static_cast<double>(choice.rows.front().timed.simulation.time.count()) /
                      static_cast<double>(choice.chosen().timed.simulation.time.count());
  EXPECT_GT(gain, 3.8) << choice.why;
  EXPECT_LT(gain, 1024.0 / 260 * 1.01) << choice.why;
}

TEST(CodecChoice, DoesNotCompressOnFastLinks) {
  const CodecChoice choice = choose_on("star:4@800Gb/s", Bytes(64 << 20), "auto");
  EXPECT_FALSE(choice.chosen().codec) << choice.why;
  EXPECT_NE(choice.why.find("do not compress"), std::string::npos) << choice.why;
}

// A message of few bytes costs what it costs.
TEST(CodecChoice, DoesNotCompressWhatIsSmall) {
  const CodecChoice choice = choose_on("star:4@100Gb/s", Bytes(1024), "auto");
  EXPECT_FALSE(choice.chosen().codec) << choice.why;
}

TEST(CodecChoice, IsNeverSlowerThanFloat32) {
  for (const char* fabric :
       {"star:4@100Mb/s", "star:4@25Gb/s", "ring:6@100Gb/s", "leaf-spine:leaves=2,hosts=2,spines=2"}) {
    for (const uint64_t total : {uint64_t{4} << 10, uint64_t{1} << 20, uint64_t{64} << 20}) {
      const CodecChoice choice = choose_on(fabric, Bytes(total), "auto");
      EXPECT_LE(choice.chosen().timed.simulation.time, choice.rows.front().timed.simulation.time) << fabric << total;
    }
  }
}

TEST(CodecChoice, TakesTheQuickestOfThoseThatLoseLittle) {
  std::string why;
  const auto best = [&](std::vector<CodecRow> rows) {
    return rows[best_codec(rows, CodecWish::Choice::by_rule, why)].codec;
  };
  const CodecRow dense = row(std::nullopt, 0, 100), sign = row(ValueCode::sign, 0.6, 5);
  EXPECT_EQ(best({dense, row(ValueCode::bfloat16, 0.0017, 50), row(ValueCode::int8, 0.0068, 26), sign}),
            Codec{.code = ValueCode::int8});
  // Within 3 %, the lesser loss.
  EXPECT_EQ(best({dense, row(ValueCode::fp8, 0.027, 25.5), row(ValueCode::int8, 0.0068, 26), sign}),
            Codec{.code = ValueCode::int8});
  EXPECT_EQ(best({dense, row(ValueCode::fp8, 0.027, 24), row(ValueCode::int8, 0.0068, 26), sign}),
            Codec{.code = ValueCode::fp8});
  // Less than 3 % is no gain; and what loses much is not taken unasked.
  EXPECT_EQ(best({dense, row(ValueCode::int8, 0.0068, 98), sign}), std::nullopt);
  EXPECT_EQ(best({dense, row(ValueCode::int8, 0.0068, 96.9), sign}), Codec{.code = ValueCode::int8});
  EXPECT_EQ(best({dense, sign}), std::nullopt);
}

TEST(CodecChoice, OfAListThatIsNamedTheQuickest) {
  const CodecChoice choice = choose_on("star:4@1Gb/s", Bytes(64 << 20), "none,int8,int4");
  ASSERT_EQ(choice.rows.size(), 3u);
  EXPECT_EQ(choice.chosen().codec, Codec{.code = ValueCode::int4});
}

TEST(CodecChoice, TakesWhatIsNamedEvenIfItIsSlower) {
  const CodecChoice choice = choose_on("star:4@800Gb/s", Bytes(64 << 20), "int8");
  ASSERT_EQ(choice.rows.size(), 2u);
  EXPECT_EQ(choice.chosen().codec, Codec{.code = ValueCode::int8});
  EXPECT_GT(choice.chosen().timed.simulation.time, choice.rows.front().timed.simulation.time);
}

TEST(CodecChoice, ReadsWishes) {
  EXPECT_TRUE(parse_codec_wish("none").is_dense());
  EXPECT_FALSE(parse_codec_wish("none,int8").is_dense());
  const CodecWish one = parse_codec_wish("int8:stochastic");
  ASSERT_EQ(one.codecs.size(), 2u);
  EXPECT_FALSE(one.codecs.front());
  EXPECT_EQ(one.codecs.back(), (Codec{.code = ValueCode::int8, .is_stochastic = true}));
  EXPECT_EQ(beside_all(one).codecs.size(), 2 + codec::kValueCodes);
  EXPECT_EQ(beside_all(one).codecs.back(), one.codecs.back());
  EXPECT_EQ(parse_codec_wish("auto").choice, CodecWish::Choice::by_rule);
  for (const char* wrong : {"", "int7", "auto,int8", "int8,,int4"})
    EXPECT_THROW(parse_codec_wish(wrong), Error) << wrong;
}

TEST(CodecChoice, RefusesAnAllToAll) {
  const Fabric fabric = fabric::generate_fabric("star:4@1Gb/s");
  const auto candidates = plan::plan_candidates(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_to_all}));
  EXPECT_THROW(choose_codec(candidates, Bytes(1 << 20), parse_codec_wish("int8"), {.speed = kTenGigabytes}, {}), Error);
}

TEST(CodecChoice, SaysWhatIsBoundByCoresThatRanksShare) {
  const Bytes total(64 << 20);
  const CodecRow alone = choose_on("star:4@1Gb/s", total, "sign").chosen();
  const CodecRow shared = choose_on("star:4@1Gb/s", total, "sign", 8).chosen();
  EXPECT_FALSE(alone.is_bound_by_core()) << alone.core_share();
  EXPECT_TRUE(shared.is_bound_by_core()) << shared.core_share();
  EXPECT_EQ(shared.timed.simulation.core_busy, 8 * alone.timed.simulation.core_busy);
  EXPECT_GT(shared.timed.simulation.time, alone.timed.simulation.time);
  EXPECT_FALSE(choose_on("star:4@1Gb/s", total, "none", 8).chosen().is_bound_by_core());
}

}  // namespace
}  // namespace banyan::answer
