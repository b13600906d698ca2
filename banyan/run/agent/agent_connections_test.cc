#include "banyan/run/agent/agent_connections.h"

#include "banyan/testing/simulated_network.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint8_t kKind = 1;

// Two ranks, of which 0 sends and 1 hears.
class AgentConnectionsTest : public ::testing::Test {
 protected:
  struct End {
    End(AgentConnectionsTest& test, uint32_t own)
        : connections(test.time_, test.network_.dialer(own), {.own = own, .size = 2},
                      {.received = [this](uint32_t, const Message& message) { sizes.push_back(message.body.size()); },
                       .connected = [](uint32_t) {},
                       .sign_of_life = [](uint32_t) {},
                       .unreachable = [](uint32_t, const std::string&, bool) {},
                       .refused = [](uint32_t) {},
                       .dropped = [this](uint32_t, size_t waiting) { drops.push_back(waiting); },
                       .lost = [this](uint32_t, const std::string& why) { losses.push_back(why); },
                       .noticed = [](uint32_t, const std::string&) {}}) {
      test.network_.listen(own, [this](uint32_t from, std::unique_ptr<ByteStream> stream) {
        connections.adopt(from, std::move(stream));
      });
    }
    std::vector<size_t> sizes, drops;  // of what it has heard; what waited each time that it was told of drops
    std::vector<std::string> losses;
    AgentConnections connections;
  };

  void send(size_t bytes) { sender_.connections.send(1, {.kind = kKind, .body = std::string(bytes, 'x')}); }

  testing::SimulatedTime time_;
  testing::SimulatedNetwork network_{time_, {.processes = 2}};
  End sender_{*this, 0}, hearer_{*this, 1};
};

TEST_F(AgentConnectionsTest, RefuseWhatThePeerWouldTakeForNonsense) {
  send(1);
  try {
    send(AgentConnections::kMaxMessage + 1);
    FAIL() << "it was sent";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_STREQ(error.what(), "a message of 33554433 bytes is not sent; the most is 33554432");
  }
  send(AgentConnections::kMaxMessage);
  send(2);
  time_.run_for(milliseconds(30'000));
  EXPECT_THAT(hearer_.sizes, ElementsAre(1, AgentConnections::kMaxMessage, 2));
  EXPECT_THAT(hearer_.losses, IsEmpty());
}

TEST_F(AgentConnectionsTest, TellOnceThatMessagesAreDropped) {
  constexpr size_t kBytes = size_t{1} << 20, kFit = AgentConnections::kMaxQueued / kBytes;
  for (const size_t round : {1, 2}) {
    network_.cut({0});
    for (size_t i = 0; i < kFit + 10; ++i) send(kBytes);
    EXPECT_EQ(sender_.drops, std::vector<size_t>(round, AgentConnections::kMaxQueued));
    network_.heal();
    time_.run_for(milliseconds(60'000));
    EXPECT_EQ(hearer_.sizes, std::vector<size_t>(round * kFit, kBytes)) << "what was not dropped arrives";
  }
  EXPECT_THAT(hearer_.losses, IsEmpty());
}

}  // namespace
}  // namespace banyan::run
