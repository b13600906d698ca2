// Letters in a simulated world: bytes arrive late, in pieces cut anywhere, through streams that hold few of them.
#include "banyan/run/net/letters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/testing/simulated_transport.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;

std::byte byte_of(uint32_t from, uint32_t to, uint64_t letter, uint64_t position) {
  return static_cast<std::byte>(from * 31 + to * 17 + letter * 101 + position * 7);
}

TEST(Letters, ArriveWholeAndInOrderInEveryWorld) {
  constexpr uint32_t kRanks = 3;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SimulatedWorld world({.ranks = kRanks, .seed = seed});
    std::mt19937_64 random(seed);
    std::vector<std::unique_ptr<Letters>> letters;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      letters.push_back(std::make_unique<Letters>(world.transport(rank)));
    }
    struct Pair {
      uint32_t from, to;
      uint64_t number;
      std::vector<std::byte> sent, received;
    };
    std::vector<Pair> pairs;
    for (uint64_t number = 0; number < 4; ++number) {
      for (uint32_t from = 0; from < kRanks; ++from) {
        for (uint32_t to = 0; to < kRanks; ++to) {
          if (from == to) continue;
          const size_t size = random() % (random() % 2 == 0 ? 5 : 2000);
          pairs.push_back({from, to, number, std::vector<std::byte>(size), std::vector<std::byte>(size)});
          for (size_t i = 0; i < size; ++i) pairs.back().sent[i] = byte_of(from, to, number, i);
        }
      }
    }
    for (Pair& pair : pairs) {
      letters[pair.from]->send(pair.to, pair.sent);
      letters[pair.to]->receive(pair.from, pair.received);
    }
    for (uint64_t idle = 0; idle < 2000;) {
      const bool delivered = world.deliver_some();
      const bool moved = letters[world.draw(kRanks)]->advance();
      idle = delivered || moved ? 0 : idle + 1;
    }
    for (const Pair& pair : pairs) ASSERT_EQ(pair.received, pair.sent) << "seed " << seed;
    for (const auto& of_rank : letters) ASSERT_TRUE(of_rank->is_idle()) << "seed " << seed;
    ASSERT_TRUE(world.is_quiet()) << "seed " << seed;
  }
}

TEST(Letters, OfAnotherLengthAreRefused) {
  SimulatedWorld world({.ranks = 2, .least_capacity = 300, .seed = 1});
  Letters sender(world.transport(0)), receiver(world.transport(1));
  std::vector<std::byte> bytes(20);
  sender.send(1, bytes);
  receiver.receive(0, std::span(bytes).first(10));
  EXPECT_EQ(receiver.waiting_for(), 0u);
  try {
    for (int i = 0; i < 10'000; ++i) {
      sender.advance();
      world.deliver_some();
      receiver.advance();
    }
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THAT(error.what(), HasSubstr("sent 20 bytes where this rank expects 10"));
  }
}

}  // namespace
}  // namespace banyan
