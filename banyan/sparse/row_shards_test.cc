#include "banyan/sparse/row_shards.h"

#include "banyan/testing/test.h"

namespace banyan::sparse {
namespace {

// The definition, with divisions.
RowShards::Place by_definition(uint64_t row, uint64_t rows, uint64_t shards, uint64_t multiplier) {
  const uint64_t y = multiplier * row % rows;
  const uint64_t shard = y * shards / rows;
  uint64_t first = y;
  while (first > 0 && (first - 1) * shards / rows == shard) --first;
  return {.shard = static_cast<uint32_t>(shard), .position = static_cast<uint32_t>(y - first)};
}

TEST(RowShards, EveryRowHasOnePlaceForAllRowsAndShards) {
  for (uint32_t rows = 1; rows <= 3000; ++rows) {
    for (uint32_t shards = 1; shards <= 16; ++shards) {
      const RowShards table(rows, shards, rows * 17 + shards);
      uint32_t sum = 0;
      for (uint32_t shard = 0; shard < shards; ++shard) {
        sum += table.rows_of(shard);
        ASSERT_LE(table.rows_of(shard), rows / shards + 1);
        ASSERT_GE(table.rows_of(shard), rows / shards);
      }
      ASSERT_EQ(sum, rows);
      for (uint32_t row = 0; row < rows; ++row) {
        const RowShards::Place place = table.place_of(row);
        ASSERT_LT(place.shard, shards) << rows << " " << shards << " " << row;
        ASSERT_LT(place.position, table.rows_of(place.shard));
        // An inverse everywhere on as many places as rows: a bijection.
        ASSERT_EQ(table.row_at(place), row) << rows << " " << shards;
      }
    }
  }
}

TEST(RowShards, PlacesAreThoseOfTheDefinition) {
  for (const uint32_t rows : {1U, 2U, 3U, 16U, 44U, 1000U, 2999U}) {
    for (const uint32_t shards : {1U, 2U, 3U, 5U, 16U, 40U}) {
      const RowShards table(rows, shards, 3);
      for (uint32_t row = 0; row < rows; ++row) {
        ASSERT_EQ(table.place_of(row), by_definition(row, rows, shards, table.multiplier())) << rows << " " << shards;
      }
    }
  }
}

TEST(RowShards, LargeTablesComeRoundAtTheirEnds) {
  std::mt19937_64 random(11);
  for (const uint32_t rows : {1U << 31, (1U << 31) + 1, UINT32_MAX - 4, UINT32_MAX, 16'777'216U, 44'123U}) {
    for (const uint32_t shards : {1U, 7U, 64U, 4096U}) {
      const RowShards table(rows, shards, random());
      for (int draw = 0; draw < 2000; ++draw) {
        const auto row = static_cast<uint32_t>(draw < 2 ? (draw == 0 ? 0 : rows - 1) : random() % rows);
        const RowShards::Place place = table.place_of(row);
        const uint64_t y = static_cast<uint64_t>(static_cast<unsigned __int128>(table.multiplier()) * row % rows);
        ASSERT_EQ(table.permuted(row), y) << rows;
        ASSERT_EQ(place.shard, static_cast<uint64_t>(static_cast<unsigned __int128>(y) * shards / rows));
        ASSERT_EQ(table.row_at(place), row);
      }
    }
  }
}

TEST(RowShards, EqualSeedsGiveEqualShardsAndOthersOthers) {
  EXPECT_EQ(RowShards(44'123, 8, 5).multiplier(), RowShards(44'123, 8, 5).multiplier());
  std::map<uint32_t, int> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const uint32_t multiplier = RowShards(44'123, 8, seed).multiplier();
    ++seen[multiplier];
    EXPECT_NEAR(multiplier / 44'123.0, 0.618, 0.003);
  }
  EXPECT_GT(seen.size(), 10);
}

// The first rows are those that all use. Contiguous shards give all of them to the first owner.
TEST(RowShards, SpreadsTheFrequentRowsOverAllShards) {
  for (const uint32_t shards : {2U, 4U, 8U, 16U, 64U}) {
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const RowShards table(44'123, shards, seed);
      for (const uint32_t used : {64 * shards, 256 * shards}) {
        std::vector<uint32_t> counts(shards);
        for (uint32_t row = 0; row < used; ++row) ++counts[table.place_of(row).shard];
        const double busiest = *std::max_element(counts.begin(), counts.end()) * shards / static_cast<double>(used);
        EXPECT_LE(busiest, 1.1) << shards << " shards, seed " << seed << ", rows " << used;
      }
    }
  }
}

TEST(RowPartition, HasEveryEntryAtItsPlaceInOrder) {
  std::mt19937_64 random(5);
  for (const uint32_t rows : {1U, 5U, 300U, 4096U, 5'000'000U, UINT32_MAX}) {
    for (const uint32_t shards : {1U, 3U, 16U}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}}) {
        const RowShards table(rows, shards, 1);
        std::vector<uint32_t> list(count);
        for (uint32_t& row : list) row = static_cast<uint32_t>(random() % rows);  // some several times
        const RowPartition parts = partition(table, list);
        ASSERT_EQ(parts.first.size(), shards + 1);
        ASSERT_EQ(parts.first.back(), count);
        std::vector<bool> seen(count);
        for (uint32_t shard = 0; shard < shards; ++shard) {
          for (size_t i = parts.first[shard]; i < parts.first[shard + 1]; ++i) {
            const uint32_t source = parts.sources[i];
            ASSERT_FALSE(seen[source]);
            seen[source] = true;
            ASSERT_EQ(table.place_of(list[source]), (RowShards::Place{shard, parts.positions[i]}));
            if (i == parts.first[shard]) continue;
            ASSERT_LE(parts.positions[i - 1], parts.positions[i]);
            if (parts.positions[i - 1] == parts.positions[i]) {
              ASSERT_LT(parts.sources[i - 1], source);
            }
          }
        }
      }
    }
  }
}

TEST(RowPartition, NamesARowThatTheTableDoesNotHave) {
  const RowShards table(100, 4, 1);
  for (const int64_t wrong : {int64_t{100}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    const std::vector<int64_t> rows = {3, wrong, 5};
    try {
      partition(table, rows);
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(),
                "entry 1 of the list is row " + std::to_string(wrong) + "; the table has rows 0 to 99");
    }
  }
}

TEST(RowPartition, AddsWhatIsThereSeveralTimesInTheOrderOfTheList) {
  const RowShards table(10, 2, 1);
  const std::vector<int64_t> rows = {7, 0, 7, 9, 7};
  // 2^24 + 1 rounds to 2^24, so the order shows.
  const std::vector<float> values = {16777216, 1, 2, 3, 1, 4, 5, 6, 1, 7};
  const RowPartition parts = partition(table, rows);
  std::map<uint32_t, std::vector<float>> found;
  for (uint32_t shard = 0; shard < 2; ++shard) {
    const RowList list = rows_of_shard(parts, shard, values, 2);
    ASSERT_EQ(list.values.size(), 2 * list.rows.size());
    for (size_t i = 0; i < list.rows.size(); ++i) {
      found[table.row_at({shard, list.rows[i]})] = {list.values[2 * i], list.values[2 * i + 1]};
    }
  }
  const std::map<uint32_t, std::vector<float>> expected = {{0, {2, 3}}, {7, {16777216, 12}}, {9, {5, 6}}};
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace banyan::sparse
