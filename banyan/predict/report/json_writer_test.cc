#include "banyan/predict/report/json_writer.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "banyan/base/units.h"
#include "banyan/testing/test.h"

namespace banyan::predict::report {
namespace {

TEST(JsonWriter, PutsCommasWhereTheyBelong) {
  std::string text;
  JsonWriter json(text);
  json.open('{').key("a").open('[').number(1).line().number(2).open('[').close().open('{').close().close();
  json.key("b").null().key("c").boolean(false).key("d").raw("[3]").close();
  EXPECT_EQ(text, "{\"a\":[1,\n2,[],{}],\"b\":null,\"c\":false,\"d\":[3]}");
}

TEST(JsonWriter, WritesFieldsAndListsByTheTypesOfTheirValues) {
  std::string text;
  JsonWriter json(text);
  json.open('{').field("time", Picoseconds(7)).field("is_done", true).field("name", "gpu0");
  json.field("none", std::optional<Picoseconds>()).field("some", std::optional(Bytes(5)));
  json.list("halves", std::vector<int>{1, 2}, [](int one) { return 0.5 * one; }).close();
  EXPECT_EQ(text, R"({"time":7,"is_done":true,"name":"gpu0","none":null,"some":5,"halves":[0.5,1]})");
}

TEST(JsonWriter, WritesNumbersThatReadBackAsTheSame) {
  for (const double value : {0.0, 1.0 / 3, 1e-300, 1.7976931348623157e308, 123456789.123456789, -2.5}) {
    std::string text;
    JsonWriter(text).number(value);
    EXPECT_EQ(nlohmann::json::parse(text).get<double>(), value) << text;
  }
  std::string text;
  JsonWriter json(text);
  json.open('[').number(std::numeric_limits<int64_t>::min()).number(UINT64_MAX).number(0.1f).close();
  EXPECT_EQ(text, "[-9223372036854775808,18446744073709551615,0.1]");
}

TEST(JsonWriter, WritesWholeNumbersWithoutExponents) {
  std::string text;
  JsonWriter json(text);
  json.open('[').number(70553706496.0).number(1e9).number(-5e15).number(1e30).number(-0.0).close();
  EXPECT_EQ(text, "[70553706496,1000000000,-5000000000000000,1e+30,-0]");
}

TEST(JsonWriter, WritesWhatIsNotFiniteAsNull) {
  std::string text;
  JsonWriter json(text);
  json.open('[').number(std::nan("")).number(HUGE_VAL).number(-HUGE_VALF).close();
  EXPECT_EQ(text, "[null,null,null]");
}

TEST(JsonWriter, EscapesAnyBytes) {
  const std::string hostile = std::string("\"\\\n\x01\0\xff</script>\xc3(", 17);
  std::string text;
  JsonWriter(text).text(hostile);
  const std::string back = nlohmann::json::parse(text).get<std::string>();
  EXPECT_EQ(back.substr(0, 5), hostile.substr(0, 5));
  EXPECT_NE(back.find("\uFFFD</script>\uFFFD("), std::string::npos) << text;
}

TEST(JsonWriterDeathTest, TakesNoKeyInAnArray) {
  std::string text;
  EXPECT_DEATH(JsonWriter(text).open('[').key("a"), "a");
}

}  // namespace
}  // namespace banyan::predict::report
