#include "banyan/run/host/mailboxes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <random>
#include <thread>

namespace banyan {
namespace {

using ::testing::HasSubstr;

// Threads take the parts of processes.
class Town {
 public:
  explicit Town(bool may_attach) : may_attach_(may_attach) {}

  void run(uint32_t ranks, const std::function<void(Mailboxes&, uint32_t)>& body) {
    const Segment segment = Segment::make({.ranks = ranks, .block_bytes = 4096});
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<std::unique_ptr<PeerRegions>> peers(ranks);
        for (auto& peer : peers) peer = std::make_unique<PeerRegions>(getpid(), pool_.directory_fd());
        const Segment own = Segment::attach(getpid(), segment.fd(), {.ranks = ranks, .block_bytes = 4096});
        Mailboxes boxes(own, {.rank = rank,
                              .own_regions = &pool_,
                              .peers = peers,
                              .may_attach = may_attach_,
                              .eager_bytes = 1000,
                              .piece_bytes = 512});
        body(boxes, rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  RegionPool& pool() { return pool_; }

 private:
  RegionPool pool_;
  bool may_attach_;
};

std::byte byte_of(uint32_t from, uint32_t to, uint64_t message, uint64_t position) {
  return static_cast<std::byte>(from * 31 + to * 17 + message * 101 + position * 7 + position / 251);
}

class EveryWay : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Mailboxes, EveryWay, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "attached" : "streamed"; });

TEST_P(EveryWay, CarriesManyMessagesOfAllSizesBothWaysAtOnce) {
  Town post(GetParam());
  constexpr uint32_t kRanks = 3;
  post.run(kRanks, [&](Mailboxes& boxes, uint32_t rank) {
    std::mt19937_64 random(11);  // the same sizes on all ranks
    for (int round = 0; round < 30; ++round) {
      struct Letter {
        uint32_t peer;
        uint64_t number;
        bool is_sent;
        std::vector<std::byte> bytes;
        std::byte* region = nullptr;
        Mailboxes::Ticket ticket = 0;
      };
      std::vector<Letter> letters;
      for (uint64_t number = 0; number < 5; ++number) {
        for (uint32_t from = 0; from < kRanks; ++from) {
          for (uint32_t to = 0; to < kRanks; ++to) {
            const uint64_t size = random() % (random() % 3 == 0 ? 5000 : random() % 3 == 1 ? 1200 : 120);
            if (from == to || (from != rank && to != rank)) continue;
            letters.push_back({from == rank ? to : from, number, from == rank, std::vector<std::byte>(size)});
          }
        }
      }
      for (Letter& letter : letters) {
        if (letter.is_sent) {
          for (uint64_t i = 0; i < letter.bytes.size(); ++i) {
            letter.bytes[i] = byte_of(rank, letter.peer, letter.number, i);
          }
          std::span<const std::byte> bytes = letter.bytes;
          if (letter.number % 2 == 0) {  // half of them from memory that peers can see
            letter.region = post.pool().allocate(bytes.size());
            std::copy(bytes.begin(), bytes.end(), letter.region);
            bytes = {letter.region, bytes.size()};
          }
          letter.ticket = boxes.send(letter.peer, bytes);
        } else {
          letter.ticket = boxes.receive(letter.peer, letter.bytes);
        }
      }
      while (!boxes.is_idle()) {
        if (!boxes.advance()) std::this_thread::yield();
      }
      for (Letter& letter : letters) {
        ASSERT_TRUE(boxes.is_done(letter.ticket));
        if (letter.region != nullptr) post.pool().free(letter.region);
        if (letter.is_sent) continue;
        for (uint64_t i = 0; i < letter.bytes.size(); ++i) {
          ASSERT_EQ(letter.bytes[i], byte_of(letter.peer, rank, letter.number, i))
              << "byte " << i << " of " << letter.bytes.size();
        }
      }
    }
  });
}

TEST(Mailboxes, SendLittleWithoutWaitingForTheReceiver) {
  Town post(false);
  post.run(2, [&](Mailboxes& boxes, uint32_t rank) {
    std::vector<std::byte> bytes(900);
    if (rank == 1) return;
    const auto ticket = boxes.send(1, bytes);
    EXPECT_TRUE(boxes.advance());
    EXPECT_TRUE(boxes.is_done(ticket));
    const auto second = boxes.send(1, bytes);
    EXPECT_FALSE(boxes.advance());
    EXPECT_FALSE(boxes.is_done(second));
    EXPECT_EQ(boxes.waiting_for(), 1u);
  });
}

TEST(Mailboxes, NameTheRankWhoseMessageHasAnotherLength) {
  Town post(false);
  post.run(2, [&](Mailboxes& boxes, uint32_t rank) {
    std::vector<std::byte> bytes(100);
    if (rank == 0) {
      boxes.send(1, std::span(bytes).first(50));
      boxes.advance();
      return;
    }
    boxes.receive(0, bytes);
    try {
      while (!boxes.is_idle()) boxes.advance();
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      EXPECT_THAT(error.what(), HasSubstr("rank 0 sends 50 bytes where this rank, 1, receives 100"));
    }
  });
}

TEST(Mailboxes, WhatWasSentArrivesWhenItsSenderHasLeft) {
  const Segment segment = Segment::make({.ranks = 2, .block_bytes = 4096});
  const std::vector<std::unique_ptr<PeerRegions>> nobody(2);
  RegionPool pool;
  std::vector<std::byte> sent(segment.box_bytes(), std::byte{7}), received(segment.box_bytes());
  {
    Mailboxes sender(segment, {.rank = 0, .own_regions = &pool, .peers = nobody});
    const Mailboxes::Ticket ticket = sender.send(1, sent);
    EXPECT_TRUE(sender.advance());
    EXPECT_TRUE(sender.is_done(ticket));
  }
  Mailboxes receiver(segment, {.rank = 1, .own_regions = &pool, .peers = nobody});
  const Mailboxes::Ticket ticket = receiver.receive(0, received);
  EXPECT_TRUE(receiver.advance());
  EXPECT_TRUE(receiver.is_done(ticket));
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace banyan
