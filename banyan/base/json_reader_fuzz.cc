#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/json_reader.h"
#include "banyan/testing/fuzz.h"

namespace banyan {
namespace {

// Every value has its place, and objects are given as they were written.
void look_through(JsonNode node, const nlohmann::json& same) {
  CHECK(!node.place().empty());
  if (node.is_object()) {
    CHECK(same.is_object() && nlohmann::json::parse(node.object_text()) == same);
    CHECK_EQ(node.members().size(), same.size());
    for (const JsonNode::Member& member : node.members()) look_through(member.value, same.at(std::string(member.key)));
  } else if (same.is_array()) {
    CHECK_EQ(node.size(), same.size());
    for (size_t i = 0; i < node.size(); ++i) look_through(node[i], same[i]);
  } else if (same.is_string()) {
    CHECK(node.text() == same.get<std::string>());
  } else if (same.is_number()) {
    CHECK(same.is_number_unsigned() ? node.whole() == same.get<uint64_t>()
                                    : node.number(-INFINITY, INFINITY) == same.get<double>());
  } else {
    CHECK(node.in_words() == same.dump());
  }
}

const testing::Fuzzer kFuzzer("json_reader", "banyan/base/corpus/json_reader", [](std::string_view input) {
  if (input.size() > 4096) return;  // places are looked for one by one
  const JsonDocument document(input, {.name = "file", .format = ""});
  look_through(document.root(), nlohmann::json::parse(input));
});

}  // namespace
}  // namespace banyan
