// A rank that the daemon of its host does not let in: all ranks of its communicator hear so at once, and why.

#include "banyan/base/file.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;

using Clock = std::chrono::steady_clock;

enum class By { drain, rules };
// By what, at the host of which rank, and which rank comes later.
class Refusals : public Services, public ::testing::WithParamInterface<std::tuple<By, uint32_t, uint32_t>> {
 protected:
  HttpResponse refuse_at(uint32_t host) const {
    const std::string hosts = R"("hosts": ["host)" + std::to_string(host) + R"("])";
    if (std::get<By>(GetParam()) == By::drain) return ask(0, "POST", "/v1/drain", R"({"drain": true, )" + hosts + "}");
    return ask(0, "POST", "/v1/rules",
               R"({"text": "{\"version\": 1, \"rules\": [{\"name\": \"no more\", \"match\": {}, )"
               R"(\"then\": {\"deny\": \"not here\"}}]}", )" +
                   hosts + "}");
  }
};

TEST_P(Refusals, ReachAllRanksAtOnceWithTheirReason) {
  const auto [by, refused, late] = GetParam();
  const std::string reason = by == By::drain ? "the operator drains this host" : "not here";
  expect_right(2, 2, [&, refused = refused, late = late](Communicator& comm, run::RegionPool&) {
    const std::vector<int64_t> input = values_of(comm.rank(), 100);
    std::vector<int64_t> output(100);
    check_sum(comm, input, output);  // by then all have opened it
    if (comm.rank() == 0) {
      const HttpResponse done = refuse_at(refused);
      if (done.status != 200 || done.body.find("\"error\"") != std::string::npos) return done.body;
    }
    if (std::string report = check_sum(comm, input, output); report != "right") return report;
    if (comm.rank() == late) std::this_thread::sleep_for(milliseconds(300));
    const auto begin = Clock::now();
    try {
      std::optional<Communicator> other = comm.split(0, static_cast<int>(comm.rank()), own_options_);
      check_sum(*other, input, output);
      return std::string("it is not refused");
    } catch (const Error& error) {
      const auto needed = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
      if (needed > milliseconds(5000)) return "refused after " + std::to_string(needed.count()) + " ms";
      const std::string words = error.what();
      if (words.find(reason) == std::string::npos) return "another reason: " + words;
      const std::string who = "rank " + std::to_string(refused) + " of ";
      const std::string where = "is refused by the service of host 'host" + std::to_string(refused) + "'";
      if (comm.rank() != refused && words.find(who) == std::string::npos) return "nobody is named: " + words;
      if (comm.rank() != refused && words.find(where) == std::string::npos) return "no host is named: " + words;
    }
    // Nothing else has come to an end.
    return check_sum(comm, input, output);
  });
}
INSTANTIATE_TEST_SUITE_P(OfEitherHostInEitherOrder, Refusals,
                         ::testing::Combine(::testing::Values(By::drain, By::rules), ::testing::Values(0u, 1u),
                                            ::testing::Values(0u, 1u)));

// Why another communicator of these ranks is not opened, and that soon.
Error refusal_of_another(Communicator& comm, const Communicator::Options& options) {
  const auto begin = Clock::now();
  const Error refusal = testing::thrown_by([&] { comm.split(0, static_cast<int>(comm.rank()), options); });
  return Clock::now() - begin > milliseconds(5000) ? Error(ErrorCode::timed_out, "refused late") : refusal;
}

// One of them is on a daemon of before.
TEST_F(Services, OfTwoKindsOfTextsOpenNoCommunicatorTogetherAndSayWhy) {
  expect_right(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    sum(comm, 100);  // by then all have opened it
    if (comm.rank() == 0) {
      const auto world = HostDirectory::at("file://" + folder_ + "/world");
      for (HostCard card : world->cards().cards) {
        if (card.name != "host1") continue;
        card.texts = 1;
        world->publish(card);
      }
    }
    if (std::string report = sum(comm, 100); report != "right") return report;
    const Error refusal = refusal_of_another(comm, own_options_);
    const std::string words = refusal.what();
    if (refusal.code() != ErrorCode::mismatch) return "another code: " + words;
    const std::string numbers = "(1 and " + std::to_string(HostCard::kTexts) + ")";
    if (words.find("do not understand each other " + numbers + "; upgrade") == std::string::npos) return words;
    return sum(comm, 100);
  });
}

// Of a version to come, or of an enemy.
TEST_F(Services, WithACardThatCannotBeReadOpenNoCommunicatorAndShowTheOtherHosts) {
  expect_right(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    sum(comm, 100);  // by then all have opened it
    if (comm.rank() == 0) {
      for (const HostCard& card : HostDirectory::at("file://" + folder_ + "/world")->cards().cards) {
        if (card.name == "host1") write_file(folder_ + "/world/host-" + in_hexadecimal(card.host), "garbage");
      }
    }
    if (std::string report = sum(comm, 100); report != "right") return report;
    const Error refusal = refusal_of_another(comm, own_options_);
    if (refusal.code() != ErrorCode::mismatch) return std::string("another code: ") + refusal.what();
    if (std::string(refusal.what()).find("the card of host ") == std::string::npos) return refusal.what();
    const auto begin = Clock::now();
    // The daemon of host 0 may not have looked yet, but for this question.
    ClusterView seen = cluster(0);
    while (seen.unreachable.empty() && Clock::now() - begin < milliseconds(20'000)) seen = cluster(0);
    if (seen.hosts.size() != 1 || seen.unreachable.size() != 1) return "the cluster is not shown";
    if (seen.unreachable[0].why.find("its card: ") != 0) return seen.unreachable[0].why;
    return sum(comm, 100);
  });
}

}  // namespace
}  // namespace banyan::service
