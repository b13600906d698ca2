// Sequences of calls that differ between ranks: how they are aligned, and where what was lost is put back.
#include "banyan/job/kineto/match.h"

#include "banyan/job/kineto/align.h"
#include "banyan/job/kineto/gpu.h"
#include "banyan/job/kineto/restore.h"
#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

struct Call {
  int64_t end;
  uint64_t bytes;
};

// A rank with allreduces of all ranks on one stream, each 10 ns long.
RankDraft draft_of(uint32_t rank, const std::vector<Call>& calls) {
  RankDraft draft;
  draft.rank = rank;
  draft.source = "rank" + std::to_string(rank);
  draft.tracks.push_back({.label = "stream"});
  for (const Call& call : calls) {
    DraftWork work{.start = call.end - 10, .end = call.end, .launch = {}, .kind = DraftWork::Kind::comm};
    work.name = draft.names.add("allreduce");
    CommCall comm;
    comm.kind_known = true;
    comm.in_elements = call.bytes;
    comm.width = 1;
    draft.set_calls(work, {comm});
    draft.works.push_back(work);
  }
  mend_overlaps(draft);  // which gives works their order
  return draft;
}

// The sizes of a rank's calls in the order of its stream.
std::vector<uint64_t> sizes_of(const RankDraft& draft) {
  std::vector<DraftWork> works = draft.works;
  std::stable_sort(works.begin(), works.end(), [](const DraftWork& a, const DraftWork& b) {
    return a.start != b.start ? a.start < b.start : a.order < b.order;
  });
  std::vector<uint64_t> sizes;
  for (const DraftWork& work : works) sizes.push_back(draft.calls[work.first_call].bytes.value_or(0));
  return sizes;
}

std::vector<RankDraft> two_drafts(const std::vector<Call>& a, const std::vector<Call>& b) {
  std::vector<RankDraft> drafts;
  drafts.push_back(draft_of(0, a));
  drafts.push_back(draft_of(1, b));
  return drafts;
}

// What both ranks call, by a clock that they have in common.
MessageChannel channel_of(std::vector<RankDraft>& drafts, RankClocks& clocks) {
  for (RankDraft& draft : drafts) {
    for (DraftCall& call : draft.calls) {
      call.group = 0;
      call.bytes = call.call.in_elements;
    }
  }
  clocks.settle();
  clocks.join(0, 1, 0);
  return gather_channels(drafts, {{.name = "all", .ranks = {0, 1}}}).front();
}

void put_back(std::vector<RankDraft>& drafts) {
  RankClocks clocks(2);
  MessageChannel channel = channel_of(drafts, clocks);
  const std::vector<MergedCall> merged = merge_members(channel, drafts, clocks);
  LostCalls(drafts, clocks).put_back(channel, merged);
  EXPECT_TRUE(channel.is_in_line(drafts));
}

TEST(KinetoMatch, WindowsThatAreFarApartAreAligned) {
  // Rank 0 lacks the first 60, rank 1 the last 60: as many on both, and all in another place.
  std::vector<Call> a, b;
  std::vector<uint64_t> all;
  for (uint32_t i = 0; i < 300; ++i) {
    const Call call{.end = 1000 * int64_t{i}, .bytes = 1 + i};
    if (i >= 60) a.push_back(call);
    if (i < 240) b.push_back(call);
    all.push_back(1 + i);
  }
  std::vector<RankDraft> drafts = two_drafts(a, b);
  match_ranks(drafts);
  EXPECT_EQ(sizes_of(drafts[0]), all);
  EXPECT_EQ(sizes_of(drafts[1]), all);
  EXPECT_EQ(drafts[0].counts.inserted_head, 60u);
  EXPECT_EQ(drafts[1].counts.inserted_tail, 60u);
  EXPECT_EQ(drafts[0].counts.inserted + drafts[1].counts.inserted, 120u);
}

TEST(KinetoMatch, FewerLeftOversAreBetterThanBetterTimes) {
  // All alike but the last, and rank 1 is as late as from one call to the next.
  std::vector<Call> a, b;
  for (uint32_t i = 0; i < 400; ++i) {
    const int64_t end = int64_t{2'000'000'000} * i;
    a.push_back({.end = end, .bytes = 8});
    b.push_back({.end = end + 2'000'000'000, .bytes = 8});
  }
  b.push_back({.end = int64_t{2'000'000'000} * 402, .bytes = 9});
  std::vector<RankDraft> drafts = two_drafts(a, b);
  RankClocks clocks(2);
  const MessageChannel channel = channel_of(drafts, clocks);
  const std::vector<MergedCall> merged = merge_members(channel, drafts, clocks);
  EXPECT_EQ(merged.size(), 401u);
}

TEST(KinetoMatch, CallsBetweenTheSameNeighboursContradictEachOther) {
  std::vector<RankDraft> drafts = two_drafts({{100, 1}, {200, 2}, {300, 3}}, {{100, 1}, {200, 7}, {300, 3}});
  EXPECT_THAT(testing::error_of([&] { match_ranks(drafts); }),
              HasSubstr("rank 0 has allreduce of 2 bytes (rank0 event 0) where rank 1 has allreduce of "
                        "7 bytes"));
}

// By the clock, what is put back would lie after the call before which it was.
TEST(KinetoMatch, SeveralCallsThatArePutBackAtOnePlaceKeepTheirOrder) {
  std::vector<RankDraft> drafts =
      two_drafts({{1000, 1}, {1100, 2}, {1200, 3}, {1300, 4}, {1400, 5}, {1500, 6}}, {{900, 4}, {910, 5}, {920, 6}});
  put_back(drafts);
  EXPECT_THAT(sizes_of(drafts[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(sizes_of(drafts[1]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(drafts[1].counts.inserted_head, 3u);
  // Between two that begin at once.
  drafts = two_drafts({{1000, 1}, {1100, 2}, {1200, 3}, {1300, 4}, {1400, 5}}, {{1400, 1}, {1400, 4}, {1400, 5}});
  put_back(drafts);
  EXPECT_THAT(sizes_of(drafts[1]), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(drafts[1].counts.inserted, 2u);
}

TEST(KinetoMatch, LostCallsAreOfTheirKindAndGroupAndNearest) {
  RankDraft draft;
  const auto lose = [&](CommCall::Kind kind, CollectiveKind collective, uint32_t group, int64_t time) {
    CommCall call;
    call.kind = kind;
    call.collective = collective;
    draft.lost.push_back({.call = call, .launch = {.thread = 0, .point = 0}, .time = time, .group = group});
  };
  constexpr auto kCollective = CommCall::Kind::collective;
  lose(kCollective, CollectiveKind::all_reduce, 0, 100);
  lose(kCollective, CollectiveKind::all_reduce, 1, 190);
  lose(kCollective, CollectiveKind::all_reduce, kNoIndex, 230);
  lose(kCollective, CollectiveKind::broadcast, 0, 200);
  lose(CommCall::Kind::send, CollectiveKind::all_reduce, 0, 205);
  LostLaunches launches(draft);
  EXPECT_EQ(launches.take(kCollective, CollectiveKind::all_reduce, 0, 200), 2u);
  EXPECT_EQ(launches.take(kCollective, CollectiveKind::all_reduce, 0, 200), 0u);
  EXPECT_EQ(launches.take(kCollective, CollectiveKind::all_reduce, 0, 200), std::nullopt);
  EXPECT_EQ(launches.take(kCollective, std::nullopt, 0, 150), 3u);
  EXPECT_EQ(launches.take(CommCall::Kind::send, std::nullopt, 0, 150), 4u);
  EXPECT_EQ(launches.take(CommCall::Kind::receive, std::nullopt, 0, 150), std::nullopt);
  EXPECT_EQ(launches.take(kCollective, CollectiveKind::all_reduce, 1, -2'000'000'000), std::nullopt);
  EXPECT_EQ(launches.take(kCollective, CollectiveKind::all_reduce, 1, 0), 1u);
}

TEST(KinetoMatch, ClocksAreJoinedWithAllThatHangOnThem) {
  RankClocks clocks(4);
  const auto one_call = [](uint32_t a, uint32_t b, int64_t difference) {
    MessageChannel channel;
    channel.members = {{a, {{.end = 5}}}, {b, {{.end = 5 + difference}}}};
    return channel;
  };
  clocks.compare(one_call(0, 1, 70));
  clocks.compare(one_call(2, 3, -30));
  clocks.settle();
  EXPECT_TRUE(clocks.are_common(0, 1));
  EXPECT_FALSE(clocks.are_common(1, 2));
  EXPECT_EQ(clocks.offset(1), 70);
  EXPECT_EQ(clocks.offset(3), -30);
  clocks.join(1, 3, 1000);
  EXPECT_TRUE(clocks.are_common(0, 2));
  EXPECT_EQ(clocks.offset(3), 1000);
  EXPECT_EQ(clocks.offset(2), 1030);
  EXPECT_EQ(clocks.offset(1), 70);
}

}  // namespace
}  // namespace banyan::job::kineto
