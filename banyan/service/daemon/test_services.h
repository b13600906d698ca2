// Communicators of several hosts whose calls go through the daemons of these hosts. Each host is a name here
// (BANYAN_HOST_ID), each daemon and each rank a process.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/client/service_executors.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/http/client.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {

class Services : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  Services() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }

  // `body` on each rank, rank r on host r % hosts, each host with a daemon.
  std::vector<std::string> run_ranks(uint32_t ranks, uint32_t hosts,
                                     const std::function<std::string(run::Communicator&, run::RegionPool&)>& body) {
    const std::string meeting = "file://" + folder_ + "/meeting";
    std::vector<std::string> reports =
        run::run_processes(hosts + ranks, std::chrono::seconds(100), [&](uint32_t number) {
          const bool is_daemon = number < hosts;
          const uint32_t rank = number - hosts;
          const uint32_t host = is_daemon ? number : rank % hosts;
          setenv("BANYAN_HOST_ID", ("host" + std::to_string(host)).c_str(), 1);
          const std::string socket = folder_ + "/daemon" + std::to_string(host);
          if (is_daemon) return be_daemon(host, socket, ranks);
          wait_until([&] { return std::filesystem::exists(socket + ".up"); });
          const uint32_t job = rank / ranks_per_job_;
          const std::string tenant = tenants_.empty() ? "" : tenants_.at(job);
          std::string report = be_rank("unix:" + socket, tenant,
                                       {.url = meeting + std::to_string(job),
                                        .rank = rank % ranks_per_job_,
                                        .size = std::min(ranks, ranks_per_job_),
                                        .name = {}},
                                       body);
          std::ofstream(folder_ + "/over" + std::to_string(rank));
          return report;
        });
    reports.erase(reports.begin(), reports.begin() + hosts);
    return reports;
  }

  // The same. Each rank returns "right", or what is wrong.
  void expect_right(uint32_t ranks, uint32_t hosts,
                    const std::function<std::string(run::Communicator&, run::RegionPool&)>& body) {
    EXPECT_THAT(run_ranks(ranks, hosts, body), Each("right"));
  }

  void use_rules(const std::string& rules) {
    std::ofstream(folder_ + "/rules.json") << rules;
    daemons_.rules = folder_ + "/rules.json";
  }

  // Hosts h0 and h1, each with a link to each of two switches.
  void join_by_two_switches() {
    daemons_.planner.fabric = folder_ + "/fabric.json";
    std::ofstream(daemons_.planner.fabric) <<
        R"({"banyan": "fabric/1",
        "nodes": [{"name": "h0", "kind": "rank"}, {"name": "h1", "kind": "rank"},
                  {"name": "s0", "kind": "switch"}, {"name": "s1", "kind": "switch"}],
        "links": [{"from": "h0", "to": "s0", "bandwidth": "1 GB/s"}, {"from": "s0", "to": "h0", "bandwidth": "1 GB/s"},
                  {"from": "h0", "to": "s1", "bandwidth": "1 GB/s"}, {"from": "s1", "to": "h0", "bandwidth": "1 GB/s"},
                  {"from": "h1", "to": "s0", "bandwidth": "1 GB/s"}, {"from": "s0", "to": "h1", "bandwidth": "1 GB/s"},
                  {"from": "h1", "to": "s1", "bandwidth": "1 GB/s"}, {"from": "s1", "to": "h1", "bandwidth": "1 GB/s"}
        ]})";
  }

  // Asks the daemon of a host, as an operator does.
  HttpResponse ask(uint32_t host, const std::string& method, const std::string& target,
                   const std::string& body = "") const {
    return http_ask("unix:" + folder_ + "/daemon" + std::to_string(host) + ".operators", method, target, body,
                    std::chrono::seconds(20));
  }
  ClusterView cluster(uint32_t host) const { return cluster_view_from(ask(host, "GET", "/v1/cluster").body); }

  Daemon::Options daemons_ = {.socket = "", .is_oversubscribed = true};  // but for what is each one's own
  uint32_t ranks_per_job_ = UINT32_MAX;
  std::vector<std::string> tenants_;  // by job
  std::vector<std::string> obey_ = {"host*"};
  std::function<void(uint32_t host)> daemon_begins_;  // in the process of each daemon; empty: nothing
  run::Communicator::Options own_options_;            // of this rank's communicator

 private:
  template <typename Condition>
  static void wait_until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  std::string be_daemon(uint32_t host, const std::string& socket, uint32_t ranks) const {
    Daemon::Options options = daemons_;
    options.socket = socket;
    options.operators = socket + ".operators";
    options.obey = obey_;
    options.world = "file://" + folder_ + "/world";
    options.node = "h" + std::to_string(host);
    if (daemon_begins_) daemon_begins_(host);
    Daemon daemon(std::move(options));
    std::thread thread([&] { daemon.run(); });
    std::ofstream(socket + ".up");
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      wait_until([&] { return std::filesystem::exists(folder_ + "/over" + std::to_string(rank)); });
    }
    daemon.stop();
    thread.join();
    return "over";
  }

  std::string be_rank(const std::string& url, const std::string& tenant,
                      const run::JoinedProcesses::Invitation& invitation,
                      const std::function<std::string(run::Communicator&, run::RegionPool&)>& body) {
    run::RegionPool pool;
    const auto link = std::make_shared<ServiceLink>(url, pool, run::Deadline::after(std::chrono::seconds(30)));
    run::Communicator::Options options{.timeout = std::chrono::seconds(60), .join_timeout = std::chrono::seconds(60)};
    options.extras[ServiceExecutors::kExtra] = ServiceExecutors::extra_of(*link);
    options.executors = [&](std::shared_ptr<run::JoinedProcesses> job, const run::Communicator::Options& own) {
      return std::make_unique<ServiceExecutors>(link, std::move(job), own, tenant);
    };
    own_options_ = options;
    run::Communicator comm = run::Communicator::join(pool, invitation, std::move(options));
    std::string report = body(comm, pool);
    if (!comm.error()) comm.finalize();
    return report;
  }
};

inline int64_t value_of(uint32_t rank, size_t position) {
  return int64_t{rank} * 1'000'003 + static_cast<int64_t>(position);
}

inline std::vector<int64_t> values_of(uint32_t rank, size_t count) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value_of(rank, i);
  return values;
}

template <typename T>
run::Call call_of(run::OperationKind kind, std::span<const T> send, std::span<T> recv, uint64_t count) {
  return {.kind = kind,
          .type = run::Communicator::data_type_of<T>(),
          .send = reinterpret_cast<const std::byte*>(send.data()),
          .recv = reinterpret_cast<std::byte*>(recv.data()),
          .count = count};
}

inline std::string check_sum(run::Communicator& comm, std::span<const int64_t> input, std::span<int64_t> output) {
  comm.run(call_of<int64_t>(run::OperationKind::all_reduce, input, output, input.size()));
  for (size_t i = 0; i < input.size(); ++i) {
    int64_t sum = 0;
    for (uint32_t rank = 0; rank < comm.size(); ++rank) sum += value_of(rank, i);
    if (output[i] != sum) return "element " + std::to_string(i) + " of " + std::to_string(input.size()) + " is wrong";
  }
  return "right";
}

// An allreduce of so many values of each rank: "right", or what is wrong.
inline std::string sum(run::Communicator& comm, size_t count) {
  std::vector<int64_t> output(count);
  return check_sum(comm, values_of(comm.rank(), count), output);
}

}  // namespace banyan::service
