#include "banyan/service/share/class_marks.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

std::string refusal_of(const std::string& text) {
  return testing::error_of([&] { ClassMarks::parse(text); }, ErrorCode::invalid_input);
}

TEST(ClassMarks, AreOfTheClassesThatAreNamed) {
  const ClassMarks marks = ClassMarks::parse("low=LE,high=CS4");
  EXPECT_EQ(marks.of(ShareClass::high), 32);
  EXPECT_EQ(marks.of(ShareClass::normal), 0);
  EXPECT_EQ(marks.of(ShareClass::low), 1);
  EXPECT_EQ(ClassMarks::parse("high=63,normal=0,low=7"), (ClassMarks{.dscp = {63, 0, 7}}));
}

// The numbers of IANA's registry.
TEST(ClassMarks, KnowCodePointsByTheirNames) {
  const std::map<std::string, int> points = {
      {"CS0", 0},   {"CS1", 8},   {"CS2", 16},  {"CS3", 24},  {"CS4", 32},  {"CS5", 40},  {"CS6", 48},  {"CS7", 56},
      {"AF11", 10}, {"AF12", 12}, {"AF13", 14}, {"AF21", 18}, {"AF22", 20}, {"AF23", 22}, {"AF31", 26}, {"AF32", 28},
      {"AF33", 30}, {"AF41", 34}, {"AF42", 36}, {"AF43", 38}, {"EF", 46},   {"VA", 44},   {"LE", 1}};
  for (const auto& [name, number] : points) {
    EXPECT_EQ(ClassMarks::parse("normal=" + name).of(ShareClass::normal), number) << name;
  }
}

TEST(ClassMarks, SayWhatIsWrong) {
  for (const char* wrong : {"CS8", "CS", "cs1", "AF14", "AF51", "AF04", "64", "-1", "+1", "0x20", "8 ", "", "AF411"}) {
    EXPECT_THAT(refusal_of(std::string("high=") + wrong),
                HasSubstr("'" + std::string(wrong) + "' is no code point of the DS field; give CS0 to CS7"));
  }
  EXPECT_THAT(refusal_of("hihg=CS4"), HasSubstr("is no class: 'hihg' (did you mean 'high'?); known"));
  EXPECT_THAT(refusal_of("high=CS4,high=CS5"), HasSubstr("class high has two code points"));
  for (const char* wrong : {"", "high", "high=CS4,", ",high=CS4", "CS4"}) {
    EXPECT_THAT(refusal_of(wrong), HasSubstr("is not like high=CS4")) << wrong;
  }
}

}  // namespace
}  // namespace banyan::service
