// Communicators that stay with the older daemon when banyand is upgraded: operators see and steer them through the
// newer one, which is not upgraded itself before they have ended.
#include <signal.h>

#include "apps/banyand/test_upgrades.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class OlderDaemonsTest : public Upgrades {
 protected:
  json cluster(uint32_t host) const { return ask(host, "GET", "/v1/cluster"); }
  // Ranks of communicators that all daemons together show.
  static size_t ranks_in(const json& view) {
    size_t ranks = 0;
    for (const json& each : view["communicators"]) ranks += each["ranks"].size();
    return ranks;
  }
  // Every rank of the communicator that is seen first.
  static bool has_had_messages(const json& view) {
    size_t ranks = 0;
    for (const json& rank : view["communicators"][0]["ranks"]) ranks += rank["messages_over"] > 0 ? 1 : 0;
    return ranks == kRanks;
  }
  // Tries until a view is as it should be: daemons hear of each other soon, not at once.
  template <typename Condition>
  std::string until(uint32_t host, const std::string& what, const Condition& is_right) const {
    const auto end = std::chrono::steady_clock::now() + seconds(10);
    json view = cluster(host);
    while (!is_right(view)) {
      if (std::chrono::steady_clock::now() > end) return "not seen: " + what + ", but " + view.dump();
      std::this_thread::sleep_for(milliseconds(20));
      view = cluster(host);
    }
    return {};
  }
  static bool has_event(const json& view, const std::string& words) {
    return view["events"].dump().find(words) != std::string::npos;
  }
};

TEST_F(OlderDaemonsTest, AreSeenAndSteeredThroughTheNewestOne) {
  const auto body = [&](CallingRank& rank) -> std::string {
    // No rank is without: it would try a session of each newer daemon, until it hears that others stay.
    for (uint32_t from = 0; from + 1 < kRanks; ++from) rank.exchange_message(rank.comm(), from);
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    rank.drop_first();
    return "right";
  };
  const auto look = [&](Daemons& daemons) -> std::string {
    std::string trouble;
    const std::string tenant = std::to_string(getuid());
    const auto all_ranks = [](const json& view) { return ranks_in(view) == kRanks && view["hosts"].size() == kHosts; };
    wait_until([&] { return cluster(0)["communicators"].size() == 1; });
    const std::string id = cluster(0)["communicators"][0]["id"];
    wait_until([&] { return has_had_messages(cluster(1)); });
    const json said = upgrade(0);
    if (said.contains("error")) return said.dump();
    const EndOf newer(said["process"].get<pid_t>());
    for (const uint32_t host : {0, 1}) {
      if (!(trouble = until(host, "all ranks", all_ranks)).empty()) return trouble;
    }
    if (cluster(0)["communicators"][0]["id"] != id) return "it has gone over";
    const json set = ask(1, "POST", "/v1/set", R"({"tenant": ")" + tenant + R"(", "weight": 3})");
    if (set["hosts"][0]["sessions"].get<int>() + set["hosts"][1]["sessions"].get<int>() != kRanks) return set.dump();
    trouble =
        until(0, "the weight that was set", [&](const json& view) { return view["communicators"][0]["weight"] == 3; });
    if (!trouble.empty()) return trouble;
    const std::string refusal = upgrade(0).value("error", "");
    for (const std::string& words : {std::string("upgrade again"), id}) {
      if (refusal.find(words) == std::string::npos) return "a second upgrade: " + refusal;
    }
    // The older one hangs for a while.
    const double before = ask(0, "GET", "/v1/host")["core_seconds"];
    daemons[0]->stop();
    const auto began = std::chrono::steady_clock::now();
    for (int times = 0; times < 4; ++times) {
      const json view = cluster(1);
      if (ranks_in(view) != 1) return "ranks of a daemon that hangs: " + view.dump();
      if (!has_event(view, "does not answer")) return "no event says so: " + view.dump();
      if (!view["unreachable"].empty()) return "the host is said to be unreachable: " + view.dump();
    }
    const auto needed = std::chrono::steady_clock::now() - began;
    if (needed > seconds(4)) return "it holds up others";
    if (ask(0, "GET", "/v1/host")["core_seconds"] < before) return "a counter has fallen";
    const json late = ask(0, "POST", "/v1/set", R"({"tenant": "x", "weight": 2, "hosts": ["host0"]})");
    if (late["hosts"][0].value("error", "").find("does not answer") == std::string::npos) return late.dump();
    daemons[0]->go_on();
    if (!(trouble = until(1, "all ranks again", all_ranks)).empty()) return trouble;
    board_->is_upgraded = true;
    wait_until([&] { return daemons[0]->has_ended(); });
    trouble = until(1, "the end of the older one", [&](const json& view) {
      return has_event(view, "the daemon that was here before has ended") && ranks_in(view) == 0;
    });
    if (!trouble.empty()) return trouble;
    if (ask(0, "GET", "/v1/host")["core_seconds"] < before) return "a counter has fallen at the end";
    const json again = upgrade(0);
    if (again.contains("error")) return again.dump();
    const EndOf newest(again["process"].get<pid_t>());
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    std::string report = look(daemons);
    daemons[0]->go_on();
    board_->is_upgraded = true;
    wait_until([&] { return board_->ranks_over == kRanks; });
    return report;
  });
}

}  // namespace
}  // namespace banyan::service
