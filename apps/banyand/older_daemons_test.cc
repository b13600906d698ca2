// Communicators that stay with older daemons when banyand is upgraded: operators see and steer them through the newest
// one, and there may be several older ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/banyand/test_upgrades.h"

namespace banyan::service {
namespace {

using ::testing::HasSubstr;

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
    std::vector<std::unique_ptr<EndOf>> newer;
    for (int upgrades = 0; upgrades < 2; ++upgrades) {
      wait_until([&] { return has_had_messages(cluster(1)); });
      const json said = upgrade(0);
      if (said.contains("error")) return said.dump();
      newer.push_back(std::make_unique<EndOf>(said["process"].get<pid_t>()));
      for (const uint32_t host : {0, 1}) {
        if (!(trouble = until(host, "all ranks", all_ranks)).empty()) return trouble;
      }
      if (cluster(0)["communicators"][0]["id"] != id) return "it has gone over";
      const std::string weight = std::to_string(3 + upgrades);
      const json set = ask(1, "POST", "/v1/set", R"({"tenant": ")" + tenant + R"(", "weight": )" + weight + "}");
      if (set["hosts"][0]["sessions"].get<int>() + set["hosts"][1]["sessions"].get<int>() != kRanks) return set.dump();
      trouble = until(0, "the weight that was set",
                      [&](const json& view) { return view["communicators"][0]["weight"] == 3 + upgrades; });
      if (!trouble.empty()) return trouble;
    }
    // The one in the middle has nothing; the oldest hangs for a while.
    wait_until([&] { return has_ended(newer[0]->process()); });
    if (!(trouble = until(1, "all ranks", all_ranks)).empty()) return trouble;
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
    const json set = ask(0, "POST", "/v1/set", R"({"tenant": "x", "weight": 2, "hosts": ["host0"]})");
    if (set["hosts"][0].value("error", "").find("does not answer") == std::string::npos) return set.dump();
    daemons[0]->go_on();
    if (!(trouble = until(1, "all ranks again", all_ranks)).empty()) return trouble;
    board_->is_upgraded = true;
    wait_until([&] { return daemons[0]->has_ended(); });
    trouble = until(1, "the end of the oldest", [&](const json& view) {
      return has_event(view, "the daemon that was here before has ended") && ranks_in(view) == 0;
    });
    if (!trouble.empty()) return trouble;
    if (ask(0, "GET", "/v1/host")["core_seconds"] < before) return "a counter has fallen at the end";
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

// Each daemon of host 0 keeps a communicator, until there are as many as may be.
TEST_F(OlderDaemonsTest, MayBeFourAndEndInAnyOrder) {
  constexpr uint32_t kOlder = 4;
  const auto body = [&](CallingRank& rank) -> std::string {
    std::vector<std::optional<Communicator>> more;
    rank.exchange_message(rank.comm());
    for (uint32_t number = 1; number <= kOlder; ++number) {
      rank.call_until(rank.comm(), [&] { return board_->upgrades >= number; });
      more.emplace_back(rank.another());
      rank.exchange_message(*more.back());
      ++board_->ranks_with_new;
      rank.call_until(*more.back(), [] { return true; });
    }
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    // One in the middle, then the newest but one; the others go on.
    for (const size_t dropped : {1, 2}) {
      more[dropped]->finalize();
      more[dropped].reset();
      rank.call_until(rank.comm(), [] { return true; });
      rank.call_until(*more[3], [] { return true; });
    }
    rank.call_until(*more[0], [&] { return board_->has_old_ended.load(); });
    for (const size_t dropped : {0, 3}) more[dropped]->finalize();
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    std::vector<std::unique_ptr<EndOf>> newer;
    const auto look = [&]() -> std::string {
      for (uint32_t number = 1; number <= kOlder; ++number) {
        const json said = upgrade(0);
        if (said.contains("error")) return said.dump();
        newer.push_back(std::make_unique<EndOf>(said["process"].get<pid_t>()));
        board_->upgrades = number;
        wait_until([&] { return board_->ranks_with_new == kRanks * number; });
        std::string trouble =
            until(1, "all communicators", [&](const json& view) { return ranks_in(view) == kRanks * (number + 1); });
        if (!trouble.empty()) return trouble;
      }
      const json refused = upgrade(0);
      if (refused.value("error", "").find("can be no more of them") == std::string::npos) return refused.dump();
      board_->is_upgraded = true;
      wait_until([&] { return has_ended(newer[1]->process()) && has_ended(newer[2]->process()); });
      if (daemons[0]->has_ended() || has_ended(newer[0]->process()) || has_ended(newer[3]->process())) {
        return "one has ended that has a communicator";
      }
      json said;
      // It hears of their ends soon.
      wait_until([&] { return !(said = upgrade(0)).contains("error"); });
      newer.push_back(std::make_unique<EndOf>(said["process"].get<pid_t>()));
      return until(1, "those that are left", [&](const json& view) { return ranks_in(view) == kRanks * 3; });
    };
    std::string trouble = look();
    board_->upgrades = kOlder;
    board_->is_upgraded = true;
    board_->has_old_ended = true;
    wait_until([&] { return board_->ranks_over == kRanks; });
    return trouble.empty() ? "right" : trouble;
  });
}

}  // namespace
}  // namespace banyan::service
