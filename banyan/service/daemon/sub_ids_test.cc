#include "banyan/service/daemon/sub_ids.h"

#include <stdlib.h>
#include <unistd.h>

#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class SubIdsTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  SubIdsTest() { path_ = folder_ + "/subuid"; }
  // As shadow's tools do: another file.
  void write(const std::string& text) const {
    std::ofstream(path_ + "+") << text;
    std::filesystem::rename(path_ + "+", path_);
  }
  SubIds sub_ids() {
    return SubIds({.path = path_,
                   .warn = [this](const std::string& words) { warnings_.push_back(words); },
                   .number_of = [this](const std::string& name) -> std::optional<uint32_t> {
                     if (name == "alice") return 1001;
                     if (name == "bob") return 1002;
                     return std::nullopt;
                   }});
  }

  std::string path_;
  std::vector<std::string> warnings_;
};

TEST_F(SubIdsTest, CountForTheOwnerOfTheirRange) {
  write("alice:100000:65536\nbob:165536:65536\n# a remark\n\n1003:300000:10\nalice:400000:1\n");
  SubIds ids = sub_ids();
  for (const uint32_t own : {0u, 1001u, 99'999u, 231'072u, 299'999u, 300'010u, 399'999u, 400'001u, UINT32_MAX}) {
    EXPECT_EQ(ids.owner_of(own), own);
  }
  for (const uint32_t id : {100'000u, 123'456u, 165'535u, 400'000u}) EXPECT_EQ(ids.owner_of(id), 1001u) << id;
  for (const uint32_t id : {165'536u, 231'071u}) EXPECT_EQ(ids.owner_of(id), 1002u) << id;
  for (const uint32_t id : {300'000u, 300'009u}) EXPECT_EQ(ids.owner_of(id), 1003u) << id;
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(SubIdsTest, AreThoseOfTheFileAsItIsNow) {
  SubIds ids = sub_ids();
  EXPECT_EQ(ids.owner_of(100'000), 100'000u) << "there is no file";
  write("alice:100000:65536\n");
  EXPECT_EQ(ids.owner_of(100'000), 1001u);
  write("bob:100000:65536\n");
  EXPECT_EQ(ids.owner_of(100'000), 1002u);
  std::filesystem::remove(path_);
  EXPECT_EQ(ids.owner_of(100'000), 100'000u);
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(SubIdsTest, LeaveLinesOutThatAreWrongAndSaySoOnce) {
  write(
      "alice:100000:65536\nalice:100000\nalice:x:1\n:5:5\nbob:0:10\nbob:7:0\nbob:4294967295:2\nbob:165535:2\n"
      "bob:99999:2\nbob:90000:100000\nbob:200000:-1\nbob:4294967295:1\n");
  SubIds ids = sub_ids();
  EXPECT_EQ(ids.owner_of(165'535), 1001u);
  EXPECT_EQ(ids.owner_of(165'536), 165'536u);
  EXPECT_EQ(ids.owner_of(99'999), 99'999u);
  EXPECT_EQ(ids.owner_of(UINT32_MAX), 1002u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("subuid line 2 and 9 more lines are left out")));
}

TEST_F(SubIdsTest, OfAnUnknownOwnerAreOneUserAllTheSame) {
  write("carol:100000:65536\n");
  SubIds ids = sub_ids();
  EXPECT_EQ(ids.owner_of(100'007), 100'000u);
  EXPECT_EQ(ids.owner_of(165'535), 100'000u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("numbers to user 'carol', who is unknown")));
}

TEST_F(SubIdsTest, StayAsTheyWereWhereTheFileCannotBeRead) {
  write("alice:100000:65536\n");
  SubIds ids = sub_ids();
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_EQ(ids.owner_of(100'000), 1001u);
  EXPECT_EQ(ids.owner_of(100'000), 1001u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("taken to be as before")));
}

TEST_F(SubIdsTest, AreFoundAmongManyRanges) {
  constexpr uint32_t kUsers = 60'000;
  std::string text;
  std::vector<uint32_t> users(kUsers);
  for (uint32_t i = 0; i < kUsers; ++i) users[i] = i;
  std::shuffle(users.begin(), users.end(), std::mt19937(1));
  for (const uint32_t user : users) {
    text += std::to_string(2'000'000 + user) + ":" + std::to_string(100'000 + user * 65'536) + ":65536\n";
  }
  write(text);
  SubIds ids = sub_ids();
  for (uint32_t i = 0; i < kUsers; ++i) {
    ASSERT_EQ(ids.owner_of(100'000 + i * 65'536), 2'000'000 + i);
    ASSERT_EQ(ids.owner_of(100'000 + i * 65'536 + 65'535), 2'000'000 + i);
  }
  EXPECT_THAT(warnings_, IsEmpty());
}

}  // namespace
}  // namespace banyan::service
