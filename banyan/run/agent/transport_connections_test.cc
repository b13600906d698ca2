#include <poll.h>
#include <sys/socket.h>

#include "banyan/run/agent/agent.h"
#include "banyan/run/agent/test_worlds.h"
#include "banyan/run/join/test_calls.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Member = ForkedWorld::Member;

constexpr uint64_t kGroup = 5;

std::vector<uint32_t> all_of(uint32_t size) {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

// The next answer; one without socket and failure when none comes.
Connector::Answer next_answer(Connector& connector, std::vector<Connector::Answer>& stored) {
  const auto deadline = soon();
  while (stored.empty() && Agent::Clock::now() < deadline) {
    pollfd polled{.fd = connector.event_fd(), .events = POLLIN, .revents = 0};
    poll(&polled, 1, 1000);
    stored = connector.take();
  }
  if (stored.empty()) return {};
  Connector::Answer answer = std::move(stored.back());
  stored.pop_back();
  return answer;
}

Connector::Answer next_answer(Connector& connector) {
  std::vector<Connector::Answer> stored;
  Connector::Answer answer = next_answer(connector, stored);
  EXPECT_TRUE(stored.empty());
  return answer;
}

void write_number(const FileDescriptor& socket, uint64_t number) {
  EXPECT_EQ(send(socket.get(), &number, sizeof number, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof number));
}

// Zero when it is hung up on.
uint64_t read_number(const FileDescriptor& socket) {
  uint64_t number = 0;
  pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, static_cast<int>(milliseconds(ForkedWorld::kLong).count())), 1);
  const ssize_t count = recv(socket.get(), &number, sizeof number, 0);
  EXPECT_TRUE(count == 0 || count == static_cast<ssize_t>(sizeof number));
  return number;
}

uint64_t number_of(uint32_t from, uint32_t to, uint32_t lane) { return uint64_t{from + 1} << 32 | to << 8 | lane; }

TEST(TransportConnections, JoinAllWithAll) {
  constexpr uint32_t kSize = 8, kLanes = 2;
  LocalWorld world(kSize);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    ranks.emplace_back([&world, rank] {
      const auto connector = world[rank].connector(kGroup, all_of(kSize), rank, milliseconds(ForkedWorld::kLong));
      std::map<std::pair<uint32_t, uint32_t>, FileDescriptor> sockets;
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        for (uint32_t peer = 0; peer < kSize; ++peer) {
          if (peer != rank) connector->request(peer, lane, {.local_address = "127.0.0.1", .peer_address = "127.0.0.1"});
        }
      }
      std::vector<Connector::Answer> stored;
      while (sockets.size() < kLanes * (kSize - 1)) {
        Connector::Answer answer = next_answer(*connector, stored);
        ASSERT_TRUE(answer.socket.is_open()) << (answer.failure ? answer.failure->what() : "nothing came");
        write_number(answer.socket, number_of(rank, answer.peer, answer.lane));
        sockets[{answer.peer, answer.lane}] = std::move(answer.socket);
      }
      for (const auto& [key, socket] : sockets) {
        EXPECT_EQ(read_number(socket), number_of(key.first, rank, key.second));
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(TransportConnections, WaitForACalleeThatAsksLater) {
  LocalWorld world(2);
  const auto caller = world[0].connector(kGroup, {0, 1}, 0, milliseconds(ForkedWorld::kLong));
  caller->request(1, 3, {});
  const Connector::Answer called = next_answer(*caller);
  ASSERT_TRUE(called.socket.is_open());
  write_number(called.socket, 42);

  const auto callee = world[1].connector(kGroup, {0, 1}, 1, milliseconds(ForkedWorld::kLong));
  callee->request(0, 3, {});
  const Connector::Answer answer = next_answer(*callee);
  ASSERT_TRUE(answer.socket.is_open());
  EXPECT_EQ(answer.peer, 0u);
  EXPECT_EQ(answer.lane, 3u);
  EXPECT_EQ(read_number(answer.socket), 42u);
}

TEST(TransportConnections, KeepCommunicatorsApart) {
  LocalWorld world(3);
  const auto pair = world[2].connector(1, {0, 2}, 1, milliseconds(ForkedWorld::kLong));
  const auto all = world[2].connector(2, {0, 1, 2}, 2, milliseconds(ForkedWorld::kLong));
  pair->request(0, 0, {});
  all->request(0, 0, {});
  const auto caller_in_all = world[0].connector(2, {0, 1, 2}, 0, milliseconds(ForkedWorld::kLong));
  const auto caller_in_pair = world[0].connector(1, {0, 2}, 0, milliseconds(ForkedWorld::kLong));
  caller_in_all->request(2, 0, {});
  caller_in_pair->request(1, 0, {});
  const Connector::Answer in_all = next_answer(*caller_in_all), in_pair = next_answer(*caller_in_pair);
  write_number(in_all.socket, 2);
  write_number(in_pair.socket, 1);
  EXPECT_EQ(read_number(next_answer(*pair).socket), 1u);
  EXPECT_EQ(read_number(next_answer(*all).socket), 2u);
}

TEST(TransportConnections, HangUpOnCallersWhenTheirCommunicatorIsClosed) {
  LocalWorld world(2);
  const auto caller = world[0].connector(kGroup, {0, 1}, 0, milliseconds(ForkedWorld::kLong));
  caller->request(1, 0, {});
  const Connector::Answer parked = next_answer(*caller);
  ASSERT_TRUE(parked.socket.is_open());
  world[1].connector(kGroup, {0, 1}, 1, milliseconds(1000)).reset();
  EXPECT_EQ(read_number(parked.socket), 0u);

  caller->request(1, 1, {});
  EXPECT_EQ(read_number(next_answer(*caller).socket), 0u);
  EXPECT_THAT(world[1].refusals().last, ::testing::ElementsAre(HasSubstr("a communicator that this rank has closed")));
}

TEST(TransportConnections, TimeOutWithTheNameOfWhoDidNotCome) {
  LocalWorld world(2);
  const auto callee = world[1].connector(kGroup, {0, 1}, 1, milliseconds(50));
  callee->request(0, 0, {});
  const Connector::Answer answer = next_answer(*callee);
  ASSERT_TRUE(answer.failure);
  EXPECT_EQ(answer.failure->code(), ErrorCode::timed_out);
  EXPECT_STREQ(answer.failure->what(), "rank 0 has not called this rank within 50 ms");

  const auto caller = world[0].connector(kGroup, {0, 1}, 0, milliseconds(50));
  caller->request(1, 0, {.local_address = "", .peer_address = "127.0.0.2"});  // nobody listens there
  const Connector::Answer unreachable = next_answer(*caller);
  ASSERT_TRUE(unreachable.failure);
  EXPECT_EQ(unreachable.failure->code(), ErrorCode::timed_out);
  EXPECT_THAT(unreachable.failure->what(), HasSubstr("no connection to rank 1 was possible within 50 ms (127.0.0.2:"));
  // It may be asked for again.
  callee->request(0, 0, {});
  caller->request(1, 0, {});
  EXPECT_TRUE(next_answer(*caller).socket.is_open());
}

TEST(TransportConnections, FailWhenThePeerDies) {
  for (const uint32_t dead : {0u, 1u}) {
    ForkedWorld world({"a", "b"}, [dead](Member& member) -> std::string {
      const auto agent = start_agent(member);
      const auto connector = agent->connector(kGroup, {0, 1}, member.rank(), milliseconds(ForkedWorld::kLong));
      member.say(1);
      if (member.rank() == dead) {
        member.wait_for_test(9);
        return "";
      }
      // A caller has a connection that the callee has not asked for; a callee waits in vain. The next one fails at
      // once.
      connector->request(dead, 0, {});
      member.say(2);
      if (!wait_for_state(*agent, dead, Health::dead)) return "it was not noticed";
      connector->request(dead, 1, {});
      std::vector<Connector::Answer> stored;
      std::string text;
      for (int count = 0; count < 2; ++count) {
        const Connector::Answer answer = next_answer(*connector, stored);
        if (answer.failure) text += std::to_string(answer.lane) + ": " + answer.failure->what() + "; ";
      }
      return text;
    });
    ASSERT_TRUE(world.all_say(1));
    ASSERT_TRUE(world.board().wait_for(1 - dead, 2));
    world.strike(dead, SIGKILL);
    const std::string report = world.report(1 - dead);
    EXPECT_THAT(report, HasSubstr("1: rank " + std::to_string(dead) + " was lost: process "));
    EXPECT_EQ(report.find("0: rank 0 was lost") != std::string::npos, dead == 0);
  }
}

// What it has sent may be behind a greeting that was lost on its way.
TEST(TransportConnections, WaitForCallersWhenThePeerHasLeft) {
  LocalWorld world(2);
  Agent& callee = world[1];
  const auto connector = world[1].connector(kGroup, {0, 1}, 1, milliseconds(ForkedWorld::kLong));
  FileDescriptor stranger = call(callee.members()[1].port);
  // Callers are taken in their order, so the stranger has been noticed when this one has.
  const auto caller = world[0].connector(kGroup, {0, 1}, 0, milliseconds(ForkedWorld::kLong));
  caller->request(1, 7, {});
  connector->request(0, 7, {});
  ASSERT_TRUE(next_answer(*connector).socket.is_open());
  connector->request(0, 0, {});
  world[0].leave(soon());
  ASSERT_TRUE(wait_for_state(callee, 0, Health::left));
  connector->request(0, 1, {});
  pollfd polled{.fd = connector->event_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 100), 0);
  stranger.reset();
  std::vector<Connector::Answer> stored;
  for (int count = 0; count < 2; ++count) {
    const Connector::Answer answer = next_answer(*connector, stored);
    ASSERT_TRUE(answer.failure);
    EXPECT_THAT(answer.failure->what(), HasSubstr("rank 0 was lost: "));
    EXPECT_THAT(answer.failure->what(), HasSubstr("has left in peace"));
  }
}

}  // namespace
}  // namespace banyan::run
