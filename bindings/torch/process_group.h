// ProcessGroupBanyan: the backend "banyan" of torch.distributed, over a Communicator.
//
// It does all that Gloo does, with the same results and the same refusals; besides, it has reduce_scatter, all_to_all
// of lists, AVG, bfloat16 and the small integers. Collectives are carried out in the order of their calls, by whoever
// waits for them or by the communicator's progress thread. Tensors that are not contiguous go through a copy.
//
// Sums of sparse tensors are several calls each, which depend on each other. They go on beside all others: one after
// the other in a thread and a communicator of their own, which all ranks make at their first one. An error that ends
// the one communicator does not end the other; abort() ends both.
//
// Errors: c10::Error (RuntimeError) for arguments, before anything has happened; CommunicationError
// (banyan_torch.Error) by the works, and at once by a group that has failed before. Calls of several threads exclude
// each other.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/compose/settings.h"
#include "banyan/run/call/residual.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/sparse/sparse_all_reduce.h"
#include "banyan/run/sparse/sparse_queue.h"
#include "banyan/run/system/fork_guard.h"
#include "bindings/torch/errors.h"
#include "bindings/torch/survivors.h"
#include "bindings/torch/torch_version.h"
#include "bindings/torch/work.h"

namespace banyan::pytorch {

class ProcessGroupBanyan : public BackendBase {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using OwnWorkPtr = c10::intrusive_ptr<BanyanWork>;

  // The members of a group.
  struct Members {
    int rank = 0, size = 1;
    std::string name;                   // equal on all members; used once between a world and its end
    std::vector<int64_t> global_ranks;  // of the members in the default group; empty for that group itself
  };
  // Collective. The processes of the default group join through the store; groups among them need no more than their
  // shared memory or connections. Throws CommunicationError naming who has not come.
  static c10::intrusive_ptr<ProcessGroupBanyan> create(const c10::intrusive_ptr<c10d::Store>& store,
                                                       const Members& members, const compose::Settings& settings);

  struct Job;  // processes that have joined together, of which groups are made
  // The members' ranks in the job.
  struct Place {
    std::shared_ptr<Job> job;
    std::vector<uint32_t> ranks;
  };
  ProcessGroupBanyan(const Members& members, Place place, compose::Settings settings, run::Communicator communicator);
  // Waits for collectives under way as long as they move.
  ~ProcessGroupBanyan() override;

  const std::string getBackendName() const override { return "banyan"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  // Takes sparse COO tensors, too: the indices of their sum are the union of all.
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // The average of float32 values, in place and coded on the wire. The work holds the residual, which may be null.
  OwnWorkPtr coded_average(const at::Tensor& buffer, const codec::Codec& codec,
                           const std::shared_ptr<run::Residual>& residual);
  // Sums a contiguous float32 buffer in parts of `counts` values, one after the other, one for each rank: `own` becomes
  // the sum of this rank's part. The buffer and `own` do not overlap.
  OwnWorkPtr sum_parts(const at::Tensor& buffer, const std::vector<size_t>& counts, const at::Tensor& own);
  // The other way round: the parts of all ranks, to all.
  OwnWorkPtr gather_parts(const at::Tensor& own, const std::vector<size_t>& counts, const at::Tensor& buffer);
  // Several calls, over this communicator and each with this timeout; 0 is the communicator's own.
  using SparseSum = std::function<void(run::Communicator& communicator, std::chrono::milliseconds timeout)>;
  // Collective: has `sum` carried out in the background, after those that were started before. An exception of `sum` is
  // the work's error. A timeout of 0 is that of the group.
  OwnWorkPtr start_sparse(BanyanWork::Task task, SparseSum sum, std::chrono::milliseconds timeout = kNoTimeout);
  // True if sparse tensors like this one are added up by rows, which can be coded: those of float32 with 1 to 2^32 - 1
  // rows of 1 to 2^32 - 1 values.
  static bool is_table(const at::Tensor& tensor);
  // Collective: the average of such a tensor, in place, with rows that are coded on the wire (run/sparse). `kept`: of
  // this rank, a value for each of the dense tensor, row after row, or empty; `use`, which may be null, is that of the
  // residual it belongs to, and ends before the work does.
  OwnWorkPtr coded_sparse_average(const at::Tensor& tensor, const codec::Codec& codec, std::span<float> kept,
                                  const std::shared_ptr<run::ResidualUse>& use);
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
#ifdef BANYAN_BACKEND_COALESCES
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return allreduce(tensors, options);
  }
  // One call for each pair of an output and an input, of any types and sizes; refused before any has begun.
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  // Calls in between start as ever; endCoalescing() returns one work for all of them.
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void enableCollectivesTiming() override {}
#endif
#ifdef BANYAN_BACKEND_ABORTS
  void abort() override { abort("torch.distributed has aborted the group"); }
  // Sets the timeout of calls from now on that have none of their own.
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_.store(timeout); }
#endif
#ifdef BANYAN_BACKEND_SPLITS
  bool supportsSplitting() const override { return true; }
  // The timeout and the name; what else split() and merge() want for a new group is as in this one.
  c10::intrusive_ptr<Options> getBackendOptions() override;
  // Collective over `members`, ranks of this group in the order of the new one; null for who is not among them. The
  // processes know each other, so the store is not used.
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& members,
                                          const c10::intrusive_ptr<Options>& options) override;
  // Collective over `size` processes, which may have come in different groups: they join anew, through the store.
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& options, const int& rank,
                                          const int& size) override;
#endif
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  // Blocks. Rank 0 alone judges: it throws, naming the ranks that have not come within the time, which begins when it
  // comes itself: the first of them, or with `wait_all_ranks` all. The others wait for its verdict and throw the same;
  // who comes too late finds it waiting.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  // The number of collectives that this rank has called, from 0: equal on all ranks that are in step, so there is
  // nothing to agree on first.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return calls_.load(); }

  // Called by c10's pointers when the last strong one goes.
  void release_resources() override;

  // Ends everything under way with an error, here and at the other ranks; of its twins and the groups among its ranks,
  // too. Any thread.
  void abort(const std::string& why);
  // Collective: a group of the same ranks, whose calls are in an order of their own.
  c10::intrusive_ptr<ProcessGroupBanyan> twin();
  // Collective over `members`, ranks of this group in the order of the new one, this rank among them. `purpose` is
  // equal on all of them and tells their group from others.
  c10::intrusive_ptr<ProcessGroupBanyan> among(const std::vector<int>& members, const std::string& purpose);
  // Collective among the members that live: who they are, for going on without the others. Ends what is under way on
  // this group, which is of no use after that. Members that do not call within `patience` are left out. Throws
  // CommunicationError as run::Communicator::shrink() does.
  std::unique_ptr<Survivors> survivors(std::chrono::milliseconds patience);
  // Why it has failed; empty while it works.
  std::string error() const;
  // True if the ranks exchange through shared memory, all being on one host.
  bool is_on_one_host() const { return communicator_.is_on_one_host(); }
  // Those of this host, in their order.
  std::vector<int> ranks_here() const;
  // The number of times that calls went on after a link or a connection was lost.
  uint32_t reroutes() const { return communicator_.reroutes(); }
  // Waits for collectives under way, ten seconds at most, and ends what is left. Later calls fail.
  void finish();

 private:
  using GroupPtr = c10::intrusive_ptr<ProcessGroupBanyan>;

  // The default group's processes, while it exists.
  static std::weak_ptr<Job>& world();
  static std::shared_ptr<Job> job_of(const c10::intrusive_ptr<c10d::Store>& store, const Members& members,
                                     std::chrono::milliseconds at_most, const run::Communicator::Options& options);
  static GroupPtr of_all(std::shared_ptr<Job> job, const Members& members, const compose::Settings& settings,
                         run::Communicator::Options options);
  // Collective over the members.
  static GroupPtr of_job(Place place, const Members& members, compose::Settings settings,
                         run::Communicator::Options options);
#ifdef BANYAN_BACKEND_SPLITS
  compose::Settings settings_of(const Options& options) const;
#endif
  // This group's settings with this name, and the timeout as it is now.
  compose::Settings own_settings(const std::string& name) const;
  // One that this has made for itself, of these members.
  GroupPtr offspring(const Members& members, Place place);
  // These ranks of this group as members of another, and their place in the job; Members::rank is -1 if this rank is
  // not among them.
  std::pair<Members, Place> members_among(const std::vector<int>& ranks, const std::string& name) const;
  // Starts a collective, or any call. A timeout of 0 is that of the group.
  OwnWorkPtr start(BanyanWork::Task task, const run::Call& call, std::chrono::milliseconds timeout);
  OwnWorkPtr begin(BanyanWork::Task task, run::Call call, std::chrono::milliseconds timeout);
  // A call that has begun, and belongs to the work that endCoalescing() hands out.
  OwnWorkPtr begun(OwnWorkPtr work);
  OwnWorkPtr all_gather_into(const at::Tensor& output, const at::Tensor& input, const c10d::AllgatherOptions& options);
  OwnWorkPtr reduce_scatter_from(const at::Tensor& output, const at::Tensor& input,
                                 const c10d::ReduceScatterOptions& options);
  WorkPtr as_one(c10d::OpType type, std::vector<OwnWorkPtr> works) const;
  WorkPtr start_message(BanyanWork::Task task, Tensors& tensors, uint32_t peer, int tag);
  WorkPtr sum_sparse(Tensors& tensors, const c10d::AllreduceOptions& options);
  // Collective at the first call.
  run::SparseQueue& sparse_queue();
  // The code of rows, if any, and the residual that keeps its losses.
  struct RowCode {
    std::optional<codec::Codec> codec;
    std::span<float> kept;
  };
  // In the queue's thread. The sum as a table of rows, for is_table(); for others each rank gets the entries of all.
  at::Tensor sum_of_rows(run::Communicator& communicator, const at::Tensor& input, const RowCode& code,
                         std::chrono::milliseconds timeout);
  at::Tensor sum_of_all_entries(run::Communicator& communicator, const at::Tensor& input,
                                std::chrono::milliseconds timeout) const;
  run::SparseAllReduce& sparse_table(run::Communicator& communicator, const at::Tensor& like,
                                     const std::optional<codec::Codec>& codec);
  uint32_t ranks() const { return communicator_.size(); }

  const uint64_t number_;                    // from 1 on; no other group of this process has it
  uint64_t maker_ = 0;                       // the number of the group that made it, or 0; under worlds_mutex()
  const std::vector<int64_t> global_ranks_;  // of the members; empty for the default group
  const Place place_;
  const compose::Settings settings_;
  run::Communicator communicator_;
  const run::ForkGuard fork_guard_;
  std::atomic<uint64_t> calls_{0}, barriers_{0};
  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::milliseconds(0)};  // 0: that of the communicator
  // Indexed by sizes, the number of sparse ones among these, and the code. For the queue's thread only.
  std::map<std::vector<int64_t>, std::unique_ptr<run::SparseAllReduce>> sparse_tables_;
  std::mutex sparse_mutex_;                                // protects the next, and is held while it is made
  std::unique_ptr<run::SparseQueue> own_sparse_queue_;     // from the first sum on
  std::atomic<run::SparseQueue*> sparse_queue_ = nullptr;  // the same, for who must not wait
  std::mutex coalesced_mutex_;
  std::optional<std::vector<OwnWorkPtr>> coalesced_;  // since startCoalescing(); under coalesced_mutex_
};

// Those that exist, for the end of the program: finish() of all of them.
void finish_all_groups();

}  // namespace banyan::pytorch
