// What operators see and do, over the daemons' own sockets, while programs call.
#include <signal.h>
#include <sys/socket.h>

#include <future>
#include <nlohmann/json.hpp>

#include "banyan/base/json_reader.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/join/test_calls.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;
using run::OperationKind;

using Clock = std::chrono::steady_clock;

class Operators : public Services {
 protected:
  // "avoid" or "restore" the link h0-s1. Empty: it was adopted.
  std::string replan(const std::string& what) const {
    const std::string body =
        ask(1, "POST", "/v1/replan", R"({"communicator": "wor*", ")" + what + R"(": ["h0->s1"]})").body;
    return body.find("\"refusal\":\"\"") == std::string::npos ? body : "";
  }
  // That calls of rank 0 have sent over it, by their plans.
  uint64_t bytes_on(const std::string& link) const {
    uint64_t bytes = 0;
    for (const LinkView& each : cluster(0).links) {
      if (each.name != link) continue;
      for (const auto& [tenant, of_tenant] : each.bytes_by_tenant) bytes += of_tenant;
    }
    return bytes;
  }
  // While ranks call. Empty: nothing went over it meanwhile, and something does before and after.
  std::string avoid_for(std::chrono::seconds time) const {
    const auto is_used = [this](milliseconds at_most) {
      const uint64_t before = bytes_on("h0->s1");
      for (const auto end = Clock::now() + at_most; Clock::now() < end; std::this_thread::sleep_for(milliseconds(50))) {
        if (bytes_on("h0->s1") > before) return true;
      }
      return false;
    };
    if (!is_used(seconds(5))) return "it is not used before";
    if (std::string trouble = replan("avoid"); !trouble.empty()) return trouble;
    std::this_thread::sleep_for(milliseconds(200));  // calls that had begun end
    if (is_used(time)) return "it is used though it is avoided";
    if (std::string trouble = replan("restore"); !trouble.empty()) return trouble;
    if (!is_used(seconds(5))) return "it is not used though it is restored";
    const uint32_t generation = cluster(0).communicators.at(0).ranks.at(0).generation;
    return generation == 2 ? "" : "other plans than were asked for: generation " + std::to_string(generation);
  }
  // Sums again and again, until rank 0 says so. Returns how often, or what went wrong.
  static std::string sum_until(Communicator& comm, size_t count, const std::function<bool()>& is_over) {
    std::vector<int64_t> input = values_of(comm.rank(), count), output(count);
    for (int sums = 1;; ++sums) {
      input.back() = comm.rank() == 0 && is_over() ? 1 : 0;
      comm.run(call_of<int64_t>(OperationKind::all_reduce, input, output, count));
      for (size_t i = 0; i + 1 < count; ++i) {
        int64_t sum = 0;
        for (uint32_t rank = 0; rank < comm.size(); ++rank) sum += value_of(rank, i);
        if (output[i] != sum) return "element " + std::to_string(i) + " of sum " + std::to_string(sums) + " is wrong";
      }
      if (output.back() > 0) return std::to_string(sums);
    }
  }
};

TEST_F(Operators, SeeTheRanksOfAllHostsAndWhoIsLateWithinASecond) {
  expect_right(4, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    constexpr size_t kCount = 1000;
    for (int times = 0; times < 5; ++times) {
      if (std::string report = sum(comm, kCount); report != "right") return report;
    }
    if (comm.rank() != 2) return sum(comm, kCount);
    // The others wait for this rank.
    const auto begin = Clock::now();
    ClusterView seen = cluster(1);
    while (seen.findings.empty() && Clock::now() - begin < seconds(5)) seen = cluster(1);
    const auto needed = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    if (seen.findings.empty()) return "nobody is named";
    if (seen.findings.size() > 1 || seen.findings[0].kind != "late rank") return "named: " + seen.findings[0].words;
    if (seen.findings[0].words.find("rank 2 of 'world'") == std::string::npos) return seen.findings[0].words;
    if (needed > milliseconds(1000)) return "named after " + std::to_string(needed.count()) + " ms";
    if (seen.hosts.size() != 2 || !seen.unreachable.empty()) return std::to_string(seen.hosts.size()) + " hosts";
    if (seen.communicators.size() != 1) return std::to_string(seen.communicators.size()) + " communicators";
    const CommunicatorView& world = seen.communicators[0];
    if (world.size != 4 || world.ranks.size() != 4 || world.hosts.size() != 2) return "of another size";
    for (const RankView& rank : world.ranks) {
      const bool is_late = rank.rank == 2;
      if (rank.calls_over != 5 || rank.calls_begun != (is_late ? 5u : 6u)) return "other calls than were made";
      if (rank.host != "host" + std::to_string(rank.rank % 2) || rank.payload_bytes != 5 * kCount * 8)
        return "another rank";
      if (!is_late && rank.call.find("allreduce of ") == std::string::npos) return "another call: " + rank.call;
    }
    return sum(comm, kCount);
  });
}

// Ranks of one host do without the daemon, and are seen by it.
TEST_F(Operators, SeeCommunicatorsOfOneHost) {
  tenants_ = {"vgg"};
  const std::string tenant = std::to_string(getuid()) + "/vgg";
  expect_right(3, 1, [&](Communicator& comm, run::RegionPool&) -> std::string {
    constexpr size_t kCount = 1000;
    for (int times = 0; times < 5; ++times) {
      if (std::string report = sum(comm, kCount); report != "right") return report;
    }
    if (!comm.is_on_one_host()) return "not on one host";
    if (comm.rank() != 2) return sum(comm, kCount);
    const auto begin = Clock::now();
    ClusterView seen = cluster(0);
    while (seen.findings.empty() && Clock::now() - begin < seconds(5)) seen = cluster(0);
    if (seen.findings.size() != 1) return std::to_string(seen.findings.size()) + " findings";
    if (seen.findings[0].words.find("rank 2 of 'world'") == std::string::npos) return seen.findings[0].words;
    if (Clock::now() - begin > milliseconds(1500)) return "named too late";
    if (seen.communicators.size() != 1) return std::to_string(seen.communicators.size()) + " communicators";
    const CommunicatorView& world = seen.communicators[0];
    if (!world.is_direct || world.size != 3 || world.ranks.size() != 3 || world.tenant != tenant) return "of others";
    for (const RankView& rank : world.ranks) {
      const bool is_late = rank.rank == 2;
      if (rank.calls_over != 5 || rank.calls_begun != (is_late ? 5u : 6u)) return "other calls than were made";
      if (!is_late && rank.call != "allreduce of 1000 int64 sum") return "another call: " + rank.call;
    }
    const std::string replanned = ask(0, "POST", "/v1/replan", R"({"communicator": "world", "avoid": []})").body;
    if (replanned.find("generation") != std::string::npos) return "plans that it does not have: " + replanned;
    if (ask(0, "GET", "/metrics").body.find("banyan_tenant_weight{") != std::string::npos) return "it has a weight";
    return sum(comm, kCount);
  });
}

// Also when nobody has asked before.
TEST_F(Operators, SeeWhichRankOfOneHostWasStopped) {
  const auto reports = run_ranks(3, 1, [&](Communicator& comm, run::RegionPool&) -> std::string {
    if (comm.rank() == 2) std::ofstream(folder_ + "/process") << getpid();
    if (std::string report = sum(comm, 1); report != "right") return report;
    std::atomic<bool> is_over{false};
    std::string named = "nobody";
    std::thread op;
    if (comm.rank() == 0) {
      op = std::thread([&] {
        pid_t process = 0;
        std::ifstream(folder_ + "/process") >> process;
        kill(process, SIGSTOP);
        std::this_thread::sleep_for(milliseconds(900));
        for (const FindingView& each : cluster(0).findings) named = each.words;
        kill(process, SIGCONT);
        is_over = true;
      });
    }
    const std::string sums = sum_until(comm, 1000, [&] { return is_over.load(); });
    if (!op.joinable()) return "rank 2 of 'world'";
    op.join();
    return sums.find("wrong") == std::string::npos ? named : sums;
  });
  EXPECT_THAT(reports, Each(HasSubstr("rank 2 of 'world'")));
}

TEST_F(Operators, HaveCallsGoOverToOtherPlansWithoutStoppingAny) {
  join_by_two_switches();
  constexpr uint32_t kReplans = 40;
  expect_right(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::atomic<bool> is_over{false};
    std::string trouble;
    std::thread op;
    if (comm.rank() == 0) {
      op = std::thread([&] {
        for (uint32_t i = 0; i < kReplans && trouble.empty(); ++i) trouble = replan(i % 2 == 0 ? "avoid" : "restore");
        is_over = true;
      });
    }
    std::string report = sum_until(comm, 5000, [&] { return is_over.load(); });
    if (op.joinable()) op.join();
    if (!trouble.empty()) return trouble;
    const ClusterView seen = cluster(0);
    for (const RankView& rank : seen.communicators.at(0).ranks) {
      if (rank.generation != kReplans) return "generation " + std::to_string(rank.generation);
      if (rank.reroutes > 0) return "calls were repeated";
    }
    std::vector<int64_t> input(1), output(1);  // the other rank looks, too
    comm.run(call_of<int64_t>(OperationKind::all_reduce, input, output, 1));
    return report.find("wrong") == std::string::npos ? "right" : report;
  });
}

// Connections along the link can be made all the time: nothing is wrong with it.
TEST_F(Operators, AvoidALinkUntilTheyRestoreItAlsoWhereRoutesAreKnown) {
  join_by_two_switches();
  std::ofstream(folder_ + "/routes.json") << R"({"banyan": "routes/1", "routes": [
      {"path": ["h0", "s0", "h1"], "addresses": ["127.0.0.2", "127.0.0.3"]},
      {"path": ["h0", "s1", "h1"], "addresses": ["127.0.0.4", "127.0.0.5"]}]})";
  daemons_.planner.routes = folder_ + "/routes.json";
  daemons_.secret = run::Secret::random();  // they listen at all addresses
  expect_right(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::atomic<bool> is_over{false};
    std::future<std::string> trouble;
    if (comm.rank() == 0) {
      trouble = std::async(std::launch::async, [&] {
        std::string found = avoid_for(seconds(10));
        is_over = true;
        return found;
      });
    }
    const std::string report = sum_until(comm, 200'000, [&] { return is_over.load(); });
    if (trouble.valid()) {
      if (std::string found = trouble.get(); !found.empty()) return found;
    }
    return report.find("wrong") == std::string::npos ? "right" : report;
  });
}

// Whoever reaches a port of TCP may look at how calls go. Who is given what is said to operators alone.
TEST_F(Operators, ReadTheRulesAtTheirOwnSocketOnly) {
  use_rules(R"({"version": 3, "rules": [{"name": "r", "match": {"user": "alice"}, "then": {"weight": 7}}]})");
  const std::string place = "127.0.0.1:" + std::to_string(run::free_port());
  daemons_.http = place;
  expect_right(1, 1, [&](Communicator&, run::RegionPool&) -> std::string {
    const auto look = [&](const std::string& path) {
      return http_ask("http://" + place, "GET", path, "", seconds(20));
    };
    for (const char* open : {"/v1/alive", "/v1/host", "/v1/cluster", "/metrics", "/"}) {
      const HttpResponse seen = look(open);
      if (seen.status != 200) return std::string(open) + " answers " + std::to_string(seen.status);
      if (seen.body.find("alice") != std::string::npos) return std::string(open) + " shows the rules";
    }
    if (look("/metrics").type != "text/plain; version=0.0.4; charset=utf-8") return "metrics of another type";
    const HttpResponse page = look("/");
    if (page.type != "text/html; charset=utf-8" || !page.body.starts_with("<!doctype html>")) return "no page";
    const HttpResponse rules = look("/v1/rules");
    if (rules.status != 403 || rules.body.find("own socket") == std::string::npos) return "rules: " + rules.body;
    return ask(0, "GET", "/v1/rules").body.find("alice") == std::string::npos ? "operators see no rules" : "right";
  });
}

TEST_F(Operators, AreToldWhatCannotBeDone) {
  join_by_two_switches();
  const auto reports = run_ranks(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::string said = sum(comm, 1);  // by then all have opened it
    if (comm.rank() == 0) {
      const auto replan = [&](const std::string& links) {
        return ask(0, "POST", "/v1/replan", R"({"communicator": "world", )" + links + "}").body + "\n";
      };
      // The last one is one cable, by the names of both its directions.
      said += replan(R"("avoid": ["h0->h9"])") + replan(R"("avoid": ["h0->s0", "h0->s1"])") +
              replan(R"("avoid": ["h0->s1"], "restore": ["s1->h0"])") +
              ask(0, "POST", "/v1/drain", R"({"drain": true, "hosts": ["host7"]})").body + "\n" +
              ask(0, "POST", "/v1/nonsense", "{}").body + "\n" + ask(0, "POST", "/v1/set", "{}").body;
      // The ranks have agreed once, to refuse the second.
      if (cluster(0).communicators.at(0).ranks.at(0).generation != 1) said += "other plans all the same";
    }
    return sum(comm, 1) + said;
  });
  EXPECT_THAT(reports[0], HasSubstr("h9"));
  EXPECT_THAT(reports[0], HasSubstr("there is no way"));
  EXPECT_THAT(reports[0], HasSubstr("link 's1->h0' is to be avoided and restored; say one of them"));
  EXPECT_THAT(reports[0], HasSubstr("no daemon of a host 'host7' is known"));
  EXPECT_THAT(reports[0], HasSubstr("there is no command at '/v1/nonsense'"));
  EXPECT_THAT(reports[0], HasSubstr("tenant"));
  EXPECT_THAT(reports[0], Not(HasSubstr("other plans")));
  EXPECT_THAT(reports, Each(StartsWith("rightright")));
}

// All daemons have one secret: each would obey whoever has taken another.
TEST_F(Operators, AreObeyedByHostsThatNameTheirs) {
  obey_ = {"host0"};
  // What each host has answered to a command that one was given: "", or why not.
  const auto told = [&](uint32_t host, const std::string& path, const std::string& body) {
    std::map<std::string, std::string> said;
    const auto answer = nlohmann::json::parse(ask(host, "POST", path, body).body);
    for (const auto& each : answer["hosts"]) said[each["host"]] = each.value("error", "");
    return said;
  };
  const auto reports = run_ranks(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::string wrong;
    sum(comm, 1);  // by then all have opened it
    if (comm.rank() == 0) {
      const std::map<std::string, std::string> both = {{"host0", ""}, {"host1", ""}};
      if (told(0, "/v1/drain", R"({"drain": true})") != both) wrong += "host0 is not obeyed; ";
      const std::string rules = R"({"check": true, "text": "{\"version\": 1, \"rules\": []}"})";
      if (told(1, "/v1/rules", rules) != both) wrong += "host1 may not look; ";
      auto other = told(1, "/v1/drain", R"({"drain": false})");
      if (!other["host1"].empty()) wrong += "host1 does not obey its own operators; ";
      if (other["host0"].find("no daemon of host 'host1': ask there, or start it with --obey host1") ==
          std::string::npos) {
        wrong += "host1 is told '" + other["host0"] + "'; ";
      }
      for (const HostView& host : cluster(1).hosts) {
        if (host.obeys != std::vector<std::string>{"host0"}) wrong += "it is not shown whom " + host.name + " obeys; ";
        if (host.is_draining != (host.name == "host0")) wrong += host.name + " has done something else; ";
      }
    }
    sum(comm, 1);
    return wrong;
  });
  EXPECT_THAT(reports, Each(""));
}

TEST_F(Operators, SeeWhoTriesSecrets) {
  daemons_.secret = run::Secret::random();
  daemons_.address = "127.0.0.1";
  const auto reports = run_ranks(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::string said = "nothing is said";
    if (comm.rank() == 0) {
      const auto world = HostDirectory::at("file://" + folder_ + "/world", daemons_.secret);
      for (const HostCard& card : world->cards().cards) {
        const run::FileDescriptor caller = run::call(card.port);
        const std::string words(200, 'x');
        send(caller.get(), words.data(), words.size(), MSG_NOSIGNAL);
        char rest = 0;
        while (recv(caller.get(), &rest, 1, 0) > 0) continue;
      }
      const auto end = Clock::now() + seconds(1);
      while (Clock::now() < end && said.find("not proved") == std::string::npos) {
        said.clear();
        for (const EventView& each : cluster(0).events) said += each.host + ": " + each.words + "; ";
      }
      said += ask(1, "GET", "/metrics").body;
    }
    sum(comm, 1);
    return said;
  });
  EXPECT_THAT(reports[0], HasSubstr("1 caller has not proved to be of this job or service: "));
  EXPECT_THAT(reports[0], HasSubstr("banyan_refused_total{host=\"host1\",reason=\"secret\"} 1\n"));
}

}  // namespace
}  // namespace banyan::service
