// The scenarios that people meet, as dumps made by hand, and what the doctor should say to each.
#include "banyan/run/record/diagnosis.h"

#include "banyan/run/record/test_dumps.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Ranks 0, 1, 2 wait in allreduce #17 since 95.8 s, rank 3 has not come.
std::vector<RankDump> one_is_late() {
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps.push_back(SampleDump("world", rank, 4).add_done(16, 95.5).add({}, 95.8).waits_for(3));
  }
  dumps.push_back(SampleDump("world", 3, 4).add_done(16, 95.8).says(DumpReason::asked).at(100.5));
  return dumps;
}

Finding only_finding(const std::vector<RankDump>& dumps) {
  const Diagnosis diagnosis = diagnose(dumps);
  std::string all;
  for (const Finding& finding : diagnosis.findings)
    all += std::string(to_string(finding.kind)) + ": " + finding.sentence + "\n";
  EXPECT_EQ(diagnosis.findings.size(), 1u) << all;
  return diagnosis.findings.empty() ? Finding{} : diagnosis.findings.front();
}

TEST(Diagnosis, ARankThatHasNotCalled) {
  const Finding finding = only_finding(one_is_late());
  EXPECT_EQ(finding.kind, FindingKind::late);
  EXPECT_EQ(finding.communicator, "world");
  EXPECT_EQ(finding.sequence, 17u);
  EXPECT_THAT(finding.ranks, ElementsAre(3));
  EXPECT_EQ(
      finding.sentence,
      "rank 3 has not called allreduce #17 (1024 float32 sum); its last was allreduce #16, finished 4.2 s before; "
      "ranks 0, 1, 2 wait for it");
  EXPECT_THAT(finding.because, Contains("rank 3 is process 1003 (train) on node0"));
}

// It came when the others had given up, and wrote its record later still.
TEST(Diagnosis, ARankThatCameTooLate) {
  std::vector<RankDump> dumps = one_is_late();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps[rank].operations.back().state = OperationState::failed;
    dumps[rank].operations.back().end = seconds(100);
  }
  dumps[3] = SampleDump("world", 3, 4).add_done(16, 95.8).add({}, 190).fail(190.1).at(190.2).says(DumpReason::error);
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::late);
  EXPECT_THAT(finding.sentence, StartsWith("rank 3 has not called allreduce #17"));
  EXPECT_THAT(finding.because, Contains("rank 3 called it 90.0 s after the first record was written"));
}

TEST(Diagnosis, ARankThatWroteNothing) {
  std::vector<RankDump> dumps = one_is_late();
  dumps.pop_back();
  dumps[0].peers.push_back({.rank = 3, .health = Health::alive, .sequence = 16});
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::missing);
  EXPECT_EQ(
      finding.sentence,
      "nothing is known of rank 3; the last call that others saw of it is #16; ranks 0, 1, 2 wait for it in allreduce "
      "#17 (1024 float32 sum)");
  EXPECT_THAT(finding.because, Contains("rank 3 wrote no record; others called it alive"));
  EXPECT_THAT(diagnose(dumps).communicators.front().missing, ElementsAre(3));
}

TEST(Diagnosis, TheEndOfAChain) {
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps.push_back(SampleDump("world", rank, 4).add_done(3, 95).add({}, 96).waits_for(rank + 1, 7));
  }
  dumps.push_back(SampleDump("world", 3, 4).add_done(3, 95).add({}, 96));
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::stuck);
  EXPECT_EQ(finding.sentence,
            "rank 3 is in allreduce #4 (1024 float32 sum) and makes no step for 4.0 s (step 0); it waits for nobody; "
            "ranks 0, 1, 2 wait for it");
}

TEST(Diagnosis, ARankThatDied) {
  std::vector<RankDump> dumps = one_is_late();
  dumps.pop_back();
  for (RankDump& dump : dumps) {
    dump.peers.push_back({.rank = 3, .health = Health::dead, .sequence = 16});
    dump.reason = DumpReason::error;
    dump.message = "rank 3 died: process 1003 on node0 has ended";
  }
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::dead);
  EXPECT_EQ(finding.sentence,
            "rank 3 is dead; its last was #16; ranks 0, 1, 2 wait for it in allreduce #17 (1024 float32 sum)");
  EXPECT_THAT(finding.because, ElementsAre("rank 3 wrote no record; others called it dead",
                                           "ranks 0, 1, 2 say: rank 3 died: process 1003 on node0 has ended"));
}

// It gave up like the others and ended; those who wrote later saw it dead.
TEST(Diagnosis, ARankThatEndedAfterTheTroubleIsNotItsCause) {
  std::vector<RankDump> dumps = one_is_late();
  dumps[0].operations.back().state = OperationState::failed;
  dumps[0].operations.back().end = seconds(100);
  dumps[1].peers.push_back({.rank = 0, .health = Health::dead, .sequence = 17});
  dumps[1].time = seconds(101);
  EXPECT_EQ(only_finding(dumps).kind, FindingKind::late);
}

// Told of the trouble by another, it wrote its record too, and left before the last one wrote.
TEST(Diagnosis, ARankThatLeftWhenItWasToldIsNotTheCause) {
  std::vector<RankDump> dumps = one_is_late();
  dumps[0].reason = DumpReason::asked;
  dumps[0].time = seconds(100.5);
  dumps[1].peers.push_back({.rank = 0, .health = Health::left, .sequence = 17});
  dumps[1].time = seconds(101);
  EXPECT_EQ(only_finding(dumps).kind, FindingKind::late);
}

TEST(Diagnosis, ARankThatWasStoppedForATime) {
  std::vector<RankDump> dumps = one_is_late();
  for (uint32_t rank = 0; rank < 3; ++rank) dumps[rank].peers.push_back({.rank = 3, .health = Health::silent});
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::silent);
  EXPECT_THAT(finding.because, Contains(HasSubstr("stopped, or cut off, for a time only")));
}

TEST(Diagnosis, ANetworkThatIsCut) {
  std::vector<RankDump> dumps = one_is_late();
  dumps[3] = SampleDump("world", 3, 4).add_done(16, 95.8).add({}, 96).waits_for(0);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps[rank].peers.push_back({.rank = 3, .health = Health::silent, .sequence = 16});
    dumps[3].peers.push_back({.rank = rank, .health = Health::silent, .sequence = 16});
  }
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::silent);
  EXPECT_THAT(finding.ranks, ElementsAre(3));
  EXPECT_EQ(
      finding.sentence,
      "rank 3 and ranks 0, 1, 2 do not hear each other, though all of them live: the network between them is cut");
}

TEST(Diagnosis, ACallThatDiffers) {
  const SampleDump::Op ours{.kind = OperationKind::reduce, .other = 0};
  const SampleDump::Op theirs{.kind = OperationKind::reduce, .count = 1000, .other = 0};
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps.push_back(SampleDump("world", rank, 3).add_done(2, 95).add(rank == 1 ? theirs : ours, 96));
  }
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::mismatch);
  EXPECT_EQ(finding.sequence, 3u);
  EXPECT_THAT(finding.ranks, ElementsAre(1));
  EXPECT_THAT(finding.sentence, StartsWith("rank 1 called "));
  EXPECT_THAT(finding.sentence, HasSubstr("#3 of 1024 float32 sum to rank 0: the counts differ"));
}

TEST(Diagnosis, ACallThatWasLeftOut) {
  const SampleDump::Op broadcast{.kind = OperationKind::broadcast, .other = 0};
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    SampleDump dump("world", rank, 3);
    dump.add_done(2, 95);
    if (rank != 2) dump.add(broadcast, 96, 96.5);
    dumps.push_back(dump.add({}, 97).waits_for(2));
  }
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::mismatch);
  EXPECT_THAT(finding.because,
              Contains("rank 2 seems to have left out broadcast #3 of 1024 float32 from rank 0, for the "
                       "others made its call next"));
}

TEST(Diagnosis, ACallTooMany) {
  const SampleDump::Op barrier{.kind = OperationKind::barrier};
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    SampleDump dump("world", rank, 3);
    dump.add_done(2, 95);
    if (rank == 2) dump.add(barrier, 96, 96.5);
    dumps.push_back(dump.add({}, 97).waits_for(2));
  }
  EXPECT_THAT(only_finding(dumps).because, Contains(HasSubstr("rank 2 seems to have made one call more")));
}

// Rank 0 of both called A first, rank 1 of both B first.
TEST(Diagnosis, TwoCommunicatorsThatCross) {
  const SampleDump::Op broadcast{.kind = OperationKind::broadcast, .other = 0};
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("A", 0, 2).add_done(3, 90).add({}, 95).waits_for(1));
  dumps.push_back(SampleDump("A", 1, 2).add_done(3, 90));
  dumps.push_back(SampleDump("B", 0, 2).add_done(1, 91));
  dumps.push_back(SampleDump("B", 1, 2).add_done(1, 91).add(broadcast, 95).waits_for(0));
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::crossing);
  EXPECT_EQ(finding.sentence,
            "rank 0 is in allreduce #4 of A while rank 1 is in broadcast #2 of B, and each waits for the other: they "
            "called the two communicators in opposite orders");
  EXPECT_EQ(finding.because.size(), 2u);
}

// The late rank is held up by another communicator, whose trouble is the cause of both.
TEST(Diagnosis, TroubleElsewhereComesFirst) {
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("A", 0, 2, 0).add({}, 95).waits_for(1));
  dumps.push_back(SampleDump("A", 1, 2, 1).says(DumpReason::asked));
  dumps.push_back(SampleDump("B", 0, 2, 1).add({}, 94).waits_for(1));
  dumps.push_back(SampleDump("B", 1, 2, 7).says(DumpReason::asked));
  const Diagnosis diagnosis = diagnose(dumps);
  ASSERT_EQ(diagnosis.findings.size(), 2u);
  EXPECT_EQ(diagnosis.findings[0].communicator, "B");
  EXPECT_EQ(diagnosis.findings[1].communicator, "A");
  EXPECT_THAT(diagnosis.findings[1].because, Contains("at that time rank 1 was in allreduce #1 of B"));
}

// 1,000 large allreduces, one a millisecond; rank 5 comes last to 93 of 100, 120 us after the others.
std::vector<RankDump> with_a_straggler(bool on_two_hosts) {
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    SampleDump dump("world", rank, 8);
    dump.says(DumpReason::asked);
    if (on_two_hosts && rank >= 4) dump.on("node1", 1e9 + 3);  // clocks that are far apart
    for (int i = 0; i < 1000; ++i) {
      const double start = 50 + i * 1e-3;
      const uint32_t last = i % 100 < 93 ? 5 : static_cast<uint32_t>(i) % 5;
      const double begin = start + (rank == last ? 130e-6 : rank * 1e-6);
      dump.add({.count = 1 << 20}, begin, start + 300e-6);
    }
    dumps.push_back(dump);
  }
  return dumps;
}

TEST(Diagnosis, AStraggler) {
  const Finding finding = only_finding(with_a_straggler(false));
  EXPECT_EQ(finding.kind, FindingKind::straggler);
  EXPECT_THAT(finding.ranks, ElementsAre(5));
  EXPECT_EQ(finding.sentence,
            "rank 5 entered last in 93 % of 1,000 operations, on average 123.0 us after the others, which cost 11 % of "
            "the time");
}

TEST(Diagnosis, AStragglerIsFoundThoughClocksDiffer) {
  const Finding finding = only_finding(with_a_straggler(true));
  EXPECT_EQ(finding.kind, FindingKind::straggler);
  EXPECT_THAT(finding.ranks, ElementsAre(5));
}

TEST(Diagnosis, RanksThatComeInTurnAreNoStragglers) {
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    SampleDump dump("world", rank, 4);
    dump.says(DumpReason::asked);
    for (uint32_t i = 0; i < 100; ++i) {
      dump.add({.count = 1 << 20}, 50 + i * 1e-3 + (i % 4 == rank ? 200e-6 : 0), 50 + i * 1e-3 + 300e-6);
    }
    dumps.push_back(dump);
  }
  EXPECT_TRUE(diagnose(dumps).is_healthy());
}

TEST(Diagnosis, HealthyRanks) {
  std::vector<RankDump> dumps;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    dumps.push_back(SampleDump("world", rank, 3).add_done(5, 99).says(DumpReason::asked));
  }
  const Diagnosis diagnosis = diagnose(dumps);
  EXPECT_TRUE(diagnosis.is_healthy());
  ASSERT_EQ(diagnosis.communicators.size(), 1u);
  EXPECT_EQ(diagnosis.communicators[0].ranks[2].words,
            "between calls; its last was allreduce #5, finished 1.0 s before");
}

// Records that were asked for are written one after the other, while the ranks go on.
TEST(Diagnosis, RanksAtWorkAreHealthy) {
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("world", 0, 2).add_done(5, 99.99).add({}, 99.999).waits_for(1).says(DumpReason::asked));
  dumps.push_back(SampleDump("world", 1, 2)
                      .add_done(5, 99.99)
                      .add({}, 100.001, 100.002)
                      .add({}, 100.003, 100.004)
                      .at(100.2)
                      .says(DumpReason::asked));
  EXPECT_TRUE(diagnose(dumps).is_healthy());
  // The same, but rank 0 has waited for long.
  dumps[0].operations.back().begin = seconds(99.992 - 7);
  dumps[0].operations.erase(dumps[0].operations.begin(), dumps[0].operations.end() - 1);
  EXPECT_EQ(only_finding(dumps).kind, FindingKind::late);
}

TEST(Diagnosis, ARecordFromBeforeTheTrouble) {
  std::vector<RankDump> dumps = one_is_late();
  dumps[3] = SampleDump("world", 3, 4).add_done(7, 35).says(DumpReason::asked).at(40);
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::missing);
  EXPECT_THAT(finding.because, Contains("its record is 60.0 s older than the trouble, and tells nothing of it"));
}

TEST(Diagnosis, AnErrorThatNothingExplains) {
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("world", 0, 2).add_done(5, 99).says(DumpReason::error, "no space left on device"));
  dumps.push_back(SampleDump("world", 1, 2).add_done(5, 99).says(DumpReason::asked));
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::reported);
  EXPECT_EQ(finding.sentence, "rank 0 reports an error, but nothing in the records explains it");
  EXPECT_THAT(finding.because, Contains("rank 0 says: no space left on device"));
}

TEST(Diagnosis, RecordsOfDifferentRuns) {
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("world", 0, 2).add_done(5, 99).says(DumpReason::asked));
  dumps.push_back(SampleDump("world", 1, 2).add_done(5, 99).says(DumpReason::asked));
  dumps.push_back(SampleDump("world", 7, 8).add_done(5, 50).says(DumpReason::asked).at(60));
  const Finding finding = only_finding(dumps);
  EXPECT_EQ(finding.kind, FindingKind::contradiction);
  EXPECT_THAT(finding.sentence, HasSubstr("rank 7 tells of 8 ranks, rank 0 of 2"));
}

TEST(Diagnosis, TellsNamesakesApart) {
  std::vector<RankDump> dumps;
  dumps.push_back(SampleDump("world", 0, 1).with_id("aa").says(DumpReason::asked));
  dumps.push_back(SampleDump("world", 0, 1).with_id("bb").says(DumpReason::asked));
  const Diagnosis diagnosis = diagnose(dumps);
  ASSERT_EQ(diagnosis.communicators.size(), 2u);
  EXPECT_EQ(diagnosis.communicators[0].title, "world (aa)");
  EXPECT_TRUE(diagnosis.is_healthy());
}

TEST(Diagnosis, TellsWhatEveryRankDoes) {
  const CommunicatorReport report = diagnose(one_is_late()).communicators.front();
  EXPECT_EQ(report.size, 4u);
  ASSERT_EQ(report.ranks.size(), 4u);
  EXPECT_EQ(report.ranks[0].words, "in allreduce #17 for 4.2 s, step 0, waits for rank 3");
  EXPECT_EQ(report.ranks[3].words, "between calls; its last was allreduce #16, finished 4.2 s before");
  EXPECT_EQ(report.ranks[3].pid, 1003);
}

}  // namespace
}  // namespace banyan::run
