#include "banyan/base/json_line.h"

#include "banyan/base/json_reader.h"
#include "banyan/testing/test.h"

namespace banyan {
namespace {

TEST(JsonLine, WritesNumbersTextsListsAndObjects) {
  JsonLine inner;
  inner.add("no", -1);
  const std::vector<std::string> texts = {"x", "y"};
  const std::vector<uint32_t> numbers = {7, 8};
  EXPECT_EQ(JsonLine()
                .add("a", UINT64_MAX)
                .add("b", "text")
                .add("c", texts)
                .add("d", numbers)
                .add("e", std::vector<uint32_t>())
                .add("f", std::move(inner))
                .take(),
            R"({"a":18446744073709551615,"b":"text","c":["x","y"],"d":[7,8],"e":[],"f":{"no":-1}})");
  EXPECT_EQ(JsonLine().take(), "{}");
}

// What is read is what was written, whatever it holds.
TEST(JsonLine, WritesEveryCharacter) {
  std::string text;
  for (int c = 0; c < 0x80; ++c) text += static_cast<char>(c);
  text += "\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xb3";  // of two, three and four bytes
  const std::string line = JsonLine().add(text, text).take();
  const JsonDocument document(line, {.name = "line"});
  EXPECT_EQ(document.root().at(text).text(), text);
}

TEST(JsonLine, ReplacesWhatIsNoText) {
  constexpr const char* kSign = "\xef\xbf\xbd";
  const auto written = [](const char* text) {
    const std::string line = JsonLine().add("text", text).take();
    const JsonDocument document(line, {.name = "line"});
    return document.root().at("text").text();
  };
  EXPECT_EQ(written("a\xff"), std::string("a") + kSign);
  EXPECT_EQ(written("\xc3"), kSign) << "cut short";
  EXPECT_EQ(written("\xc0\xaf"), std::string(kSign) + kSign) << "longer than need be";
  EXPECT_EQ(written("\xed\xa0\x80"), std::string(kSign) + kSign + kSign) << "half of a pair";
  EXPECT_EQ(written("\xf4\x90\x80\x80"), std::string(kSign) + kSign + kSign + kSign) << "beyond the last";
}

}  // namespace
}  // namespace banyan
