#include "banyan/run/join/rendezvous.h"

#include <unistd.h>

#include <cstdio>
#include <future>

#include "banyan/run/join/free_port.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/reach.h"
#include "banyan/run/join/tcp_store.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

const Secret kSecret = Secret::parse("00112233445566778899aabbccddeeff", "test");

// tcp: and file: places that nobody else has.
class RendezvousTest : public ::testing::TestWithParam<const char*>, protected testing::TemporaryFolder {
 protected:
  RendezvousTest() {
    if (GetParam() == std::string("file")) {
      url_ = "file://" + folder_ + "/meet";
    } else {
      url_ = tcp_url("127.0.0.1", free_port());
    }
  }

  std::vector<EndpointRecord> meet_as(uint32_t rank, uint32_t size, milliseconds within = std::chrono::minutes(1),
                                      const std::string& job = "") const {
    const Deadline deadline = Deadline::after(within);
    Rendezvous rendezvous(Place::parse(url_), kSecret, {.rank = rank, .job = job}, deadline);
    return rendezvous.meet(record_of_endpoint(rank, rendezvous), size, deadline);
  }
  static EndpointRecord record_of_endpoint(uint32_t rank, const Rendezvous& rendezvous) {
    EndpointRecord card;
    card.rank = rank;
    card.member = describe_self(static_cast<uint16_t>(1000 + rank), rendezvous.own_addresses());
    card.extras["test"] = "rank " + std::to_string(rank);
    return card;
  }
  // What each of these processes threw; ranks and sizes as given.
  struct Comer {
    uint32_t rank = 0, size = 0;
  };
  std::vector<std::string> errors_of(const std::vector<Comer>& comers, milliseconds within) const {
    return run_processes(static_cast<uint32_t>(comers.size()), std::chrono::minutes(1), [&](uint32_t i) {
      try {
        meet_as(comers[i].rank, comers[i].size, within);
      } catch (const Error& error) {
        return std::to_string(static_cast<int>(error.code())) + " " + error.what();
      }
      return std::string("met");
    });
  }

  std::string url_;
};

INSTANTIATE_TEST_SUITE_P(Over, RendezvousTest, ::testing::Values("tcp", "file"),
                         [](const auto& case_info) { return std::string(case_info.param); });

TEST_P(RendezvousTest, BringsSixtyFourProcessesTogether) {
  constexpr uint32_t kSize = 64;
  const auto began = Deadline::Clock::now();
  const std::vector<std::string> seen = run_processes(kSize, std::chrono::minutes(1), [&](uint32_t rank) {
    std::string text;
    for (const EndpointRecord& card : meet_as(rank, kSize)) {
      text += std::to_string(card.rank) + " " + std::to_string(card.member.pid) + " " +
              std::to_string(card.member.port) + " " + card.extras.at("test") + " " + card.member.addresses.at(0) +
              "\n";
    }
    return text;
  });
  const std::chrono::duration<double> took = Deadline::Clock::now() - began;
  std::printf("%u processes met over %s in %.0f ms\n", kSize, GetParam(), took.count() * 1e3);
  std::fflush(stdout);  // or processes that are forked later say it again
  EXPECT_LT(took.count(), 10);
  const std::set<std::string> different(seen.begin(), seen.end());
  EXPECT_EQ(different.size(), 1u) << "all know the same";
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    EXPECT_THAT(seen[0], HasSubstr(" " + std::to_string(1000 + rank) + " rank " + std::to_string(rank) + " 1"));
  }
}

TEST_P(RendezvousTest, IsDoneByOneAlone) {
  const std::vector<EndpointRecord> cards = meet_as(0, 1);
  ASSERT_EQ(cards.size(), 1u);
  EXPECT_EQ(cards[0].member.pid, getpid());
}

TEST_P(RendezvousTest, TellsEverybodyWhoIsMissing) {
  const auto errors = errors_of({{0, 8}, {1, 8}, {2, 8}, {4, 8}}, milliseconds(1500));
  for (const std::string& error : errors) {
    EXPECT_EQ(error, std::to_string(static_cast<int>(ErrorCode::timed_out)) + " ranks 3, 5, 6, 7 have not come to " +
                         url_ + " within 1500 ms");
  }
}

TEST_P(RendezvousTest, NamesBothWhenTwoHaveTheSameRank) {
  const auto errors = errors_of({{0, 3}, {1, 3}, {1, 3}}, std::chrono::seconds(30));
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    EXPECT_THAT(error,
                ::testing::ContainsRegex("rank 1 has come to .* twice: process [0-9]+ on .* and process [0-9]+"));
  }
}

TEST_P(RendezvousTest, NamesBothWhenTwoExpectAnotherNumber) {
  const auto errors = errors_of({{0, 4}, {1, 4}, {2, 8}}, std::chrono::seconds(30));
  for (const std::string& error : errors) {
    EXPECT_EQ(error, errors[0]);
    EXPECT_THAT(error, HasSubstr("expects 4"));
    EXPECT_THAT(error, HasSubstr("expects 8"));
    EXPECT_THAT(error, HasSubstr("rank 2 (process "));
  }
}

TEST_P(RendezvousTest, EndsInAnErrorWhenACardIsNone) {
  // Somebody who knows the secret took the seat of rank 1.
  for (const std::string& card :
       {std::string("no card"), std::string(1 << 20, '['), std::string(1 << 19, '[') + std::string(1 << 19, ']')}) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    Rendezvous rendezvous(Place::parse(url_), kSecret, {.rank = 0}, deadline);
    for (const char* name : {"seat-1", "came"}) rendezvous.store().add(card.substr(0, 3) + name, 1, deadline);
    rendezvous.store().set(card.substr(0, 3) + "card-1", card, deadline);
    EXPECT_THAT(
        testing::error_of(
            [&] { meet(rendezvous.store(), record_of_endpoint(0, rendezvous), 2, deadline, card.substr(0, 3)); },
            ErrorCode::invalid_input),
        HasSubstr("no card of a process"));
    std::filesystem::remove_all(folder_ + "/meet");
  }
}

TEST_P(RendezvousTest, HoldsMeetingsOneAfterTheOther) {
  run_processes(4, std::chrono::minutes(1), [&](uint32_t rank) {
    for (int i = 0; i < 5; ++i) {
      if (meet_as(rank, 4, std::chrono::minutes(1), std::to_string(i)).size() != 4) {
        throw Error(ErrorCode::mismatch, "not all came");
      }
    }
    return std::string();
  });
}

// Two of three have come; who looks takes no part, whatever the job is called.
TEST_P(RendezvousTest, CanBeLookedAtFromOutside) {
  const Place place = Place::parse(url_);
  EXPECT_FALSE(look_at_meeting(place, kSecret, Deadline::after(std::chrono::seconds(10)))) << "nobody is there";
  const auto body = [&](uint32_t i) -> std::string {
    if (i < 2) {
      meet_as(i == 0 ? 0 : 2, 3);
      return "met";
    }
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    std::optional<MeetingView> view;
    while (!view || view->here.size() < 2) view = look_at_meeting(place, kSecret, deadline);
    const std::string seen = std::to_string(view->size) + ": " + std::to_string(view->here[0].rank) + " " +
                             std::to_string(view->here[1].rank) + ", not " + std::to_string(view->absent.at(0));
    meet_as(1, 3);
    return seen;
  };
  EXPECT_THAT(run_processes(3, std::chrono::minutes(1), body), ::testing::ElementsAre("met", "met", "3: 0 2, not 1"));
}

TEST(UniqueId, BringsProcessesTogether) {
  UniqueId id = make_unique_id();
  EXPECT_LE(id.text.size(), 255u);
  const Place place = Place::parse(id.text);
  EXPECT_EQ(place.url, id.text.substr(0, id.text.find('#')));
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  std::vector<std::future<size_t>> ranks;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] {
      Rendezvous rendezvous(place, Secret(), {.rank = rank}, deadline);
      EXPECT_EQ(rendezvous.secret().key(), place.secret->key());
      EndpointRecord card;
      card.rank = rank;
      card.member = describe_self(1, rendezvous.own_addresses());
      return rendezvous.meet(card, 3, deadline).size();
    }));
  }
  for (auto& rank : ranks) EXPECT_EQ(rank.get(), 3u);
  EXPECT_TRUE(id.server->finish(deadline));
}

TEST(ForkedMeeting, HasNoThreadBeforeTheForkAndAnswersThoseWhoCalledEarly) {
  const auto threads = [] {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  const auto before = threads();
  ForkedMeeting meeting;
  EXPECT_EQ(threads(), before);
  const Place place = Place::parse(meeting.url());
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  const auto words = run_processes(3, std::chrono::minutes(1), [&](uint32_t rank) {
    if (rank == 0) std::this_thread::sleep_for(milliseconds(50));
    const std::unique_ptr<StoreServer> server = rank == 0 ? meeting.serve() : nullptr;
    std::optional<Rendezvous> rendezvous;
    rendezvous.emplace(place, Secret(), Rendezvous::Options{.rank = rank}, deadline);
    EndpointRecord card;
    card.rank = rank;
    card.member = describe_self(1, rendezvous->own_addresses());
    const size_t met = rendezvous->meet(card, 3, deadline).size();
    rendezvous.reset();
    const bool have_all_gone = server == nullptr || server->finish(deadline);
    return std::to_string(met) + (have_all_gone ? "" : ", but somebody stayed");
  });
  EXPECT_THAT(words, ::testing::ElementsAre("3", "3", "3"));
}

// Such as a loader of data that was forked, and ends by exit().
TEST(Rendezvous, DoesNotMindForks) {
  const uint16_t port = free_port();
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  auto host =
      std::make_unique<Rendezvous>(Place::parse(tcp_url("127.0.0.1", port)), kSecret, Rendezvous::Options{}, deadline);
  const auto words = run_processes(1, std::chrono::minutes(1), [&](uint32_t) {
    host.reset();
    return std::string("destroyed it");
  });
  EXPECT_THAT(words, ::testing::ElementsAre("destroyed it"));
  TcpStore visitor({.place = "here", .name = "127.0.0.1", .port = port}, kSecret, "", deadline);
  EXPECT_EQ(visitor.add("still there", 1, deadline), 1);
}

TEST(UniqueId, LetsNobodyInWhoDoesNotKnowIt) {
  const UniqueId id = make_unique_id();
  const Place place = Place::parse(id.text.substr(0, id.text.find('#')) + "#000102030405060708090a0b0c0d0e0f");
  EXPECT_THROW(Rendezvous(place, Secret(), {.rank = 1}, Deadline::after(std::chrono::minutes(1))), Error);
}

std::string refusal_of(const std::string& url) {
  return testing::error_of([&] { Place::parse(url); });
}

TEST(Place, ReadsUrls) {
  const Place v6 = Place::parse("tcp://[::1]:29501");
  EXPECT_EQ(v6.host, "::1");
  EXPECT_EQ(v6.port, 29501);
  EXPECT_FALSE(v6.secret);
  EXPECT_EQ(Place::parse("file:///scratch/meet/").folder, "/scratch/meet");
  const Place id = Place::parse("tcp://node:7#000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(id.host, "node");
  EXPECT_EQ(id.url, "tcp://node:7");
  EXPECT_EQ(id.secret->key(), "000102030405060708090a0b0c0d0e0f");
}

TEST(Place, RefusesOtherTexts) {
  EXPECT_THAT(refusal_of("node:7"), HasSubstr("write tcp://host:port or file:///folder"));
  EXPECT_THAT(refusal_of("tcp://node"), HasSubstr("has no port"));
  EXPECT_THAT(refusal_of("tcp://node:0"), HasSubstr("no port from 1 to 65535"));
  EXPECT_THAT(refusal_of("tcp://node:65536"), HasSubstr("no port from 1 to 65535"));
  EXPECT_THAT(refusal_of("tcp://:7"), HasSubstr("has no host"));
  EXPECT_THAT(refusal_of("file://relative"), HasSubstr("has no absolute path"));
  EXPECT_THAT(refusal_of("file:///"), HasSubstr("names no folder"));
  EXPECT_THAT(refusal_of("tcp://node:x#0123456789"), ::testing::Not(HasSubstr("0123456789")));
}

TEST(Place, KeepsTheInterfaceOfAnAddressThatIsValidOnOneLink) {
  EXPECT_EQ(Place::parse("tcp://[fe80::1%lo]:5000").host, "fe80::1%lo");
  EXPECT_THAT(refusal_of("tcp://[fe80::1%nosuch0]:5000"), HasSubstr("this machine has no interface 'nosuch0', but lo"));
  EXPECT_THAT(refusal_of("tcp://[fe80::1]:5000"), HasSubstr("valid on one link only; say which, as in 'fe80::1%eth0'"));
  EXPECT_EQ(addresses_of("fe80::1%lo"), std::vector<std::string>{"fe80::1%lo"});
  EXPECT_EQ(addresses_of("fe80::1%1"), std::vector<std::string>{"fe80::1%lo"}) << "the number of an interface";
}

// By its own interface each process is on the link on which the others have theirs.
TEST(Reach, CallsAddressesOfALinkByTheOwnInterface) {
  std::vector<EndpointRecord> cards(2);
  cards[0].member.addresses = {"fe80::a%eth0", "10.0.0.1"};
  cards[1].member.addresses = {"fe80::b%eth1", "10.0.0.2"};
  std::vector<EndpointRecord> of_first = cards, of_second = cards;
  keep_reachable(of_first, 0);
  EXPECT_THAT(of_first[1].member.addresses, ::testing::ElementsAre("fe80::b%eth0", "10.0.0.2"));
  keep_reachable(of_second, 1);
  EXPECT_THAT(of_second[0].member.addresses, ::testing::ElementsAre("fe80::a%eth1", "10.0.0.1"));
  cards[0].member.addresses = {"10.0.0.1"};
  keep_reachable(cards, 0);
  EXPECT_THAT(cards[1].member.addresses, ::testing::ElementsAre("10.0.0.2")) << "rank 0 is on no such link";
}

TEST(Rendezvous, TrustsOnlyThisMachineWithoutASecret) {
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  EXPECT_THAT(
      testing::error_of([&] { Rendezvous(Place::parse("tcp://192.0.2.77:5000"), Secret(), {.rank = 1}, deadline); }),
      HasSubstr("without a secret only this one is trusted (set BANYAN_SECRET"));
  const uint16_t port = free_port();
  const Rendezvous here(Place::parse(tcp_url("127.0.0.1", port)), Secret(), {.rank = 0}, deadline);
  EXPECT_THAT(here.own_addresses(), ::testing::ElementsAre("127.0.0.1"));
  EXPECT_EQ(here.listening_address(), "127.0.0.1");
}

TEST(Rendezvous, ListensWhereTheUserSays) {
  const uint16_t port = free_port();
  const Rendezvous here(Place::parse(tcp_url("127.0.0.1", port)), kSecret, {.rank = 0},
                        Deadline::after(std::chrono::minutes(1)));
  setenv("BANYAN_ADDRESS", "127.0.0.9,127.0.0.8", 1);
  EXPECT_THAT(here.own_addresses(), ::testing::ElementsAre("127.0.0.9", "127.0.0.8"));
  EXPECT_EQ(here.listening_address(), "0.0.0.0");
  setenv("BANYAN_ADDRESS", "127.0.0.9", 1);
  EXPECT_EQ(here.listening_address(), "127.0.0.9");
  setenv("BANYAN_ADDRESS", "lo", 1);  // the interface
  EXPECT_EQ(here.listening_address(), "127.0.0.1");
  setenv("BANYAN_ADDRESS", "nosuch0", 1);
  EXPECT_THAT(
      testing::error_of([&] { here.own_addresses(); }),
      AllOf(HasSubstr("BANYAN_ADDRESS=nosuch0: the host 'nosuch0' is not known"),
            HasSubstr("no interface with an address is called so (this machine has " + list_interfaces() + ")")));
  EXPECT_THAT(list_interfaces(), HasSubstr("lo"));
  setenv("BANYAN_ADDRESS", "fe80::1", 1);
  EXPECT_THAT(testing::error_of([&] { here.own_addresses(); }),
              HasSubstr("BANYAN_ADDRESS: 'fe80::1' is valid on one link only; say which, as in 'fe80::1%eth0'"));
  unsetenv("BANYAN_ADDRESS");
}

// The kernel gives the port to nobody else while somebody listens.
TEST(Rendezvous, SaysWhenThePortIsTaken) {
  const Listener other = Listener::on("127.0.0.1");
  const std::string url = tcp_url("127.0.0.1", other.port());
  EXPECT_THAT(testing::error_of([&] {
                Rendezvous(Place::parse(url), Secret(), {.rank = 0}, Deadline::after(std::chrono::minutes(1)));
              }),
              AllOf(HasSubstr(url), HasSubstr("Address already in use")));
}

TEST(EndpointRecord, SaysWhatItWasTold) {
  EndpointRecord card;
  card.rank = 7;
  card.member = describe_self(4711, {"10.0.0.1", "::1"});
  card.cores = {0, 3, 70};
  card.extras = {{"ucx", "a\"b\\c"}, {"empty", ""}};
  const EndpointRecord copy = EndpointRecord::decode(card.encode());
  EXPECT_EQ(copy.rank, 7u);
  EXPECT_EQ(copy.member.pid, getpid());
  EXPECT_EQ(copy.member.start_time, card.member.start_time);
  EXPECT_EQ(copy.member.host_id, card.member.host_id);
  EXPECT_EQ(copy.member.addresses, card.member.addresses);
  EXPECT_EQ(copy.member.port, 4711);
  EXPECT_EQ(copy.cores, card.cores);
  EXPECT_EQ(copy.extras, card.extras);
}

TEST(EndpointRecord, RefusesOtherVersionsAndOtherThings) {
  std::string text = EndpointRecord{}.encode();
  const std::string own = std::to_string(EndpointRecord::kVersion), version = "\"version\":" + own;
  text.replace(text.find(version), version.size(), "\"version\":9");
  EXPECT_THAT(testing::error_of([&] { EndpointRecord::decode(text); }, ErrorCode::mismatch),
              HasSubstr("version 9, and this process reads " + own));
  for (const std::string& wrong :
       std::vector<std::string>{"", "[]", "{" + version + "}", "nonsense", "{\"version\":\"1\"}"}) {
    EXPECT_THROW(EndpointRecord::decode(wrong), Error) << wrong;
  }
}

TEST(HostId, IsOneForAllOnThisMachineUnlessToldOtherwise) {
  const std::string id = own_host_id();
  EXPECT_EQ(id, own_host_id());
  EXPECT_TRUE(share_loopback(id, id));
  EXPECT_FALSE(share_loopback(id, "another boot 1 2 3"));
  setenv("BANYAN_HOST_ID", "left half", 1);
  const std::string left = own_host_id();
  unsetenv("BANYAN_HOST_ID");
  EXPECT_NE(left, id);
  EXPECT_THAT(left, ::testing::EndsWith(" id:left half"));
  EXPECT_TRUE(share_loopback(left, id));
}

}  // namespace
}  // namespace banyan::run
