#include "banyan/base/json_reader.h"

#include <nlohmann/json.hpp>

#include "banyan/testing/test.h"

namespace banyan {
namespace {

constexpr JsonForm kFree{.name = "list", .format = ""};
constexpr JsonForm kPlan{.name = "plan", .format = "schedule/1", .depth = 4};

std::string error_of(const std::function<void()>& read) { return testing::error_of(read, ErrorCode::invalid_input); }

std::string error_in(std::string_view text, const std::function<void(JsonNode)>& read, const JsonForm& form = kFree) {
  return error_of([&] { read(JsonDocument(text, form).root()); });
}

std::string refusal_of(std::string_view text, const JsonForm& form = kFree) {
  return error_in(
      text, [](JsonNode) {}, form);
}

TEST(JsonReader, GivesValuesAsTheyStand) {
  const JsonDocument document(R"({"name": "a\"\u00e9\n", "yes": true, "list": [0, 18446744073709551615, 7],
    "low": -9223372036854775808, "ratio": 0.25, "inner": {"size": "64 KiB", "speed": "400 Gb/s", "time": "3 us"}})",
                              kFree);
  const JsonNode root = document.root();
  EXPECT_EQ(root.at("name").text(), "a\"\u00e9\n");
  EXPECT_TRUE(root.at("yes").boolean());
  ASSERT_EQ(root.at("list").size(), 3u);
  EXPECT_EQ(root.at("list")[1].whole(), UINT64_MAX);
  EXPECT_EQ(root.at("low").integer(INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(root.at("ratio").number(0, 1), 0.25);
  EXPECT_EQ(root.at("list")[2].number(-INFINITY, INFINITY), 7.0);
  EXPECT_EQ(root.at("inner").at("size").bytes(), Bytes(65536));
  EXPECT_EQ(root.at("inner").at("speed").bandwidth(), Bandwidth::gigabits_per_second(400));
  EXPECT_EQ(root.at("inner").at("time").duration(), std::chrono::microseconds(3));
  EXPECT_FALSE(root.has("size"));
  EXPECT_FALSE(root.find("nothing").has_value());
}

TEST(JsonReader, GivesItemsAndMembersInTheOrderOfTheDocument) {
  const JsonDocument document(R"({"z": [[1], [], [2, 3]], "a": 4})", kFree);
  std::vector<std::string> keys;
  for (const JsonNode::Member& member : document.root().members()) keys.emplace_back(member.key);
  EXPECT_THAT(keys, ElementsAre("z", "a"));
  std::vector<size_t> sizes;
  for (const JsonNode list : document.root().at("z").items()) sizes.push_back(list.size());
  EXPECT_THAT(sizes, ElementsAre(1, 0, 2));
  EXPECT_THAT(document.root().at("z")[2].small_numbers(), ElementsAre(2, 3));
}

TEST(JsonReader, TellsTheLineWhereItsFormAsksForIt) {
  constexpr JsonForm kLined{.name = "list", .tells_lines = true};
  constexpr std::string_view kText = "{\"a\":\n  1, \"b\": [\n{},\n {\"c\": 2,\n\"d\": \"e\"}, 3]\n}";
  const auto refusal = [&](const std::function<void(JsonNode)>& read) { return error_in(kText, read, kLined); };
  EXPECT_EQ(refusal([](JsonNode root) { root.at("b")[1].at("d").whole(); }),
            "line 5: b[1].d is not a whole number, zero or above: it is \"e\"");
  EXPECT_EQ(refusal([](JsonNode root) { root.at("b")[1].at("x"); }), "line 4: b[1] has no \"x\"");
  EXPECT_EQ(refusal([](JsonNode root) {
              root.at("b")[1].with_keys({"c", "f"});
            }),
            "line 5: b[1] has unknown key 'd' (known: c, f)");
  EXPECT_EQ(refusal([](JsonNode root) { root.at("b")[1].at("d").bytes(); }).substr(0, 14), "line 5: b[1].d");
  // Of a number, the line of its key or of its list.
  EXPECT_EQ(refusal([](JsonNode root) { root.at("a").text(); }), "line 1: a is not a text: it is 1");
  EXPECT_EQ(refusal([](JsonNode root) { root.at("b")[2].text(); }), "line 2: b[2] is not a text: it is 3");
  EXPECT_EQ(refusal_of("{\"a\": 1,\n\"a\": 2}", kLined), "line 2: the list has key 'a' twice; keep one");
  EXPECT_THAT(refusal_of("[\n1e999]", kLined), StartsWith("line 2: is not JSON that can be read: number overflow"));
}

TEST(JsonReader, KnowsThePlaceOfEveryValue) {
  const JsonDocument document(R"({"a": [[10, {"b": 11}], 12], "c": {"d": {"e": 13}}, "f": [[], [[14]]]})", kFree);
  const JsonNode root = document.root();
  EXPECT_EQ(root.place(), "the list");
  EXPECT_EQ(root.at("a")[0][1].at("b").place(), "a[0][1].b");
  EXPECT_EQ(root.at("a")[1].place(), "a[1]");
  EXPECT_EQ(root.at("c").at("d").at("e").place(), "c.d.e");
  EXPECT_EQ(root.at("f")[1][0][0].place(), "f[1][0][0]");
  const JsonDocument unnamed(R"({"": {"": [5]}})", kFree);
  EXPECT_EQ(unnamed.root().at("").at("")[0].place(), "''.''[0]");
  const JsonDocument list(R"([[1, 2], {"x": 3}])", kFree);
  EXPECT_EQ(list.root()[1].at("x").place(), "[1].x");
}

TEST(JsonReader, GivesObjectsAsTheyAreWritten) {
  const JsonDocument document(R"({"a": 1, "b" : { "c" : "]}\"{", "d":[ {} ] } , "e": []})", kFree);
  EXPECT_EQ(document.root().at("b").object_text(), R"({ "c" : "]}\"{", "d":[ {} ] })");
  EXPECT_EQ(document.root().at("b").at("d")[0].object_text(), "{}");
  EXPECT_EQ(error_of([&] { document.root().at("e").object_text(); }), "e is not an object: it is an array");
}

TEST(JsonReader, RefusesWhatIsNoJsonWithLineAndColumn) {
  EXPECT_THAT(refusal_of(""), HasSubstr("is empty, not JSON"));
  EXPECT_THAT(refusal_of(" "), HasSubstr("is not JSON: parse error at line 1, column 2"));
  EXPECT_THAT(refusal_of("{\"a\": 1,\n  b}"), HasSubstr("is not JSON: parse error at line 2, column 3"));
  EXPECT_THAT(refusal_of("{} {}"), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal_of("\"\xff\""), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal_of("1e999"), StartsWith("is not JSON that can be read: number overflow"));
  EXPECT_THAT(refusal_of("{\"a\": NaN}"), HasSubstr("is not JSON"));
}

TEST(JsonReader, RefusesNestingBeyondItsForm) {
  EXPECT_EQ(refusal_of("[[[[1]]]]", {.name = "list", .depth = 4}), "no error");
  EXPECT_EQ(refusal_of("[[[[[1]]]]]", {.name = "list", .depth = 4}), "is nested deeper than a list ever is");
  EXPECT_THAT(refusal_of(std::string(1'000'000, '[')), HasSubstr("is nested deeper"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(refusal_of(objects), HasSubstr("is nested deeper"));
}

TEST(JsonReader, RefusesAnotherFormat) {
  EXPECT_EQ(refusal_of(R"({"banyan": "schedule/1"})", kPlan), "no error");
  const std::string says = "; a plan says \"banyan\": \"schedule/1\"";
  EXPECT_EQ(refusal_of(R"({"banyan": "fabric/1", "nodes": []})", kPlan), "is \"fabric/1\"" + says);
  EXPECT_EQ(refusal_of(R"({"banyan": 1})", kPlan), "is 1" + says);
  EXPECT_EQ(refusal_of("{}", kPlan), "the plan has no \"banyan\"" + says);
  EXPECT_EQ(refusal_of("[]", kPlan), "the plan is not an object: it is an array");
}

TEST(JsonReader, RefusesAKeyThatStandsTwice) {
  EXPECT_EQ(refusal_of(R"({"a": 1, "b": 2, "a": 1})"), "the list has key 'a' twice; keep one");
  EXPECT_EQ(refusal_of(R"({"x": [0, {"y": {"b": [], "b": []}}]})"), "x[1].y has key 'b' twice; keep one");
  EXPECT_EQ(refusal_of(R"([[1, 2], [3, {"\u0061": 1, "a": 2}]])"), "[1][1] has key 'a' twice; keep one");
  std::string many = "{\"rows\": {";
  for (int i = 0; i < 1000; ++i) many += "\"key" + std::to_string(i * 7 % 999) + "\": " + std::to_string(i) + ",";
  EXPECT_EQ(refusal_of(many + "\"last\": 0}}"), "rows has key 'key0' twice; keep one");
  EXPECT_EQ(refusal_of(R"({"a": {"b": 1}, "c": {"b": 2}, "b": 3})"), "no error");
}

TEST(JsonReader, RefusesUnknownKeysWithTheNearestKnownOne) {
  const auto read = [](JsonNode root) { root.at("chunks")[1].with_keys({"root", "units"}); };
  EXPECT_EQ(error_in(R"({"chunks": [{}, {"root": 1, "unit": 2}]})", read),
            "chunks[1] has unknown key 'unit' (did you mean 'units'?)");
  EXPECT_EQ(error_in(R"({"chunks": [{}, {"zzzzzz": 2}]})", read),
            "chunks[1] has unknown key 'zzzzzz' (known: root, units)");
  EXPECT_EQ(error_in(R"({"chunks": [{}, []]})", read), "chunks[1] is not an object: it is an array");
  EXPECT_EQ(error_in(R"({"chunks": [{}, {"units": 2}]})", read), "no error");
}

TEST(JsonReader, RefusesWhatIsMissingOrOfAnotherType) {
  constexpr std::string_view kText = R"({"a": {"t": "x", "n": null, "f": 1.5, "m": -3, "b": true, "l": [], "o": {}}})";
  const auto refusal = [&](const char* key, const auto& read) {
    return error_in(kText, [&](JsonNode root) { read(root.at("a").at(key)); });
  };
  EXPECT_EQ(refusal("x", [](JsonNode) {}), "a has no \"x\"");
  EXPECT_EQ(refusal("f", [](JsonNode n) { n.text(); }), "a.f is not a text: it is 1.5");
  EXPECT_EQ(refusal("n", [](JsonNode n) { n.boolean(); }), "a.n is not true or false: it is null");
  EXPECT_EQ(refusal("t", [](JsonNode n) { n.whole(); }), "a.t is not a whole number, zero or above: it is \"x\"");
  EXPECT_EQ(refusal("b", [](JsonNode n) { n.number(0, 1); }), "a.b is not a number from 0 to 1: it is true");
  EXPECT_EQ(refusal("o", [](JsonNode n) { n.size(); }), "a.o is not an array: it is an object");
  EXPECT_EQ(refusal("l", [](JsonNode n) { n.at("x"); }), "a.l is not an object: it is an array");
  EXPECT_EQ(refusal("l", [](JsonNode n) { n.members(); }), "a.l is not an object: it is an array");
  EXPECT_EQ(refusal("f", [](JsonNode n) { n.whole(); }), "a.f is not a whole number, zero or above: it is 1.5");
}

TEST(JsonReader, RefusesNumbersThatDoNotFit) {
  constexpr std::string_view kText = R"({"l": [4294967296, -3, 9223372036854775808, 0.5, 1e300, 12]})";
  const auto refusal = [&](size_t at, const auto& read) {
    return error_in(kText, [&](JsonNode root) { read(root.at("l")[at]); });
  };
  EXPECT_EQ(refusal(0, [](JsonNode n) { n.whole(1, 100); }),
            "l[0] is not a whole number from 1 to 100: it is 4294967296");
  EXPECT_EQ(refusal(1, [](JsonNode n) { n.whole(1); }), "l[1] is not a whole number, 1 or above: it is -3");
  EXPECT_EQ(refusal(1, [](JsonNode n) { n.integer(-2, 2); }), "l[1] is not a whole number from -2 to 2: it is -3");
  EXPECT_THAT(refusal(2, [](JsonNode n) { n.integer(INT64_MIN, INT64_MAX); }), EndsWith("it is 9223372036854775808"));
  EXPECT_EQ(refusal(3, [](JsonNode n) { n.number(1, INFINITY); }), "l[3] is not a number, 1 or above: it is 0.5");
  EXPECT_EQ(refusal(3, [](JsonNode n) { n.number(-INFINITY, 0); }), "l[3] is not a number, at most 0: it is 0.5");
  EXPECT_EQ(refusal(4, [](JsonNode n) { n.number(0.001, 1); }), "l[4] is not a number from 0.001 to 1: it is 1e+300");
  EXPECT_EQ(refusal(5, [](JsonNode n) { n.number_of(12, "ranks"); }),
            "l[5] is 12, but there are 12 ranks, counted from 0");
  EXPECT_EQ(error_in(kText, [](JsonNode root) { root.at("l").small_numbers(); }),
            "l[0] is not a whole number from 0 to 4294967295: it is 4294967296");
}

TEST(JsonReader, PutsThePlaceBeforeWhatOthersComplainOf) {
  const auto read = [](JsonNode root) { root.at("rates")[1].bandwidth(); };
  EXPECT_THAT(error_in(R"({"rates": ["1 GB/s", "300"]})", read), AllOf(StartsWith("rates[1]: "), HasSubstr("unit")));
  EXPECT_EQ(error_in(R"({"rates": [0, 300]})", read),
            "rates[1] is not a text with a unit such as \"400 Gb/s\": it is 300");
  EXPECT_EQ(error_in("[5]", [](JsonNode root) { throw root[0].error("stands twice"); }), "[0] stands twice");
}

TEST(JsonReader, KeepsMessagesShortAndOnOneLine) {
  const std::string text = "{\"" + std::string(5000, 'k') + "\\n\": 1}";
  const std::string refusal = error_in(text, [](JsonNode root) { root.with_keys({"a\nb"}); });
  EXPECT_LT(refusal.size(), 200u);
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
}

// Our tree as nlohmann's, by asking for everything.
nlohmann::json copy_of(JsonNode node) {
  if (node.is_text()) return node.text();
  if (node.is_boolean()) return node.boolean();
  if (node.is_object()) {
    nlohmann::json object = nlohmann::json::object();
    for (const JsonNode::Member& member : node.members()) object[std::string(member.key)] = copy_of(member.value);
    return object;
  }
  if (node.is_array()) {
    nlohmann::json array = nlohmann::json::array();
    for (const JsonNode item : node.items()) array.push_back(copy_of(item));
    return array;
  }
  if (node.in_words() == "null") return nullptr;
  if (node.is_whole(0, UINT64_MAX)) return node.whole();
  try {
    return node.integer(INT64_MIN, INT64_MAX);
  } catch (const Error&) {
    return node.number(-INFINITY, INFINITY);
  }
}

nlohmann::json random_json(std::mt19937_64& random, int depth) {
  const auto below = [&](uint64_t n) { return random() % n; };
  switch (below(depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return below(2) == 1;
    case 2:
      return random() >> below(64);
    case 3:
      return -static_cast<int64_t>(random() >> (1 + below(63)));
    case 4:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(below(200)) - 160);
    case 5:
      return std::string(below(5), static_cast<char>('a' + below(26))) + "\"\\\n\u00e9";
    case 6: {
      nlohmann::json array = nlohmann::json::array();
      for (uint64_t i = below(6); i > 0; --i) array.push_back(random_json(random, depth - 1));
      return array;
    }
    default: {
      nlohmann::json object = nlohmann::json::object();
      for (uint64_t i = below(30); i > 0; --i) {
        object[std::to_string(below(1000))] = random_json(random, depth > 2 ? 2 : depth - 1);
      }
      return object;
    }
  }
}

TEST(JsonReader, ReadsRandomDocumentsAsNlohmannDoes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  size_t objects = 0;
  for (int round = 0; round < 300; ++round) {
    const nlohmann::json expected = random_json(random, 5);
    const std::string text = expected.dump(round % 3 - 1);
    const JsonDocument document(text, kFree);
    ASSERT_EQ(copy_of(document.root()), expected) << text;
    if (!expected.is_object()) continue;
    ++objects;
    EXPECT_EQ(document.root().object_text(), text);
  }
  EXPECT_GT(objects, 10u);
}

}  // namespace
}  // namespace banyan
