#include "banyan/service/operate/event_log.h"

#include "banyan/service/session/session_opening.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ::testing::Pair;
using ::testing::ThrowsMessage;

TEST(EventLog, KeepsTheLastOnesAndCountsTheOthers) {
  EventLog log("a");
  for (size_t i = 0; i < EventLog::kKept + 3; ++i) log.record("event " + std::to_string(i));
  ASSERT_EQ(log.last().size(), EventLog::kKept);
  EXPECT_EQ(log.last().front().words, "event 3");
  EXPECT_EQ(log.last().front().host, "a");
  EXPECT_EQ(log.dropped(), 3u);
}

TEST(EventLog, IsNotBloatedByNamesAndHasNoLinesOfTheirs) {
  EventLog log("a");
  log.record("attached: x\nevent: root has logged in\x1b[2J" + std::string(100'000, 'y'));
  const std::string words = log.last().front().words;
  EXPECT_LE(words.size(), EventLog::kMostWords + 3);
  EXPECT_EQ(words.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_THAT(words, HasSubstr("attached: x event"));
}

TEST(SessionOpening, RefusesTenantsOfWhichCopiesWouldBeLarge) {
  OpenSession wish;
  wish.members = wish.host_of_rank = {0};
  wish.job_size = 1;
  wish.hosts = {"a"};
  wish.name = std::string(100'000, 'x');
  wish.tenant = std::string(128, 'x');
  expect_possible(wish, "a");
  wish.tenant += 'x';
  EXPECT_THAT([&] { expect_possible(wish, "a"); },
              ThrowsMessage<Error>(HasSubstr("a tenant's name of 129 bytes; give it one of 128 at most")));
  wish.tenant = "a\nb";
  EXPECT_THAT([&] { expect_possible(wish, "a"); },
              ThrowsMessage<Error>(HasSubstr("characters that cannot be shown: 'a?b'")));
}

TEST(SessionOpening, CutsNamesAtACharacterAndMakesThemHarmless) {
  EXPECT_EQ(label_of(""), "");
  EXPECT_EQ(label_of("gradients of 7"), "gradients of 7");
  const std::string longest(128, 'x'), euro = "\xe2\x82\xac";
  EXPECT_EQ(label_of(longest), longest);
  EXPECT_EQ(label_of(longest + "x"), longest);
  EXPECT_EQ(label_of(longest.substr(3) + euro + "x"), longest.substr(3) + euro);
  EXPECT_EQ(label_of(longest.substr(2) + euro), longest.substr(2)) << "half a character is none";
  EXPECT_EQ(label_of("a\nb\x1b[2Jc\xff"), "a?b?[2Jc?");
}

}  // namespace
}  // namespace banyan::service
