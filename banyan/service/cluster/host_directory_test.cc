#include "banyan/service/cluster/host_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

#include "banyan/base/file.h"
#include "banyan/service/cluster/test_etcd.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

// In place of libc's: counts.
namespace {
std::atomic<int> fsyncs;
}
extern "C" int fsync(int file) {
  ++fsyncs;
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace {
std::atomic<int> cards_opened;
}
extern "C" int openat(int folder, const char* name, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const unsigned mode = (flags & O_CREAT) != 0 ? va_arg(more, unsigned) : 0;
  va_end(more);
  if (std::string_view(name).starts_with("host-")) ++cards_opened;
  return static_cast<int>(syscall(SYS_openat, folder, name, flags, mode));
}

namespace banyan::service {
namespace {

using ::testing::Pair;

class FolderOfHosts : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  std::unique_ptr<HostDirectory> open() const { return HostDirectory::at("file://" + folder_); }
  void overwrite_in_place(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary | std::ios::trunc) << contents;
  }
};

TEST_F(FolderOfHosts, ShowsAllWhatOneHasPublished) {
  const auto a = open(), b = open();
  a->publish(card_of("a"));
  const std::optional<HostCard> found = b->find("a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->host, "a");
  EXPECT_EQ(found->name, "node of a");
  EXPECT_THAT(found->addresses, ElementsAre("10.1.2.3", "fe80::1"));
  EXPECT_EQ(found->port, 4711);
}

TEST_F(FolderOfHosts, CardsNameOlderDaemonsOfTheHost) {
  const auto directory = open();
  HostCard card = card_of("a");
  card.older = {{.incarnation = 8, .addresses = {"10.1.2.3", "10.1.2.4"}, .port = 5000},
                {.incarnation = 7, .addresses = {}, .port = 5001}};
  directory->publish(card);
  const std::optional<HostCard> found = directory->find("a");
  ASSERT_TRUE(found);
  const std::vector<HostCard> daemons = found->daemons();
  ASSERT_EQ(daemons.size(), 3u);
  EXPECT_EQ(daemons[0].port, card.port);
  EXPECT_EQ(daemons[1].incarnation, 8u);
  EXPECT_EQ(daemons[1].port, 5000);
  EXPECT_THAT(daemons[1].addresses, ElementsAre("10.1.2.3", "10.1.2.4"));
  EXPECT_EQ(daemons[2].host, "a");
  EXPECT_TRUE(daemons[0].older.empty());
  EXPECT_TRUE(found->has(7) && found->has(8) && found->has(card.incarnation));
  EXPECT_FALSE(found->has(9));
}

TEST_F(FolderOfHosts, CardsSayOfWhichVersionTheyAre) {
  const std::string encoded = card_of("a").encode();
  EXPECT_EQ(HostCard::decode(encoded).texts, HostCard::kTexts);
  EXPECT_THAT(testing::error_of([&] { HostCard::decode(encoded.substr(0, encoded.size() - 1)); }),
              HasSubstr("cut short"));
  std::string newer = encoded;
  ++newer[sizeof(uint32_t) + std::string(HostCard::kVersion).size() - 1];
  EXPECT_THAT(testing::error_of([&] { HostCard::decode(newer); }),
              HasSubstr("it is no banyan card/2: its daemon is of another version, or it is no card"));
}

TEST_F(FolderOfHosts, ListsTheOthersBesideCardsThatCannotBeRead) {
  const auto directory = open();
  for (const char* host : {"a", "b"}) directory->publish(card_of(host));
  std::ofstream(folder_ + "/host-00") << "garbage";
  std::ofstream(folder_ + "/host-63") << signed_card(card_of("b"), {});
  std::filesystem::create_symlink(folder_ + "/host-61", folder_ + "/host-64");
  std::filesystem::create_directory(folder_ + "/host-65");
  ASSERT_EQ(mkfifo((folder_ + "/host-66").c_str(), 0600), 0);
  EXPECT_THAT(hosts_of(*directory), ElementsAre("a", "b"));
  EXPECT_THAT(directory->cards().unread,
              ElementsAre(Pair(std::string(1, '\0'), HasSubstr("cut short")), Pair("c", HasSubstr("to be of host 'b'")),
                          Pair("d", HasSubstr("symbolic link")), Pair("e", HasSubstr("it is no file")),
                          Pair("f", HasSubstr("it is no file"))));
  EXPECT_THAT(testing::error_of([&] { directory->find("f"); }, ErrorCode::invalid_input), HasSubstr("it is no file"));
}

TEST_F(FolderOfHosts, BelievesCardsThatTheSecretHasSignedAlone) {
  const run::Secret secret = run::Secret::random();
  const std::string url = "file://" + folder_;
  const auto own = HostDirectory::at(url, secret), other = HostDirectory::at(url, run::Secret::random());
  const auto none = HostDirectory::at(url);
  own->publish(card_of("a"));
  own->publish(card_of("b"));
  other->publish(card_of("c"));
  none->publish(card_of("d"));
  EXPECT_THAT(hosts_of(*own), ElementsAre("a", "b"));
  EXPECT_THAT(own->cards().unread, ElementsAre(Pair("c", HasSubstr("signed by another secret")),
                                               Pair("d", HasSubstr("it is not signed: its daemon has no secret"))));
  EXPECT_THAT(hosts_of(*none), ElementsAre("a", "b", "c", "d")) << "it has nothing to hold them against";
  std::filesystem::copy_file(folder_ + "/host-61", folder_ + "/host-62",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(testing::error_of([&] { own->find("b"); }, ErrorCode::invalid_input), HasSubstr("to be of host 'a'"));
}

TEST_F(FolderOfHosts, NoticesEveryByteOfASignedCardThatIsChangedAndOneThatIsMissing) {
  const run::Secret secret = run::Secret::random();
  const std::string text = signed_card(card_of("a"), secret);
  EXPECT_EQ(checked_card(text, "a", secret).port, 4711);
  for (size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_EQ(testing::thrown_by([&] { checked_card(changed, "a", secret); }).code(), ErrorCode::invalid_input) << at;
  }
  const std::string plain = signed_card(card_of("a"), {});
  for (size_t bytes = 0; bytes < plain.size(); ++bytes) {
    const std::string half = plain.substr(0, bytes);
    EXPECT_EQ(testing::thrown_by([&] { checked_card(half, "a", {}); }).code(), ErrorCode::invalid_input) << bytes;
  }
  EXPECT_EQ(testing::thrown_by([&] { checked_card(text, "b", secret); }).code(), ErrorCode::invalid_input);
}

TEST_F(FolderOfHosts, IsNoLinkAndNotOpenToAll) {
  const std::string link = folder_ + "-link";
  std::filesystem::create_directory_symlink(folder_, link);
  const std::string said = testing::error_of([&] { HostDirectory::at("file://" + link); }, ErrorCode::invalid_input);
  std::filesystem::remove(link);
  EXPECT_THAT(said, HasSubstr("is a symbolic link"));
  const auto directory = open();
  directory->publish(card_of("a"));
  std::filesystem::permissions(folder_, std::filesystem::perms(0777));
  EXPECT_THAT(testing::error_of([&] { open(); }, ErrorCode::invalid_input), HasSubstr("pretend to be a host"));
  EXPECT_THAT(testing::error_of([&] { directory->find("a"); }, ErrorCode::io), HasSubstr("pretend to be a host"));
  std::filesystem::permissions(folder_, std::filesystem::perms(0700));
  EXPECT_TRUE(directory->find("a"));
}

// With thousands of hosts, a look must not read them all.
TEST_F(FolderOfHosts, ReadsACardAgainOnlyWhenItHasChanged) {
  constexpr int kHosts = 300;
  const auto writer = open(), reader = open();
  for (int host = 0; host < kHosts; ++host) writer->publish(card_of(std::to_string(host)));
  const auto opened_by_a_look = [&] {
    const int before = cards_opened;
    EXPECT_EQ(reader->cards().cards.size(), static_cast<size_t>(kHosts));
    return cards_opened - before;
  };
  EXPECT_EQ(opened_by_a_look(), kHosts);
  EXPECT_EQ(opened_by_a_look(), 0);
  writer->publish(card_of("7", 1));
  EXPECT_EQ(opened_by_a_look(), 1);
  EXPECT_EQ(reader->find("7")->port, 1);
  overwrite_in_place("host-37", signed_card(card_of("7", 2), {}));
  // Clocks of file systems are coarse.
  std::filesystem::last_write_time(folder_ + "/host-37", std::filesystem::file_time_type::clock::now() + seconds(1));
  EXPECT_EQ(reader->find("7")->port, 2);
  std::filesystem::remove(folder_ + "/host-37");
  EXPECT_FALSE(reader->find("7"));
}

TEST_F(FolderOfHosts, ListsAllHosts) {
  const auto directory = open();
  EXPECT_THAT(hosts_of(*directory), ElementsAre());
  for (const char* host : {"b", "../x", "a"}) directory->publish(card_of(host));
  std::ofstream(folder_ + "/host-61.tmp") << "half a card";
  std::ofstream(folder_ + "/host-6") << "no card";
  EXPECT_THAT(hosts_of(*directory), ElementsAre("../x", "a", "b"));
}

// A daemon publishes between calls that it carries out, and a disk may take seconds.
TEST_F(FolderOfHosts, IsPublishedInWithoutAWaitForTheDisk) {
  const auto directory = open();
  const int before = fsyncs;
  for (const uint16_t port : {uint16_t{1}, uint16_t{2}}) directory->publish(card_of("a", port));
  EXPECT_EQ(fsyncs, before);
  EXPECT_EQ(open()->find("a")->port, 2);
  write_file(folder_ + "/other", "text");
  EXPECT_EQ(fsyncs, before + 1) << "syncs are not counted";
}

TEST_F(FolderOfHosts, KeepsHostsApartWhateverTheyAreCalled) {
  const std::string names[] = {"",
                               ".",
                               "..",
                               "../a",
                               "/etc/passwd",
                               "a",
                               "A",
                               "a/b",
                               "a\nb",
                               "\xff\xfe",
                               "host",
                               "host-61 ",
                               "*",
                               std::string("a\0b", 3),
                               std::string(100, 'x')};
  const auto directory = open();
  uint16_t port = 1;
  for (const std::string& name : names) directory->publish(card_of(name, port++));
  port = 1;
  for (const std::string& name : names) {
    const std::optional<HostCard> found = directory->find(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->host, name);
    EXPECT_EQ(found->port, port++) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), std::ssize(names));
}

TEST_F(FolderOfHosts, RefusesACardThatIsNone) {
  const auto directory = open();
  directory->publish(card_of("a"));
  for (const std::string& garbage : {std::string("hello"), std::string(64, '\xff'), card_of("a").encode(),
                                     signed_card(card_of("a"), {}) + "x", std::string(1 << 20, 'x')}) {
    overwrite_in_place("host-61", garbage);
    EXPECT_EQ(testing::thrown_by([&] { directory->find("a"); }).code(), ErrorCode::invalid_input)
        << garbage.substr(0, 100);
  }
}

TEST_F(FolderOfHosts, IsMadeWhenItIsMissing) {
  const std::string inner = "file://" + folder_ + "/inner";
  HostDirectory::at(inner)->publish(card_of("a"));
  EXPECT_TRUE(HostDirectory::at(inner)->find("a"));
}

TEST_F(FolderOfHosts, MayComeLater) {
  const auto directory = HostDirectory::at("file://" + folder_ + "/no/such");
  EXPECT_THAT(testing::error_of([&] { directory->publish(card_of("a")); }, ErrorCode::io),
              HasSubstr(folder_ + "/no/such"));
  EXPECT_THAT(testing::error_of([&] { directory->find("a"); }, ErrorCode::io), HasSubstr(folder_ + "/no/such"));
  std::filesystem::create_directory(folder_ + "/no");
  directory->publish(card_of("a"));
  EXPECT_TRUE(directory->find("a"));
}

TEST_F(FolderOfHosts, IsNotBelievedWhenOneThatStrangersMayWriteToHasCome) {
  const std::string inner = folder_ + "/inner";
  const auto early = HostDirectory::at("file://" + inner);
  std::filesystem::create_directory(inner);
  std::filesystem::permissions(inner, std::filesystem::perms::all);
  const auto names_it = AllOf(HasSubstr("every user may write"), HasSubstr(inner));
  EXPECT_THAT(testing::error_of([&] { early->publish(card_of("a")); }, ErrorCode::io), names_it);
  EXPECT_THAT(testing::error_of([&] { early->find("a"); }, ErrorCode::io), names_it);
  EXPECT_THAT(testing::error_of([&] { early->cards(); }, ErrorCode::io), names_it);
  EXPECT_THAT(testing::error_of([&] { HostDirectory::at("file://" + inner); }, ErrorCode::invalid_input), names_it);
}

TEST_F(FolderOfHosts, SaysThatItHasGone) {
  const auto directory = open();
  std::filesystem::remove_all(folder_);
  EXPECT_THAT(testing::error_of([&] { directory->publish(card_of("a")); }, ErrorCode::io), HasSubstr(folder_));
  EXPECT_THAT(testing::error_of([&] { directory->find("a"); }, ErrorCode::io), HasSubstr(folder_))
      << "nobody knows who is there";
}

TEST(HostDirectory, OfOneHostKnowsItselfOnly) {
  const auto directory = HostDirectory::at("");
  EXPECT_FALSE(directory->find("a"));
  directory->publish(card_of("a"));
  EXPECT_TRUE(directory->find("a"));
  EXPECT_FALSE(directory->find("b"));
}

TEST(HostDirectory, SaysWhereDaemonsCanMeet) {
  for (const std::string url : {"/tmp/world", "file://", "tcp://a:1", "etcd:/a:1/x", "ETCD://a:1/x"}) {
    EXPECT_THAT(testing::error_of([&] { HostDirectory::at(url); }, ErrorCode::invalid_input),
                AllOf(HasSubstr(url), HasSubstr("file:///FOLDER"), HasSubstr("etcd://HOST:PORT/PREFIX")));
  }
}

TEST(HostDirectory, NamesThePackageThatEtcdNeeds) {
  const std::string error =
      testing::error_of([] { HostDirectory::at("etcd://127.0.0.1:2379/banyan"); }, ErrorCode::unsupported);
  if (error == "no error") GTEST_SKIP() << "this build has libcurl; banyan_service_daemon_missing_test has not";
  EXPECT_THAT(error, HasSubstr("libcurl4-openssl-dev"));
}

}  // namespace
}  // namespace banyan::service
