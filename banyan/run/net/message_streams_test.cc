// Streams of messages that are renewed, over TCP on this machine.
#include "banyan/run/net/message_streams.h"

#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kLanes = 4, kMessageLane = 1;

std::byte byte_at(uint32_t rank, uint64_t position) {
  return static_cast<std::byte>(position * 131 + position / 251 + rank * 17);
}

// Two ranks in one thread. Which lane their stream takes changes with each renewal.
class Pair {
 public:
  explicit Pair(bool has_checksums = false) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      transports_[rank] = std::make_unique<LaneTransport>(
          board_.connector(rank), LaneTransport::Options{.rank = rank, .ranks = 2, .checksums = has_checksums});
      ends_[rank] = std::make_unique<MessageStreams>(
          *transports_[rank], MessageStreams::Options{.rank = rank,
                                                      .ranks = 2,
                                                      .channel =
                                                          [this, rank](uint32_t peer) {
                                                            return transports_[rank]->channel(
                                                                peer, generation_[rank] * kLanes + kMessageLane);
                                                          },
                                                      .control = transports_[rank]->lane_control()});
    }
    ends_[0]->listen(1);  // the lower rank calls, so there is no connection before it wants one
  }
  MessageStreams& operator[](uint32_t rank) { return *ends_[rank]; }
  LaneTransport& transport(uint32_t rank) { return *transports_[rank]; }

  void stop() {
    for (const auto& end : ends_) end->stop();
  }
  void renew(uint32_t rank) {
    ++generation_[rank];
    ends_[rank]->renew();
  }

 private:
  Switchboard board_{Switchboard::Kind::tcp};
  std::array<uint32_t, 2> generation_{};
  std::array<std::unique_ptr<LaneTransport>, 2> transports_;
  std::array<std::unique_ptr<MessageStreams>, 2> ends_;
};

// Sends messages of all lengths to the other rank, and reads what comes from it. The memory of a message is spoilt as
// soon as it is over.
class Talker {
 public:
  Talker(Pair& pair, uint32_t rank, uint64_t seed) : pair_(pair), rank_(rank), random_(seed) {}

  bool step() {
    bool moved = pair_[rank_].advance();
    for (int i = 0; i < 4; ++i) moved = write() || moved;
    for (int i = 0; i < 4; ++i) moved = read() || moved;
    return moved;
  }
  void end() { is_over_ = true; }
  bool is_done() const { return is_over_ && !is_under_way_; }
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  uint64_t wrong() const { return wrong_; }

 private:
  bool write() {
    const uint32_t peer = 1 - rank_;
    if (!is_under_way_ && is_over_) return false;
    if (!is_under_way_) begin();
    const size_t before = done_;
    if (done_ < message_.size()) {
      const std::span<const std::byte> rest = std::span<const std::byte>(message_).subspan(done_);
      const size_t of_head = done_ < kHead ? kHead - done_ : 0;
      done_ += pair_[rank_].write(peer, rest.first(of_head), rest.subspan(of_head));
    }
    is_under_way_ = done_ < message_.size() || pair_[rank_].has_unsent(peer);
    if (!is_under_way_) std::fill(message_.begin(), message_.end(), std::byte{0xee});
    return done_ > before;
  }
  void begin() {
    constexpr std::array<size_t, 5> kMost{1, 100, 5'000, 60'000, 900'000};
    is_under_way_ = true;
    message_.resize(kHead + random_() % kMost[random_() % kMost.size()]);
    for (std::byte& byte : message_) byte = byte_at(rank_, sent_++);
    done_ = 0;
  }
  bool read() {
    Bytes into(1 + random_() % 70'000);
    const size_t count = pair_[rank_].read(1 - rank_, into);
    for (size_t i = 0; i < count; ++i) wrong_ += into[i] == byte_at(1 - rank_, received_++) ? 0 : 1;
    return count > 0;
  }

  static constexpr size_t kHead = 16;
  Pair& pair_;
  const uint32_t rank_;
  std::mt19937_64 random_;
  Bytes message_;
  size_t done_ = 0;
  bool is_under_way_ = false, is_over_ = false;
  uint64_t sent_ = 0, received_ = 0, wrong_ = 0;
};

std::string talk(uint64_t seed, bool has_checksums) {
  std::mt19937_64 random(seed);
  Pair pair(has_checksums);
  Talker talkers[2] = {Talker(pair, 0, seed), Talker(pair, 1, seed + 1000)};
  const uint64_t renewals = random() % 6;
  for (uint64_t renewal = 0; renewal <= renewals; ++renewal) {
    const bool is_mute[2] = {random() % 4 == 0, random() % 4 == 0};  // who does nothing now
    for (uint64_t steps = random() % 300; steps > 0; --steps) {
      const uint64_t rank = random() % 2;
      if (!is_mute[rank]) talkers[rank].step();
    }
    if (renewal == renewals) break;
    pair.stop();
    for (Talker& talker : talkers) talker.step();  // in vain
    const auto first = static_cast<uint32_t>(random() % 2);
    pair.renew(first);
    for (uint64_t steps = random() % 3; steps > 0; --steps) talkers[first].step();
    pair.renew(1 - first);
  }
  for (Talker& talker : talkers) talker.end();
  for (int idle = 0; idle < 20'000;) {
    const bool moved = talkers[0].step() | talkers[1].step();
    const bool is_over = talkers[0].is_done() && talkers[1].is_done() && talkers[0].received() == talkers[1].sent() &&
                         talkers[1].received() == talkers[0].sent();
    if (is_over) break;
    idle = moved ? 0 : idle + 1;
  }
  std::string said;
  for (const uint32_t rank : {0u, 1u}) {
    said += std::to_string(talkers[rank].wrong()) + " wrong, " +
            std::to_string(talkers[1 - rank].sent() - talkers[rank].received()) + " missing; ";
    if (pair[rank].is_renewing()) said += "still renewing; ";
  }
  return said;
}

TEST(MessageStreams, GoOnWhereTheyWereWheneverTheyAreRenewed) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    ASSERT_EQ(talk(seed, seed % 3 == 0), "0 wrong, 0 missing; 0 wrong, 0 missing; ") << "seed " << seed;
  }
}

// What was sent before is not there again.
TEST(MessageStreams, KeepNoMoreThanIsOnItsWay) {
  Pair pair;
  Bytes message(100), into(100);
  for (int i = 0; i < 20'000; ++i) {  // 2 MB
    ASSERT_EQ(pair[0].write(1, {}, message), message.size());
    ASSERT_FALSE(pair[0].has_unsent(1));
    size_t count = 0;
    while (count < into.size()) count += pair[1].read(0, std::span(into).subspan(count));
  }
  EXPECT_LT(pair[0].kept(1), 200'000u);
}

}  // namespace
}  // namespace banyan::run
