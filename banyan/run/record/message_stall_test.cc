// Who keeps messages from going on, as far as each rank's notes tell.
#include "banyan/run/record/message_stall.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

// Ranks of which each has made `calls`, and is in the last one or not.
class Scene {
 public:
  explicit Scene(uint32_t size) : records_(size), calls_(size), states_(size) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      states_[rank] = {.rank = rank, .messages = &records_[rank], .now = 10 * kSecond};
    }
  }
  void sends(uint32_t rank, uint32_t to, uint64_t bytes, uint32_t tag = 0, bool is_awaited = true) {
    add(rank, {.count = bytes, .peer = to, .tag = tag, .is_send = true}, is_awaited);
    ++pair(rank, to).sent;
  }
  void receives(uint32_t rank, uint32_t from, uint32_t tag = 0, bool is_awaited = true) {
    add(rank, {.count = 4, .peer = from, .tag = tag}, is_awaited);
  }
  // Messages that are over.
  void has_passed(uint32_t from, uint32_t to, uint64_t messages, uint64_t received, uint32_t last_tag = 0) {
    pair(from, to).sent = messages;
    pair(from, to).last_tag = last_tag;
    pair(to, from).received = received;
  }
  void is_in_barrier(uint32_t rank, uint64_t number, uint32_t waits_for = kNoRank) {
    has_called_barrier(rank, number);
    states_[rank].state = calls_[rank].state = OperationState::running;
    states_[rank].waits_for = waits_for;
  }
  void has_called_barrier(uint32_t rank, uint64_t number) {
    calls_[rank].sequence = number;
    calls_[rank].state = OperationState::done;
    states_[rank].sequence = number;
    states_[rank].operation = &calls_[rank];
  }
  RankState& operator[](uint32_t rank) { return states_[rank]; }
  Stall stall() const { return diagnose_stall(states_); }
  std::string sentence() const {
    const Stall found = stall();
    return std::string(to_string(found.kind)) + ": " + found.sentence;
  }

 private:
  void add(uint32_t rank, MessageRecord message, bool is_awaited) {
    message.number = ++records_[rank].begun;
    message.awaited_since = is_awaited ? 7 * kSecond : 0;
    records_[rank].messages.push_back(message);
  }
  MessagePair& pair(uint32_t rank, uint32_t peer) {
    for (MessagePair& each : records_[rank].pairs) {
      if (each.rank == peer) return each;
    }
    return records_[rank].pairs.emplace_back(MessagePair{.rank = peer});
  }

  std::vector<MessageRecords> records_;
  std::vector<OperationRecord> calls_;
  std::vector<RankState> states_;
};

TEST(MessageStall, OfTwoThatBothSendFirst) {
  Scene scene(2);
  scene.sends(0, 1, 400'000);
  scene.sends(1, 0, 400'000);
  EXPECT_EQ(scene.sentence(),
            "message: rank 0 waits to send 400,000 bytes (tag 0) to rank 1, which waits to send 400,000 bytes (tag 0) "
            "to rank 0 and has no receive open: both send first");
  EXPECT_THAT(scene.stall().ranks, ElementsAre(0, 1));
  EXPECT_EQ(scene[0].awaited_for(), 3 * kSecond);
}

TEST(MessageStall, OfThreeThatAllReceiveFirst) {
  Scene scene(3);
  for (uint32_t rank = 0; rank < 3; ++rank) scene.receives(rank, (rank + 2) % 3);
  EXPECT_EQ(scene.sentence(),
            "message: rank 0 waits for message 1 of rank 2 (tag 0), which waits for message 1 of rank 1 (tag 0), which "
            "waits for message 1 of rank 0 (tag 0): all receive first");
}

// The one that forgot is named, and not those that its peers wait for in the barrier.
TEST(MessageStall, OfAPipelineInWhichOneSendWasForgotten) {
  Scene scene(4);
  for (uint32_t rank = 0; rank < 3; ++rank) scene.has_passed(rank, rank + 1, rank == 0 ? 20 : 19, rank == 0 ? 20 : 19);
  scene.is_in_barrier(0, 1, 3);
  scene.is_in_barrier(1, 1, 2);
  scene.receives(2, 1);
  scene.receives(3, 2);
  EXPECT_EQ(scene.sentence(),
            "message: rank 2 waits for message 20 of rank 1 (tag 0), which has sent 19 and is in barrier #1");
  EXPECT_THAT(scene.stall().ranks, ElementsAre(1));
  EXPECT_THAT(scene.stall().waiting, ElementsAre(0, 2, 3));
}

TEST(MessageStall, OfARankThatIsInNoCall) {
  Scene scene(2);
  scene.has_called_barrier(1, 4);
  scene.has_called_barrier(0, 4);
  scene.sends(0, 1, 400'000, 3);
  EXPECT_EQ(scene.sentence(),
            "message: rank 0 waits to send 400,000 bytes (tag 3) to rank 1, which has no receive open for it and is in "
            "no call; its last was barrier #4");
  scene.receives(1, 0, 8, false);
  EXPECT_EQ(
      scene.sentence(),
      "message: rank 0 waits to send 400,000 bytes (tag 3) to rank 1, which receives from it with tag 8 and is in "
      "no call; its last was barrier #4");
}

TEST(MessageStall, OfTagsThatDiffer) {
  Scene scene(2);
  scene.has_passed(1, 0, 3, 2, 9);
  scene.receives(0, 1, 5);
  EXPECT_EQ(scene.sentence(),
            "message: rank 0 waits for message 3 of rank 1 (tag 5), which has sent 3, the last with tag 9 and is in no "
            "call");
}

TEST(MessageStall, OfAMessageToOneself) {
  Scene scene(2);
  scene.is_in_barrier(0, 1);
  scene.sends(1, 1, 40);
  EXPECT_EQ(
      scene.sentence(),
      "message: rank 1 waits to send 40 bytes (tag 0) to rank 1, which is itself: a blocking send to oneself waits "
      "for a receive that only another thread can make");
}

TEST(MessageStall, OfAReceiveFromAnyThatNobodySends) {
  Scene scene(2);
  scene.receives(0, kNoRank, 6);
  EXPECT_EQ(scene.sentence(), "message: rank 0 waits for a message of any rank (tag 6), and none sends it one");
  scene.sends(1, 0, 400'000, 6, false);
  EXPECT_EQ(scene.sentence(), "none: ");
}

TEST(MessageStall, OfOneThatBothHaveBegun) {
  Scene scene(2);
  scene.receives(0, 1);
  scene.sends(1, 0, 400'000);
  EXPECT_EQ(
      scene.sentence(),
      "message: rank 0 waits for message 1 of rank 1 (tag 0), which sends it: what is between them is late or lost");
}

// Whom a call of all ranks waits for is named, not who waits for a message of one that is in it.
TEST(MessageStall, LeavesLateRanksToTheirCalls) {
  Scene scene(3);
  scene.is_in_barrier(0, 1, 2);
  scene.is_in_barrier(1, 1, 2);
  scene.receives(1, 0);
  EXPECT_EQ(scene.sentence(),
            "late: rank 2 has not called barrier #1; it has called nothing yet; ranks 0, 1 wait for it");
}

TEST(MessageStall, IsNoneWhereNobodyWaits) {
  Scene scene(2);
  scene.receives(0, 1, 0, false);
  scene.sends(1, 0, 400'000, 3, false);
  EXPECT_EQ(scene.sentence(), "none: ");
}

// Good-bye of a rank that nobody needs explains nothing.
TEST(MessageStall, OfARankThatHasLeft) {
  Scene scene(3);
  scene[1].health = Health::left;
  scene.receives(0, 2);
  EXPECT_EQ(scene.sentence(),
            "message: rank 0 waits for message 1 of rank 2 (tag 0), which has sent none and is in no call");
  scene[1].health = Health::alive;
  scene[2].health = Health::left;
  EXPECT_EQ(scene.sentence(), "left: rank 2 has left; rank 0 waits for message 1 of rank 2 (tag 0)");
}

}  // namespace
}  // namespace banyan::run
