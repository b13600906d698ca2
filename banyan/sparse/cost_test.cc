#include "banyan/sparse/cost.h"

#include "banyan/sparse/row_message.h"
#include "banyan/sparse/row_shards.h"
#include "banyan/testing/test.h"

namespace banyan::sparse {
namespace {

// Figures by hand, per value of the table.
TEST(SparseCost, IsThatOfTheFormulas) {
  struct Line {
    double ranks, d, sum, width, dense, gather, shards;
  };
  for (const Line& line : {Line{4, .0093, .0313, 64, 6.0, .113, .124}, Line{8, .0096, .0557, 64, 7.0, .273, .231},
                           Line{16, .01, .10, 1, 7.5, 1.20, .567}, Line{8, .10, .45, 1, 7.0, 5.6, 2.38}}) {
    const SparseShape shape = {
        .values = 1, .rank_share = line.d, .union_share = line.sum, .width = line.width, .ranks = line.ranks};
    EXPECT_NEAR(bytes_sent(Way::dense, shape), line.dense, .001);
    EXPECT_NEAR(bytes_sent(Way::gather_rows, shape), line.gather, .0005 + .002 * line.gather);
    EXPECT_NEAR(bytes_sent(Way::permuted_shards, shape), line.shards, .0005 + .002 * line.shards);
  }
}

TEST(SparseCost, ChoosesByRanksDensityAndLatency) {
  SparseShape shape = {.values = 1e6, .rank_share = .0093, .union_share = .0313, .width = 64, .ranks = 4};
  const LinkCost link = {.bytes_per_second = 1e7};
  EXPECT_EQ(choose_way(shape, link), Way::gather_rows);
  shape = {.values = 1e6, .rank_share = .0096, .union_share = .0557, .width = 64, .ranks = 8};
  EXPECT_EQ(choose_way(shape, link), Way::permuted_shards);
  EXPECT_EQ(choose_way(shape, {.bytes_per_second = 1e7, .latency_seconds = 1}), Way::gather_rows);
  shape.rank_share = shape.union_share = 1;
  EXPECT_EQ(choose_way(shape, link), Way::dense);
}

// Words drawn by Zipf's law, as messages of real shards: their bytes against the formula.
TEST(SparseCost, IsWhatMessagesOfZipfDataHave) {
  constexpr uint32_t kRows = 20'000, kWidth = 16, kTokens = 2048, kSeed = 3;
  std::mt19937_64 random(kSeed);
  std::vector<double> weights(kRows);
  for (uint32_t j = 0; j < kRows; ++j) weights[j] = std::pow(j + 2.7, -1.1);
  std::discrete_distribution<uint32_t> word(weights.begin(), weights.end());
  for (const uint32_t ranks : {4U, 8U, 16U}) {
    const RowShards shards(kRows, ranks, kSeed);
    std::set<uint32_t> all;
    double rows_of_ranks = 0;
    std::vector<double> sent(ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::set<uint32_t> own;
      for (uint32_t t = 0; t < kTokens; ++t) own.insert(word(random));
      all.insert(own.begin(), own.end());
      rows_of_ranks += static_cast<double>(own.size());
      const std::vector<uint32_t> list(own.begin(), own.end());
      const RowPartition parts = partition(shards, list);
      const std::vector<float> values(list.size() * kWidth, 1);
      for (uint32_t owner = 0; owner < ranks; ++owner) {
        if (owner == rank) continue;
        const MessageContext context = {.shard = owner, .width = kWidth, .rows = shards.rows_of(owner)};
        const RowList rows = rows_of_shard(parts, owner, values, kWidth);
        sent[rank] += static_cast<double>(write_row_message(context, rows).size() - kMessageHeaderBytes);
      }
    }
    const std::vector<uint32_t> list(all.begin(), all.end());
    const RowPartition parts = partition(shards, list);
    for (uint32_t owner = 0; owner < ranks; ++owner) {
      const MessageContext context = {
          .kind = MessageKind::sum, .shard = owner, .width = kWidth, .rows = shards.rows_of(owner)};
      const RowList rows = rows_of_shard(parts, owner, std::vector<float>(list.size() * kWidth, 1), kWidth);
      sent[owner] += (ranks - 1) * static_cast<double>(write_row_message(context, rows).size() - kMessageHeaderBytes);
    }
    double mean = 0;
    for (const double bytes : sent) mean += bytes / ranks;
    const SparseShape shape = {.values = double{kRows} * kWidth,
                               .rank_share = rows_of_ranks / ranks / kRows,
                               .union_share = static_cast<double>(all.size()) / kRows,
                               .width = kWidth,
                               .ranks = static_cast<double>(ranks)};
    EXPECT_LE(mean, bytes_sent(Way::permuted_shards, shape)) << "seed " << kSeed;  // gaps are shorter than 4 bytes
    EXPECT_GE(mean, 0.9 * bytes_sent(Way::permuted_shards, shape)) << ranks;
    EXPECT_LE(*std::max_element(sent.begin(), sent.end()), 1.15 * mean) << ranks;
  }
}

}  // namespace
}  // namespace banyan::sparse
