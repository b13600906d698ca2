// The gtest side of fuzz.h: reads every corpus of the fuzzers that are linked in.

#include "banyan/base/file.h"
#include "banyan/testing/fuzz.h"
#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

class FuzzCorpus : public ::testing::TestWithParam<const Fuzzer*> {};

TEST_P(FuzzCorpus, IsReadWithoutACrash) {
  const std::filesystem::path folder = std::filesystem::path(BANYAN_SOURCE_DIR) / GetParam()->corpus();
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    const std::string input = read_file(entry.path().string());
    EXPECT_NO_THROW(GetParam()->read(input));
    ++files;
  }
  EXPECT_GT(files, 0u) << "the corpus " << folder << " is empty";
}

INSTANTIATE_TEST_SUITE_P(Reader, FuzzCorpus, ::testing::ValuesIn(Fuzzer::registered()),
                         [](const auto& instance) { return instance.param->name(); });

}  // namespace
}  // namespace banyan::testing
