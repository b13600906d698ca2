#include "banyan/base/file.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(File, WritesWholeAndLeavesNothingBeside) {
  const std::filesystem::path folder = ::testing::TempDir() + "banyan_file_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  write_file(folder / "x", "first");
  write_file(folder / "x", "second");
  EXPECT_EQ(read_file(folder / "x"), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

TEST(File, NamesThePathItCouldNotReadOrWrite) {
  try {
    read_file("/nonexistent/plan.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.where(), "/nonexistent/plan.json");
  }
  EXPECT_THROW(write_file("/nonexistent/plan.json", "x"), Error);
}

TEST(File, RefusesMoreThanTheLimit) {
  const std::string path = ::testing::TempDir() + "banyan_file_limit";
  write_file(path, std::string(1000, 'x'));
  EXPECT_THROW(read_file(path, 999), Error);
  EXPECT_EQ(read_file(path, 1000).size(), 1000u);
}

TEST(File, RefusesADeviceThatNeverEnds) {
  EXPECT_THAT(testing::error_of([&] { read_file("/dev/zero"); }),
              ::testing::HasSubstr("is a device that gives bytes without end"));
  EXPECT_EQ(read_file("/dev/null"), "");
}

}  // namespace
}  // namespace banyan
