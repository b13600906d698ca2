#include "banyan/run/transport/shared_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "banyan/run/system/processes.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

std::vector<std::byte> bytes_of(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Both ends in one process.
struct Pair {
  Pair() {
    auto [first, second] = Switchboard::make_local_pair();
    offers = std::make_unique<SharedConnection>(1, std::move(first), true, 4096);
    expects = std::make_unique<SharedConnection>(0, std::move(second), false);
    EXPECT_TRUE(expects->peek().empty());
    EXPECT_TRUE(offers->peek().empty());
  }
  std::unique_ptr<SharedConnection> offers, expects;
};

bool is_readable(int fd) {
  pollfd polled{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&polled, 1, 0) == 1;
}

TEST(SharedConnection, CarriesBytesBothWaysThroughMemoryOnly) {
  Pair pair;
  ASSERT_TRUE(pair.offers->is_shared());
  ASSERT_TRUE(pair.expects->is_shared());
  EXPECT_FALSE(pair.offers->uses_links());
  EXPECT_EQ(pair.offers->write(bytes_of("hea"), bytes_of("body")), 7u);
  EXPECT_EQ(pair.expects->write(bytes_of("back"), {}), 4u);
  EXPECT_EQ(text_of(pair.expects->peek()), "heabody");
  pair.expects->consume(3);
  std::vector<std::byte> rest(10);
  EXPECT_EQ(pair.expects->read(rest), 4u);
  EXPECT_EQ(text_of(std::span(rest).first(4)), "body");
  EXPECT_EQ(text_of(pair.offers->peek()), "back");
}

TEST(SharedConnection, CarriesMuchBetweenProcessesThatSleep) {
  MeetingPoint place(3);
  const auto body = [&](uint32_t rank) -> std::string {
    LaneTransport transport(place.connector(rank),
                            {.rank = rank, .ranks = 3, .path = {}, .shares_memory = [](uint32_t) { return true; }});
    for (uint32_t round = 0; round < 3; ++round) {
      const uint32_t peer = (round + 3 - rank) % 3;
      if (peer == rank) continue;
      const std::string result = exchange(transport, peer, 20'000'000, rank);
      if (result != "0 wrong") return result;
    }
    return "right";
  };
  EXPECT_THAT(run_processes(3, seconds(60), body), Each("right"));
}

TEST(SharedConnection, WakesAReaderThatSleepsOnlyOnce) {
  Pair pair;
  pair.expects->peek();
  EXPECT_EQ(pair.expects->before_sleep(), POLLIN);
  EXPECT_FALSE(is_readable(pair.expects->fd()));
  pair.offers->write(bytes_of("a"), {});
  pair.offers->write(bytes_of("b"), {});
  EXPECT_TRUE(is_readable(pair.expects->fd()));
  std::byte bells[8];
  EXPECT_EQ(recv(pair.expects->fd(), bells, sizeof bells, MSG_PEEK), 1);
  pair.expects->after_sleep();
  EXPECT_FALSE(is_readable(pair.expects->fd()));
  EXPECT_EQ(text_of(pair.expects->peek()), "ab");
}

TEST(SharedConnection, DoesNotSleepOnWhatHasChangedMeanwhile) {
  Pair pair;
  pair.expects->peek();
  pair.offers->write(bytes_of("a"), {});
  EXPECT_EQ(pair.expects->before_sleep(), Connection::kNoSleep);
  EXPECT_EQ(pair.expects->before_sleep(), 0);  // nothing was tried since
}

TEST(SharedConnection, WakesAWriterWhenHalfOfItsRingIsFree) {
  Pair pair;
  const std::vector<std::byte> much(5000);
  EXPECT_EQ(pair.offers->write(much, {}), 4096u);
  EXPECT_EQ(pair.offers->before_sleep(), POLLIN);
  pair.expects->peek();
  pair.expects->consume(2047);
  EXPECT_FALSE(is_readable(pair.offers->fd()));
  pair.expects->consume(1);
  EXPECT_TRUE(is_readable(pair.offers->fd()));
  pair.offers->after_sleep();
  EXPECT_EQ(pair.offers->write(much, {}), 2048u);
}

TEST(SharedConnection, ShowsWhatCameBeforeThePeerWasLost) {
  Pair pair;
  pair.expects->peek();
  ASSERT_EQ(pair.expects->before_sleep(), POLLIN);
  pair.offers->write(bytes_of("last"), {});
  pair.offers.reset();
  pair.expects->after_sleep();
  pair.expects->after_sleep();
  EXPECT_EQ(text_of(pair.expects->peek()), "last");
  pair.expects->consume(4);
  EXPECT_THAT(testing::error_of([&] { pair.expects->peek(); }, ErrorCode::peer_lost), HasSubstr("rank 0"));
  EXPECT_THROW(pair.expects->write(bytes_of("x"), {}), Error);
}

// Between the moment when it was made and this one. Who takes up connections expects no error of this kind.
TEST(SharedConnection, IsMadeOfASocketThatIsLostAlready) {
  for (const bool offers : {true, false}) {
    auto [first, second] = Switchboard::make_local_pair();
    second = {};
    SharedConnection connection(1, std::move(first), offers);
    std::vector<std::byte> into(10);
    EXPECT_EQ(testing::thrown_by([&] { connection.read(into); }).code(), ErrorCode::peer_lost) << offers;
  }
}

TEST(SharedConnection, GoesByTheSocketWhereItsMemoryIsNotSeen) {
  auto [own, other] = Switchboard::make_local_pair();
  SharedConnection connection(1, std::move(own), true, 4096);
  std::vector<std::byte> offer(200);
  EXPECT_EQ(recv(other.get(), offer.data(), offer.size(), 0), 32);
  EXPECT_EQ(connection.write(bytes_of("too early"), {}), 0u);
  EXPECT_EQ(send(other.get(), "\0back", 5, 0), 5);
  EXPECT_EQ(text_of(connection.peek()), "back");
  EXPECT_EQ(connection.write(bytes_of("now"), {}), 3u);
  std::byte came[8];
  EXPECT_EQ(recv(other.get(), came, sizeof came, 0), 3);
  EXPECT_TRUE(connection.uses_links());
}

// An offer as it stands on the wire, of memory that is not there.
TEST(SharedConnection, RefusesMemoryItCannotSeeAndTakesTheSocket) {
  Pair sample;
  auto [own, other] = Switchboard::make_local_pair();
  SharedConnection connection(0, std::move(own), false);
  struct {
    uint64_t magic = 0x3167'6e69'7279'6e61, proof = 1, ring_bytes = 4096;
    int32_t process = getpid(), fd = 1'000'000;
  } offer;
  EXPECT_EQ(send(other.get(), &offer, 20, 0), 20);
  EXPECT_TRUE(connection.peek().empty());
  EXPECT_EQ(send(other.get(), reinterpret_cast<const char*>(&offer) + 20, 12, 0), 12);
  EXPECT_TRUE(connection.peek().empty());
  std::byte answer{9};
  EXPECT_EQ(recv(other.get(), &answer, 1, 0), 1);
  EXPECT_EQ(answer, std::byte{0});
  EXPECT_EQ(send(other.get(), "bytes", 5, 0), 5);
  EXPECT_EQ(text_of(connection.peek()), "bytes");
}

TEST(SharedConnection, RefusesWhatIsNoOffer) {
  for (const uint64_t ring_bytes : {uint64_t{0}, uint64_t{4095}, uint64_t{1} << 40}) {
    auto [own, other] = Switchboard::make_local_pair();
    SharedConnection connection(0, std::move(own), false);
    const uint64_t offer[4] = {0x3167'6e69'7279'6e61, 1, ring_bytes, 0};
    EXPECT_EQ(send(other.get(), offer, sizeof offer, 0), 32);
    EXPECT_THROW(connection.peek(), Error) << ring_bytes;
  }
}

TEST(ByteRing, RefusesPositionsThatCannotBe) {
  alignas(64) std::array<std::byte, 8192> memory{};
  ASSERT_LE(ByteRing::memory_bytes(4096), memory.size());
  ByteRing::create(memory.data());
  ByteRing ring(memory.data(), 4096);
  const uint64_t far = 5000;
  std::memcpy(memory.data(), &far, sizeof far);  // what the writer has written
  EXPECT_THROW(ring.peek(), Error);
  EXPECT_THROW(ring.room(), Error);
}

}  // namespace
}  // namespace banyan::run
