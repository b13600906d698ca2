#include "banyan/run/record/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include "banyan/base/file.h"
#include "banyan/run/call/operation.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using ::testing::MatchesRegex;

class LogTest : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  ~LogTest() override {
    start_log({});
    set_log_rank(kNoRank);
    unsetenv("BANYAN_LOG");
    unsetenv("BANYAN_LOG_FILE");
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> lines(const std::string& name) const {
    std::istringstream text(read_file(path(name)));
    std::vector<std::string> all;
    for (std::string line; std::getline(text, line);) all.push_back(line);
    return all;
  }
};

TEST_F(LogTest, ALineTellsWhenAndWho) {
  start_log({.level = LogLevel::info, .file = path("log")});
  set_log_rank(3);
  BANYAN_LOG(info) << "joined as rank " << 3 << "\nof 8";
  const std::vector<std::string> all = lines("log");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0], MatchesRegex("20[0-9-]+ [0-9:]+\\.[0-9][0-9][0-9][0-9][0-9][0-9]Z .+:" +
                                   std::to_string(getpid()) + " rank 3 info: joined as rank 3 of 8"));
  struct stat info {};
  ASSERT_EQ(stat(path("log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
}

// The journal knows when, who and where; a priority is read off each line.
TEST_F(LogTest, ALineOfTheJournalHasAPriorityInPlaceOfTheTime) {
  write_file(path("journal"), "");
  struct stat journal {};
  ASSERT_EQ(stat(path("journal").c_str(), &journal), 0);
  setenv("JOURNAL_STREAM", (std::to_string(journal.st_dev) + ":" + std::to_string(journal.st_ino)).c_str(), 1);
  start_log({.level = LogLevel::debug, .file = path("journal")});
  BANYAN_LOG(warning) << "of no\nrank";
  set_log_rank(3);
  BANYAN_LOG(info) << "of a rank";
  BANYAN_LOG(debug) << "of a rank";
  EXPECT_THAT(lines("journal"), ElementsAre("<4>of no rank", "<6>rank 3: of a rank", "<7>rank 3: of a rank"));
  start_log({.file = path("elsewhere")});  // as of a child whose output is a file
  BANYAN_LOG(warning) << "x";
  EXPECT_THAT(lines("elsewhere"), ElementsAre(MatchesRegex("20[0-9-]+ .* rank 3 warning: x")));
  EXPECT_EQ(journal_mark(JournalPriority::error, STDERR_FILENO), "");
  unsetenv("JOURNAL_STREAM");
}

TEST_F(LogTest, BuildsNoTextThatNobodyWants) {
  int built = 0;
  const auto text = [&] {
    ++built;
    return "text";
  };
  start_log({.file = path("log")});
  BANYAN_LOG(debug) << text();
  BANYAN_LOG(info) << text();
  EXPECT_EQ(built, 0);
  BANYAN_LOG(warning) << text();
  EXPECT_EQ(built, 1);
  start_log({.level = LogLevel::info, .file = path("log")});
  BANYAN_LOG(debug) << text();
  BANYAN_LOG(info) << text();
  EXPECT_EQ(built, 2);
  start_log({.level = LogLevel::debug, .file = path("log")});
  BANYAN_LOG(debug) << text();
  EXPECT_EQ(built, 3);
  EXPECT_EQ(lines("log").size(), 3u);
}

TEST_F(LogTest, IsAnExpressionLikeAnyOther) {
  start_log({.file = path("log")});
  if (folder_.empty())
    BANYAN_LOG(warning) << "not this";
  else
    BANYAN_LOG(warning) << "but this";
  EXPECT_THAT(lines("log").at(0), HasSubstr("but this"));
}

TEST_F(LogTest, NamesItsFileAfterHostProcessAndRank) {
  start_log({.file = path("%p-%r-100%%")});
  BANYAN_LOG(warning) << "before";
  set_log_rank(7);
  BANYAN_LOG(warning) << "after";
  const std::string process = std::to_string(getpid());
  EXPECT_EQ(lines(process + "-unknown-100%").size(), 1u);
  EXPECT_THAT(lines(process + "-7-100%").at(0), HasSubstr("rank 7 warning: after"));
  start_log({.file = path("%h")});
  BANYAN_LOG(warning) << "x";
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 3);
}

TEST_F(LogTest, AppendsToWhatIsThere) {
  write_file(path("log"), "old\n");
  start_log({.file = path("log")});
  BANYAN_LOG(warning) << "new";
  EXPECT_EQ(lines("log").at(0), "old");
  EXPECT_EQ(lines("log").size(), 2u);
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  start_log({.level = LogLevel::info, .file = path("%r")});
  set_log_rank(0);
  constexpr int kLines = 500;
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([letter] {
      for (int i = 0; i < kLines; ++i) BANYAN_LOG(info) << std::string(200, letter);
    });
  }
  for (uint32_t rank = 1; rank < 20; ++rank) set_log_rank(rank);
  for (std::thread& thread : threads) thread.join();
  size_t count = 0;
  for (uint32_t rank = 0; rank < 20; ++rank) {
    for (const std::string& line : lines(std::to_string(rank))) {
      ++count;
      const std::string text = line.substr(line.size() - 200);
      EXPECT_EQ(static_cast<size_t>(std::count(text.begin(), text.end(), text[0])), text.size()) << line;
    }
  }
  EXPECT_EQ(count, 3u * kLines);
}

TEST_F(LogTest, ReadsTheEnvironment) {
  unsetenv("BANYAN_LOG");
  EXPECT_EQ(LogConfig::from_environment(), LogConfig{});
  setenv("BANYAN_LOG", "", 1);
  EXPECT_EQ(LogConfig::from_environment(), LogConfig{});
  setenv("BANYAN_LOG", "debug", 1);
  setenv("BANYAN_LOG_FILE", "/x/%r", 1);
  EXPECT_EQ(LogConfig::from_environment(), (LogConfig{.level = LogLevel::debug, .file = "/x/%r"}));
}

TEST_F(LogTest, LevelsMayBeInCapitals) {
  setenv("BANYAN_LOG", "INFO", 1);
  EXPECT_EQ(LogConfig::from_environment().level, LogLevel::info);
}

TEST_F(LogTest, AnUnknownLevelNamesTheKnownOnes) {
  setenv("BANYAN_LOG", "inof", 1);
  EXPECT_EQ(testing::error_of([] { LogConfig::from_environment(); }),
            "BANYAN_LOG: unknown level 'inof' (did you mean 'info'?); known are warning, info, debug");
}

TEST_F(LogTest, AFileThatCannotBeOpenedChangesNothing) {
  start_log({.level = LogLevel::info, .file = path("log")});
  EXPECT_THROW(start_log({.file = path("none/log")}), Error);
  EXPECT_THROW(start_log({.file = path("%x")}), Error);
  EXPECT_THROW(start_log({.file = path("%")}), Error);
  BANYAN_LOG(info) << "still here";
  EXPECT_EQ(lines("log").size(), 1u);
}

}  // namespace
}  // namespace banyan::run
