#include "banyan/run/trial/lane_meter.h"

#include "banyan/run/engine/message.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Takes a few bytes of every write, and now and then none.
class SlowTransport : public ChannelTransport {
 public:
  explicit SlowTransport(size_t at_once) : at_once_(at_once) {}

  size_t write(uint32_t, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return ++writes_ % 3 == 0 ? 0 : std::min(at_once_, head.size() + body.size());
  }
  std::span<const std::byte> peek(uint32_t) override { return {}; }
  void consume(uint32_t, size_t) override {}
  size_t read(uint32_t, std::span<std::byte>) override { return 0; }
  uint32_t channel(uint32_t peer, uint32_t lane) const override { return 3 * lane + peer; }
  void wake() override {}
  bool has_unsent_but(LaneChoice) override { return false; }
  LaneControl* lane_control() override { return nullptr; }
  void prepare(WaitSet&) override {}
  bool react(std::span<const pollfd>) override { return false; }

 private:
  const size_t at_once_;
  size_t writes_ = 0;
};

// Offers a message again and again until all of it is taken, as a channel does.
void send(Transport& transport, uint32_t peer, const MessageHeader& header, size_t body_bytes, bool opens = false) {
  std::vector<std::byte> head(opens ? sizeof(Opening) : 0);
  head.resize(head.size() + sizeof header);
  std::memcpy(head.data() + head.size() - sizeof header, &header, sizeof header);
  const std::vector<std::byte> body(body_bytes);
  for (size_t done = 0; done < head.size() + body.size();) {
    const size_t of_head = std::min(done, head.size());
    const auto rest_of_head = std::span<const std::byte>(head).subspan(of_head);
    const auto rest_of_body = std::span<const std::byte>(body).subspan(done - of_head);
    done += body_bytes % 2 == 0 ? transport.write(peer, rest_of_head, rest_of_body)
                                : transport.write_lasting(peer, rest_of_head, rest_of_body);
  }
}

// Rank 0 of 3: three streams to rank 1 along two lanes, one to rank 2.
RankPlan sample_plan() {
  RankPlan plan{.rank = 0, .ranks = 3, .streams_to = {0, 0, 0}, .streams_from = {0, 0, 0}};
  plan.lanes = {{.peer = 1, .lane = 0}, {.peer = 1, .lane = 1}, {.peer = 2, .lane = 0}};
  Role role{.length = 100};
  role.out_children = {plan.add_stream_to(1, 1), plan.add_stream_to(2, 0)};
  plan.roles.push_back(role);
  role.out_children = {plan.add_stream_to(1, 0)};
  role.in_parent = plan.add_stream_to(1, 1);
  plan.roles.push_back(role);
  return plan;
}

class LaneMeterOf : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Pieces, LaneMeterOf, ::testing::Values(1, 7, 16, 17, 64, 100'000));

TEST_P(LaneMeterOf, CountsTheElementsOfEachLaneAndNothingElse) {
  const RankPlan plan = sample_plan();
  LaneMeter meter(std::make_unique<SlowTransport>(GetParam()), plan);
  send(meter, 1, {.stream = 0, .kind = MessageKind::first_slice, .number = 100}, 301, true);
  send(meter, 2, {.stream = 0, .kind = MessageKind::first_slice, .number = 100}, 50);
  send(meter, 1, {.stream = 9, .kind = MessageKind::credit, .number = 5}, 0);  // of a stream from rank 1
  send(meter, 1, {.stream = 1, .kind = MessageKind::first_slice, .number = 100}, 20);
  send(meter, 4, {.stream = 2, .kind = MessageKind::first_slice, .number = 100}, 1000);  // of rank 1, too
  send(meter, 1, {.stream = 0, .kind = MessageKind::slice, .number = 1}, 99);
  send(meter, 2, {.stream = 0, .kind = MessageKind::slice, .number = 1}, 3);
  EXPECT_THAT(meter.take(), ElementsAre(20, 301 + 1000 + 99, 53));
  send(meter, 2, {.stream = 0, .kind = MessageKind::slice, .number = 2}, 8);
  EXPECT_THAT(meter.take(), ElementsAre(0, 0, 8));
}

// Messages to several peers go out at the same time, each in pieces.
TEST(LaneMeter, KeepsPeersApartWhileTheirMessagesAreUnderWay) {
  const RankPlan plan = sample_plan();
  LaneMeter meter(std::make_unique<SlowTransport>(sizeof(MessageHeader) + 4), plan);
  std::array<std::byte, sizeof(MessageHeader)> head{};
  const MessageHeader header{.stream = 0, .kind = MessageKind::first_slice, .number = 100};
  std::memcpy(head.data(), &header, sizeof header);
  const std::array<std::byte, 24> body{};
  EXPECT_EQ(meter.write(1, head, body), head.size() + 4);          // 4 of the body
  EXPECT_EQ(meter.write(2, head, body), head.size() + 4);          // 4 of the body
  EXPECT_EQ(meter.write(1, {}, std::span(body).subspan(4)), 0u);   // full
  EXPECT_EQ(meter.write(1, {}, std::span(body).subspan(4)), 20u);  // the rest
  EXPECT_THAT(meter.take(), ElementsAre(0, 24, 4));
}

}  // namespace
}  // namespace banyan::run
