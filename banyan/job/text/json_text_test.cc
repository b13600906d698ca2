#include "banyan/job/text/json_text.h"

#include <unistd.h>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::job {
namespace {

std::string all_of(JsonText& text) {
  std::string all;
  for (int c = text.next(); c >= 0; c = text.next()) all += static_cast<char>(c);
  return all;
}

// The reader keeps nothing of what it looks at, where the source has it in memory already.
TEST(JsonText, LooksAtWhatTheSourceHoldsWithoutTakingIt) {
  TraceSource source = TraceSource::from_text(R"({"name": "k"   , "dur": 1})", "test");
  JsonText text(source);
  std::string given;
  while (!given.ends_with("\"k\"")) given += static_cast<char>(text.next());
  EXPECT_EQ(source.position(), given.size());
  EXPECT_EQ(source.buffered(), R"(   , "dur": 1})");
}

// A file comes in pieces of 64 KiB; a quote within a text, which is mended by what stands behind it, is put at each
// place around the end of the first piece.
TEST(JsonText, LooksAheadOverTheEndOfAPiece) {
  const std::string path = ::testing::TempDir() + "/banyan-json-text-" + std::to_string(::getpid());
  for (size_t before = 65'490; before <= 65'540; ++before) {
    const std::string begin = "[" + std::string(before - 1, ' '), end = ",  {\"a\"  :  -inf}\n]";
    write_file_unsynced(path, begin + R"({"name": "a "quoted" name"  , "dur": 1})" + end);
    TraceSource source = TraceSource::from_file(path);
    JsonText text(source);
    EXPECT_EQ(all_of(text), begin + R"({"name": "a \"quoted\" name"  , "dur": 1})" + ",  {\"a\"  :  null}\n]")
        << before;
    EXPECT_EQ(text.mended(), 3u);
    EXPECT_EQ(text.position(), std::filesystem::file_size(path));
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace banyan::job
