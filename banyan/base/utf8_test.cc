#include "banyan/base/utf8.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(Utf8, IsWhatIsWellFormed) {
  for (const char* const good : {"", "plain", "\xc3\x84", "\xe2\x82\xac", "\xf0\x9f\x8c\xb3", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* const bad :
       {"\x80", "a\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
  EXPECT_EQ(utf8_character("\xe2\x82\xac and more"), 3u);
}

TEST(Harmless, TextsMoveNoTerminal) {
  EXPECT_EQ(harmless("\x1b[31m red \n \x7f"), "?[31m red ? ?");
  EXPECT_EQ(harmless("\xc2\x9b"
                     "31m \x9b"
                     "2J"),
            "?31m ?2J")
      << "C1, as a character and as a byte";
  EXPECT_EQ(harmless("a\xe2\x80\xae"
                     "b\xe2\x81\xa6"
                     "c\xe2\x80\x8f"),
            "a?b?c?")
      << "marks of direction";
  EXPECT_EQ(harmless("broken \xc3( \xe2\x82"), "broken ?( ??");
  const std::string kept = "\xc3\x84rger \xe2\x82\xac \xe2\x80\x93 \xc2\xa0 \xf0\x9f\x8c\xb3";
  EXPECT_EQ(harmless(kept), kept);
}

}  // namespace
}  // namespace banyan
