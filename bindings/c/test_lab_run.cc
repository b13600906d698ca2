#include "bindings/c/test_lab_run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <sstream>
#include <thread>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/fabric/read.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/withheld_time.h"
#include "bindings/c/test_lab_calls.h"
#include "lab/lab.h"
#include "lab/network_namespace.h"
#include "lab/tool.h"

namespace banyan::c {
namespace {

using lab::run_tool;

// Calls before anything happens, and after all is whole again. A round is four.
constexpr uint32_t kFewCalls = 8;
// For the ranks to join and make them; to go on in the end; and to end once they are told: a call and the farewell may
// take the timeout each, and two seconds more.
constexpr int64_t kToBegin = 45'000, kToGoOn = 20'000, kToEnd = 2 * kLabTimeout.count() + 6000;

bool has_program(const std::string& name) {
  std::istringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// The network of a run, and what can be done to it.
class Stage {
 public:
  Stage(const LabTopology& topology, const std::string& name) : topology_(topology), name_(name) {
    if (!topology.graph.cables.empty()) {
      lab_ = lab::Lab::up(name, fabric::load_fabric({.fabric = topology.fabric()}), {});
      return;
    }
    run_tool({"ip", "netns", "add", namespace_of(0)});
    run_tool({"ip", "-n", namespace_of(0), "link", "set", "lo", "up"});
  }
  ~Stage() {
    try {
      end_lab(name_);
    } catch (...) {
      fprintf(stderr, "%s\n", current_error().what());
    }
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  std::string namespace_of(size_t node) const {
    if (!lab_) return "banyan-" + name_ + ".host";
    return lab_->namespace_of(lab_->plan().fabric().at(topology_.nodes[node]));
  }

  std::vector<std::pair<std::string, std::string>> variables(size_t rank) const {
    if (lab_) {
      CHECK(lab_->plan().fabric().name(lab_->plan().fabric().ranks()[rank]) == topology_.nodes[rank]);
      auto all = lab_->variables(static_cast<uint32_t>(rank));
      all.emplace_back("BANYAN_SECRET", lab_->secret());
      return all;
    }
    const std::string size = std::to_string(topology_.graph.ranks);
    return {{"RANK", std::to_string(rank)},
            {"WORLD_SIZE", size},
            {"LOCAL_RANK", std::to_string(rank)},
            {"LOCAL_WORLD_SIZE", size},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", "29500"},
            {"BANYAN_SECRET", "0f0e0d0c0b0a09080706050403020100"},
            {"BANYAN_TRANSPORT", "shm"},
            {"BANYAN_CROWDED", "1"}};
  }

  void act(const LabEvent& event) {
    switch (event.kind) {
      case LabEvent::Kind::cut:
        return lab_->fail(cable(event));
      case LabEvent::Kind::lose_one_way:
        return lose_one_way(event);
      case LabEvent::Kind::mend:
        return lab_->heal(cable(event));
      case LabEvent::Kind::reset:
        run_in(event.node, {"ss", "-K", "-t"});
        return;
      case LabEvent::Kind::reject_coming:
        return reject(event.node, "input", "INPUT");
      case LabEvent::Kind::reject_going:
        return reject(event.node, "output", "OUTPUT");
      case LabEvent::Kind::accept:
        return accept(event.node);
    }
  }

 private:
  uint32_t cable(const LabEvent& event) const { return lab_->find_cable(topology_.cable_name(event.cable)); }

  void set_queue(size_t node, uint32_t cable, const std::string& queue) const {
    run_tool({"tc", "-n", namespace_of(node), "-batch", "-"},
             "qdisc replace dev cable" + std::to_string(cable) + " root " + queue + "\n");
  }

  // A network that notices takes other ways, as for a cable that is cut, which afterwards carries again one way.
  void lose_one_way(const LabEvent& event) {
    const auto& [a, b] = topology_.graph.cables[event.cable];
    if (!event.is_noticed) return set_queue(event.node, cable(event), "blackhole");
    lab_->fail(cable(event));
    set_queue(event.node == a ? b : a, cable(event), "tbf rate 100mbit burst 32k latency 50ms");
  }

  void run_in(size_t node, const std::vector<std::string>& words, const std::string& input = "") const {
    std::vector<std::string> all{"ip", "netns", "exec", namespace_of(node)};
    all.insert(all.end(), words.begin(), words.end());
    run_tool(all, input);
  }
  // One way only, or the resets would be rejected, too.
  void reject(size_t node, const std::string& hook, const char* chain) const {
    if (has_program("nft")) {
      return run_in(node, {"nft", "-f", "-"},
                    "table inet banyan { chain rejects { type filter hook " + hook +
                        " priority 0; meta l4proto tcp reject with tcp reset; }; }\n");
    }
    run_in(node, {"iptables", "-A", chain, "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset"});
  }
  void accept(size_t node) const {
    if (has_program("nft")) return run_in(node, {"nft", "delete", "table", "inet", "banyan"});
    for (const char* chain : {"INPUT", "OUTPUT"}) run_in(node, {"iptables", "-F", chain});
  }

  const LabTopology& topology_;
  const std::string name_;
  std::optional<lab::Lab> lab_;
};

// The processes of a run. Looks after them every 10 ms while it waits for anything.
class Ranks {
 public:
  Ranks(const Stage& stage, const LabWish& wish)
      : shared_(*new (mmap(nullptr, sizeof(LabShared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    LabShared()) {
    for (size_t rank = 0; rank < wish.topology.graph.ranks; ++rank) {
      running_.emplace_back([&]() -> int { be_rank(stage, wish, static_cast<int>(rank)); });
    }
    ends_.resize(running_.size());
    counts_withheld_.emplace(withheld_);
  }
  ~Ranks() {
    running_.clear();
    munmap(&shared_, sizeof shared_);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool is_any_running() const {
    return std::any_of(running_.begin(), running_.end(), [](const run::Child& rank) { return rank.is_there(); });
  }
  bool have_all_called(uint32_t count) const {
    for (size_t rank = 0; rank < ends_.size(); ++rank) {
      if (shared_.reports[rank].calls < count) return false;
    }
    return true;
  }
  uint32_t most_calls() const {
    uint32_t most = 0;
    for (size_t rank = 0; rank < ends_.size(); ++rank) most = std::max<uint32_t>(most, shared_.reports[rank].calls);
    return most;
  }

  // Until it is so, or then, or all have ended. Whether it is so.
  template <typename Condition>
  bool wait(int64_t until, const Condition& is_so) {
    for (;;) {
      notice_ends();
      const int64_t now = lab_now();
      if (withheld_seen_.empty() || withheld_seen_.back().second != withheld_)
        withheld_seen_.emplace_back(now, withheld_);
      if (is_so()) return true;
      if (now >= until || !is_any_running()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }

  void end() {
    shared_.is_over = true;
    wait(lab_now() + kToEnd, [] { return false; });
    for (size_t rank = 0; rank < running_.size(); ++rank) {
      if (running_[rank].is_there()) ends_[rank].trouble = "hangs";
    }
  }

  // With times since `begin`.
  std::vector<RankEnd> ends(int64_t begin) const {
    std::vector<RankEnd> all = ends_;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      const LabReport& report = shared_.reports[rank];
      all[rank].is_over = report.is_over && all[rank].trouble.empty();
      all[rank].result = report.result;
      all[rank].failed_at = LabTime(report.failed_at - begin);
      all[rank].text = report.text;
      all[rank].wrong = report.wrong;
    }
    return all;
  }
  // And a little more, where it was not looked at just then.
  LabTime withheld(int64_t from, int64_t to) const {
    int before = 0, after = 0;
    for (const auto& [moment, sum] : withheld_seen_) {
      if (moment <= from) before = sum;
      after = sum;
      if (moment >= to) break;
    }
    return LabTime(after - before);
  }
  const LabReport& report(size_t rank) const { return shared_.reports[rank]; }

 private:
  [[noreturn]] void be_rank(const Stage& stage, const LabWish& wish, int rank) {
    const lab::InNamespace inside(stage.namespace_of(static_cast<size_t>(rank)));
    for (const auto& [name, value] : stage.variables(static_cast<size_t>(rank))) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    setenv("BANYAN_RECORDER_DIR", wish.folder.c_str(), 1);
    setenv("BANYAN_LOG", "info", 0);
    setenv("BANYAN_LOG_FILE", (wish.folder + "/rank%r.log").c_str(), 1);
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.timeout = static_cast<double>(kLabTimeout.count()) / 1000;
    config.join_timeout = 30;
    join_and_call(shared_, rank, config);
    _exit(0);
  }

  void notice_ends() {
    for (size_t rank = 0; rank < running_.size(); ++rank) {
      if (!running_[rank].is_there() || !running_[rank].has_ended()) continue;
      const int status = running_[rank].reap();
      if (WIFSIGNALED(status)) ends_[rank].trouble = "was ended by signal " + std::to_string(WTERMSIG(status));
    }
  }

  LabShared& shared_;
  std::vector<run::Child> running_;  // by rank
  std::vector<RankEnd> ends_;
  std::atomic<int> withheld_ = 0;                         // milliseconds
  std::vector<std::pair<int64_t, int>> withheld_seen_{};  // when it was how much
  std::optional<WithheldTime> counts_withheld_;
};

class Run {
 public:
  explicit Run(const LabWish& wish) : wish_(wish), stage_(wish.topology, wish.name), ranks_(stage_, wish) {}

  LabStory story() {
    if (!ranks_.wait(lab_now() + kToBegin, [&] { return ranks_.have_all_called(kFewCalls); })) {
      ranks_.end();
      return tell({.outcome = LabOutcome::failed, .why = "the ranks did not begin; "});
    }
    begin_ = lab_now();
    for (const LabEvent& event : lab_events(wish_.topology, wish_.mode, wish_.seed)) {
      ranks_.wait(begin_ + event.at.count(), [] { return false; });
      if (!ranks_.is_any_running()) break;
      carry_out(event);
    }
    const uint32_t enough = ranks_.most_calls() + kFewCalls;
    ranks_.wait(lab_now() + kToGoOn, [&] { return ranks_.have_all_called(enough); });
    ranks_.end();
    return tell(judge({.topology = wish_.topology,
                       .mode = wish_.mode,
                       .outages = outages_,
                       .ends = ranks_.ends(begin_),
                       .withheld = [&](LabSpan span) {
                         return ranks_.withheld(begin_ + span.begin.count(), begin_ + span.end.count());
                       }}));
  }

 private:
  LabTime now() const { return LabTime(lab_now() - begin_); }

  void carry_out(LabEvent event) {
    const LabTime begun = now();
    event.at = begun;  // a busy machine comes to it late
    stage_.act(event);
    told_ += event.in_words(wish_.topology) + " (took " + std::to_string((now() - begun).count()) + " ms); ";
    if (event.kind == LabEvent::Kind::cut || event.kind == LabEvent::Kind::lose_one_way) {
      outages_.push_back({.cable = event.cable, .cut_begun = begun, .cut = now()});
    } else if (event.kind == LabEvent::Kind::mend) {
      const auto last = std::find_if(outages_.rbegin(), outages_.rend(),
                                     [&](const LabOutage& outage) { return outage.cable == event.cable; });
      CHECK(last != outages_.rend()) << "mended before it was cut";
      last->mend_begun = begun;
      last->mended = now();
    }
  }

  LabStory tell(LabVerdict verdict) {
    std::ostringstream text;
    text << told_;
    const LabOracle oracle(wish_.topology.graph, outages_, now());
    text << "parted for " << longest(oracle.possible_splits()).count() << " ms at most; ";
    const std::vector<RankEnd> ends = ranks_.ends(begin_);
    for (size_t rank = 0; rank < ends.size(); ++rank) {
      const LabReport& report = ranks_.report(rank);
      text << "rank " << rank << ": " << report.calls << " calls, the longest took " << report.longest << " ms";
      if (report.reroutes > 0) text << ", " << report.reroutes << " reroutes";
      if (ends[rank].result != BANYAN_SUCCESS) {
        text << ", after " << ends[rank].failed_at.count() << " ms error " << ends[rank].result << " '"
             << ends[rank].text << "'";
      }
      text << "; ";
    }
    return {.verdict = std::move(verdict), .told = text.str()};
  }

  const LabWish& wish_;
  Stage stage_;
  Ranks ranks_;
  int64_t begin_ = 0;
  std::vector<LabOutage> outages_;
  std::string told_;
};

}  // namespace

std::string why_no_lab_run(LabMode mode) {
  if (mode == LabMode::resets && !has_program("ss")) return "there is no program 'ss' (Debian: iproute2)";
  if (mode == LabMode::rejects && !has_program("nft") && !has_program("iptables")) {
    return "there is no program 'nft' or 'iptables' (Debian: nftables)";
  }
  return lab::why_no_lab();
}

LabStory run_in_lab(const LabWish& wish) { return Run(wish).story(); }

void end_lab(const std::string& name) { lab::Lab::down(name); }

}  // namespace banyan::c
