#include "banyan/service/daemon/remembering_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.h"

namespace banyan::service {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

HostCard card_of(const std::string& host, uint16_t port) {
  return {.host = host, .incarnation = port, .name = host, .addresses = {"127.0.0.1"}, .port = port};
}

// What it is told to know, or nothing.
class Moody : public HostDirectory {
 public:
  explicit Moody(bool& answers, std::map<std::string, HostCard>& known) : answers_(answers), known_(known) {}
  void publish(const HostCard& card) override {
    expect_answer();
    known_[card.host] = card;
  }
  std::optional<HostCard> find(const std::string& host) override {
    expect_answer();
    const auto found = known_.find(host);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<HostCard> cards() override {
    expect_answer();
    std::vector<HostCard> all;
    for (const auto& [host, card] : known_) all.push_back(card);
    return all;
  }

 private:
  void expect_answer() const {
    if (!answers_) throw Error(ErrorCode::io, "it is away");
  }
  bool& answers_;
  std::map<std::string, HostCard>& known_;
};

class Remembering : public ::testing::Test {
 protected:
  static std::vector<uint16_t> ports(const std::vector<HostCard>& cards) {
    std::vector<uint16_t> ports;
    for (const HostCard& card : cards) ports.push_back(card.port);
    return ports;
  }

  bool answers_ = true;
  std::map<std::string, HostCard> known_;
  std::vector<std::string> notes_;
  RememberingDirectory directory_{std::make_unique<Moody>(answers_, known_), "etcd",
                                  [this](const std::string& words) { notes_.push_back(words); }};
};

TEST_F(Remembering, GivesCardsAsTheyWereReadLastUntilTheDirectorySaysOtherwise) {
  directory_.publish(card_of("a", 1));
  known_["b"] = card_of("b", 2);
  known_["c"] = card_of("c", 3);
  EXPECT_EQ(directory_.find("b")->port, 2);
  answers_ = false;
  EXPECT_EQ(directory_.find("a")->port, 1) << "what it has published it knows";
  EXPECT_EQ(directory_.find("b")->port, 2);
  EXPECT_THROW(directory_.find("c"), Error) << "nobody has asked for it";
  EXPECT_THAT(ports(directory_.cards()), ElementsAre(1, 2));
  EXPECT_THAT(directory_.trouble(), HasSubstr("etcd does not answer"));
  EXPECT_THAT(directory_.trouble(), HasSubstr("it is away"));
  answers_ = true;
  known_["b"] = card_of("b", 7);
  EXPECT_THAT(ports(directory_.cards()), ElementsAre(1, 7, 3));
  EXPECT_EQ(directory_.trouble(), "");
  known_.erase("b");
  EXPECT_FALSE(directory_.find("b"));
  answers_ = false;
  EXPECT_THAT(ports(directory_.cards()), ElementsAre(1, 3));
  EXPECT_THROW(directory_.find("b"), Error) << "the directory has said that it is gone";
  EXPECT_THAT(notes_,
              ElementsAre(HasSubstr("etcd does not answer"), "etcd answers again", HasSubstr("etcd does not answer")));
}

TEST_F(Remembering, ThrowsWhereNothingIsRemembered) {
  answers_ = false;
  EXPECT_THROW(directory_.cards(), Error);
  EXPECT_THROW(directory_.find("a"), Error);
  EXPECT_THROW(directory_.publish(card_of("a", 1)), Error);
}

TEST(DirectoryNames, AreForPeople) {
  EXPECT_EQ(name_of_directory("etcd://node1:2379/banyan"), "etcd");
  EXPECT_EQ(name_of_directory("etcds://node1:2379/banyan"), "etcd");
  EXPECT_EQ(name_of_directory("file:///shared/banyan"), "the folder /shared/banyan");
}

}  // namespace
}  // namespace banyan::service
