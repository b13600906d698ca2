#include "banyan/job/kineto/test_expect.h"

#include "banyan/job/check.h"
#include "banyan/job/kineto/test_replay.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

void add_call(Calls& calls, const std::string& name, const std::vector<uint32_t>& ranks, CollectiveKind kind,
              uint64_t bytes, uint32_t root) {
  std::string group = name + ": ";
  for (const uint32_t member : ranks) group += std::to_string(member) + " ";
  calls[group].push_back(std::string(to_string(kind)) + " " + std::to_string(bytes) + " root " + std::to_string(root));
}

}  // namespace

job::kineto::LinkedJob read_sample(const Sample& sample, const job::kineto::Options& options) {
  std::vector<job::kineto::RankTraceTexts> texts;
  for (const auto& rank : sample.ranks) texts.push_back({.kineto = rank.kineto, .host = rank.host, .rank = {}});
  return read_job(texts, options);
}

job::kineto::LinkedJob read_texts(const std::vector<std::string>& kineto) {
  std::vector<job::kineto::RankTraceTexts> texts;
  for (const std::string& text : kineto) texts.push_back({.kineto = text, .host = {}, .rank = {}});
  return read_job(texts);
}

std::string error_of_sample(const Sample& sample, const job::kineto::Options& options) {
  return error_of([&] { read_sample(sample, options); });
}

std::string error_of_texts(const std::vector<std::string>& kineto) {
  return error_of([&] { read_texts(kineto); });
}

Calls calls_of(const Job& job, uint32_t rank) {
  Calls out;
  for (const job::Node& node : job.program(rank).nodes) {
    if (node.kind == job::NodeKind::collective) {
      const job::Group& group = job.groups()[job.group(rank, node.slot)];
      add_call(out, group.name, group.ranks, node.collective, node.bytes, node.tag);
    }
  }
  return out;
}

Calls true_calls(const Sample& sample, uint32_t rank) {
  Calls out;
  for (const SampleCall& call : sample.ranks[rank].calls)
    add_call(out, "group " + std::to_string(call.group), call.ranks, call.kind, call.bytes, call.root);
  return out;
}

void expect_kernels(const Job& job, const Sample& sample, uint32_t rank) {
  std::map<std::string, std::vector<const job::Node*>> found;
  for (const job::Node& node : job.program(rank).nodes) {
    if (node.kind == job::NodeKind::compute) found[job.name_of(node)].push_back(&node);
  }
  for (const auto& kernel : sample.ranks[rank].kernels) {
    const auto& nodes = found[kernel.name];
    ASSERT_EQ(nodes.size(), 1u) << "rank " << rank << " " << kernel.name;
    EXPECT_EQ(job.program(rank).streams[nodes[0]->stream].name, kernel.stream);
    const int64_t ns = nodes[0]->duration.count() / 1000;
    EXPECT_GE(ns, kernel.duration_ns) << kernel.name;
    EXPECT_LE(ns, kernel.duration_ns + 20'000) << kernel.name;
  }
}

void expect_truth(const Sample& sample, const job::kineto::LinkedJob& read, int64_t within_ns) {
  for (uint32_t r = 0; r < sample.ranks.size(); ++r) {
    EXPECT_EQ(calls_of(read.job, r), true_calls(sample, r)) << "rank " << r;
    expect_kernels(read.job, sample, r);
  }
  EXPECT_THAT(check_job(read.job), IsEmpty());
  EXPECT_NEAR(static_cast<double>(replay(read.job, sample)), static_cast<double>(sample.end_ns),
              static_cast<double>(within_ns));
}

bool has_line(const job::kineto::LinkReport& report, const std::string& text) {
  for (const std::string& line : report.lines()) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

std::string trace_of(const std::vector<std::string>& events, uint32_t rank, uint32_t world) {
  std::string text = "{";
  if (world > 0) {
    text += "\"distributedInfo\": {\"rank\": " + std::to_string(rank) + ", \"world_size\": " + std::to_string(world) +
            "}, ";
  }
  text += "\"traceEvents\": [";
  for (size_t i = 0; i < events.size(); ++i) text += (i > 0 ? ",\n" : "\n") + events[i];
  return text + "\n]}";
}

}  // namespace banyan::testing
