#include "banyan/job/kineto/kineto.h"

#include "banyan/job/check.h"
#include "banyan/job/kineto/test_expect.h"
#include "banyan/job/kineto/test_replay.h"
#include "banyan/job/kineto/test_sample.h"
#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

using testing::Calls;
using testing::calls_of;
using testing::error_of_sample;
using testing::expect_kernels;
using testing::expect_truth;
using testing::has_line;
using testing::make_sample;
using testing::read_sample;
using testing::read_texts;
using testing::Sample;
using testing::SampleCall;
using testing::SampleOptions;
using testing::trace_of;
using testing::true_calls;
using Host = SampleOptions::Host;

TEST(Kineto, AloneGivesTheRunThatMadeIt) {
  const Sample sample = make_sample({});
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job);
  const LinkCounts counts = job.report.total();
  EXPECT_EQ(counts.repairs(), 0u) << ::testing::PrintToString(job.report.lines());
  EXPECT_TRUE(has_line(job.report, "nothing mended"));
  EXPECT_EQ(counts.comm_by_kernel, counts.collectives + counts.messages);
  EXPECT_EQ(counts.kernels_folded, 4u);  // the second kernel of each rank's all-to-all
  EXPECT_EQ(counts.messages, 4u);
  EXPECT_EQ(counts.memory, 4u);
}

// What the host does while kernels run or do not is its own, and so are pauses and launches on streams of the device.
TEST(Kineto, TellsTheHostFromTheDevice) {
  const Sample sample = make_sample({});
  const LinkedJob read = read_sample(sample);
  for (uint32_t rank = 0; rank < sample.ranks.size(); ++rank) {
    const Program& program = read.job.program(rank);
    size_t of_host = 0, of_device = 0;
    for (const Node& node : program.nodes) {
      const std::string& name = read.job.name_of(node);
      const bool is_thread = program.streams[node.stream].name.starts_with("host thread");
      if (is_thread || name == "idle" || name == "launch latency") {
        EXPECT_TRUE(node.kind == NodeKind::host || node.kind == NodeKind::marker) << name;
      }
      of_host += node.kind == NodeKind::host;
      of_device += node.kind == NodeKind::compute;
    }
    EXPECT_GT(of_host, 0u);
    EXPECT_EQ(of_device, sample.ranks[rank].kernels.size());
  }
}

// The host's 50 us are not computing, and nobody is told that nothing was left out.
TEST(Kineto, ADeviceWhoseEventsAreNotKnownIsTold) {
  const std::string host =
      R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10, "tid": 10, "ts": 1000, "dur": 50})";
  const std::string device =
      R"({"ph": "X", "cat": "npu_events", "name": "gemm_pe", "pid": 0, "tid": 7, "ts": 1040, "dur": 900, )"
      R"("args": {"correlation": 1, "stream": 7, "device": 0}})";
  const auto kind_of = [](const LinkedJob& read) {
    EXPECT_EQ(read.job.program(0).nodes.size(), 1u);
    return read.job.program(0).nodes[0].kind;
  };
  EXPECT_EQ(kind_of(read_texts({trace_of({host})})), NodeKind::compute);
  const LinkedJob read = read_texts({trace_of({host, device, device})});
  EXPECT_EQ(kind_of(read), NodeKind::host);
  EXPECT_FALSE(has_line(read.report, "nothing mended"));
  EXPECT_TRUE(has_line(read.report, "2 events of categories that are not known: left out"));
  EXPECT_TRUE(has_line(read.report, "2 events of category 'npu_events', of a device, 1.8 ms all together"));
}

TEST(Kineto, SeveralStepsAndRanksGiveTheRunThatMadeThem) {
  for (const uint32_t ranks : {1u, 2u, 6u, 34u}) {
    SCOPED_TRACE(ranks);
    const Sample sample = make_sample({.ranks = ranks, .layers = 2, .steps = ranks > 10 ? 1u : 3u});
    expect_truth(sample, read_sample(sample));
  }
}

TEST(Kineto, OneStepIsReadAlone) {
  const Sample all = make_sample({.steps = 3}), first = make_sample({.steps = 1});
  const LinkedJob job = read_sample(all, {.step = 0});
  for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(first, r));
  EXPECT_NEAR(static_cast<double>(testing::replay(job.job, all)), static_cast<double>(first.end_ns), 2'000);
  EXPECT_THAT(error_of_sample(all, {.step = 7}), HasSubstr("has no step 7; it has 0, 1, 2"));
}

// Every combination of who tells of communications, by what the files are linked and who tells of groups.
struct Sources {
  bool kernel_args, operator_args;
  Host host;
  int link;    // 0: record ids, 1: Ev Idx, 2: names
  int groups;  // 0: rank lists, 1: distributedInfo, 2: process_group:init, 3: progressions
};

class KnownFrom : public ::testing::TestWithParam<Sources> {};

TEST_P(KnownFrom, LeadToTheSameTruth) {
  const Sources sources = GetParam();
  SampleOptions options;
  options.kernel_args = sources.kernel_args;
  options.operator_args = sources.operator_args;
  options.host = sources.host;
  options.record_ids = sources.link == 0;
  options.indices = sources.link <= 1;
  options.rank_lists = sources.groups == 0;
  options.distributed_info = sources.groups == 1;
  options.group_init = sources.groups == 2;
  options.progressions = sources.groups == 3;
  const Sample sample = make_sample(options);
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job);
  const LinkCounts counts = job.report.total();
  if (sources.host != Host::none) {
    const uint64_t linked = sources.link == 0   ? counts.linked_by_record_id
                            : sources.link == 1 ? counts.linked_by_index
                                                : counts.linked_by_name;
    EXPECT_EQ(linked, counts.operators);
    EXPECT_EQ(counts.linked_by_record_id + counts.linked_by_index + counts.linked_by_name, linked);
    EXPECT_EQ(counts.links_taken_back + counts.contradicted_links, 0u);
  }
  const uint64_t all = counts.collectives + counts.messages;
  EXPECT_EQ(sources.kernel_args     ? counts.comm_by_kernel
            : sources.operator_args ? counts.comm_by_operator
                                    : counts.comm_by_host,
            all);
}

std::vector<Sources> all_sources() {
  std::vector<Sources> out;
  for (const bool kernel : {true, false}) {
    for (const bool by_operator : {true, false}) {
      for (const Host host : {Host::none, Host::positional, Host::attributes}) {
        for (int link = 0; link < 3; ++link) {
          for (int groups = 0; groups < 4; ++groups) {
            const bool by_host = host != Host::none;
            if (!by_operator && !by_host) continue;                // kernels do not tell the root of a broadcast
            if (groups == 0 && !kernel && !by_operator) continue;  // rank lists stand in the Kineto trace
            if (groups >= 2 && !by_host) continue;
            if (!by_host && link > 0) continue;
            out.push_back({kernel, by_operator, host, link, groups});
          }
        }
      }
    }
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Kineto, KnownFrom, ::testing::ValuesIn(all_sources()), [](const auto& given) {
  const Sources& sources = given.param;
  return std::string(sources.kernel_args ? "kernel_" : "") + (sources.operator_args ? "operator_" : "") +
         (sources.host == Host::none         ? "alone"
          : sources.host == Host::positional ? "host10"
                                             : "host11") +
         "_link" + std::to_string(sources.link) + "_groups" + std::to_string(sources.groups);
});

TEST(Kineto, GroupsThatAreAddressesAreToldApartByTheirMembers) {
  const Sample sample = make_sample({.kernel_args = false,
                                     .operator_args = false,
                                     .host = Host::positional,
                                     .rank_lists = false,
                                     .distributed_info = false,
                                     .group_init = false,
                                     .progressions = true,
                                     .group_names = false});
  const LinkedJob job = read_sample(sample);
  for (uint32_t r = 0; r < 4; ++r) {
    // Their names are gone, as each is the first of its members.
    Calls calls = true_calls(sample, r);
    auto pair = calls.extract(r < 2 ? "group 1: 0 1 " : "group 2: 2 3 ");
    pair.key() = r < 2 ? "group 0: 0 1 " : "group 0: 2 3 ";
    calls.insert(std::move(pair));
    EXPECT_EQ(calls_of(job.job, r), calls);
  }
  EXPECT_THAT(check_job(job.job), IsEmpty());
  EXPECT_NEAR(static_cast<double>(testing::replay(job.job, sample)), static_cast<double>(sample.end_ns), 2'000);
}

TEST(Kineto, KernelsFindTheirLaunchWithoutCorrelation) {
  struct Case {
    SampleOptions options;
    uint64_t (*launched)(const LinkCounts& counts);
    uint64_t least;
  };
  const Case cases[] = {
      {{.correlations = false, .arrows = false},
       [](const LinkCounts& counts) { return counts.launched_by_external_id; },
       41},
      {{.external_ids = false, .runtime = false},
       [](const LinkCounts& counts) { return counts.launched_by_arrow; },
       41},
      // The arrow's head names the kernel by its stream and start.
      {{.external_ids = false, .correlations = false},
       [](const LinkCounts& counts) { return counts.launched_by_arrow; },
       76},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(&each - cases);
    const Sample sample = make_sample(each.options);
    const LinkedJob job = read_sample(sample);
    const LinkCounts counts = job.report.total();
    EXPECT_GE(each.launched(counts), each.least);
    EXPECT_EQ(counts.without_launcher, 0u);
    if (!each.options.correlations) {
      EXPECT_EQ(counts.launched_by_correlation, 0u);
    }
    for (uint32_t r = 0; r < 4; ++r) EXPECT_EQ(calls_of(job.job, r), true_calls(sample, r));
  }
}

TEST(Kineto, KernelsWithoutAnyLaunchAreCountedAndKept) {
  const Sample sample = make_sample({.external_ids = false, .runtime = false, .arrows = false});
  const LinkedJob job = read_sample(sample);
  const LinkCounts counts = job.report.total();
  EXPECT_EQ(counts.without_launcher, 76u);
  EXPECT_EQ(counts.roots_assumed, 4u);  // told by operators only
  for (uint32_t r = 0; r < 4; ++r) {
    const std::string pair = r < 2 ? "group 1: 0 1 " : "group 2: 2 3 ";
    EXPECT_EQ(calls_of(job.job, r).at(pair), true_calls(sample, r).at(pair));
    expect_kernels(job.job, sample, r);
  }
  EXPECT_TRUE(has_line(job.report, "without any launch"));
  EXPECT_TRUE(has_line(job.report, "has no call that launched it"));
}

TEST(Kineto, WaitsThatDoNotSayForWhichStreamAreInferred) {
  const Sample sample = make_sample({.syncs = false});
  const LinkedJob job = read_sample(sample);
  expect_truth(sample, job);
  const LinkCounts counts = job.report.total();
  EXPECT_EQ(counts.syncs_inferred, 4u);
  EXPECT_GT(counts.waits_inferred, 0u);
  EXPECT_TRUE(has_line(job.report, "do not say for which stream"));
}

// That the waits are in the graph, and not only the times: with a kernel on one stream made longer, what waits for it
// is late by as much.
TEST(Kineto, StreamsWaitForOneAnotherAndTheHostForThem) {
  const Sample sample = make_sample({.ranks = 2, .layers = 1});
  const LinkedJob job = read_sample(sample);
  Sample slow = sample;
  for (auto& [key, ns] : slow.durations) {
    if (key.starts_with("allgather")) ns += 5'000'000;
  }
  EXPECT_NEAR(static_cast<double>(testing::replay(job.job, slow)), static_cast<double>(sample.end_ns + 5'000'000),
              400'000);
  // A sum that the host waits for at the end holds back what the host does afterwards.
  slow = sample;
  for (auto& [key, ns] : slow.durations) {
    if (key.starts_with("all-to-all")) ns += 3'000'000;
  }
  const int64_t late = testing::replay(job.job, slow) - sample.end_ns;
  EXPECT_GT(late, 2'500'000);
}

// One rank of two that exchange 4 KiB by one kernel: batch_isend_irecv.
std::string coalesced(uint32_t rank) {
  const std::string peer = std::to_string(1 - rank);
  const auto call = [&](const char* name, const char* key, int64_t ts) {
    return "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"record_param_comms\", \"pid\": 1, \"tid\": 1, \"ts\": " +
           std::to_string(ts) + ", \"dur\": 2, \"args\": {\"Collective name\": \"" + name +
           "\", \"In msg nelems\": 1024, " +
           "\"Out msg nelems\": 1024, \"dtype\": \"Float\", \"Group size\": 2, \"Process Group Name\": \"0\", " +
           "\"Process Group Ranks\": \"[0, 1]\", \"" + key + "\": " + peer + "}},";
  };
  return "{\"distributedInfo\": {\"rank\": " + std::to_string(rank) + ", \"world_size\": 2}, \"traceEvents\": [" +
         call("send", "Dst Rank", 100) + call("recv", "Src Rank", 110) + R"json(
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 1, "tid": 1, "ts": 120, "dur": 5, "args": {"correlation": 7}},
    {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv(ncclDevKernelArgs)", "pid": 0, "tid": 20, "ts": 130, "dur": 40,
     "args": {"device": 0, "stream": 20, "correlation": 7}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 1200, "dur": 60, "args": {"correlation": 8}},
    {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "pid": 0, "tid": 7, "ts": 1230, "dur": 20,
     "args": {"device": 0, "stream": 7, "correlation": 8, "bytes": 65536}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 1300, "dur": 10, "args": {"correlation": 9}},
    {"ph": "X", "cat": "kernel", "name": "graph_a", "pid": 0, "tid": 7, "ts": 1320, "dur": 5, "args": {"stream": 7, "correlation": 9}},
    {"ph": "X", "cat": "kernel", "name": "graph_b", "pid": 0, "tid": 7, "ts": 0, "dur": 0, "args": {"stream": 7, "correlation": 9}}]})json";
}

const Node& node_named(const Job& job, uint32_t rank, std::string_view name, uint32_t& place) {
  const auto& nodes = job.program(rank).nodes;
  for (place = 0; place < nodes.size(); ++place) {
    if (job.name_of(nodes[place]) == name && nodes[place].kind != NodeKind::marker) return nodes[place];
  }
  throw Error(ErrorCode::not_found, std::string(name));
}

TEST(Kineto, AKernelOfSeveralCallsSendsAndReceivesAtOnce) {
  const std::string a = coalesced(0), b = coalesced(1);
  const LinkedJob read = read_job(std::vector<RankTraceTexts>{{.kineto = a, .host = {}}, {.kineto = b, .host = {}}});
  const LinkCounts counts = read.report.total();
  EXPECT_EQ(counts.calls_coalesced, 4u);
  EXPECT_EQ(counts.messages, 4u);
  // In the order of one stream, both would send first and wait for ever.
  EXPECT_THAT(check_job(read.job), IsEmpty());
  for (uint32_t r = 0; r < 2; ++r) {
    uint32_t sends = 0, receives = 0;
    for (const Node& node : read.job.program(r).nodes) {
      if (node.kind != NodeKind::send && node.kind != NodeKind::receive) continue;
      ++(node.kind == NodeKind::send ? sends : receives);
      EXPECT_EQ(node.bytes, 4096u);
      EXPECT_EQ(read.job.peer(r, node.slot), 1 - r);
    }
    EXPECT_EQ(sends, 1u);
    EXPECT_EQ(receives, 1u);
  }
}

TEST(Kineto, BlockingCopiesHoldTheHostAndGraphsLaunchAllTheirKernels) {
  const std::string a = coalesced(0), b = coalesced(1);
  const LinkedJob read = read_job(std::vector<RankTraceTexts>{{.kineto = a, .host = {}}, {.kineto = b, .host = {}}});
  const Program& program = read.job.program(0);
  uint32_t copy = 0, first = 0, second = 0;
  const Node& memory = node_named(read.job, 0, "Memcpy DtoH (Device -> Pageable)", copy);
  EXPECT_EQ(memory.kind, NodeKind::memory);
  EXPECT_EQ(memory.bytes, 65536u);
  // A marker of the host needs the copy.
  bool held = false;
  for (uint32_t i = 0; i < program.nodes.size(); ++i) {
    const auto needs = program.needs(i);
    held = held || (program.nodes[i].kind == NodeKind::marker &&
                    program.streams[program.nodes[i].stream].name == "host thread 1" &&
                    std::find(needs.begin(), needs.end(), copy) != needs.end());
  }
  EXPECT_TRUE(held);
  EXPECT_EQ(read.report.total().syncs, 2u);
  // Both kernels of the graph need the same node of the host; the one that lost its times begins with the launch.
  node_named(read.job, 0, "graph_a", first);
  node_named(read.job, 0, "graph_b", second);
  // A pause before a kernel is a node of its own, which then needs the launch.
  const auto need_of = [&](uint32_t kernel) {
    uint32_t at = kernel;
    for (uint32_t i = 0; i < kernel; ++i) {
      const bool is_pause = program.nodes[i].stream == program.nodes[kernel].stream &&
                            read.job.name_of(program.nodes[i]) == "launch latency";
      if (is_pause && program.needs(kernel).empty()) at = i;
    }
    EXPECT_EQ(program.needs(at).size(), 1u);
    return program.needs(at).empty() ? UINT32_MAX : program.needs(at)[0];
  };
  EXPECT_EQ(need_of(first), need_of(second));
  EXPECT_EQ(read.report.total().without_gpu_time, 2u);
}

TEST(Kineto, ARealPairOfPyTorchAndGlooIsLinkedByNames) {
  const std::string folder = std::string(BANYAN_SOURCE_DIR) + "/banyan/job/fixtures/";
  std::vector<RankTraces> files;
  for (const char* rank : {"0", "1"}) {
    files.push_back({.kineto = folder + "torch113_gloo_kineto" + rank + ".json.gz",
                     .host = folder + "torch113_gloo_host" + rank + ".json.gz",
                     .rank = {}});
  }
  const LinkedJob read = read_job(files);
  const LinkCounts counts = read.report.total();
  EXPECT_EQ(counts.kineto_alone, 0u);
  EXPECT_GE(counts.linked_by_name, counts.operators);
  EXPECT_EQ(counts.links_taken_back, 0u);
  // What the program called: DDP's bucket of 64 * 128 + 128 + 128 * 16 + 16 floats, then 1,000 floats each.
  const Calls expected = {{"group 0: 0 1 ",
                           {"allreduce 41536 root 0", "allreduce 4000 root 0", "broadcast 4000 root 1",
                            "allgather 8000 root 0", "barrier 0 root 0"}}};
  for (uint32_t r = 0; r < 2; ++r) EXPECT_EQ(calls_of(read.job, r), expected);
  for (const auto& [rank, kind] : {std::pair(0, NodeKind::send), std::pair(1, NodeKind::receive)}) {
    const auto& nodes = read.job.program(static_cast<uint32_t>(rank)).nodes;
    const auto at =
        std::find_if(nodes.begin(), nodes.end(), [sought = kind](const Node& node) { return node.kind == sought; });
    ASSERT_NE(at, nodes.end());
    EXPECT_EQ(at->bytes, 4000u);
    EXPECT_EQ(read.job.peer(static_cast<uint32_t>(rank), at->slot), 1u - static_cast<uint32_t>(rank));
  }
  EXPECT_THAT(check_job(read.job), IsEmpty());
  EXPECT_GT(counts.handoffs, 4u);
}

}  // namespace
}  // namespace banyan::job::kineto
