// Cards in etcd, against a server of its own for each test.
#include <stdlib.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "banyan/run/system/child.h"
#include "banyan/service/cluster/etcd_directory.h"
#include "banyan/service/cluster/test_etcd.h"
#include "banyan/service/cluster/test_etcd_process.h"
#include "banyan/service/http/client.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ::testing::Pair;

class Etcd : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  Etcd() { etcd_.emplace(folder_); }
  ~Etcd() override { etcd_.reset(); }
  void SetUp() override {
    if (!is_there("etcd")) GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
    start();
  }

  void start(const std::vector<std::string>& more = {}) { etcd_->start(scheme_, more); }
  void stop() { etcd_->stop(); }
  std::string place() const { return etcd_->place(); }
  std::string url() const { return (scheme_ == "https" ? "etcds://" : "etcd://") + place() + "/banyan"; }
  std::unique_ptr<EtcdDirectory> open(EtcdDirectory::Options options = {.ttl = seconds(10), .patience = seconds(20)}) {
    return std::make_unique<EtcdDirectory>(EtcdPlace::parse(url()), std::move(options));
  }
  // Starting etcd takes a while.
  static bool answers(HostDirectory& directory) {
    return comes_true([&] { return testing::error_of([&] { directory.find("a"); }) == "no error"; });
  }
  static bool shows(HostDirectory& directory, const std::string& host) {
    try {
      return directory.find(host).has_value();
    } catch (const Error&) {
      return false;
    }
  }

  std::string scheme_ = "http";
  std::optional<EtcdProcess> etcd_;
};

TEST_F(Etcd, ShowsDaemonsEachOther) {
  const auto a = open();
  const auto b = HostDirectory::at(url());
  ASSERT_TRUE(answers(*a) && answers(*b));
  EXPECT_FALSE(a->find("b"));
  a->publish(card_of("a", 1));
  b->publish(card_of("../b\n", 2));
  const std::optional<HostCard> found = a->find("../b\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->host, "../b\n");
  EXPECT_EQ(found->name, "node of ../b\n");
  EXPECT_THAT(found->addresses, ElementsAre("10.1.2.3", "fe80::1"));
  EXPECT_EQ(found->port, 2);
  EXPECT_EQ(b->find("a")->port, 1);
  EXPECT_THAT(hosts_of(*a), ElementsAre("../b\n", "a"));
}

TEST_F(Etcd, HasTheCardsOfThousandsOfHosts) {
  constexpr int kHosts = 6000, kAtOnce = 100;
  const auto directory = open();
  ASSERT_TRUE(answers(*directory));
  for (int first = 0; first < kHosts; first += kAtOnce) {
    nlohmann::json puts = nlohmann::json::array();
    for (int host = first; host < first + kAtOnce; ++host) {
      HostCard card = card_of(std::to_string(host));
      card.name = std::string(600, 'x');
      puts.push_back({{"request_put",
                       {{"key", to_base64(EtcdPlace::parse(url()).key_of(card.host))},
                        {"value", to_base64(signed_card(card, {}))}}}});
    }
    const HttpResponse said =
        http_ask("http://" + place(), "POST", "/v3/kv/txn", nlohmann::json({{"success", puts}}).dump(), seconds(20));
    ASSERT_EQ(said.status, 200) << said.body;
  }
  const HostCards read = directory->cards();
  EXPECT_EQ(read.cards.size(), static_cast<size_t>(kHosts));
  EXPECT_TRUE(read.unread.empty());
}

TEST_F(Etcd, BelievesCardsThatTheSecretHasSignedAlone) {
  const run::Secret secret = run::Secret::random();
  const auto own = open({.secret = secret}), other = open({.secret = run::Secret::random()}), none = open();
  ASSERT_TRUE(answers(*own) && answers(*other) && answers(*none));
  own->publish(card_of("a"));
  other->publish(card_of("b"));
  none->publish(card_of("c"));
  const HostCards read = own->cards();
  EXPECT_THAT(hosts_of(*own), ElementsAre("a"));
  EXPECT_THAT(read.unread,
              ElementsAre(Pair("b", HasSubstr("signed by another secret")), Pair("c", HasSubstr("not signed"))));
  EXPECT_THAT(testing::error_of([&] { own->find("c"); }, ErrorCode::invalid_input),
              HasSubstr("the card of host 'c' in etcd"));
}

TEST_F(Etcd, ReplacesACardByANewerOne) {
  const auto watcher = open();
  ASSERT_TRUE(answers(*watcher));
  auto before = open(), after = open();
  before->publish(card_of("a", 1));
  before->publish(card_of("a", 2));
  EXPECT_EQ(watcher->find("a")->port, 2);
  after->publish(card_of("a", 3));
  before.reset();  // takes its own card with it, and no other
  ASSERT_TRUE(watcher->find("a"));
  EXPECT_EQ(watcher->find("a")->port, 3);
}

TEST_F(Etcd, DropsTheCardUnderAFormerName) {
  const auto directory = open();
  ASSERT_TRUE(answers(*directory));
  directory->publish(card_of("a"));
  directory->publish(card_of("b"));
  EXPECT_FALSE(directory->find("a"));
  EXPECT_TRUE(directory->find("b"));
}

TEST_F(Etcd, ForgetsWhoIsKilledWhenItsLeaseRunsOut) {
  run::Child owner([&]() -> int {
    const auto directory = open({.ttl = seconds(3), .patience = seconds(20)});
    if (!answers(*directory)) return 1;
    directory->publish(card_of("a"));
    for (;;) pause();
  });
  const auto watcher = open();
  ASSERT_TRUE(comes_true([&] { return shows(*watcher, "a"); }));
  // As long as it lives, for longer than the lease.
  EXPECT_FALSE(comes_true([&] { return !shows(*watcher, "a"); }, seconds(5)));
  owner.end();
  // etcd looks every half second; the rest is for a busy machine. The lease of others is 10 s long.
  EXPECT_TRUE(comes_true([&] { return !watcher->find("a"); }, seconds(8)));
}

TEST_F(Etcd, HasTheCardAgainAfterARestartAlsoWhereItHasForgottenAll) {
  const auto directory = open({.ttl = seconds(3), .patience = seconds(20)}), watcher = open();
  ASSERT_TRUE(answers(*watcher));
  directory->publish(card_of("a"));
  for (const bool forgets : {true, false}) {
    stop();
    if (forgets) etcd_->forget_all();
    start();
    EXPECT_TRUE(comes_true([&] { return shows(*watcher, "a"); })) << forgets;
  }
  // And keeps it, for longer than the lease.
  EXPECT_FALSE(comes_true([&] { return !shows(*watcher, "a"); }, seconds(5)));
}

TEST_F(Etcd, IsBelievedWithItsCertificateOnly) {
  if (!is_there("openssl")) GTEST_SKIP() << "openssl is not installed";
  stop();
  etcd_->forget_all();
  const std::string certificate = folder_ + "/certificate.pem", key = folder_ + "/key.pem";
  const std::string make =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
      "-subj /CN=banyan-test -addext subjectAltName=IP:127.0.0.1 -keyout " +
      key + " -out " + certificate + " > /dev/null 2>&1";
  ASSERT_EQ(std::system(make.c_str()), 0) << make;
  scheme_ = "https";
  start({"--cert-file", certificate, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", certificate});
  const auto known =
      open({.patience = seconds(20), .tls = {.ca = certificate, .certificate = certificate, .key = key}});
  ASSERT_TRUE(answers(*known));
  known->publish(card_of("a"));
  EXPECT_TRUE(known->find("a"));
  const auto believes_others = open({.patience = seconds(20), .tls = {.certificate = certificate, .key = key}});
  EXPECT_THAT(testing::error_of([&] { believes_others->find("a"); }, ErrorCode::io), HasSubstr("certificate"));
  const auto stranger = open({.patience = seconds(20), .tls = {.ca = certificate}});
  EXPECT_THAT(testing::error_of([&] { stranger->find("a"); }, ErrorCode::io), HasSubstr("https://" + place()));
}

}  // namespace
}  // namespace banyan::service
