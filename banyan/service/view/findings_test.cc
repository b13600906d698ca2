#include "banyan/service/view/findings.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr uint64_t kCall = 812;  // that the ranks below are in, counted from 0

// On hosts a, b, c, d with 4 ranks each.
RankView rank_of(uint32_t rank) {
  RankView view;
  view.rank = rank;
  view.host = std::string(1, static_cast<char>('a' + rank / 4));
  view.process = 4700 + rank;
  view.calls_begun = view.calls_over = kCall;
  return view;
}

// Has begun the call and stands still in it for that long.
RankView waiting(uint32_t rank, double seconds, std::optional<uint32_t> for_whom = {}) {
  RankView view = rank_of(rank);
  view.calls_begun = kCall + 1;
  view.call = "allreduce of 4 MiB";
  view.call_seconds = view.stalled_seconds = seconds;
  view.waiting_for = for_whom;
  return view;
}

// Has ended all calls before, and computes.
RankView idle(uint32_t rank, double seconds) {
  RankView view = rank_of(rank);
  view.idle_seconds = seconds;
  return view;
}

RankView over(uint32_t rank, double seconds) {
  RankView view = idle(rank, seconds);
  view.calls_begun = view.calls_over = kCall + 1;
  return view;
}

CommunicatorView job(std::vector<RankView> ranks) {
  CommunicatorView view;
  view.id = "7f3a";
  view.name = "job17";
  view.tenant = "t";
  view.size = static_cast<uint32_t>(ranks.size());
  view.ranks = std::move(ranks);
  return view;
}

// "kind: words" of each.
std::vector<std::string> findings_of(const std::vector<RankView>& ranks) {
  std::vector<std::string> all;
  for (const FindingView& each : find_wrong({job(ranks)}, {})) {
    EXPECT_EQ(each.communicator, "7f3a");
    all.push_back(each.kind + ": " + each.words);
  }
  return all;
}

// Sixteen of which these wait, but for the ranks that stand in `others`.
std::vector<RankView> sixteen(double seconds, std::optional<uint32_t> for_whom, const std::vector<RankView>& others) {
  std::vector<RankView> ranks;
  for (uint32_t rank = 0; rank < 16; ++rank) ranks.push_back(waiting(rank, seconds, for_whom));
  for (const RankView& each : others) ranks[each.rank] = each;
  return ranks;
}

TEST(Findings, NameTheRankThatHasNotBegunWhatAllOthersWaitIn) {
  EXPECT_THAT(
      findings_of(sixteen(1.2, 9, {idle(9, 1.3)})),
      ElementsAre("late rank: rank 9 of 'job17' (host c, process 4709) is late: 15 ranks wait in allreduce of 4 "
                  "MiB for 1.2 s, it has begun no call for 1.3 s"));
}

TEST(Findings, NameTheLateRankAlsoWhereNobodyKnowsForWhomHeWaits) {
  EXPECT_THAT(findings_of(sixteen(1.2, {}, {idle(9, 1.3)})),
              ElementsAre(StartsWith("late rank: rank 9 of 'job17' (host c, process 4709) is late: 15 ranks wait")));
}

// Everybody waits for the first of them only.
TEST(Findings, NameBothOfTwoLateRanksAndNobodyElse) {
  EXPECT_THAT(findings_of(sixteen(1.2, 3, {idle(3, 1.3), idle(12, 2.5)})),
              ElementsAre(StartsWith("late rank: rank 3 of 'job17' (host a, process 4703) is late: 14 ranks wait"),
                          "late rank: rank 12 of 'job17' (host d, process 4712) is late: 14 ranks wait in allreduce of "
                          "4 MiB for 1.2 s, it has begun no call for 2.5 s"));
}

TEST(Findings, NameManyLateRanksInOneSentence) {
  EXPECT_THAT(
      findings_of(sixteen(1, {}, {idle(3, 1.3), idle(4, 9), idle(5, 8), idle(6, 7), idle(12, 2.5)})),
      ElementsAre("late rank: ranks 3-6, 12 of 'job17' are late: 11 ranks wait in allreduce of 4 MiB for 1.0 s, "
                  "they have begun no call for 1.3 s or longer"));
}

TEST(Findings, CountTheOneWhoWaits) {
  EXPECT_THAT(findings_of({waiting(0, 0.4, 1), idle(1, 0.4)}),
              ElementsAre(HasSubstr("is late: 1 rank waits in allreduce of 4 MiB for 400.0 ms")));
}

TEST(Findings, NameTheEndOfAChainOfWaiting) {
  RankView culprit = waiting(2, 1.1);
  EXPECT_THAT(findings_of({waiting(0, 1.2, 1), waiting(1, 1.2, 2), culprit, waiting(3, 1.0, 0)}),
              ElementsAre("late rank: rank 2 of 'job17' (host a, process 4702) is late: 3 ranks wait for it in "
                          "allreduce of 4 MiB for 1.2 s, it is in this call, too, and waits for nobody"));
  culprit.calls_begun = culprit.calls_over = kCall;
  culprit = idle(2, 1.1);
  EXPECT_THAT(findings_of({waiting(0, 1.2, 1), waiting(1, 1.2, 2), culprit, waiting(3, 1.0, 0)}),
              ElementsAre(StartsWith("late rank: rank 2 of 'job17' (host a, process 4702) is late: 3 ranks wait in")));
}

TEST(Findings, NameARankThatIsStillInAnEarlierCall) {
  RankView culprit = waiting(2, 0.1);
  culprit.calls_over = kCall - 1;
  culprit.call = "broadcast of 1 GiB";
  culprit.call_seconds = 3;
  EXPECT_THAT(
      findings_of({waiting(0, 1.2, 2), waiting(1, 1.2, 2), culprit}),
      ElementsAre(HasSubstr("rank 2 of 'job17' (host a, process 4702) is late: 2 ranks wait for it in allreduce "
                            "of 4 MiB for 1.2 s, it is still in broadcast of 1 GiB and waits for nobody")));
}

// Rank 1 computes no longer: it waits for a message of rank 2, which has not come to this call either.
TEST(Findings, BlameNobodyWhoWaitsForAMessageHimself) {
  RankView receiving = idle(1, 0);
  receiving.call = "receive of 4 B";
  receiving.call_seconds = receiving.stalled_seconds = 2;
  receiving.waiting_for = 2;
  EXPECT_THAT(findings_of({waiting(0, 1.2, 1), receiving, idle(2, 5)}),
              ElementsAre(StartsWith("late rank: rank 2 of")));
}

TEST(Findings, SayWhatALateRankDoesInstead) {
  RankView sending = idle(1, 0);
  sending.call = "send of 4 B";
  sending.call_seconds = sending.stalled_seconds = 2;
  EXPECT_THAT(findings_of({waiting(0, 1.2, 1), sending}),
              ElementsAre(HasSubstr("it has begun no call for 2.0 s; it is in send of 4 B")));
}

TEST(Findings, SayThatACallIsStalledWhereRanksWaitInACircle) {
  EXPECT_THAT(findings_of({waiting(0, 1.5, 1), waiting(1, 1.4, 2), waiting(2, 1.6, 0)}),
              ElementsAre("stalled: allreduce of 4 MiB of 'job17' has not moved for 1.4 s at 3 ranks: rank 0 waits for "
                          "rank 1, rank 1 for rank 2, rank 2 for rank 0"));
  EXPECT_THAT(findings_of({waiting(0, 1.5, 1), waiting(1, 0.9, 2), waiting(2, 1.6, 0)}), IsEmpty());
}

// Rank 2 was stopped in a call that the others have ended; before that it had waited for rank 0.
TEST(Findings, OfOneHostNameARankThatSeemsToWaitForWhoHasEndedTheCall) {
  RankView stopped = waiting(2, 0.9, 0);
  stopped.calls_over = kCall - 1;
  stopped.calls_begun = kCall;
  CommunicatorView view = job({waiting(0, 0.8, 2), waiting(1, 0.8, 0), stopped});
  EXPECT_THAT(find_wrong({view}, {}), IsEmpty()) << "bytes may be on their way";
  view.is_direct = true;
  const std::vector<FindingView> found = find_wrong({view}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].words, StartsWith("rank 2 of 'job17' (host a, process 4702) is late: 2 ranks wait for it"));
}

TEST(Findings, SayOfAStalledCallOfWhomNothingIsKnown) {
  CommunicatorView communicator = job({waiting(0, 1.5, 2), waiting(1, 1.4, 2)});
  communicator.size = 4;
  const std::vector<FindingView> found = find_wrong({communicator}, {{.host = "c", .why = "it has not answered"}});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, "stalled");
  EXPECT_EQ(found[0].words,
            "allreduce of 4 MiB of 'job17' has not moved for 1.4 s at 2 ranks: rank 0 waits for rank 2, "
            "rank 1 for rank 2; nothing is known of 2 ranks");
  EXPECT_EQ(found[1], (FindingView{.kind = "unreachable host",
                                   .communicator = "",
                                   .words = "host c is unreachable: it has not answered"}));
}

TEST(Findings, SayNothingOfARankThatHasNotCalledYetWhereNobodyWaits) {
  EXPECT_THAT(findings_of({idle(0, 500), idle(1, 400)}), IsEmpty());
  EXPECT_THAT(findings_of({over(0, 50), over(1, 40), idle(2, 60)}), IsEmpty()) << "a broadcast: its root is through";
}

TEST(Findings, SayNothingOfLessThanKLate) {
  EXPECT_THAT(findings_of({waiting(0, 0.29, 1), idle(1, 90)}), IsEmpty()) << "rank 0 has only just come";
  EXPECT_THAT(findings_of({waiting(0, 0.31, 1), idle(1, 0.29)}), IsEmpty()) << "rank 1 has only just ended the last";
  EXPECT_THAT(findings_of({waiting(0, 0.31, 1), idle(1, 0.31)}), ElementsAre(StartsWith("late rank: rank 1 ")));
}

TEST(Findings, BlameNobodyWhoHasEndedWhatOthersWaitIn) {
  EXPECT_THAT(findings_of({over(0, 50), waiting(1, 1.2, 2), idle(2, 1.3)}),
              ElementsAre(StartsWith("late rank: rank 2 of 'job17' (host a, process 4702) is late: 1 rank waits in")));
}

TEST(Findings, CallNothingStalledThatARankIsJustComingTo) {
  EXPECT_THAT(findings_of({waiting(0, 1.5), waiting(1, 1.5), idle(2, 0.1)}), IsEmpty());
}

// The view of host b was taken a call later.
TEST(Findings, SayNothingWhereViewsDifferByACall) {
  RankView later = waiting(4, 0.001);
  later.calls_begun = kCall + 2;
  later.calls_over = kCall + 1;
  EXPECT_THAT(findings_of({waiting(0, 0.002, 4), idle(1, 0.003), over(2, 0.001), over(3, 0.0), later}), IsEmpty());
}

TEST(Findings, SayNothingOfALongCallThatMoves) {
  RankView root = waiting(0, 20), leaf = waiting(1, 20, 0);
  root.stalled_seconds = 0.01;
  leaf.stalled_seconds = 0.02;
  EXPECT_THAT(findings_of({root, leaf}), IsEmpty());
  EXPECT_THAT(findings_of({root, leaf, idle(2, 20)}), IsEmpty()) << "what they wait for is not rank 2";
}

// In time that grows with the ranks, and not with their square.
TEST(Findings, AreMadeOfAVeryLongCircle) {
  constexpr uint32_t kRanks = 30'000;
  std::vector<RankView> ranks;
  for (uint32_t rank = 0; rank < kRanks; ++rank) ranks.push_back(waiting(rank, 1.5, (rank + 1) % kRanks));
  EXPECT_THAT(findings_of(ranks), ElementsAre(HasSubstr("has not moved for 1.5 s at 30,000 ranks: rank 0 waits")));
}

TEST(Findings, SayNothingOfRanksWithErrors) {
  RankView gone = idle(1, 9);
  gone.error = "peer_lost: rank 1 has ended";
  RankView told = waiting(0, 9, 1);
  told.error = gone.error;
  EXPECT_THAT(findings_of({told, gone}), IsEmpty());
}

TEST(Findings, SayNothingOfAReceiveThatWaits) {
  RankView receiving = idle(0, 0);
  receiving.call = "receive of 4 B";
  receiving.call_seconds = receiving.stalled_seconds = 100;
  receiving.waiting_for = 1;
  EXPECT_THAT(findings_of({receiving, idle(1, 100)}), IsEmpty());
}

TEST(Findings, AreMadeOfWhateverAHostSays) {
  RankView beyond = waiting(7, 1e300, 4'000'000'000);
  CommunicatorView communicator = job({beyond, waiting(7, 1e300, 7)});
  communicator.size = UINT32_MAX;
  const std::vector<FindingView> found = find_wrong({communicator, CommunicatorView()}, {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].words, HasSubstr("nothing is known of 4,294,967,293 ranks"));
}

}  // namespace
}  // namespace banyan::service
