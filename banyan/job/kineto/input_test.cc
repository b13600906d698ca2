#include <zlib.h>

#include "banyan/base/file.h"
#include "banyan/job/check.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/job/kineto/test_expect.h"
#include "banyan/job/kineto/test_sample.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

using testing::Calls;
using testing::calls_of;
using testing::error_of_sample;
using testing::error_of_texts;
using testing::expect_kernels;
using testing::expect_truth;
using testing::has_line;
using testing::make_sample;
using testing::read_sample;
using testing::read_texts;
using testing::Sample;
using testing::SampleOptions;
using testing::trace_of;
using testing::true_calls;
using Host = SampleOptions::Host;

TEST(KinetoInput, RanksThatContradictEachOtherAreRefused) {
  SampleOptions options;
  options.other_bytes = {{2, 77}};
  const std::string error = error_of_sample(make_sample(options));
  EXPECT_THAT(error, AllOf(HasSubstr("group 0: rank "), HasSubstr("allreduce of 308 bytes (kineto 2 event "),
                           HasSubstr("allreduce of 128000 bytes (kineto "), HasSubstr("traces of one run")));
}

TEST(KinetoInput, ARankWithoutMostOfTheCollectivesIsRefused) {
  Sample sample = make_sample({.steps = 3});
  sample.ranks[2].kineto = make_sample({.steps = 1}).ranks[2].kineto;
  EXPECT_THAT(error_of_sample(sample), AllOf(HasSubstr("kineto 2 has "), HasSubstr("too few to mend")));
}

TEST(KinetoInput, ARankWithoutATraceIsNamed) {
  Sample sample = make_sample({});
  sample.ranks.pop_back();
  EXPECT_THAT(error_of_sample(sample), AllOf(HasSubstr("rank 3 belongs, and there is no trace of it"),
                                             HasSubstr("give the traces of all ranks")));
}

TEST(KinetoInput, ACommunicationThatNobodyDescribesIsNamed) {
  const Sample sample = make_sample({.ranks = 2, .kernel_args = false, .operator_args = false});
  EXPECT_THAT(error_of_sample(sample),
              AllOf(HasSubstr("kineto 0 event "), HasSubstr("no rank's trace says how large it is"),
                    HasSubstr("give the host trace")));
}

class KinetoFiles : public ::testing::Test, protected testing::TemporaryFolder {};

TEST_F(KinetoFiles, GzipAndPlainAreRead) {
  const Sample sample = make_sample({.host = Host::attributes});
  std::vector<RankTraces> files;
  for (uint32_t r = 0; r < 4; ++r) {
    const std::string kineto = folder_ + "/k" + std::to_string(r) + ".json.gz",
                      host = folder_ + "/h" + std::to_string(r) + ".json";
    gzFile out = ::gzopen(kineto.c_str(), "wb");
    ASSERT_EQ(::gzwrite(out, sample.ranks[r].kineto.data(), static_cast<unsigned>(sample.ranks[r].kineto.size())),
              static_cast<int>(sample.ranks[r].kineto.size()));
    ::gzclose(out);
    write_file(host, sample.ranks[r].host);
    files.push_back({.kineto = kineto, .host = host, .rank = r});
  }
  expect_truth(sample, read_job(files));
  // Cut in the middle, the gzip data is refused with the byte at which it ends.
  const std::string packed = read_file(files[1].kineto);
  write_file(files[1].kineto, packed.substr(0, packed.size() / 2));
  EXPECT_THAT(
      testing::error_of([&] { read_job(files); }),
      AllOf(HasSubstr("k1.json.gz byte " + std::to_string(packed.size() / 2)), HasSubstr("ends in the middle")));
  files[2].kineto = folder_ + "/none.json";
  write_file(files[1].kineto, packed);
  EXPECT_THROW(read_job(files), Error);
}

TEST(KinetoInput, ATextCutAnywhereIsReadUpToThereOrRefused) {
  const Sample whole = make_sample({.ranks = 1, .layers = 1, .host = Host::attributes});
  uint64_t read_in_part = 0;
  for (size_t cut = 0; cut < whole.ranks[0].kineto.size(); cut += 97) {
    Sample sample = whole;
    sample.ranks[0].kineto.resize(cut);
    try {
      const LinkedJob job = read_sample(sample);
      EXPECT_EQ(job.report.total().cut_files, 1u) << cut;
      EXPECT_TRUE(has_line(job.report, "ends in the middle"));
      ++read_in_part;
    } catch (const Error& error) {
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_GT(read_in_part, whole.ranks[0].kineto.size() / 97 / 2);
}

TEST(KinetoInput, WhatIsNoTraceIsRefusedWithItsPlace) {
  EXPECT_THAT(error_of_texts({""}), HasSubstr("kineto 0 byte 0"));
  EXPECT_THAT(error_of_texts({"{\"traceEvents\": []}"}), HasSubstr("holds no events"));
  EXPECT_THAT(error_of_texts({"{\"nodes\": [{\"id\": 1}]}"}), HasSubstr("holds no events"));
  EXPECT_THAT(error_of_texts({"[{\"name\": \"x\", \"ph\": \"X\", \"ts\": 1}, 7]"}),
              HasSubstr("kineto 0 event 1: is not an object"));
  EXPECT_THAT(error_of_texts({"{\"traceEvents\": [{\"name\": \"x\"}]}"}), HasSubstr("event 0: has no phase"));
  EXPECT_THAT(error_of_texts({"{\"traceEvents\": [{\"ph\": \"M\"}]}"}),
              HasSubstr("has no operators, kernels or calls"));
  EXPECT_THAT(error_of_texts({"{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"kernel\" \"ts\": 1}]}"}),
              AllOf(HasSubstr("event 0 byte "), HasSubstr("JSON")));
  EXPECT_THAT(
      error_of_texts({"[{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 5, \"dur\": 1}, "
                      "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k\", \"ts\": 2000000000000, \"dur\": 1}]"}),
      HasSubstr("event 1 ends more than 12 days after event 0 begins"));
}

TEST(KinetoInput, SizesBeyondAllMeasureAreRefused) {
  Sample sample = make_sample({.ranks = 2});
  std::string& text = sample.ranks[0].kineto;
  for (size_t at = text.find("nelems\": 576,"); at != std::string::npos; at = text.find("nelems\": 576,")) {
    text.replace(at, 13, "nelems\": 5760000000000000000,");
  }
  EXPECT_THAT(error_of_sample(sample), AllOf(HasSubstr("kineto 0 event "), HasSubstr("beyond 2^60")));
}

// A kernel of an allreduce of 1 KiB whose args say this besides.
std::string all_reduce(const std::string& args) {
  return R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7, "ts": 100, )"
         R"("dur": 10, "args": {"stream": 7, "Collective name": "allreduce", "In msg nelems": 256, )"
         R"("Out msg nelems": 256, "dtype": "Float", )" +
         args + "}}";
}

TEST(KinetoInput, NumbersAtTheEndOfTheirRangeDoNoHarm) {
  const std::string folded = all_reduce(R"("Group size": 1, "External id": 9223372036854775807)");
  EXPECT_EQ(read_texts({trace_of({folded, folded})}).report.total().kernels_folded, 1u);
  const std::string stride =
      R"("Group size": 2, "Process Group Name": "5", "Global rank start": 1, "Global rank stride": )";
  EXPECT_THAT(error_of_texts({trace_of({all_reduce(stride + "9223372036854775807")}, 0, 3)}),
              HasSubstr("is of group '5' of 2 ranks, and nothing says which"));
  const std::string far = R"("Group size": 2, "Process Group Name": "5", "Global rank start": 9223372036854775807, )"
                          R"("Global rank stride": 1)";
  EXPECT_THAT(error_of_texts({trace_of({all_reduce(far)}, 0, 3)}), HasSubstr("and nothing says which"));
}

TEST(KinetoInput, AGroupOfOtherRanksIsRefusedWhoeverNamesItFirst) {
  const std::string event =
      all_reduce(R"("Group size": 2, "Process Group Name": "1", "Process Group Ranks": "[0, 2]")");
  std::vector<std::string> traces;
  for (uint32_t rank = 0; rank < 3; ++rank) traces.push_back(trace_of({event}, rank, 3));
  EXPECT_THAT(error_of_texts(traces),
              AllOf(HasSubstr("kineto 1 event 0: "), HasSubstr("of rank 1 is of group 1, to which only ranks 0, 2"),
                    HasSubstr("is this the trace of another rank?")));
}

TEST(KinetoInput, ShortenedListsAreKeptOnceAndStandForNoMoreThanARunHas) {
  const auto event = [](size_t spaces) {
    return all_reduce(R"("Group size": 1000000, "Process Group Name": "1", "Process Group Ranks": "[0, 1, )" +
                      std::string(spaces, ' ') + R"(..., 999999]")");
  };
  EXPECT_THAT(error_of_texts({trace_of(std::vector<std::string>(200, event(0)))}), HasSubstr("there is no trace of"));
  std::vector<std::string> different;
  for (size_t i = 0; i < 5; ++i) different.push_back(event(i));
  EXPECT_THAT(error_of_texts({trace_of(different)}),
              AllOf(HasSubstr("kineto 0 event 4: "), HasSubstr("stand for more than 4194304 ranks")));
}

TEST(KinetoInput, RanksBeyondThoseOfAJobAreRefused) {
  const std::string text = trace_of({all_reduce(R"("Group size": 1)")});
  EXPECT_THAT(testing::error_of(
                  [&] { read_job(std::vector<RankTraceTexts>{{.kineto = text, .host = {}, .rank = 4'000'000'000}}); }),
              HasSubstr("kineto 0: is given as the trace of rank 4000000000, and ranks go up to 999999"));
}

TEST(KinetoInput, ClocksThatAreTooFarApartAreRefused) {
  // A GPU that is half a century behind the host would make durations that no number holds.
  EXPECT_THAT(
      error_of_texts({trace_of(
          {R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1726134043823422, "dur": 2, "args": {"correlation": 3}})",
           R"({"ph": "X", "cat": "kernel", "name": "a", "pid": 0, "tid": 7, "ts": 0, "dur": 50, "args": {"correlation": 3}})"})}),
      HasSubstr("event 0 ends more than 12 days after event 1 begins"));
}

TEST(KinetoInput, AKernelCarriesOutAnyNumberOfCalls) {
  constexpr size_t kCalls = 70'000;
  std::vector<std::string> events(
      kCalls,
      R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": 1, "dur": 1, "args": {"Collective name": "send", "In msg nelems": 4, "Out msg nelems": 4, "dtype": "Int", "Group size": 1, "Dst Rank": 0}})");
  events.push_back(
      R"({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 10, "dur": 2, "args": {"correlation": 3}})");
  events.push_back(
      R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 7, "ts": 12, "dur": 5, "args": {"correlation": 3}})");
  const LinkedJob job = read_texts({trace_of(events)});
  EXPECT_EQ(job.report.total().messages, kCalls);
  EXPECT_EQ(job.report.total().calls_coalesced, kCalls);
  EXPECT_GT(job.job.program(0).nodes.size(), kCalls);
}

}  // namespace
}  // namespace banyan::job::kineto
