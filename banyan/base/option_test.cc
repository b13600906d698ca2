#include "banyan/base/option.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Option, IsAWholeNumberWithinItsRange) {
  EXPECT_EQ(parse_count("0", "--seed", {0, UINT64_MAX}), 0u);
  EXPECT_EQ(parse_count("18446744073709551615", "--seed", {0, UINT64_MAX}), UINT64_MAX);
  for (const char* wrong : {"", "0", "9", "-1", "+1", "1.5", " 2", "2 ", "two", "18446744073709551616"})
    EXPECT_THROW(parse_count(wrong, "--trees", {1, 8}), Error) << wrong;
}

TEST(Option, IsNamedByTheErrorsOfItsReader) {
  EXPECT_EQ(parse_option("--trees", [] { return 3; }), 3);
  try {
    parse_option("--trees", [] { return parse_count("nine", "", {1, 8}); });
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--trees: 'nine' is not a whole number from 1 to 8");
  }
}

}  // namespace
}  // namespace banyan
