#include "banyan/service/cluster/reachable_directory.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class Cards : public HostDirectory {
 public:
  explicit Cards(std::map<std::string, HostCard>& known) : known_(known) {}
  void publish(const HostCard& card) override { known_[card.host] = card; }
  std::optional<HostCard> find(const std::string& host) override {
    return known_.contains(host) ? std::optional(known_[host]) : std::nullopt;
  }
  HostCards cards() override {
    HostCards all;
    for (const auto& [host, card] : known_) all.cards.push_back(card);
    return all;
  }

 private:
  std::map<std::string, HostCard>& known_;
};

class Reachable : public ::testing::Test {
 protected:
  static HostCard card_of(const std::string& host, std::vector<std::string> addresses) {
    return {.host = host, .incarnation = 1, .name = "node " + host, .addresses = std::move(addresses), .port = 7};
  }
  std::vector<std::string> addresses(const std::string& host) { return directory_.find(host)->addresses; }

  std::map<std::string, HostCard> known_;
  std::vector<std::string> own_ = {"10.0.0.1"}, warnings_;
  ReachableDirectory directory_{std::make_unique<Cards>(known_),
                                {.host = "boot1 4 5 6",
                                 .addresses = [this] { return own_; },
                                 .warn = [this](const std::string& words) { warnings_.push_back(words); }}};
};

TEST_F(Reachable, AddressesThatThisHostHasTooAreNotCalledOnOthers) {
  directory_.publish(card_of("boot1 4 5 6", {"10.0.0.1", "172.17.0.1"}));
  HostCard other = card_of("boot2 4 5 6", {"10.0.0.2", "172.17.0.1"});
  other.older = {{.incarnation = 0, .addresses = {"10.0.0.2", "172.17.0.1", "192.168.122.1"}, .port = 6}};
  directory_.publish(other);
  EXPECT_THAT(addresses("boot2 4 5 6"), ElementsAre("10.0.0.2", "172.17.0.1"))
      << "it leads there for all that is known";

  own_ = {"10.0.0.1", "172.17.0.1", "192.168.122.1"};  // Docker is started
  EXPECT_THAT(addresses("boot2 4 5 6"), ElementsAre("10.0.0.2"));
  EXPECT_THAT(directory_.find("boot2 4 5 6")->older[0].addresses, ElementsAre("10.0.0.2"));
  EXPECT_THAT(directory_.cards().cards[1].addresses, ElementsAre("10.0.0.2"));
  EXPECT_THAT(addresses("boot1 4 5 6"), ElementsAre("10.0.0.1", "172.17.0.1")) << "its own stay";
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_FALSE(directory_.find("boot3 4 5 6"));
}

TEST_F(Reachable, HostsOfOneMachineAreReachedAtItsAddresses) {
  own_ = {"10.0.0.1", "127.0.0.1"};
  directory_.publish(card_of("a name", {"127.0.0.1"}));
  EXPECT_THAT(addresses("a name"), ElementsAre("127.0.0.1"));
  directory_.publish(card_of("boot1 id:b", {"10.0.0.1"}));
  EXPECT_THAT(addresses("boot1 id:b"), ElementsAre("10.0.0.1"));
}

TEST_F(Reachable, AHostWithoutAnAddressOfItsOwnIsNamedOnce) {
  directory_.publish(card_of("boot2 4 5 6", {"10.0.0.1"}));
  EXPECT_THAT(addresses("boot2 4 5 6"), IsEmpty());
  EXPECT_THAT(addresses("boot2 4 5 6"), IsEmpty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the daemon of host 'node boot2 4 5 6' says that it is reached at "
                                               "10.0.0.1, which this host has, too; start it with --address")));
  directory_.publish(card_of("boot2 4 5 6", {"10.0.0.2"}));
  EXPECT_THAT(addresses("boot2 4 5 6"), ElementsAre("10.0.0.2"));
  directory_.publish(card_of("boot2 4 5 6", {"10.0.0.1"}));
  EXPECT_THAT(addresses("boot2 4 5 6"), IsEmpty());
  EXPECT_EQ(warnings_.size(), 2u);
}

}  // namespace
}  // namespace banyan::service
