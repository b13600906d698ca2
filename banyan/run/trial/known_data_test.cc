#include "banyan/run/trial/known_data.h"

#include "banyan/element/reduce.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

constexpr uint64_t kElements = 200'000;  // several periods
constexpr uint64_t kPeriod = 66'000;     // one, and a little more

template <typename T>
std::vector<T> samples(const KnownData& data, uint32_t rank) {
  std::vector<T> values(kElements);
  data.fill(std::as_writable_bytes(std::span(values)), rank, 0, kElements);
  return values;
}

Collective collective(CollectiveKind kind, uint32_t ranks) {
  return testing::sample_forest({.kind = kind, .ranks = ranks}).collective();
}

std::vector<element::ReduceOp> ops_of(element::DataType type) {
  std::vector<element::ReduceOp> ops;
  for (size_t i = 0; i < element::kReduceOps; ++i) {
    if (const auto op = static_cast<element::ReduceOp>(i); is_reducible(type, op)) ops.push_back(op);
  }
  return ops;
}

// The naive answer: rank by rank, rounded to the type after each, in this order.
uint64_t wrong_in_naive_answer(const element::Reduction& reduction, std::vector<uint32_t> order) {
  const element::DataType type = reduction.type;
  const element::ReduceOp op = reduction.op;
  const auto ranks = static_cast<uint32_t>(order.size());
  const KnownData data({.ranks = ranks, .reduces = true, .reduction = reduction});
  std::vector<std::byte> answer(kPeriod * size_of(type)), next(answer.size());
  const auto contribute = [&](std::vector<std::byte>& into, uint32_t rank) {
    data.fill(into, rank, 0, kPeriod);
    if (op == element::ReduceOp::premul_sum) scale(type, into.data(), into.data(), kPeriod, KnownData::factor(rank));
  };
  contribute(answer, order[0]);
  for (uint32_t i = 1; i < ranks; ++i) {
    contribute(next, order[i]);
    reduction(answer.data(), answer.data(), next.data(), kPeriod);
  }
  if (op == element::ReduceOp::avg) {
    const std::byte* const sum = answer.data();
    element::reduce({.type = type, .op = op, .divisor = ranks}, answer.data(), nullptr, {&sum, 1}, kPeriod);
  }
  return data.compare(answer, 0, 0, kPeriod).wrong;
}

std::vector<uint32_t> shuffled_ranks(uint32_t ranks) {
  std::vector<uint32_t> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(ranks));
  return order;
}

TEST(KnownData, ExpectsWhatReducingOneByOneGivesInAnyOrder) {
  for (size_t type = 0; type < element::kDataTypes; ++type) {
    for (const element::ReduceOp op : ops_of(static_cast<element::DataType>(type))) {
      for (const uint32_t ranks : {1u, 3u, 8u}) {
        const element::Reduction reduction = {static_cast<element::DataType>(type), op};
        EXPECT_EQ(wrong_in_naive_answer(reduction, shuffled_ranks(ranks)), 0u)
            << to_string(reduction.type) << ' ' << to_string(op) << " of " << ranks;
      }
    }
  }
}

TEST(KnownData, IsExactForAsManyRanksAsItPromises) {
  for (const element::DataType type : {element::DataType::float16, element::DataType::bfloat16}) {
    for (const element::ReduceOp op :
         {element::ReduceOp::sum, element::ReduceOp::avg, element::ReduceOp::premul_sum, element::ReduceOp::prod}) {
      const uint32_t most = KnownData::most_ranks({.ranks = 1, .reduces = true, .reduction = {type, op}});
      EXPECT_EQ(wrong_in_naive_answer({type, op}, shuffled_ranks(std::min(most, 256u))), 0u)
          << to_string(type) << ' ' << to_string(op);
    }
  }
}

TEST(KnownData, RefusesMoreRanksThanTheTypeCanCount) {
  try {
    const KnownData data(
        {.ranks = 257, .reduces = true, .reduction = {element::DataType::bfloat16, element::ReduceOp::sum}});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.message(), "257 ranks are more than the 256 whose sum is exact in bfloat16");
  }
  EXPECT_NO_THROW(
      KnownData({.ranks = 257, .reduces = true, .reduction = {element::DataType::bfloat16, element::ReduceOp::max}}));
}

TEST(KnownData, DependsOnRankAndPosition) {
  const KnownData data(collective(CollectiveKind::all_gather, 2), {.type = element::DataType::int32});
  const std::vector<int32_t> first = samples<int32_t>(data, 0), second = samples<int32_t>(data, 1);
  const auto equal_at_distance = [&](const std::vector<int32_t>& other, size_t distance) {
    size_t equal = 0;
    for (size_t i = distance; i < kElements; ++i) equal += first[i] == other[i - distance] ? 1 : 0;
    return static_cast<double>(equal) / static_cast<double>(kElements);
  };
  EXPECT_LT(equal_at_distance(second, 0), 0.02) << "ranks look alike";
  for (const size_t distance : {1u, 2u, 1024u, 32'768u, 65'521u, 65'536u, 131'042u}) {
    EXPECT_LT(equal_at_distance(first, distance), 0.02) << distance << " elements further on";
  }
}

TEST(KnownData, CountsWhatIsWrongAndNamesTheFirst) {
  const KnownData data(collective(CollectiveKind::broadcast, 2), {.type = element::DataType::float64});
  std::vector<double> values = samples<double>(data, 0);
  const double right = values[1000];
  values[1000] += 1;
  values[5000] += 1;
  const auto part = std::as_bytes(std::span(values).subspan(900));
  const KnownData::Comparison comparison = data.compare(part, 0, 900, kElements);
  EXPECT_EQ(comparison.wrong, 2u);
  EXPECT_EQ(comparison.first, 1000u);
  EXPECT_EQ(comparison.got, right + 1);
  EXPECT_EQ(comparison.expected, right);
}

TEST(KnownData, NothingSpoiltIsRight) {
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
    for (size_t type = 0; type < element::kDataTypes; ++type) {
      for (const element::ReduceOp op : ops_of(static_cast<element::DataType>(type))) {
        const element::Reduction reduction = {static_cast<element::DataType>(type), op};
        const KnownData data(collective(kind, 3), reduction);
        std::vector<std::byte> bytes(kElements * size_of(reduction.type));
        data.spoil(bytes);
        EXPECT_EQ(data.compare(bytes, 0, 0, kElements).wrong, kElements)
            << to_string(reduction.type) << ' ' << to_string(op);
      }
    }
  }
}

// Taken for another rank's, or for those of another place, most samples are wrong even where there are few to choose
// from.
TEST(KnownData, ShowsMisplacedDataInEveryType) {
  for (size_t type = 0; type < element::kDataTypes; ++type) {
    const auto data_type = static_cast<element::DataType>(type);
    const KnownData data(collective(CollectiveKind::all_gather, 4), {.type = data_type});
    std::vector<std::byte> bytes(kElements * size_of(data_type));
    data.fill(bytes, 1, 65'521, 65'521 + kElements);
    EXPECT_EQ(data.compare(bytes, 1, 65'521, 65'521 + kElements).wrong, 0u);
    EXPECT_GT(data.compare(bytes, 2, 65'521, 65'521 + kElements).wrong, kElements * 98 / 100) << to_string(data_type);
    EXPECT_GT(data.compare(bytes, 1, 0, kElements).wrong, kElements * 98 / 100) << to_string(data_type);
    EXPECT_GT(data.compare(bytes, 1, 1, kElements + 1).wrong, kElements * 98 / 100) << to_string(data_type);
  }
}

// A reduction in which one rank's samples were taken from the next place, or left out, or spoilt.
TEST(KnownData, ShowsAMistakeOfOneOfManyRanksInEveryBitwiseReduction) {
  constexpr uint32_t kRanks = 8, kWrongRank = 5;
  enum class Slip { misplaced, left_out, spoilt, late };
  for (const element::ReduceOp op : {element::ReduceOp::band, element::ReduceOp::bor, element::ReduceOp::bxor}) {
    for (size_t number = 0; number < 8; ++number) {
      const auto type = static_cast<element::DataType>(number);
      const KnownData data({.ranks = kRanks, .reduces = true, .reduction = {type, op}});
      for (const Slip slip : {Slip::misplaced, Slip::left_out, Slip::spoilt, Slip::late}) {
        std::vector<std::byte> answer(kElements * size_of(type)), next(answer.size());
        data.fill(answer, 0, 0, kElements);
        for (uint32_t rank = 1; rank < kRanks; ++rank) {
          const bool is_wrong = rank == kWrongRank;
          if (is_wrong && slip == Slip::left_out) continue;
          const uint64_t shift = !is_wrong ? 0 : slip == Slip::misplaced ? 1 : slip == Slip::late ? 65'521 : 0;
          data.fill(next, rank, shift, kElements + shift);
          if (is_wrong && slip == Slip::spoilt) data.spoil(next);
          element::Reduction{type, op}(answer.data(), answer.data(), next.data(), kElements);
        }
        const uint64_t wrong = data.compare(answer, 0, 0, kElements).wrong;
        const std::string what = std::string(to_string(op)) + " of " + std::string(to_string(type)) + ", slip " +
                                 std::to_string(static_cast<int>(slip));
        EXPECT_GT(wrong, slip == Slip::spoilt ? kElements - 1 : kElements / 5) << what;
      }
    }
  }
}

TEST(KnownData, HasBitsEnoughInTheAnswersOfBitwiseReductions) {
  for (const element::ReduceOp op : {element::ReduceOp::band, element::ReduceOp::bor, element::ReduceOp::bxor}) {
    for (const uint32_t ranks : {2u, 3u, 8u, 33u, 256u}) {
      const element::Reduction reduction = {element::DataType::uint8, op};
      const KnownData data({.ranks = ranks, .reduces = true, .reduction = reduction});
      std::vector<uint8_t> answer(kPeriod), next(kPeriod);
      data.fill(std::as_writable_bytes(std::span(answer)), 0, 0, kPeriod);
      for (uint32_t rank = 1; rank < ranks; ++rank) {
        data.fill(std::as_writable_bytes(std::span(next)), rank, 0, kPeriod);
        for (size_t i = 0; i < kPeriod; ++i) {
          answer[i] = static_cast<uint8_t>(op == element::ReduceOp::band  ? answer[i] & next[i]
                                           : op == element::ReduceOp::bor ? answer[i] | next[i]
                                                                          : answer[i] ^ next[i]);
        }
      }
      EXPECT_EQ(data.compare(std::as_bytes(std::span(answer)), 0, 0, kPeriod).wrong, 0u);
      for (int bit = 1; bit < 8; ++bit) {
        const auto set = std::count_if(answer.begin(), answer.end(), [&](uint8_t each) { return each >> bit & 1; });
        const double share = static_cast<double>(set) / static_cast<double>(kPeriod);
        EXPECT_TRUE(share > 0.2 && share < 0.8)
            << to_string(op) << " of " << ranks << ": bit " << bit << " is set in a share of " << share;
      }
    }
  }
}

TEST(KnownData, RefusesBitsOfFloatsOnlyWhereItReduces) {
  const element::Reduction reduction = {element::DataType::float32, element::ReduceOp::band};
  try {
    const KnownData data({.ranks = 2, .reduces = true, .reduction = reduction});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_EQ(error.message(), "band is for integers, not float32; give the same bits as uint32");
  }
  EXPECT_NO_THROW(KnownData({.ranks = 2, .reduces = false, .reduction = reduction}));
}

TEST(KnownData, IsTheSameInPieces) {
  for (const element::DataType type : {element::DataType::float16, element::DataType::int64}) {
    const KnownData data(collective(CollectiveKind::all_reduce, 3), {.type = type, .op = element::ReduceOp::prod});
    std::vector<std::byte> whole(3000 * size_of(type)), pieces(whole.size());
    data.fill(whole, 2, 64'000, 67'000);
    for (uint64_t at = 0; at < 3000; at += 750) {
      data.fill(std::span(pieces).subspan(at * size_of(type), 750 * size_of(type)), 2, 64'000 + at, 64'750 + at);
    }
    EXPECT_EQ(whole, pieces) << to_string(type);
  }
}

}  // namespace
}  // namespace banyan::run
