#include "banyan/run/agent/process_view.h"

#include "banyan/run/record/test_dumps.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

ProcessView sample() {
  ProcessView view{.rank = 1, .size = 4, .host = "node \"1\"", .pid = 4711, .communicators = {}, .doubts = {}};
  for (const char* name : {"world", "data"}) {
    CommunicatorView communicator{.record = SampleDump(name, 1, 4).add_done(3, 99).get(), .lanes = {}};
    communicator.record.peers = {{.rank = 2, .health = Health::dead, .sequence = 0}};
    communicator.lanes = {{.peer = 0, .lane = 3, .sent = 1'000'000'000'000, .received = 7}};
    view.communicators.push_back(communicator);
  }
  view.doubts = {{.rank = 2, .health = Health::dead, .why = "its process has ended"}};
  return view;
}

TEST(ProcessView, ComesBackAsItWas) {
  const ProcessView view = sample(), read = parse_view(view_to_json(view));
  EXPECT_EQ(read.rank, 1u);
  EXPECT_EQ(read.size, 4u);
  EXPECT_EQ(read.host, view.host);
  EXPECT_EQ(read.pid, 4711);
  ASSERT_THAT(read.communicators, SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read.communicators[i].record, view.communicators[i].record);
    ASSERT_THAT(read.communicators[i].lanes, SizeIs(1));
    EXPECT_EQ(read.communicators[i].lanes[0].lane, 3u);
    EXPECT_EQ(read.communicators[i].lanes[0].sent, 1'000'000'000'000u);
  }
  ASSERT_THAT(read.doubts, SizeIs(1));
  EXPECT_EQ(read.doubts[0].health, Health::dead);
  EXPECT_EQ(read.doubts[0].why, "its process has ended");
}

// So that it fits into a message between agents.
TEST(ProcessView, LeavesOutWhatIsTooMuch) {
  ProcessView view = sample();
  view.communicators.resize(1);
  CommunicatorView& busy = view.communicators.front();
  busy.record = SampleDump("world", 1, 100'000).add_done(500, 99).get();
  for (uint32_t rank = 2; rank < 100'000; ++rank) {
    busy.record.peers.push_back(
        {.rank = rank, .health = rank % 2 == 0 ? Health::alive : Health::silent, .sequence = 0});
    busy.lanes.push_back({.peer = rank, .lane = 0, .sent = rank, .received = 0});
  }
  view.communicators.resize(ProcessView::kMostCommunicators + 8, busy);
  const std::string text = view_to_json(view);
  EXPECT_LT(text.size(), size_t{256} << 10);
  const ProcessView read = parse_view(text);
  ASSERT_THAT(read.communicators, SizeIs(ProcessView::kMostCommunicators));
  EXPECT_THAT(read.communicators[0].record.operations, SizeIs(ProcessView::kMostOperations));
  EXPECT_EQ(read.communicators[0].record.operations.back().sequence, 500u);
  EXPECT_EQ(read.communicators[0].lanes.at(0).peer, 0u) << "those that carried most stay";
  EXPECT_EQ(read.communicators[0].lanes.at(1).peer, 99'999u);
  for (const PeerRecord& peer : read.communicators[0].record.peers) EXPECT_EQ(peer.health, Health::silent);
}

TEST(ProcessView, SaysWhatIsWrongWithATextThatIsNone) {
  const std::string good = view_to_json(sample());
  EXPECT_THAT(testing::error_of([&] { parse_view(good.substr(0, good.size() / 2)); }), HasSubstr("is not JSON"));
  std::string strange = good;
  strange.replace(strange.find("\"rank\":1"), 8, "\"rank\":4");
  EXPECT_THAT(testing::error_of([&] { parse_view(strange); }), HasSubstr("rank is 4, but there are 4 ranks"));
}

}  // namespace
}  // namespace banyan::run
