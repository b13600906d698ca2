#include "banyan/run/transport/lane_transport.h"

#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "banyan/run/transport/shared_connection.h"
#include "banyan/run/transport/tcp_connection.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Answers when the test says so, with one end of a pair of sockets.
class HandConnector : public AnsweringConnector {
 public:
  void request(uint32_t peer, uint32_t lane, const Path& path) override {
    asked_.push_back({peer, lane});
    paths_.push_back(path);
  }

  FileDescriptor connect(uint32_t peer, uint32_t lane) {
    std::array<FileDescriptor, 2> ends = Switchboard::make_local_pair();
    give(peer, lane, std::move(ends[0]));
    return std::move(ends[1]);
  }
  void give(uint32_t peer, uint32_t lane, FileDescriptor socket) {
    answer({.peer = peer, .lane = lane, .socket = std::move(socket), .failure = {}});
  }
  void refuse(uint32_t peer, uint32_t lane, Error error) {
    answer({.peer = peer, .lane = lane, .socket = {}, .failure = std::move(error)});
  }

  std::vector<std::pair<uint32_t, uint32_t>> asked_;
  std::vector<Path> paths_;
};

struct Fixture {
  Fixture() {
    auto hand = std::make_unique<HandConnector>();
    connector = hand.get();
    transport = std::make_unique<LaneTransport>(
        std::move(hand),
        LaneTransport::Options{.ranks = 4, .path = [](uint32_t peer, uint32_t lane) {
                                 return Path{"local" + std::to_string(lane), "peer" + std::to_string(peer)};
                               }});
  }
  HandConnector* connector;
  std::unique_ptr<LaneTransport> transport;
};

constexpr std::byte kBytes[] = {std::byte{1}, std::byte{2}, std::byte{3}};

TEST(LaneTransport, AsksForAConnectionWhenItIsFirstUsedAndNeverTwice) {
  Fixture fixture;
  LaneTransport& transport = *fixture.transport;
  const uint32_t channel = transport.channel(2, 1);
  EXPECT_TRUE(fixture.connector->asked_.empty());
  EXPECT_EQ(transport.write(channel, kBytes, {}), 0u);
  EXPECT_TRUE(transport.peek(channel).empty());
  EXPECT_EQ(fixture.connector->asked_, (std::vector<std::pair<uint32_t, uint32_t>>{{2, 1}}));
  EXPECT_EQ(fixture.connector->paths_.front().local_address, "local1");
  EXPECT_EQ(fixture.connector->paths_.front().peer_address, "peer2");
  const FileDescriptor peer = fixture.connector->connect(2, 1);
  transport.wait(seconds(20));
  EXPECT_EQ(transport.write(channel, kBytes, {}), 3u);
  std::byte received[3];
  EXPECT_EQ(recv(peer.get(), received, 3, 0), 3);
  EXPECT_EQ(received[2], std::byte{3});
}

TEST(LaneTransport, KeepsLanesApart) {
  Fixture fixture;
  LaneTransport& transport = *fixture.transport;
  EXPECT_EQ(transport.channel(3, 0), 3u);
  for (const uint32_t lane : {0u, 1u}) transport.peek(transport.channel(3, lane));
  const FileDescriptor first = fixture.connector->connect(3, 0), second = fixture.connector->connect(3, 1);
  transport.wait(seconds(20));
  EXPECT_TRUE(transport.peek(transport.channel(3, 1)).empty());  // what was looked for in vain is waited for
  ASSERT_EQ(send(second.get(), kBytes, 2, 0), 2);
  transport.wait(seconds(20));
  EXPECT_TRUE(transport.peek(transport.channel(3, 0)).empty());
  EXPECT_EQ(transport.peek(transport.channel(3, 1)).size(), 2u);
}

TEST(LaneTransport, TellsWhyThereIsNoConnectionAndWhenOneIsLost) {
  Fixture fixture;
  LaneTransport& transport = *fixture.transport;
  transport.peek(transport.channel(1, 0));
  fixture.connector->refuse(1, 0, Error(ErrorCode::timed_out, "rank 1 did not answer"));
  transport.wait(seconds(20));
  EXPECT_THROW(transport.write(transport.channel(1, 0), kBytes, {}), Error);

  FileDescriptor peer = fixture.connector->connect(2, 0);
  transport.peek(transport.channel(2, 0));
  peer.reset();
  EXPECT_THAT(testing::error_of(
                  [&] {
                    while (transport.peek(transport.channel(2, 0)).empty()) transport.wait(milliseconds(10));
                  },
                  ErrorCode::peer_lost),
              HasSubstr("rank 2"));
}

TEST(LaneTransport, AsksForTheMemoryOfEachConnectionBeforeItIsMadeAndLetsGoOfIt) {
  uint64_t held = 0, shared = 0;
  const auto hold = [&](uint64_t bytes, bool is_shared) {
    if (held + bytes > (1u << 20)) throw Error(ErrorCode::unsupported, "there is not so much");
    held += bytes;
    shared += is_shared ? 1 : 0;
    return std::shared_ptr<void>(nullptr, [&held, bytes](void*) { held -= bytes; });
  };
  auto hand = std::make_unique<HandConnector>();
  HandConnector& connector = *hand;
  LaneTransport transport(std::move(hand),
                          {.ranks = 4, .shares_memory = [](uint32_t peer) { return peer < 3; }, .holder = hold});
  std::vector<FileDescriptor> peers;
  const auto connect = [&](uint32_t peer, uint32_t lane) {
    transport.peek(transport.channel(peer, lane));
    peers.push_back(connector.connect(peer, lane));
    transport.peek(transport.channel(peer, lane));
  };
  connect(3, 0);
  const uint64_t of_tcp = TcpConnection::kBufferBytes, of_both = of_tcp + SharedConnection::memory_bytes();
  EXPECT_EQ(held, of_tcp);
  connect(1, 0);
  EXPECT_EQ(held, of_tcp + of_both);
  EXPECT_EQ(shared, 1u);
  EXPECT_THAT(testing::error_of([&] { connect(2, 0); }), HasSubstr("not so much"));
  transport.drop_if([](uint32_t) { return true; });
  EXPECT_EQ(held, 0u);
}

TEST(LaneTransport, ListensToAPeerThatDoesNotCallForAsLongAsItTakes) {
  Fixture fixture;
  LaneTransport& transport = *fixture.transport;
  const uint32_t channel = transport.channel(2, 1);
  const Error late(ErrorCode::timed_out, "rank 2 has not called this rank within 1 s");
  EXPECT_FALSE(transport.listen(channel));
  for (int i = 0; i < 3; ++i) {
    fixture.connector->refuse(2, 1, late);
    transport.wait(seconds(20));
    EXPECT_FALSE(transport.listen(channel));
  }
  EXPECT_EQ(fixture.connector->asked_.size(), 4u);
  FileDescriptor peer = fixture.connector->connect(2, 1);
  transport.wait(seconds(20));
  EXPECT_TRUE(transport.listen(channel));
  ASSERT_EQ(send(peer.get(), kBytes, 3, 0), 3);
  std::byte received[3];
  while (transport.read(channel, received) == 0) transport.wait(seconds(20));
  EXPECT_EQ(received[2], std::byte{3});
}

TEST(LaneTransport, GivesWhoNeedsAPeerAllItsTimeAfterItWasOnlyListenedTo) {
  Fixture fixture;
  LaneTransport& transport = *fixture.transport;
  const uint32_t channel = transport.channel(2, 1);
  const Error late(ErrorCode::timed_out, "rank 2 has not called this rank within 1 s");
  EXPECT_FALSE(transport.listen(channel));
  EXPECT_EQ(transport.write(channel, kBytes, {}), 0u);
  EXPECT_EQ(fixture.connector->asked_.size(), 1u);
  fixture.connector->refuse(2, 1, late);  // of the first request, which may have been made long before
  EXPECT_EQ(transport.write(channel, kBytes, {}), 0u);
  EXPECT_EQ(fixture.connector->asked_.size(), 2u);
  fixture.connector->refuse(2, 1, late);
  EXPECT_THROW(transport.write(channel, kBytes, {}), Error);

  const uint32_t other = transport.channel(3, 1);
  EXPECT_FALSE(transport.listen(other));
  fixture.connector->refuse(3, 1, Error(ErrorCode::peer_lost, "rank 3 was lost"));
  EXPECT_THROW(transport.listen(other), Error);
}

// ---- Ways that carry nothing ----

LaneHealth only_health(LaneTransport& transport) {
  const std::vector<LaneHealth> all = transport.health();
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

// Lane i goes to the peer by the way of i % 2.
std::unique_ptr<LaneTransport> two_ways(std::unique_ptr<Connector> connector) {
  const auto path = [](uint32_t /*peer*/, uint32_t lane) { return Path{"here", "way " + std::to_string(lane % 2)}; };
  return std::make_unique<LaneTransport>(std::move(connector), LaneTransport::Options{.ranks = 4, .path = path});
}

// Who sleeps for long without a look at the clock was stopped, for all that it knows.
void stay_awake_for(milliseconds time) {
  const auto begin = AwakeClock::now();
  while (AwakeClock::now() - begin < time) std::this_thread::sleep_for(milliseconds(10));
}

milliseconds time_to_be_lost(LaneTransport& transport) {
  const auto begin = std::chrono::steady_clock::now();
  const auto took = [&] { return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin); };
  while (!only_health(transport).is_lost && took() < seconds(20)) std::this_thread::sleep_for(milliseconds(10));
  return took();
}

TEST(LaneTransport, RemembersForTheNextLaneHowLongAWayHasBeenSilent) {
  const auto transport = two_ways(std::make_unique<HandConnector>());
  transport->peek(transport->channel(2, 0));
  EXPECT_GE(time_to_be_lost(*transport), LaneTransport::kPatience - milliseconds(50));
  transport->drop_if([](uint32_t lane) { return lane == 0; });
  transport->peek(transport->channel(2, 2));
  EXPECT_FALSE(only_health(*transport).is_lost) << "it may be answered";
  EXPECT_GE(only_health(*transport).silent, LaneTransport::kPatience);
  EXPECT_LT(time_to_be_lost(*transport), LaneTransport::kPatience - milliseconds(500));
  transport->drop_if([](uint32_t lane) { return lane == 2; });
  transport->peek(transport->channel(2, 1));
  EXPECT_LT(only_health(*transport).silent, LaneTransport::kFirstAnswer) << "nothing is known of the other way";
  transport->drop_if([](uint32_t lane) { return lane == 1; });
  // Nobody has asked for a while, so the silence says nothing.
  stay_awake_for(LaneTransport::kFirstAnswer + milliseconds(100));
  transport->peek(transport->channel(2, 4));
  EXPECT_LT(only_health(*transport).silent, LaneTransport::kFirstAnswer);
}

TEST(LaneTransport, FindsAnIdleLaneMuteWhoseOtherEndAnswersNoQuestions) {
  auto hand = std::make_unique<HandConnector>();
  HandConnector& connector = *hand;
  const auto transport = two_ways(std::move(hand));
  transport->peek(transport->channel(2, 0));
  std::array<FileDescriptor, 2> ends = make_tcp_pair();
  connector.give(2, 0, std::move(ends[0]));
  transport->wait(seconds(20));
  stay_awake_for(LaneTransport::kPatience + milliseconds(1500));
  EXPECT_FALSE(only_health(*transport).is_mute);
  EXPECT_LT(only_health(*transport).silent, milliseconds(1500)) << "it was asked each second";

  // The other end gets nothing any more.
  sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{.len = 1, .filter = nothing};
  ASSERT_EQ(setsockopt(ends[1].get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
  const auto begin = std::chrono::steady_clock::now();
  while (!only_health(*transport).is_mute && std::chrono::steady_clock::now() - begin < seconds(20)) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_TRUE(only_health(*transport).is_mute);
  EXPECT_FALSE(only_health(*transport).is_lost) << "nothing was sent";
  EXPECT_GE(only_health(*transport).silent, LaneTransport::kPatience);
  // The next lane of that way is lost as soon as it is clear that nobody answers.
  transport->drop_if([](uint32_t lane) { return lane == 0; });
  transport->peek(transport->channel(2, 2));
  EXPECT_LT(time_to_be_lost(*transport), LaneTransport::kPatience - milliseconds(500));
}

TEST(LaneTransport, IsWokenByAnotherThread) {
  Fixture fixture;
  std::thread other([&] { fixture.transport->wake(); });
  const auto begin = std::chrono::steady_clock::now();
  fixture.transport->wait(seconds(60));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
  other.join();
}

// Of the packets that this socket sends.
int ds_field(const FileDescriptor& socket, int family) {
  int field = -1;
  socklen_t size = sizeof field;
  const bool is_four = family == AF_INET;
  getsockopt(socket.get(), is_four ? IPPROTO_IP : IPPROTO_IPV6, is_four ? IP_TOS : IPV6_TCLASS, &field, &size);
  return field;
}

// Lanes of one family to all peers, whose sockets the test sees.
class MarkedLanes : public ::testing::TestWithParam<int> {
 protected:
  void connect(uint32_t peer, uint32_t lane) {
    std::array<FileDescriptor, 2> ends = make_tcp_pair(GetParam());
    lanes_.emplace_back(dup(ends[0].get()));
    peers_.push_back(std::move(ends[1]));
    fixture_.transport->listen(fixture_.transport->channel(peer, lane));
    fixture_.connector->give(peer, lane, std::move(ends[0]));
    EXPECT_TRUE(fixture_.transport->listen(fixture_.transport->channel(peer, lane)));
  }
  std::vector<int> fields() const {
    std::vector<int> all;
    for (const FileDescriptor& lane : lanes_) all.push_back(ds_field(lane, GetParam()));
    return all;
  }

  Fixture fixture_;
  std::vector<FileDescriptor> lanes_, peers_;
};

TEST_P(MarkedLanes, BearTheCodePointThatWasSaidLastAlsoThoseThatComeLater) {
  try {
    connect(1, 0);
  } catch (const Error& error) {
    if (GetParam() == AF_INET6) GTEST_SKIP() << error.what();
    throw;
  }
  EXPECT_EQ(fields(), (std::vector{0}));
  fixture_.transport->mark(34);
  EXPECT_EQ(fields(), (std::vector{34 << 2}));
  connect(2, 0);
  connect(1, 1);
  EXPECT_EQ(fields(), (std::vector{34 << 2, 34 << 2, 34 << 2}));
  fixture_.transport->mark(8);
  connect(3, 0);
  EXPECT_EQ(fields(), (std::vector{8 << 2, 8 << 2, 8 << 2, 8 << 2}));
  fixture_.transport->mark(0);
  EXPECT_EQ(fields(), (std::vector{0, 0, 0, 0}));
  fixture_.transport->drop_if([](uint32_t lane) { return lane == 1; });
  fixture_.transport->mark(63);
  EXPECT_EQ(fields(), (std::vector{63 << 2, 63 << 2, 0, 63 << 2})) << "one that is dropped is not ours any more";
}

INSTANTIATE_TEST_SUITE_P(ByFamily, MarkedLanes, ::testing::Values(AF_INET, AF_INET6),
                         [](const auto& family) { return family.param == AF_INET ? "IPv4" : "IPv6"; });

}  // namespace
}  // namespace banyan::run
