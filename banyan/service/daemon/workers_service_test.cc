// Daemons with several workers: programs of one host belong to different ones, and call each other, and operators reach
// all. Each host is a name here (BANYAN_HOST_ID), each daemon and each rank a process.

#include "banyan/service/daemon/test_raw_client.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::Communicator;
using run::OperationKind;

constexpr size_t kBuffers = 128 * RawClient::kPage;  // where pages of sessions end, in the memory of a RawClient

// A message of a session to itself: "", or what is wrong.
std::string send_to_itself(RawClient& client, uint32_t session) {
  client.data()[kBuffers] = static_cast<std::byte>(session + 1);
  client.data()[kBuffers + 1] = std::byte{0};
  client.submit(session, client.message(OperationKind::recv, 1, 1, kBuffers + 1));
  client.submit(session, client.message(OperationKind::send, 1, 1, kBuffers));
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  for (int done = 0; done < 2;) {
    if (client.rings(session).take()) ++done;
    if (std::chrono::steady_clock::now() > end) return "its call does not end";
    std::this_thread::yield();
  }
  return client.data()[kBuffers + 1] == client.data()[kBuffers] ? "" : "it got something else";
}

class ManyWorkers : public Services {
 protected:
  ManyWorkers() { daemons_.workers = 3; }

  // Programs that attach, and go while calls of theirs are under way, until `is_over`: "", or what is wrong.
  std::string come_and_go(uint32_t host, const std::atomic<bool>& is_over) const {
    uint32_t visits = 0;
    while (!is_over || visits < 5) {
      std::optional<RawClient> client(std::in_place, folder_ + "/daemon" + std::to_string(host));
      if (std::string why = client->offer(); !why.empty()) return why;
      for (uint32_t session = 0; session < 3; ++session) {
        if (std::string why = client->open(session); !why.empty()) return why;
        if (std::string why = send_to_itself(*client, session); !why.empty()) return why;
        client->submit(session, client->message(OperationKind::recv, 1, 1, kBuffers));  // for which nothing comes
      }
      ++visits;
    }
    return "";
  }
};

// To the next rank of the same host.
std::string exchange_messages(Communicator& comm, uint32_t hosts) {
  const uint32_t size = comm.size(), next = (comm.rank() + hosts) % size, before = (comm.rank() + size - hosts) % size;
  const std::vector<int64_t> sent = values_of(comm.rank(), 2000);
  std::vector<int64_t> got(sent.size());
  Call recv = call_of<int64_t>(OperationKind::recv, {}, got, got.size());
  recv.other = before;
  Call send = call_of<int64_t>(OperationKind::send, sent, {}, sent.size());
  send.other = next;
  run::Request first = comm.start(recv), second = comm.start(send);
  first.wait();
  second.wait();
  return got == values_of(before, got.size()) ? "right" : "a message is wrong";
}

// Six programs on each host: two of each job, and so of each tenant, are with one worker or another.
TEST_F(ManyWorkers, CarryTheCallsOfTwoTenantsWhileOthersComeAndGo) {
  constexpr uint32_t kHosts = 2;
  tenants_ = {"t0", "t1"};
  ranks_per_job_ = 6;
  expect_right(12, kHosts, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::atomic<bool> is_over{false};
    std::string trouble;
    std::thread others;
    if (comm.rank() < kHosts) others = std::thread([&] { trouble = come_and_go(comm.rank(), is_over); });
    std::string report = "right";
    for (int round = 0; round < 10 && report == "right"; ++round) {
      for (const size_t count : {1, 1000, 60'000}) {
        if (report == "right") report = sum(comm, count);
      }
      if (report == "right") report = exchange_messages(comm, kHosts);
      // Sessions come and go with the communicators of programs that stay.
      Communicator half =
          *comm.split(static_cast<int>(comm.rank() / 2 % 2), static_cast<int>(comm.rank()), own_options_);
      if (report == "right") report = sum(half, 500);
      half.finalize();
    }
    is_over = true;
    if (others.joinable()) others.join();
    comm.run(Call{.kind = OperationKind::barrier});
    return trouble.empty() ? report : trouble;
  });
}

// Two communicators, whose ranks of one host belong to different workers.
TEST_F(ManyWorkers, AreAllReachedByOperators) {
  join_by_two_switches();
  tenants_ = {"t", "t"};
  ranks_per_job_ = 2;
  const std::string tenant = std::to_string(getuid()) + "/t";
  const std::string over = folder_ + "/asked";
  const auto operate = [&]() -> std::string {
    const auto until = std::chrono::steady_clock::now() + seconds(20);
    const auto wait_for = [&](const auto& is_so) {
      while (!is_so(cluster(1))) {
        if (std::chrono::steady_clock::now() > until) return false;
      }
      return true;
    };
    // "status": all ranks of both hosts, and links, which both tell of.
    const bool sees_all = wait_for([&](const ClusterView& seen) {
      return seen.communicators.size() == 2 && seen.communicators[0].ranks.size() == 2 &&
             seen.communicators[1].ranks.size() == 2 && seen.hosts.size() == 2 && !seen.links.empty();
    });
    if (!sees_all) return "it does not see all ranks";
    if (ask(1, "POST", "/v1/set", R"({"tenant": ")" + tenant + R"(", "weight": 5})").status != 200) return "not set";
    for (const uint32_t host : {0u, 1u}) {
      const HostView view = host_view_from(ask(host, "GET", "/v1/host").body);
      if (view.communicators.size() != 2) return "other communicators";
      for (const CommunicatorView& each : view.communicators) {
        if (each.weight != 5) return "the weight is " + std::to_string(each.weight);
      }
      if (view.core_seconds <= 0 || view.memory_bytes == 0) return "it takes nothing";
    }
    const std::string said = ask(1, "POST", "/v1/replan", R"({"communicator": "wor*", "avoid": ["h0->s1"]})").body;
    size_t adopted = 0;
    for (size_t at = said.find("\"refusal\":\"\""); at != std::string::npos;
         at = said.find("\"refusal\":\"\"", at + 1)) {
      ++adopted;
    }
    if (adopted != 2) return said;
    const bool has_moved = wait_for([](const ClusterView& seen) {
      return std::all_of(seen.communicators.begin(), seen.communicators.end(), [](const CommunicatorView& each) {
        return each.ranks.size() == 2 && each.ranks[0].generation == 1 && each.ranks[1].generation == 1;
      });
    });
    if (!has_moved) return "not all ranks have gone over";
    ask(1, "POST", "/v1/drain", R"({"drain": true})");
    return "right";
  };
  const auto reports = run_ranks(4, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::string said = "right";
    std::thread op;
    // One of both ranks 0.
    if (comm.rank() == 0 && std::filesystem::create_directory(folder_ + "/operator")) {
      op = std::thread([&] {
        said = operate();
        std::filesystem::create_directory(over);
      });
    }
    std::vector<int64_t> input = values_of(comm.rank(), 5000), output(input.size());
    do {
      input.back() = comm.rank() == 0 && std::filesystem::exists(over) ? 1 : 0;
      comm.run(call_of<int64_t>(OperationKind::all_reduce, input, output, input.size()));
      if (output[7] != value_of(0, 7) + value_of(1, 7)) said = "a sum is wrong";
    } while (output.back() == 0);
    if (op.joinable()) op.join();
    if (said != "right") return said;
    return testing::error_of([&] { comm.split(0, static_cast<int>(comm.rank()), own_options_); });
  });
  EXPECT_THAT(reports, Each(HasSubstr("drains this host")));
}

// CPU time of each thread of this process with such a name.
std::vector<uint64_t> nanoseconds_of(const std::string& name) {
  std::vector<uint64_t> times;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string own;
    std::ifstream(task.path() / "comm") >> own;
    if (own != name) continue;
    std::ifstream(task.path() / "schedstat") >> times.emplace_back();
  }
  return times;
}

TEST_F(ManyWorkers, DivideProgramsAmongThem) {
  const std::string socket = folder_ + "/socket";
  Daemon daemon({.socket = socket, .host = "here", .workers = 3, .is_oversubscribed = true});
  std::thread thread([&] { daemon.run(); });
  {
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 3; ++i) {
      clients.push_back(std::make_unique<RawClient>(socket));
      ASSERT_EQ(clients.back()->offer(), "");
      ASSERT_EQ(clients.back()->open(0), "");
    }
    for (int times = 0; times < 1000; ++times) {
      for (const auto& client : clients) ASSERT_EQ(send_to_itself(*client, 0), "");
    }
    const std::vector<uint64_t> times = nanoseconds_of("banyan-worker");
    ASSERT_EQ(times.size(), 3u);
    const uint64_t sum = std::accumulate(times.begin(), times.end(), uint64_t{0});
    for (const uint64_t time : times) EXPECT_GE(time, sum / 10) << "of " << sum << " ns";
  }
  daemon.stop();
  thread.join();
}

}  // namespace
}  // namespace banyan::service
