#include "banyan/run/join/file_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <future>

#include "banyan/run/system/child.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;

const Deadline kSoon = Deadline::after(std::chrono::minutes(2));

class FileStoreTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  const std::string meeting_ = folder_ + "/meet";
};

TEST_F(FileStoreTest, SharesValuesAndCounters) {
  const auto host = FileStore::host(meeting_, "process 1 on a");
  const auto visitor = FileStore::visit(meeting_, kSoon);
  const std::string key = "a/b ../%", value("v\0\n", 3);
  EXPECT_EQ(visitor->try_get(key, kSoon), std::nullopt);
  host->set(key, value, kSoon);
  EXPECT_EQ(visitor->try_get(key, kSoon), value);
  EXPECT_EQ(visitor->get(key, kSoon), value);
  host->set(key, "", kSoon);
  EXPECT_EQ(visitor->get(key, kSoon), "");
  EXPECT_EQ(host->add("n", 5, kSoon), 5);
  EXPECT_EQ(visitor->add("n", -6, kSoon), -1);
  EXPECT_EQ(visitor->try_get("n", kSoon), "-1");
  host->set("text", "seven", kSoon);
  EXPECT_THAT(testing::thrown_by([&] { visitor->add("text", 1, kSoon); }).what(), HasSubstr("no counter"));
  const std::string longest(Store::kMaxKey, '/');
  host->set(longest, "x", kSoon);
  EXPECT_EQ(visitor->get(longest, kSoon), "x");
}

TEST_F(FileStoreTest, CountsForManyProcessesAtOnce) {
  constexpr uint32_t kProcesses = 8, kTimes = 50;
  run_processes(kProcesses, std::chrono::minutes(1), [&](uint32_t rank) {
    auto store = rank == 0 ? FileStore::host(meeting_, "rank 0") : FileStore::visit(meeting_, kSoon);
    for (uint32_t i = 0; i < kTimes; ++i) store->add("n", 1, kSoon);
    if (store->add("done", 1, kSoon) == kProcesses) store->set("all", "done", kSoon);
    store->get("all", kSoon);
    EXPECT_EQ(store->try_get("n", kSoon), std::to_string(kProcesses * kTimes));
    if (::testing::Test::HasFailure()) throw Error(ErrorCode::mismatch, "wrong sum");
    if (rank == 0) store->finish(kSoon);
    return std::string();
  });
}

TEST_F(FileStoreTest, LeavesNothingBehind) {
  {
    const auto host = FileStore::host(meeting_, "rank 0");
    host->set("k", "v", kSoon);
    host->add("n", 1, kSoon);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
  fs::create_directory(meeting_);
  FileStore::host(meeting_, "rank 0");
  EXPECT_TRUE(fs::exists(meeting_)) << "it was there before";
}

TEST_F(FileStoreTest, WaitsForAHostThatComesLate) {
  auto visitor = std::async(std::launch::async, [&] { return FileStore::visit(meeting_, kSoon)->get("k", kSoon); });
  EXPECT_EQ(visitor.wait_for(milliseconds(20)), std::future_status::timeout);
  const auto host = FileStore::host(meeting_, "rank 0");
  host->set("k", "v", kSoon);
  EXPECT_EQ(visitor.get(), "v");
  EXPECT_TRUE(host->finish(kSoon));
}

// A host that was killed leaves everything behind; nobody believes it, and the next one takes its place.
TEST_F(FileStoreTest, DoesNotBelieveLeftovers) {
  const Pipe ready = Pipe::make();
  Child child([&] {
    const auto host = FileStore::host(meeting_, "rank 0 of yesterday");
    host->set("k", "stale", kSoon);
    if (write(ready.writing.get(), "x", 1) != 1) return 1;
    return pause();
  });
  char byte;
  ASSERT_EQ(read(ready.reading.get(), &byte, 1), 1);
  const auto witness = FileStore::visit(meeting_, kSoon);
  EXPECT_EQ(witness->get("k", kSoon), "stale");
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(meeting_, "rank 0 of today"); }).what(),
              HasSubstr("rank 0 of yesterday is meeting others here already"));
  child.end();

  EXPECT_EQ(testing::thrown_by([&] { witness->get("none", kSoon); }).code(), ErrorCode::peer_lost);
  EXPECT_THAT(testing::thrown_by([&] { FileStore::visit(meeting_, Deadline::after(milliseconds(20))); }).what(),
              HasSubstr("rank 0 has not come to file://" + meeting_ + " within 20 ms"));
  auto visitor = std::async(std::launch::async, [&] { return FileStore::visit(meeting_, kSoon)->get("k", kSoon); });
  const auto host = FileStore::host(meeting_, "rank 0 of today");
  host->set("k", "fresh", kSoon);
  EXPECT_EQ(visitor.get(), "fresh");
}

TEST_F(FileStoreTest, FinishesWhenAllHaveGone) {
  const auto host = FileStore::host(meeting_, "rank 0");
  auto visitor = FileStore::visit(meeting_, kSoon);
  EXPECT_FALSE(host->finish(Deadline::after(milliseconds(10))));
  EXPECT_EQ(testing::thrown_by([&] { FileStore::visit(meeting_, Deadline::after(milliseconds(10))); }).code(),
            ErrorCode::timed_out);
  visitor.reset();
  EXPECT_TRUE(host->finish(kSoon));
}

TEST_F(FileStoreTest, TellsVisitorsThatTheHostIsGone) {
  auto host = FileStore::host(meeting_, "rank 0");
  const auto visitor = FileStore::visit(meeting_, kSoon);
  host.reset();
  EXPECT_EQ(testing::thrown_by([&] { visitor->get("k", kSoon); }).code(), ErrorCode::peer_lost);
  EXPECT_EQ(testing::thrown_by([&] { visitor->set("k", "v", kSoon); }).code(), ErrorCode::peer_lost);
  EXPECT_EQ(testing::thrown_by([&] { visitor->add("k", 1, kSoon); }).code(), ErrorCode::peer_lost);
}

TEST_F(FileStoreTest, DoesNotMindForks) {
  auto host = FileStore::host(meeting_, "rank 0");
  run_processes(1, std::chrono::minutes(1), [&](uint32_t) {
    host.reset();
    return std::string();
  });
  const auto visitor = FileStore::visit(meeting_, kSoon);
  EXPECT_EQ(visitor->add("still there", 1, kSoon), 1);
}

TEST_F(FileStoreTest, RefusesFoldersThatOthersMayWriteTo) {
  fs::create_directory(meeting_);
  ASSERT_EQ(chmod(meeting_.c_str(), 0777), 0);
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(meeting_, "rank 0"); }).what(),
              HasSubstr("every user may write to"));
}

// Somebody has put a link to a folder of ours at the place of a meeting. Nothing happens to what it leads to.
TEST_F(FileStoreTest, FollowsNoLinks) {
  const std::string victim = folder_ + "/precious";
  fs::create_directory(victim);
  std::ofstream(victim + "/current") << "mine";
  fs::create_directory_symlink(victim, meeting_);
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(meeting_, "rank 0"); }).what(),
              HasSubstr(meeting_ + " is a symbolic link, which others may have put there"));
  EXPECT_THAT(testing::thrown_by([&] { FileStore::visit(meeting_, kSoon); }).what(), HasSubstr("is a symbolic link"));
  const auto entries = [&] { return std::distance(fs::directory_iterator(victim), fs::directory_iterator()); };
  EXPECT_EQ(entries(), 1);
  std::string text;
  std::getline(std::ifstream(victim + "/current"), text);
  EXPECT_EQ(text, "mine");

  // Nor within a folder of our own: what the host writes and takes away is the link.
  fs::remove(meeting_);
  fs::create_directory(meeting_);
  fs::create_symlink(victim + "/current", meeting_ + "/current");
  fs::create_directory_symlink(victim, meeting_ + "/meeting-0123456789abcdef");
  FileStore::host(meeting_, "rank 0")->set("k", "v", kSoon);
  EXPECT_EQ(entries(), 1);
  std::getline(std::ifstream(victim + "/current"), text);
  EXPECT_EQ(text, "mine");
}

// Its name may lead elsewhere by then.
TEST_F(FileStoreTest, StaysInTheFolderThatItHasOpened) {
  const auto host = FileStore::host(meeting_, "rank 0");
  const auto visitor = FileStore::visit(meeting_, kSoon);
  fs::rename(meeting_, folder_ + "/moved");
  fs::create_directory(meeting_);
  host->set("k", "v", kSoon);
  EXPECT_EQ(visitor->get("k", kSoon), "v");
  EXPECT_EQ(visitor->add("n", 3, kSoon), 3);
  EXPECT_TRUE(fs::is_empty(meeting_));
}

TEST_F(FileStoreTest, RefusesAFolderOfAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  fs::create_directory(meeting_);
  ASSERT_EQ(chown(meeting_.c_str(), 65534, 65534), 0);
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(meeting_, "rank 0"); }).what(),
              HasSubstr("belongs to another user"));
}

TEST_F(FileStoreTest, RefusesWhatIsNoFolder) {
  std::ofstream(meeting_) << "x";
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(meeting_, "rank 0"); }).what(),
              HasSubstr("is a file; name a folder"));
  EXPECT_THAT(testing::thrown_by([&] { FileStore::host(folder_ + "/no/where", "rank 0"); }).what(),
              HasSubstr("cannot make the folder"));
  fs::remove(meeting_);
  fs::create_directory(meeting_);
  std::ofstream(meeting_ + "/current") << "../../etc";
  EXPECT_THAT(testing::thrown_by([&] { FileStore::visit(meeting_, kSoon); }).what(),
              HasSubstr("was not written by banyan"));
}

}  // namespace
}  // namespace banyan::run
