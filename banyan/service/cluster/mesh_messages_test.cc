#include "banyan/service/cluster/mesh_messages.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

std::vector<std::string> every_message() {
  Activity activity{.report = {.communicator = "job.1",
                               .number = 7,
                               .sharer = "1000/train",
                               .weight = 2.5,
                               .share_class = ShareClass::low,
                               .cap = 1e9,
                               .is_under_way = true,
                               .footprint = {{.link = 3, .bytes = 1.5}, {.link = 9, .bytes = 8e6}},
                               .done = 0.25},
                    .members = {{.host = "a", .ranks = {0, 2}}, {.host = "b", .ranks = {1}}}};
  return {
      encode(SessionText{.communicator = "job.1", .ranks = {1, 3}, .text = "hello", .user = 1000}), encode(activity),
      encode(SessionRate{.communicator = "job.2", .ranks = {0}, .rate = 12'500'000}),
      encode(SessionView{.communicator = "job.3", .view = {{.link = 4, .sixteenths = 5}, {.link = 7}}}),
      encode(SessionRefusal{
          .communicator = "job.4", .error = Error(ErrorCode::invalid_usage, "rank 1 is refused", "b"), .user = 1000})};
}

TEST(MeshMessages, SayTheSameAtTheOtherEnd) {
  const auto messages = every_message();
  const auto text = std::get<SessionText>(decode_mesh_message(messages[0]));
  EXPECT_EQ(text.communicator, "job.1");
  EXPECT_THAT(text.ranks, ElementsAre(1, 3));
  EXPECT_EQ(text.text, "hello");
  EXPECT_EQ(text.user, 1000u);
  const auto activity = std::get<Activity>(decode_mesh_message(messages[1]));
  EXPECT_EQ(activity.report.communicator, "job.1");
  EXPECT_EQ(activity.report.number, 7u);
  EXPECT_EQ(activity.report.sharer, "1000/train");
  EXPECT_EQ(activity.report.weight, 2.5);
  EXPECT_EQ(activity.report.share_class, ShareClass::low);
  EXPECT_EQ(activity.report.cap, 1e9);
  EXPECT_TRUE(activity.report.is_under_way);
  ASSERT_EQ(activity.report.footprint.size(), 2u);
  EXPECT_EQ(activity.report.footprint[1].link, 9u);
  EXPECT_EQ(activity.report.footprint[1].bytes, 8e6);
  EXPECT_EQ(activity.report.done, 0.25);
  ASSERT_EQ(activity.members.size(), 2u);
  EXPECT_EQ(activity.members[0].host, "a");
  EXPECT_THAT(activity.members[0].ranks, ElementsAre(0, 2));
  const auto rate = std::get<SessionRate>(decode_mesh_message(messages[2]));
  EXPECT_EQ(rate.communicator, "job.2");
  EXPECT_THAT(rate.ranks, ElementsAre(0));
  EXPECT_EQ(rate.rate, 12'500'000u);
  const auto view = std::get<SessionView>(decode_mesh_message(messages[3]));
  EXPECT_EQ(view.communicator, "job.3");
  EXPECT_THAT(view.view, ElementsAre(LinkPart{.link = 4, .sixteenths = 5}, LinkPart{.link = 7, .sixteenths = 16}));
  const auto refusal = std::get<SessionRefusal>(decode_mesh_message(messages[4]));
  EXPECT_EQ(refusal.communicator, "job.4");
  EXPECT_EQ(refusal.error.code(), ErrorCode::invalid_usage);
  EXPECT_STREQ(refusal.error.what(), "b: rank 1 is refused");
  EXPECT_EQ(refusal.user, 1000u);
}

TEST(MeshMessages, AreRefusedWhenAnythingIsMissingOrTooMuch) {
  for (const std::string& message : every_message()) {
    for (size_t length = 0; length < message.size(); ++length) {
      EXPECT_THROW(decode_mesh_message(message.substr(0, length)), Error) << length;
    }
    EXPECT_THROW(decode_mesh_message(message + "x"), Error);
  }
  EXPECT_THROW(decode_mesh_message("\x03"), Error);
  for (const uint32_t sixteenths : {0u, 17u}) {
    EXPECT_THROW(decode_mesh_message(encode(SessionView{.communicator = "a", .view = {{4, sixteenths}}})), Error);
  }
  std::string answer = encode(OperatorAnswer{.number = 7, .is_refusal = true, .body = "no"});
  answer[1 + sizeof(uint64_t)] = 2;
  EXPECT_THROW(decode_mesh_message(answer), Error) << "a flag";
}

}  // namespace
}  // namespace banyan::service
