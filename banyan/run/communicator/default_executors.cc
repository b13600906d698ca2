#include "banyan/run/communicator/default_executors.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/execute/host_executor.h"
#include "banyan/run/execute/net_executor.h"
#include "banyan/run/record/log.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/ucx/transport.h"

namespace banyan::run {
namespace {

// Hosts numbered in order of first appearance.
std::vector<uint32_t> hosts_of(const JoinedProcesses& job, const std::vector<uint32_t>& members) {
  std::vector<std::string> hosts;
  std::vector<uint32_t> host_of_rank;
  for (const uint32_t member : members) {
    const std::string& host = job.process(member).member.host_id;
    const auto found = std::ranges::find(hosts, host);
    host_of_rank.push_back(static_cast<uint32_t>(found - hosts.begin()));
    if (found == hosts.end()) hosts.push_back(host);
  }
  return host_of_rank;
}

// Once in a process.
void warn_of_ucx() {
  static std::atomic_flag is_said;
  if (is_said.test_and_set(std::memory_order_relaxed)) return;
  BANYAN_LOG(warning)
      << "UCX neither authenticates nor encrypts what goes between hosts, which other transports do where "
         "a secret is set; BANYAN_ENCRYPTION=off says that this is meant";
}

}  // namespace

ExecutorFactory::Made DefaultExecutors::make(ExecutorSite site) {
  using Transports = Communicator::Transports;
  const auto here = std::ranges::count_if(site.members, [&](uint32_t member) { return job_->is_here(member); });
  const bool all_here = here == std::ssize(site.members);
  switch (options_.transports) {
    case Transports::ucx:
      if (job_->seals().is_asked_for) {
        throw Error(ErrorCode::unsupported,
                    "UCX neither authenticates nor encrypts what it carries, as BANYAN_ENCRYPTION asks for; use "
                    "transport tcp or auto, or BANYAN_ENCRYPTION=off");
      }
      if (job_->seals().sealing) warn_of_ucx();
      return {.executor = make_net_executor(site), .means = "UCX"};
    case Transports::tcp:
      return {.executor = make_net_executor(site), .means = "TCP"};
    case Transports::automatic:
      if (all_here && !job_->share_memory(site.members)) {
        return {.executor = make_net_executor(site), .means = "TCP, since memory is closed to other ranks"};
      }
      if (!all_here) {
        return {.executor = make_net_executor(site), .means = here == 1 ? "TCP" : "TCP, and shared memory on a host"};
      }
      if (options_.follows_plans) {
        return {.executor = make_net_executor(site), .means = "plans through shared memory"};
      }
      break;
    case Transports::shared_memory:
      break;
  }
  if (!all_here) {
    throw Error(ErrorCode::unsupported,
                "the ranks of '" + site.name + "' are on several hosts, which shared memory does not join; use tcp");
  }
  if (!job_->share_memory(site.members)) {
    throw Error(ErrorCode::unsupported,
                "the ranks of '" + site.name +
                    "' may not open each other's memory, as they have different user namespaces, users or "
                    "capabilities; use transport tcp or auto");
  }
  const Deadline deadline = options_.joins_by.value_or(Deadline::after(options_.join_timeout));
  return {.executor = std::make_unique<HostExecutor>(job_->meet_on_host(site.id, site.members, deadline), job_->pool()),
          .means = "shared memory",
          .is_on_one_host = true};
}

std::unique_ptr<Executor> DefaultExecutors::make_net_executor(const ExecutorSite& site) const {
  if (!options_.plans) {
    throw Error(ErrorCode::unsupported, "there is no planner for ranks on several hosts: set Options::plans");
  }
  const auto size = static_cast<uint32_t>(site.members.size());
  const bool is_ucx = options_.transports == Communicator::Transports::ucx;
  // Called by the constructor of NetExecutor only.
  const auto make_transport = [&](std::function<Path(uint32_t, uint32_t)> path) -> std::unique_ptr<ChannelTransport> {
    std::unique_ptr<Connector> connector =
        job_->agent().connector(site.id, site.members, site.rank, std::min(options_.timeout, options_.join_timeout));
    if (is_ucx) return ucx::make_transport(std::move(connector), {.ranks = size, .lanes = NetPlans::kFirstOwnLane});
    LaneTransport::Options lanes{.rank = site.rank,
                                 .ranks = size,
                                 .path = std::move(path),
                                 .zero_copy = options_.zero_copy,
                                 .checksums = options_.checksums,
                                 .sealing = job_->seals().sealing};
    if (options_.transports == Communicator::Transports::automatic) {
      lanes.shares_memory = [job = job_, members = site.members](uint32_t peer) { return job->is_here(members[peer]); };
    }
    std::unique_ptr<ChannelTransport> transport =
        std::make_unique<LaneTransport>(std::move(connector), std::move(lanes));
    return options_.around_transport ? options_.around_transport(std::move(transport)) : std::move(transport);
  };
  return std::make_unique<NetExecutor>(
      NetPlans::Options{
          .rank = site.rank,
          .ranks = size,
          .source = options_.plans(
              {.members = site.members, .job_size = job_->size(), .host_of_rank = hosts_of(*job_, site.members)}),
          .has_paths = !is_ucx,
          .revises = options_.revises_plans && !is_ucx,
          .shared_lanes = is_ucx ? 1 : options_.connections},
      NetExecutor::Options{.is_oversubscribed = job_->is_oversubscribed(),
                           .fail_peers = site.send_failure,
                           .send = site.send_text,
                           .is_gone = [job = job_, members = site.members](
                                          uint32_t rank) { return job->agent().liveness().is_gone(members[rank]); },
                           .transport = make_transport});
}

}  // namespace banyan::run
