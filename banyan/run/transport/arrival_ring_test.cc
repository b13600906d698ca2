#include "banyan/run/transport/arrival_ring.h"

#include "banyan/run/transport/test_exchange.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint64_t kBytes = ArrivalRing::kBytes;

bool put(ArrivalRing& ring, uint64_t position, size_t count) { return ring.put(position, bytes_from(position, count)); }

TEST(ArrivalRing, ShowsNothingBeforeAnythingCame) {
  ArrivalRing ring;
  EXPECT_TRUE(ring.is_empty());
  EXPECT_TRUE(ring.peek().empty());
  std::byte byte{};
  EXPECT_EQ(ring.read({&byte, 1}), 0u);
}

TEST(ArrivalRing, HoldsBackWhatCameTooEarly) {
  ArrivalRing ring;
  EXPECT_TRUE(put(ring, 10, 5));
  EXPECT_TRUE(put(ring, 20, 5));
  EXPECT_TRUE(ring.is_empty());
  EXPECT_TRUE(put(ring, 0, 10));
  EXPECT_EQ(ring.arrived(), 15u);
  EXPECT_TRUE(put(ring, 15, 5));
  EXPECT_EQ(ring.peek().size(), 25u);
}

// Any order of the pieces in any state of the ring, which wraps around many times.
TEST(ArrivalRing, PutsPiecesOfAnyOrderInOrder) {
  constexpr uint64_t kTotal = 9 * kBytes + 12345;
  std::mt19937_64 random(7);
  ArrivalRing ring;
  uint64_t sent = 0;
  std::vector<std::byte> into(100'000);
  while (ring.consumed() < kTotal) {
    std::vector<std::pair<uint64_t, size_t>> pieces;
    while (pieces.size() < 12 && sent < std::min(kTotal, ring.consumed() + kBytes)) {
      const uint64_t room = std::min(kTotal, ring.consumed() + kBytes) - sent;
      const size_t size = std::min<uint64_t>(1 + random() % 65536, room);
      pieces.emplace_back(sent, size);
      sent += size;
    }
    std::shuffle(pieces.begin(), pieces.end(), random);
    for (const auto& [position, size] : pieces) ASSERT_TRUE(put(ring, position, size));
    ASSERT_EQ(ring.arrived(), sent);
    for (int reads = 0; reads < 6; ++reads) {
      const uint64_t position = ring.consumed();
      const size_t count = ring.read(std::span(into).first(random() % into.size()));
      ASSERT_EQ(ring.consumed(), position + count);
      ASSERT_TRUE(std::ranges::equal(std::span(into).first(count), bytes_from(position, count)));
    }
  }
  EXPECT_TRUE(ring.is_empty());
}

TEST(ArrivalRing, RefusesWhatCameBefore) {
  ArrivalRing ring;
  ASSERT_TRUE(put(ring, 0, 10));
  ASSERT_TRUE(put(ring, 20, 10));
  EXPECT_FALSE(put(ring, 0, 10));
  EXPECT_FALSE(put(ring, 9, 2));
  EXPECT_FALSE(put(ring, 20, 10));
  EXPECT_FALSE(put(ring, 15, 6));
  EXPECT_FALSE(put(ring, 29, 2));
  EXPECT_FALSE(put(ring, 10, 30));
  EXPECT_TRUE(put(ring, 10, 10));
  EXPECT_EQ(ring.arrived(), 30u);
}

TEST(ArrivalRing, RefusesWhatItHasNoRoomFor) {
  ArrivalRing ring;
  EXPECT_FALSE(put(ring, 1, kBytes));
  EXPECT_FALSE(put(ring, kBytes, 1));
  EXPECT_FALSE(put(ring, UINT64_MAX, 2));
  EXPECT_FALSE(put(ring, uint64_t{1} << 63, 10));
  ASSERT_TRUE(put(ring, 0, kBytes));
  EXPECT_FALSE(put(ring, kBytes, 1));
  ring.consume(1);
  EXPECT_TRUE(put(ring, kBytes, 1));
  EXPECT_FALSE(put(ring, 0, 1)) << "long consumed";
}

}  // namespace
}  // namespace banyan::run
