#include "banyan/run/join/store_table.h"

#include <limits>

#include "banyan/run/join/wire.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Replies as "client:number outcome value".
class StoreTableTest : public ::testing::Test {
 protected:
  static std::string request(uint32_t number, StoreVerb verb, const std::string& key) {
    return WireWriter().number(number).number(static_cast<uint8_t>(verb)).text(key).take();
  }
  static std::string set(uint32_t number, const std::string& key, const std::string& value) {
    return request(number, StoreVerb::set, key) + WireWriter().text(value).take();
  }
  static std::string add(uint32_t number, const std::string& key, int64_t delta) {
    return request(number, StoreVerb::add, key) + WireWriter().number(static_cast<uint64_t>(delta)).take();
  }
  std::vector<std::string> ask(uint64_t client, const std::string& frame) {
    replies_.clear();
    table_.request(client, frame);
    return replies_;
  }

  std::vector<std::string> replies_;
  StoreTable table_{4096, [this](uint64_t client, StoreTable::Reply reply) {
                      const std::string value = reply.value == nullptr ? "" : *reply.value;
                      WireReader reader(reply.head);
                      EXPECT_EQ(reader.number<uint32_t>(), reply.head.size() - FrameReader::kHead + value.size());
                      const auto number = reader.number<uint32_t>();
                      const char* outcomes[] = {"done", "absent", "failed"};
                      replies_.push_back(std::to_string(client) + ":" + std::to_string(number) + " " +
                                         outcomes[reader.number<uint8_t>()] + (value.empty() ? "" : " " + value));
                      reader.end();
                    }};
};

TEST_F(StoreTableTest, KeepsWhatIsSet) {
  EXPECT_THAT(ask(1, request(5, StoreVerb::try_get, "a")), ElementsAre("1:5 absent"));
  EXPECT_THAT(ask(1, set(6, "a", "one")), ElementsAre("1:6 done"));
  EXPECT_THAT(ask(2, request(7, StoreVerb::try_get, "a")), ElementsAre("2:7 done one"));
  ask(2, set(8, "a", "two"));
  EXPECT_THAT(ask(1, request(9, StoreVerb::wait, "a")), ElementsAre("1:9 done two"));
}

TEST_F(StoreTableTest, AnswersAllWhoWaitOnceTheValueIsThere) {
  EXPECT_THAT(ask(1, request(1, StoreVerb::wait, "a")), IsEmpty());
  EXPECT_THAT(ask(2, request(1, StoreVerb::wait, "a")), IsEmpty());
  EXPECT_THAT(ask(4, request(1, StoreVerb::wait, "b")), IsEmpty());
  EXPECT_THAT(ask(3, set(9, "a", "x")), ElementsAre("1:1 done x", "2:1 done x", "3:9 done"));
  EXPECT_EQ(table_.waiting(), 1u);
  EXPECT_THAT(ask(3, add(10, "b", 3)), ElementsAre("4:1 done 3", "3:10 done 3"));
}

TEST_F(StoreTableTest, TakesBackAWaitByAnotherRequestOrTheEnd) {
  ask(1, request(1, StoreVerb::wait, "a"));
  ask(2, request(1, StoreVerb::wait, "a"));
  EXPECT_THAT(ask(1, request(2, StoreVerb::try_get, "b")), ElementsAre("1:2 absent"));
  table_.forget(2);
  EXPECT_EQ(table_.waiting(), 0u);
  EXPECT_THAT(ask(3, set(1, "a", "x")), ElementsAre("3:1 done"));
}

TEST_F(StoreTableTest, Counts) {
  EXPECT_THAT(ask(1, add(1, "n", 5)), ElementsAre("1:1 done 5"));
  EXPECT_THAT(ask(2, add(2, "n", -7)), ElementsAre("2:2 done -2"));
  EXPECT_THAT(ask(2, request(3, StoreVerb::try_get, "n")), ElementsAre("2:3 done -2"));
  ask(1, set(4, "text", "7 dwarfs"));
  EXPECT_THAT(ask(1, add(5, "text", 1)), ElementsAre(HasSubstr("failed this value is no counter")));
  ask(1, set(6, "n", std::to_string(std::numeric_limits<int64_t>::max())));
  EXPECT_THAT(ask(1, add(7, "n", 1)), ElementsAre(HasSubstr("failed the counter would have more than 64 bits")));
}

TEST_F(StoreTableTest, HoldsNoMoreThanItMay) {
  EXPECT_THAT(ask(1, set(1, "a", std::string(3000, 'x'))), ElementsAre("1:1 done"));
  EXPECT_THAT(ask(1, set(2, "b", std::string(2000, 'x'))), ElementsAre(HasSubstr("failed the store is full")));
  EXPECT_THAT(ask(1, set(3, "a", std::string(3500, 'y'))), ElementsAre("1:3 done"));
  EXPECT_THAT(ask(1, set(4, "a", "")), ElementsAre("1:4 done"));
  EXPECT_THAT(ask(1, set(5, "b", std::string(2000, 'x'))), ElementsAre("1:5 done"));
  EXPECT_LE(table_.memory(), 4096u);
}

TEST_F(StoreTableTest, RefusesWhatIsNoRequest) {
  const std::string good = set(1, "key", "value");
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(table_.request(1, good.substr(0, size)), Error) << size;
  }
  EXPECT_THROW(table_.request(1, good + "x"), Error);
  EXPECT_THROW(table_.request(1, request(1, static_cast<StoreVerb>(4), "key")), Error);
  EXPECT_THROW(table_.request(1, request(1, StoreVerb::try_get, "")), Error);
  EXPECT_THROW(table_.request(1, request(1, StoreVerb::try_get, std::string(81, 'k'))), Error);
  EXPECT_THAT(replies_, IsEmpty());
}

TEST(FrameReader, CutsAStreamAnywhere) {
  const std::string stream = frame_head(3) + "abc" + frame_head(0) + frame_head(2) + "de";
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameReader reader;
    std::vector<std::string> frames;
    for (const std::string& part : {stream.substr(0, cut), stream.substr(cut)}) {
      reader.append(part);
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    EXPECT_THAT(frames, ElementsAre("abc", "", "de")) << cut;
  }
}

TEST(FrameReader, RefusesASizeBeforeTheBytesCome) {
  FrameReader reader;
  reader.append(frame_head(FrameReader::kMaxFrame + 1));
  EXPECT_THROW(reader.next(), Error);
}

}  // namespace
}  // namespace banyan::run
