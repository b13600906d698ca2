#include "banyan/job/check.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/job/kineto/test_expect.h"
#include "banyan/job/kineto/test_replay.h"
#include "banyan/job/kineto/test_sample.h"
#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

using testing::Calls;
using testing::calls_of;
using testing::expect_kernels;
using testing::expect_truth;
using testing::has_line;
using testing::make_sample;
using testing::read_sample;
using testing::read_texts;
using testing::replay;
using testing::Sample;
using testing::SampleOptions;
using testing::trace_of;
using testing::true_calls;
using Host = SampleOptions::Host;

TEST(KinetoRepair, LostCollectivesAreProvedByTheOtherRanks) {
  // The broadcast (number 0), a gather in the middle, the last allreduce but one.
  for (const bool with_host : {false, true}) {
    SCOPED_TRACE(with_host);
    const Sample sample =
        make_sample({.host = with_host ? Host::attributes : Host::none, .lost_kernels = {{1, 0}, {2, 2}, {0, 7}}});
    const LinkedJob job = read_sample(sample);
    expect_truth(sample, job, 60'000);
    EXPECT_EQ(job.report.total().inserted, 3u);
    EXPECT_EQ(job.report.ranks[1].counts.inserted_head, 1u);
    EXPECT_EQ(job.report.ranks[3].counts.inserted, 0u);
    EXPECT_TRUE(
        has_line(job.report, "3 communications that a rank's trace lost and others prove: put back (ranks 0, 1, 2)"));
    EXPECT_TRUE(has_line(job.report, "rank 1: group 0: put back broadcast of 2304 bytes"));
  }
}

TEST(KinetoRepair, OfEqualCollectivesTheOneThatTimeTellsIsPutBack) {
  // All layers' gathers alike, the second of three lost: only the clock says which.
  SampleOptions options{.ranks = 2, .layers = 6, .lost_kernels = {{1, 3}}, .clocks = {{1, 7'000'000}}};
  const Sample sample = make_sample(options);
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job, 60'000);
  EXPECT_EQ(job.report.total().inserted, 1u);
}

TEST(KinetoRepair, LostTailsAreCompleted) {
  const Sample sample = make_sample({.steps = 2, .lost_tails = {1, 3}});
  const LinkedJob job = read_sample(sample);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r)) << r;
  EXPECT_GT(job.report.ranks[1].counts.inserted_tail, 0u);
  EXPECT_EQ(job.report.ranks[0].counts.inserted, 0u);
  EXPECT_THAT(check_job(job.job), IsEmpty());
}

TEST(KinetoRepair, MissingParentsOfTheHostTraceLoseNoBroadcast) {
  const Sample sample =
      make_sample({.kernel_args = false, .operator_args = false, .host = Host::attributes, .missing_parents = true});
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job);
  EXPECT_EQ(job.report.total().missing_parents, 4u);
}

TEST(KinetoRepair, OperatorsThatTheProfilerMissedDoNotShiftTheLinksOfOthers) {
  const Sample sample = make_sample({.kernel_args = false,
                                     .operator_args = false,
                                     .host = Host::positional,
                                     .record_ids = false,
                                     .indices = false,
                                     .skipped_operators = 5});
  const LinkedJob job = read_sample(sample);
  const LinkCounts counts = job.report.total();
  EXPECT_EQ(counts.linked_by_name, counts.operators);
  EXPECT_GE(counts.host_alone, 20u);
  // The broadcast's own operators are among those that were missed. What it is, the host trace says in its place.
  EXPECT_EQ(counts.comm_by_order, 4u);
  EXPECT_EQ(counts.inserted, 0u);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r));
}

TEST(KinetoRepair, ClocksThatAreSetApartAreSetRight) {
  SampleOptions options;
  options.clocks = {{1, 3'600'000'000'000}, {2, -250'000'000}};
  const Sample sample = make_sample(options);
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job, 10'000);
  EXPECT_NEAR(static_cast<double>(job.report.ranks[1].clock_offset.count()), 3'600'000'000'000.0, 5'000.0);
  EXPECT_NEAR(static_cast<double>(job.report.ranks[2].clock_offset.count()), -250'000'000.0, 5'000.0);
  EXPECT_TRUE(has_line(job.report, "rank 2: its clock is -250.0"));
}

TEST(KinetoRepair, AGpuClockBehindTheHostsIsSetRight) {
  const Sample sample = make_sample({.gpu_clock = -40'000'000});
  const LinkedJob job = read_sample(sample);
  EXPECT_EQ(job.report.total().clocks_shifted, 4u);
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r));
    expect_kernels(job.job, sample, r);
  }
}

TEST(KinetoRepair, OverlapsAndMissingEndsAreMendedAndCounted) {
  const Sample sample = make_sample({.without_ends = true, .overlapping = true});
  const LinkedJob job = read_sample(sample);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r));
  EXPECT_GT(job.report.total().without_end, 10u);
  EXPECT_GT(job.report.total().overlaps, 3u);
  EXPECT_TRUE(has_line(job.report, "events without an end"));
  EXPECT_TRUE(has_line(job.report, "of kernels that overlapped the next one"));
}

TEST(KinetoRepair, WhatOneRankKnowsHelpsTheOthers) {
  Sample sample = make_sample({});
  for (const uint32_t rank : {0u, 1u, 3u}) {
    std::string& text = sample.ranks[rank].kineto;
    for (size_t at = text.find("\"Float\""); at != std::string::npos; at = text.find("\"Float\""))
      text.replace(at, 7, "\"Odd\"");
  }
  EXPECT_THAT(error_of_sample(sample),
              HasSubstr("no rank's trace says how large it is"));  // of the gathers of ranks 0 and 1
  sample.ranks[1] = make_sample({}).ranks[1];
  const LinkedJob job = read_sample(sample);
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r));
  EXPECT_EQ(job.report.total().comm_by_peers, 20u);
}

TEST(KinetoRepair, LostMessagesAreLaunchedWhereTheHostCalledThem) {
  const Sample sample = make_sample({.ranks = 2, .lost_kernels = {{0, 5}}});
  const LinkedJob job = read_sample(sample);
  EXPECT_EQ(job.report.total().inserted, 1u);
  EXPECT_EQ(job.report.total().calls_without_kernel, 0u);
  EXPECT_THAT(check_job(job.job), IsEmpty());
  EXPECT_NEAR(static_cast<double>(replay(job.job, sample)), static_cast<double>(sample.end_ns), 60'000.0);
}

std::string set_times_to_zero(std::string text, const std::string& name) {
  const size_t event = text.find("\"name\": \"" + name + "\"");
  for (const char* key : {"\"ts\": ", "\"dur\": "}) {
    const size_t at = text.find(key, event) + std::string_view(key).size();
    text.replace(at, text.find(',', at) - at, "0");
  }
  return text;
}

TEST(KinetoRepair, AKernelWithoutTimesIsNotMovedByTheClockOfOthers) {
  Sample sample = make_sample({.ranks = 1, .gpu_clock = -40'000'000});
  sample.ranks[0].kineto = set_times_to_zero(sample.ranks[0].kineto, "sgemm_forward_0_1");
  const LinkedJob job = read_sample(sample);
  EXPECT_EQ(job.report.total().clocks_shifted, 1u);
  EXPECT_EQ(job.report.total().without_gpu_time, 1u);
  EXPECT_LT(replay(job.job, sample), sample.end_ns + 1'000'000);
}

TEST(KinetoRepair, AKernelWithoutTimesAndLaunchIsLeftOut) {
  const LinkedJob job = read_texts({trace_of(
      {R"({"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 1726134043823422, "dur": 5})",
       R"({"ph": "X", "cat": "kernel", "name": "b", "pid": 0, "tid": 7, "ts": 0, "dur": 0})",
       R"({"ph": "X", "cat": "kernel", "name": "c", "pid": 0, "tid": 7, "ts": 1726134043823430, "dur": 2})"})});
  EXPECT_EQ(job.report.total().without_time, 1u);
  EXPECT_EQ(job.report.total().kernels, 2u);
  const std::vector<job::Node>& nodes = job.job.program(0).nodes;
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].duration, std::chrono::microseconds(5));
  EXPECT_EQ(nodes[1].duration, std::chrono::microseconds(3)) << "launch latency";
  EXPECT_EQ(nodes[1].kind, job::NodeKind::host);
  EXPECT_EQ(nodes[2].duration, std::chrono::microseconds(2));
}

TEST(KinetoRepair, ASyncWithoutCorrelationIsOfNoCall) {
  // What it says of a stream on which nothing ran would take the wait away.
  const LinkedJob job = read_texts({trace_of(
      {R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 2, "args": {"correlation": 3}})",
       R"({"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 13, "dur": 50, "args": {"stream": 7, "correlation": 3}})",
       R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 1, "ts": 20, "dur": 45})",
       R"({"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 9, "ts": 1, "dur": 1, "args": {"stream": 9, "device": 0}})"})});
  EXPECT_EQ(job.report.total().syncs, 1u);
  EXPECT_EQ(job.report.total().syncs_inferred, 1u);
}

// Ranks 0 and 1 have one allreduce in common, ranks 2 and 3 another one, by a clock that is ten years ahead.
TEST(KinetoRepair, RanksWithoutAClockInCommonAreNotLate) {
  std::vector<std::string> traces;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const uint32_t first = rank / 2 * 2;
    const std::string ts = std::to_string((rank < 2 ? 1'400'000'000'000'000 : 1'715'000'000'000'000) + rank);
    traces.push_back(trace_of(
        {R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32", "pid": 0, "tid": 7, "ts": )" + ts +
         R"(, "dur": 9, "args": {"Collective name": "allreduce", "In msg nelems": 256, "Out msg nelems": 256, )" +
         R"("dtype": "Float", "Group size": 2, "Process Group Name": "1", "Process Group Ranks": "[)" +
         std::to_string(first) + ", " + std::to_string(first + 1) + "]\"}}"},
        rank, 4));
  }
  const LinkedJob job = read_texts(traces);
  EXPECT_THAT(check_job(job.job), IsEmpty());
  for (uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(job.job.program(rank).nodes.size(), 1u) << rank;
    // Both end together, so what began later by 1 us lasted that much less.
    EXPECT_EQ(job.report.ranks[rank].clock_offset, std::chrono::nanoseconds(rank == 1 ? 1'000 : 0));
  }
}

TEST(KinetoRepair, SumsOfTimesStayAtTheirMost) {
  LinkCounts counts;
  counts.add_time(&LinkCounts::overlap_ns, INT64_MAX - 5);
  counts.add_time(&LinkCounts::overlap_ns, 4);
  EXPECT_EQ(counts.overlap_ns, INT64_MAX - 1);
  LinkCounts sum = counts;
  sum += counts;
  EXPECT_EQ(sum.overlap_ns, INT64_MAX);
}

}  // namespace
}  // namespace banyan::job::kineto
