#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/host/mailboxes.h"
#include "banyan/run/host/regions.h"
#include "banyan/testing/orders/explorer.h"
#include "banyan/testing/orders/test_segment.h"

namespace banyan::testing::orders {
namespace {

using run::Mailboxes;
using run::MessageEnd;
using run::PeerRegions;
using run::RegionPool;

constexpr size_t kEager = 128, kPiece = 64, kMost = 192;

// Rank 0 sends to rank 1.
class Street {
 public:
  explicit Street(Trial& trial) : trial_(trial), host_(trial, 2, false), peers_(2) {
    peers_[0] = std::make_unique<PeerRegions>(0, pool_.directory_fd());
    for (const uint32_t rank : {0u, 1u}) {
      boxes_[rank] = std::make_unique<Mailboxes>(host_.segment(rank), Mailboxes::Options{.rank = rank,
                                                                                         .own_regions = &pool_,
                                                                                         .peers = peers_,
                                                                                         .may_attach = false,
                                                                                         .eager_bytes = kEager,
                                                                                         .piece_bytes = kPiece});
    }
    const run::Box& box = host_.segment(0).box(0, 1);
    trial.name(&box.post.sequence, "the sequence");
    trial.name(&box.post.signature, "the post");
    trial.name(&box.sent, "sent");
    trial.name(&box.taken, "taken");
    trial.name(buffer_.data(), "the buffer of the sender");
  }

  Mailboxes& box(uint32_t rank) { return *boxes_[rank]; }
  RegionPool& pool() { return pool_; }

  // Messages whose buffer is used again at once.
  void pass(size_t bytes, std::span<std::byte> buffer, uint8_t messages) {
    trial_.thread("sender", [this, bytes, buffer, messages] {
      for (uint8_t number = 1; number <= messages; ++number) {
        std::fill_n(buffer.begin(), bytes, std::byte(number));
        box(0).send({.to = 1, .bytes = buffer.first(bytes)});
        await_end(0);
      }
      std::fill_n(buffer.begin(), bytes, std::byte{0});
    });
    trial_.thread("receiver", [this, bytes, messages] {
      for (uint8_t number = 1; number <= messages; ++number) {
        box(1).receive({.from = 0, .into = std::span(into_).first(bytes)});
        await_end(1);
        trial_.expect(into_[0] == std::byte(number) && into_[bytes - 1] == std::byte(number), "another message");
      }
    });
  }
  void pass(size_t bytes, uint8_t messages) { pass(bytes, buffer_, messages); }

  void await_end(uint32_t rank) {
    std::vector<MessageEnd> ended;
    trial_.await([&] {
      box(rank).advance(ended);
      return !ended.empty();
    });
  }
  void leave() { boxes_[0].reset(); }
  std::span<std::byte> into() { return into_; }

 private:
  Trial& trial_;
  RegionPool pool_;
  TestHost host_;
  std::vector<std::unique_ptr<PeerRegions>> peers_;
  std::array<std::unique_ptr<Mailboxes>, 2> boxes_;
  std::array<std::byte, kMost> buffer_{}, into_{};
};

void small_ones_lie_in_the_box(Trial& trial) { (new Street(trial))->pass(8, 2); }
void some_lie_beside_it(Trial& trial) { (new Street(trial))->pass(kEager, 2); }
// Three pieces, of which two may be on their way.
void large_ones_pass_in_pieces(Trial& trial) { (new Street(trial))->pass(kMost, 1); }
void large_ones_are_viewed(Trial& trial) {
  auto& street = *new Street(trial);
  std::byte* const region = street.pool().allocate(kMost);
  trial.name(region, "the buffer of the sender");
  street.pass(kMost, {region, kMost}, 1);
}

// A sender leaves: what it has sent before is received, or the receiver hears that it has left.
void a_sender_leaves(Trial& trial) {
  auto& street = *new Street(trial);
  trial.thread("sender", [&street] {
    constexpr std::array kMessage{std::byte{5}};
    street.box(0).send({.to = 1, .bytes = kMessage});
    street.await_end(0);
    street.leave();
  });
  trial.thread("receiver", [&street, &trial] {
    street.box(1).receive({.from = run::kAnyPeer, .into = street.into().first(1)});
    street.await_end(1);
    trial.expect(street.into()[0] == std::byte{5}, "another message");
  });
}

TEST(MailboxesOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"mailboxes.cc"},
                               {small_ones_lie_in_the_box, some_lie_beside_it, large_ones_pass_in_pieces,
                                large_ones_are_viewed, a_sender_leaves},
                               // Between them lie the plain bytes of a buffer that a sender who has left may write to
                               // while they are read: what was read is not used then. The model knows such bytes as a
                               // race only.
                               {{.words = "mailboxes.cc fence", .why = "plain bytes that race by design"}}),
            "");
}

}  // namespace
}  // namespace banyan::testing::orders
