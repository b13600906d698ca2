#include "banyan/job/kineto/test_sample.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "banyan/job/kineto/test_sample_rank.h"

namespace banyan::testing {
namespace {

class Run {
 public:
  explicit Run(const SampleOptions& options) : options_(options) {
    out_.ranks.resize(options.ranks);
    out_.message_ns = 41'000;
    for (uint32_t r = 0; r < options.ranks; ++r) ranks_.emplace_back(options, r);
  }

  Sample make() && {
    for (uint32_t s = 0; s < options_.steps; ++s) step(s);
    int64_t first = INT64_MAX;
    for (const RankRun& rank : ranks_) first = std::min(first, rank.first() - rank.clock_ahead());
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const int64_t last =
          std::max({ranks_[r].last(), ranks_[r].now(kMainThread) - kBetweenSteps, ranks_[r].now(kAutogradThread)});
      std::vector<SampleCall> calls = std::move(out_.ranks[r].calls);
      const int64_t end = last - ranks_[r].clock_ahead() - first;
      out_.ranks[r] = std::move(ranks_[r]).finish();
      out_.ranks[r].calls = std::move(calls);
      out_.ranks[r].end_ns = end;
      out_.end_ns = std::max(out_.end_ns, end);
    }
    return std::move(out_);
  }

 private:
  static constexpr int64_t kBetweenSteps = 30'000;
  static constexpr int kCompute = 7, kCommStream = 20, kPairStream = 24, kMessageStream = 28;

  // What a communication is, where, and what it waits for.
  struct Place {
    uint64_t thread;
    int stream;
    std::optional<int> after = kCompute;
  };
  struct Collective {
    CollectiveKind kind;
    std::string name;    // as PyTorch calls it
    std::string kernel;  // as NCCL does
    uint64_t elements;
    uint32_t root = 0;
    bool pairs = false;  // of ranks 0 and 1, 2 and 3 and so on, instead of all
    uint32_t kernels = 1;
  };

  std::vector<uint32_t> everyone() const {
    std::vector<uint32_t> all(options_.ranks);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  // The same call on all its ranks.
  void communicate(const std::vector<std::pair<uint32_t, SampleComm>>& calls, const Place& place, int64_t duration) {
    std::vector<RankRun::Begun> begun;
    int64_t together = 0;
    for (const auto& [r, comm] : calls) {
      begun.push_back(ranks_[r].begin_comm(comm, place.thread, place.stream, place.after));
      together = std::max(together, begun.back().start - ranks_[r].clock_ahead());
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      RankRun& rank = ranks_[calls[i].first];
      rank.end_comm(begun[i], calls[i].second, together + duration + rank.clock_ahead());
    }
  }

  void collective(const Collective& what, const Place& place) {
    std::map<std::vector<uint32_t>, std::vector<std::pair<uint32_t, SampleComm>>> by_group;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      SampleComm comm{.name = what.name, .kernel = what.kernel, .ranks = everyone(), .kernels = what.kernels};
      if (what.pairs) std::erase_if(comm.ranks, [&](uint32_t other) { return other / 2 != r / 2; });
      comm.group = what.pairs ? 1 + r / 2 : 0;
      uint64_t elements = what.elements;
      if (what.kind == CollectiveKind::all_reduce && options_.other_bytes.contains(r) && used_other_.insert(r).second) {
        elements = options_.other_bytes.at(r);
      }
      const uint64_t members = comm.ranks.size();
      comm.in = elements;
      comm.out = what.kind == CollectiveKind::all_gather       ? elements * members
                 : what.kind == CollectiveKind::reduce_scatter ? elements / members
                                                               : elements;
      const bool rooted = what.kind == CollectiveKind::broadcast;
      const auto self = std::find(comm.ranks.begin(), comm.ranks.end(), r) - comm.ranks.begin();
      comm.peer = rooted ? what.root : static_cast<uint32_t>(self);
      const uint64_t bytes = 4 * std::max(comm.in, comm.out);
      out_.ranks[r].calls.push_back({what.kind, bytes, rooted ? what.root : 0, comm.ranks, comm.group});
      out_.durations[sample_key(what.kind, bytes)] = 20'000 + static_cast<int64_t>(bytes / 10);
      by_group[comm.ranks].emplace_back(r, comm);
    }
    for (const auto& [ranks, calls] : by_group) {
      const SampleCall& truth = out_.ranks[ranks[0]].calls.back();
      communicate(calls, place, out_.durations.at(sample_key(truth.kind, truth.bytes)));
    }
  }

  // From each even rank to the next.
  void messages(uint64_t elements, const Place& place) {
    for (uint32_t r = 0; r + 1 < ranks_.size(); r += 2) {
      const SampleComm send{.name = "send",
                            .kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgs)",
                            .in = elements,
                            .out = elements,
                            .ranks = everyone(),
                            .peer = r + 1,
                            .message = true,
                            .sender = r,
                            .receiver = r + 1};
      SampleComm receive = send;
      receive.name = "recv";
      receive.peer = r;
      communicate({{r, send}, {r + 1, receive}}, place, out_.message_ns);
    }
  }

  void step(uint32_t s) {
    std::vector<int64_t> begins;
    for (RankRun& rank : ranks_) {
      begins.push_back(rank.now(kMainThread));
      rank.plain(kMainThread, "aten::zeros", 11'000 + 300 * number(rank));
    }
    collective({.kind = CollectiveKind::broadcast,
                .name = "broadcast",
                .kernel = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgs)",
                .elements = 512 + 64,
                .root = 1 % options_.ranks},
               {.thread = kMainThread, .stream = kCommStream});
    forward(s);
    collective({.kind = CollectiveKind::reduce_scatter,
                .name = "_reduce_scatter_base",
                .kernel = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgs)",
                .elements = options_.ranks * 1'024},
               {.thread = kMainThread, .stream = kCommStream});
    messages(2'048, {.thread = kMainThread, .stream = kMessageStream});
    backward(s);
    collective({.kind = CollectiveKind::all_to_all,
                .name = "all_to_all",
                .kernel = "ncclDevKernel_SendRecv(ncclDevKernelArgs)",
                .elements = 6'000,
                .kernels = 2},
               {.thread = kMainThread, .stream = kCommStream, .after = std::nullopt});
    for (RankRun& rank : ranks_) {
      rank.kernel(kMainThread, {.op = "aten::add_",
                                .name = "adam_" + std::to_string(s),
                                .stream = kCompute,
                                .host_ns = 12'000,
                                .gpu_ns = 95'000});
      rank.copy_to_host(kCompute);
      rank.plain(kMainThread, "aten::sum", 20'000);
      rank.step(s, begins[static_cast<size_t>(number(rank))]);
      rank.idle_until(kMainThread, rank.now(kMainThread) + kBetweenSteps);
    }
  }

  void forward(uint32_t s) {
    for (uint32_t l = 0; l < options_.layers; ++l) {
      for (RankRun& rank : ranks_) {
        rank.kernel(kMainThread, {.op = "aten::mm",
                                  .name = "sgemm_forward_" + std::to_string(s) + "_" + std::to_string(l),
                                  .stream = kCompute,
                                  .host_ns = 9'000 + 100 * number(rank),
                                  .gpu_ns = 130'000 + 5'000 * int64_t{l} + 900 * number(rank)});
      }
      collective({.kind = CollectiveKind::all_gather,
                  .name = "_allgather_base",
                  .kernel = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)",
                  .elements = 4'000 + 8 * l,
                  .pairs = true},
                 {.thread = kMainThread, .stream = kPairStream});
      // The next layer needs it.
      for (RankRun& rank : ranks_) rank.wait(kMainThread, kCompute, kPairStream);
    }
  }

  // Autograd's thread takes over, and the main one waits for it.
  void backward(uint32_t s) {
    for (RankRun& rank : ranks_) {
      rank.idle_until(kAutogradThread, std::max(rank.now(kAutogradThread), rank.now(kMainThread) + 15'000));
    }
    for (uint32_t l = options_.layers; l-- > 0;) {
      for (RankRun& rank : ranks_) {
        rank.kernel(kAutogradThread, {.op = "MmBackward0",
                                      .name = "sgemm_backward_" + std::to_string(s) + "_" + std::to_string(l),
                                      .stream = kCompute,
                                      .host_ns = 70'000,
                                      .gpu_ns = 210'000 - 3'000 * int64_t{l} + 700 * number(rank)});
      }
      collective({.kind = CollectiveKind::all_reduce,
                  .name = "allreduce",
                  .kernel = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
                  .elements = 30'000 + 1'000 * l},
                 {.thread = kAutogradThread, .stream = kCommStream});
    }
    for (RankRun& rank : ranks_) {
      rank.plain(kAutogradThread, "aten::detach", 150'000);
      rank.idle_until(kMainThread, rank.now(kAutogradThread) + 25'000);
      rank.plain(kMainThread, "aten::item", 4'000);
      rank.wait(kMainThread, kCompute, kCommStream);
    }
  }

  int64_t number(const RankRun& rank) const { return &rank - ranks_.data(); }

  const SampleOptions& options_;
  std::vector<RankRun> ranks_;
  std::set<uint32_t> used_other_;
  Sample out_;
};

}  // namespace

std::string sample_key(CollectiveKind kind, uint64_t bytes) {
  return std::string(to_string(kind)) + " " + std::to_string(bytes);
}

Sample make_sample(const SampleOptions& options) { return Run(options).make(); }

}  // namespace banyan::testing
