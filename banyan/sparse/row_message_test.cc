#include "banyan/sparse/row_message.h"

#include <xxhash.h>

#include <limits>

#include "banyan/sparse/row_shards.h"
#include "banyan/testing/test.h"

namespace banyan::sparse {
namespace {

RowList random_list(uint32_t rows, double share, uint32_t width, std::mt19937_64& random) {
  RowList list;
  std::bernoulli_distribution is_there(share);
  for (uint32_t row = 0; row < rows; ++row) {
    if (!is_there(random)) continue;
    list.rows.push_back(row);
    for (uint32_t j = 0; j < width; ++j)
      list.values.push_back(static_cast<float>(static_cast<int>(random() % 2001)) - 1000);
  }
  return list;
}

void sign_again(std::vector<std::byte>& message) {
  const uint64_t digest = XXH3_64bits(message.data() + 8, message.size() - 8);
  std::memcpy(message.data(), &digest, 8);
}

TEST(RowMessage, ComesBackAsItWentInTheShortestForm) {
  std::mt19937_64 random(1);
  for (const uint32_t rows : {1U, 8U, 9U, 1000U, 70'000U}) {
    for (const double share : {0.0, 0.001, 0.1, 0.9, 1.0}) {
      for (const uint32_t width : {1U, 3U, 64U}) {
        const RowList list = random_list(rows, share, width, random);
        const MessageContext context = {.step = 1ULL << 40, .tensor = 7, .shard = 3, .width = width, .rows = rows};
        const std::vector<std::byte> bytes = write_row_message(context, list);
        const size_t positions = bytes.size() - kMessageHeaderBytes - list.values.size() * 4;
        EXPECT_LE(positions, std::min<size_t>(4 * list.rows.size(), (rows + 7) / 8));
        const RowMessage message = RowMessage::read(bytes, context, "rank 1");
        EXPECT_EQ(message.positions(), list.rows);
        EXPECT_EQ(message.values(), list.values);
      }
    }
  }
}

TEST(RowMessage, WhatACodecLosesIsTold) {
  std::mt19937_64 random(2);
  for (const char* name : {"bfloat16", "int8", "int8:stochastic", "int4", "sign"}) {
    const RowList list = random_list(500, 0.2, 5, random);
    const MessageContext context = {.width = 5, .rows = 500, .codec = codec::parse_codec(name)};
    std::vector<float> lost(list.values.size(), 99);
    const std::vector<std::byte> bytes = write_row_message(context, list, {.lost = lost.data()}, 11);
    const std::vector<float> values = RowMessage::read(bytes, context, "rank 1").values();
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i] + lost[i], list.values[i], 1e-3) << name;
  }
}

TEST(RowMessage, DenseHasNoEntriesAndMayComeInsteadOfAny) {
  const MessageContext due = {.step = 4, .width = 8, .rows = 100};
  MessageContext dense = due;
  dense.kind = MessageKind::dense;
  const RowMessage message = RowMessage::read(write_row_message(dense, {}), due, "rank 1");
  EXPECT_EQ(message.kind(), MessageKind::dense);
  EXPECT_EQ(message.entries(), 0);
}

TEST(RowMessage, NamesTheSenderOfAMessageThatIsNotDue) {
  const MessageContext context = {.step = 4, .tensor = 2, .width = 1, .rows = 100};
  const std::vector<std::byte> bytes = write_row_message(context, {{5}, {1}});
  MessageContext other = context;
  other.step = 5;
  try {
    RowMessage::read(bytes, other, "rank 3");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_EQ(error.where(), "rank 3");
    EXPECT_NE(error.message().find("step 4, due is 5"), std::string::npos) << error.message();
  }
}

// Every byte changed with and without a new digest, every length: an Error, or a list that is good.
TEST(RowMessage, DamageIsFoundOrHarmless) {
  std::mt19937_64 random(3);
  for (const double share : {0.02, 0.5}) {
    const MessageContext context = {.width = 2, .rows = 200};
    const std::vector<std::byte> good = write_row_message(context, random_list(200, share, 2, random));
    for (size_t size = 0; size < good.size(); ++size) {
      std::vector<std::byte> cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));  // so that ASan sees reads
      if (size >= 8) sign_again(cut);
      EXPECT_THROW(RowMessage::read(cut, context, "rank 3"), Error) << size;
    }
    for (size_t at = 0; at < good.size(); ++at) {
      for (const unsigned change : {1U, 0x80U, 0xffU}) {
        std::vector<std::byte> bytes = good;
        bytes[at] ^= static_cast<std::byte>(change);
        EXPECT_THROW(RowMessage::read(bytes, context, "rank 3"), Error) << at;
        sign_again(bytes);
        try {
          const RowMessage message = RowMessage::read(bytes, context, "rank 3");
          const std::vector<uint32_t> positions = message.positions();
          ASSERT_EQ(positions.size(), message.entries());
          ASSERT_EQ(message.values().size(), 2 * positions.size());
          for (size_t i = 0; i < positions.size(); ++i) {
            ASSERT_LT(positions[i], 200);
            ASSERT_TRUE(i == 0 || positions[i - 1] < positions[i]);
          }
        } catch (const Error& error) {
          ASSERT_EQ(error.where(), "rank 3");
        }
      }
    }
  }
}

// From lists with duplicates through shards, messages and owners, back to a table.
TEST(RowSum, IsTheDenseSumBitForBit) {
  std::mt19937_64 random(4);
  for (const uint32_t ranks : {1U, 2U, 5U, 16U}) {
    for (const uint32_t rows : {1U, 3U, 64U, 65U, 1000U}) {
      const uint32_t width = 3;
      const RowShards shards(rows, ranks, 9);
      std::vector<float> dense(size_t{rows} * width), result(dense.size());
      std::vector<RowPartition> parts;
      std::vector<std::vector<float>> values;
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        std::vector<uint32_t> list = {0, rows - 1, 0};
        if (rank == 1) list.clear();                                                 // an empty rank
        for (uint32_t row = 0; rank == 2 && row < rows; ++row) list.push_back(row);  // one with everything
        for (int i = 0; rank != 1 && i < 50; ++i) list.push_back(static_cast<uint32_t>(random() % rows));
        values.emplace_back();
        for (const uint32_t row : list) {
          for (uint32_t j = 0; j < width; ++j) {
            values.back().push_back(static_cast<float>(static_cast<int>(random() % 4001)) - 2000);
            dense[size_t{row} * width + j] += values.back().back();
          }
        }
        parts.push_back(partition(shards, list));
      }
      for (uint32_t owner = 0; owner < ranks; ++owner) {
        const MessageContext context = {.shard = owner, .width = width, .rows = shards.rows_of(owner)};
        std::vector<std::vector<std::byte>> bytes;
        std::vector<RowMessage> messages;
        for (uint32_t rank = 0; rank < ranks; ++rank) {
          bytes.push_back(write_row_message(context, rows_of_shard(parts[rank], owner, values[rank], width)));
          messages.push_back(RowMessage::read(bytes.back(), context, "rank " + std::to_string(rank)));
        }
        const RowList sum = sum_of(messages, context.rows, width);
        for (size_t i = 0; i < sum.rows.size(); ++i) {
          const size_t row = shards.row_at({owner, sum.rows[i]});
          for (uint32_t j = 0; j < width; ++j) result[row * width + j] = sum.values[i * width + j];
        }
      }
      ASSERT_EQ(std::memcmp(result.data(), dense.data(), dense.size() * 4), 0) << ranks << " ranks, rows " << rows;
    }
  }
}

TEST(RowSum, NaNAndInfinityComeOut) {
  const MessageContext context = {.width = 2, .rows = 10};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto one = write_row_message(context, {{2, 9}, {NAN, 1, kInfinity, 2}});
  const auto two = write_row_message(context, {{2, 9}, {5, 1, -kInfinity, 2}});
  const RowMessage messages[] = {RowMessage::read(one, context, "rank 0"), RowMessage::read(two, context, "rank 1")};
  const RowList sum = sum_of(messages, 10, 2);
  EXPECT_EQ(sum.rows, (std::vector<uint32_t>{2, 9}));
  EXPECT_TRUE(std::isnan(sum.values[0]) && std::isnan(sum.values[2]));
  EXPECT_EQ(sum.values[1], 2);
  EXPECT_EQ(sum.values[3], 4);
}

}  // namespace
}  // namespace banyan::sparse
