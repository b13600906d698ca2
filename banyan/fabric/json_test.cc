#include "banyan/fabric/json.h"

#include <nlohmann/json.hpp>

#include "banyan/base/file.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

// The error for `json`; a fabric is no error.
std::string error_of(std::string_view json) {
  try {
    parse_fabric_json(json, "f.json");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("f.json"));
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    EXPECT_LT(error.message().size(), 600u);
    return error.what();
  }
  return "";
}

// Three nodes on lines 2 to 4 and whatever `links` holds from line 5 on.
std::string with_links(const std::string& links) {
  return R"({"banyan": "fabric/1", "nodes": [
    {"name": "gpu0", "kind": "rank"},
    {"name": "gpu1", "kind": "rank"},
    {"name": "sw0", "kind": "switch", "multicast": true, "reduce": true}], "links": [
)" + links +
         "\n]}";
}

std::string with_link_value(const std::string& field) {
  return with_links(R"({"from": "gpu0", "to": "gpu1", "bandwidth": "1 GB/s", "both": true},
    {"from": "gpu0", "to": "sw0", )" +
                    field + "}");
}

std::string with_bandwidth(const std::string& value) { return with_link_value("\"bandwidth\": " + value); }

constexpr const char* kTwoRanks = R"("nodes": [{"name": "a", "kind": "rank"}, {"name": "b", "kind": "rank"}])";
constexpr const char* kCable = R"("links": [{"from": "a", "to": "b", "bandwidth": "1GB/s", "both": true}])";

std::string document(const std::string& members) { return "{\"banyan\": \"fabric/1\", " + members + "}"; }

TEST(FabricJson, ReadsNodesLinksAndCables) {
  const Fabric fabric = parse_fabric_json(
      with_links(R"({"from": "gpu0", "to": "sw0", "bandwidth": "400 Gb/s", "latency": "1.5 us", "loss": 0.01},
                    {"from": "gpu1", "to": "sw0", "bandwidth": "300 GB/s", "both": true},
                    {"from": "sw0", "to": "gpu0", "bandwidth": "50 GB/s", "both": false})"),
      "f.json");
  ASSERT_EQ(fabric.nodes().size(), 3u);
  EXPECT_EQ(fabric.ranks().size(), 2u);
  EXPECT_TRUE(fabric.node(NodeId{2}).multicast);
  EXPECT_TRUE(fabric.node(NodeId{2}).reduce);
  ASSERT_EQ(fabric.links().size(), 4u);
  const Link& first = fabric.link(LinkId{0});
  EXPECT_EQ(first.bandwidth, Bandwidth::gigabytes_per_second(50));
  EXPECT_EQ(first.latency, Picoseconds(1'500'000));
  EXPECT_EQ(first.loss, 0.01);
  EXPECT_EQ(fabric.name(fabric.link(LinkId{2}).from), "sw0");
  EXPECT_EQ(fabric.link(LinkId{2}).bandwidth, Bandwidth::gigabytes_per_second(300));
}

TEST(FabricJson, KeepsWhichBandwidthsAreAssumedButNotInTheFingerprint) {
  const Fabric guess = parse_fabric_text("a <-> b 6GB/s assumed; b <-> c 6GB/s; c <-> a 6GB/s");
  const std::string written = format_fabric_json(guess);
  EXPECT_THAT(written, HasSubstr(R"("bandwidth": "6 GB/s", "assumed": true})"));
  const Fabric again = parse_fabric_json(written, "f.json");
  std::vector<bool> assumed;
  for (const Link& link : again.links()) assumed.push_back(link.assumed);
  EXPECT_THAT(assumed, ::testing::ElementsAre(true, true, false, false, false, false));
  EXPECT_EQ(guess.fingerprint(), parse_fabric_text("a <-> b 6GB/s; b <-> c 6GB/s; c <-> a 6GB/s").fingerprint());
  EXPECT_THAT(error_of(with_link_value(R"("bandwidth": "1GB/s", "assumed": 1)")), HasSubstr("assumed"));
}

TEST(FabricJson, TakesKeysInAnyOrder) {
  const std::string nodes = kTwoRanks, links = kCable;
  const Fabric forth = parse_fabric_json(document(nodes + "," + links), "f.json");
  const Fabric back = parse_fabric_json("{" + links + "," + nodes + R"(, "banyan": "fabric/1"})", "f.json");
  EXPECT_EQ(forth.fingerprint(), back.fingerprint());
}

TEST(FabricJson, WritesWhatItReadsBack) {
  for (const char* text :
       {"a <-> b 1GB/s", "a -> b 400Gb/s 2us; b -> a 1 B/s; b -> a 1 B/s 3ps",
        "x\"y <-> back\\slash 12.345678901GB/s; x\"y <-> swä 999999999999999B/s; swä <-> back\\slash 1000TB/s",
        "sw1: switch; nvsw <-> a 1GB/s; sw1 <-> nvsw 2GB/s; sw1 <-> b 3GB/s; c <-> b 4GB/s"}) {
    const Fabric fabric = parse_fabric_text(text);
    const std::string json = format_fabric_json(fabric);
    const Fabric again = parse_fabric_json(json, "again");
    EXPECT_EQ(again.fingerprint(), fabric.fingerprint()) << json;
    EXPECT_EQ(format_fabric_json(again), json);
  }
}

TEST(FabricJson, KeepsLossAndPowersThroughAFile) {
  Fabric::Builder builder;
  const NodeId a = builder.add_rank("a"), b = builder.add_rank("b");
  const NodeId hub = builder.add_node({.name = "hub", .kind = NodeKind::switch_, .multicast = true, .reduce = true});
  builder.add_cable({.from = a, .to = hub, .bandwidth = Bandwidth::bytes_per_second(1), .loss = 1.0 / 3});
  builder.add_cable(
      {.from = hub, .to = b, .bandwidth = Bandwidth::bytes_per_second(1'000'000'000'000'000), .loss = 1e-300});
  const Fabric fabric = std::move(builder).build();
  EXPECT_EQ(parse_fabric_json(format_fabric_json(fabric), "again").fingerprint(), fabric.fingerprint());
}

TEST(FabricJson, KeepsSymmetriesThatHold) {
  const std::string base = std::string(kTwoRanks) + "," + kCable;
  const Fabric swapped = parse_fabric_json(document(base + R"(, "symmetries": [[1, 0]])"), "f.json");
  ASSERT_EQ(swapped.symmetries().size(), 1u);
  EXPECT_EQ(swapped.symmetries()[0], (Permutation{NodeId{1}, NodeId{0}}));
  EXPECT_EQ(parse_fabric_json(format_fabric_json(swapped), "again").symmetries().size(), 1u);
  const Fabric fixed = parse_fabric_json(document(base + R"(, "symmetries": [[0, 1]])"), "f.json");
  EXPECT_EQ(fixed.symmetries().size(), 1u);
}

TEST(FabricJson, RefusesPermutationsThatAreNone) {
  const auto with = [](const std::string& symmetries) {
    return error_of(document(std::string(kTwoRanks) + "," + kCable + ",\n\"symmetries\": " + symmetries));
  };
  EXPECT_THAT(with("[[1]]"), HasSubstr("f.json line 2: symmetries[0] has 1 entries for 2 nodes"));
  EXPECT_THAT(with("[[1, 0], [1, 1]]"), HasSubstr("symmetries[1][1] is 1, which stands twice"));
  EXPECT_THAT(with("[[1, 2]]"), HasSubstr("symmetries[0][1] is 2, but there are 2 nodes"));
  EXPECT_THAT(with("[[1, -1]]"), HasSubstr("symmetries[0][1] is not a whole number"));
  EXPECT_THAT(with("[[1, 0.5]]"), HasSubstr("symmetries[0][1] is not a whole number"));
  EXPECT_THAT(with("[1, 0]"), HasSubstr("symmetries[0] is not an array: it is 1"));
  EXPECT_THAT(with("[[[], []]]"), HasSubstr("it is an array"));
  std::string many = "[[1,0]";
  for (int i = 0; i < 64; ++i) many += ",[1,0]";
  EXPECT_THAT(with(many + "]"), HasSubstr("symmetries are more than 64"));
}

TEST(FabricJson, NamesLineAndColumnOfBrokenSyntax) {
  EXPECT_THAT(error_of(""), HasSubstr("f.json: is empty, not JSON"));
  EXPECT_THAT(error_of("\n"), HasSubstr("line 2, column 1: syntax error"));
  EXPECT_THAT(error_of("{\n  \"banyan\": fabric"), HasSubstr("line 2, column 15: syntax error"));
  EXPECT_THAT(error_of("{\"banyan\": \"fabric/1\",\n\"nodes\": [}"), HasSubstr("line 2, column 11"));
  EXPECT_THAT(error_of(document(kTwoRanks) + "x"), HasSubstr("expected end of input"));
  EXPECT_THAT(error_of("{\"a\x01\": 1}"), HasSubstr("syntax error"));
  EXPECT_THAT(error_of("{\"\xff\xfe\": 1}"), HasSubstr("syntax error"));
  EXPECT_THAT(error_of(with_bandwidth("NaN")), HasSubstr("line 6, column"));
  EXPECT_THAT(error_of(with_bandwidth("1e999")), AllOf(StartsWith("f.json line 6: "), HasSubstr("number overflow")));
}

TEST(FabricJson, RefusesEveryTruncation) {
  const std::string whole = with_bandwidth("\"300 GB/s\", \"both\": true");
  ASSERT_EQ(error_of(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(error_of(whole.substr(0, length)), "") << "the first " << length << " bytes were taken";
  }
}

TEST(FabricJson, SurvivesHostileNesting) {
  EXPECT_THAT(error_of(std::string(5'000'000, '[')), HasSubstr("is nested deeper than a fabric ever is"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"nodes\":";
  EXPECT_THAT(error_of(objects), HasSubstr("is nested deeper"));
  EXPECT_THAT(error_of(document("\"nodes\": [[[]]]")), HasSubstr("nodes[0] is not an object: it is an array"));
  EXPECT_THAT(error_of(with_bandwidth("{\"a\": {}}")), HasSubstr("links[1].bandwidth is not a text"));
}

TEST(FabricJson, NamesTheCulpritAmongTheNodes) {
  const auto with = [](const std::string& node) {
    return error_of(document("\n\"nodes\": [{\"name\": \"a\", \"kind\": \"rank\"},\n" + node + "],\n" + kCable));
  };
  EXPECT_THAT(with(R"({"name": "a", "kind": "rank"})"), HasSubstr("line 3: nodes[1].name: node 'a' is declared twice"));
  EXPECT_THAT(with(R"({"name": "", "kind": "rank"})"), HasSubstr("line 3: nodes[1].name: a node has an empty name"));
  EXPECT_THAT(with(R"({"name": "b\u0007", "kind": "rank"})"), HasSubstr("control characters"));
  EXPECT_THAT(with(R"({"name": ")" + std::string(300, 'x') + R"(", "kind": "rank"})"), HasSubstr("longer than 200"));
  EXPECT_THAT(with(R"({"name": "b", "kind": "swich"})"),
              HasSubstr("nodes[1].kind: 'swich' is neither rank nor switch (did you mean 'switch'?)"));
  EXPECT_THAT(with(R"({"name": "b"})"), HasSubstr("nodes[1] has no \"kind\""));
  EXPECT_THAT(with(R"({"kind": "rank"})"), HasSubstr("nodes[1] has no \"name\""));
  EXPECT_THAT(with(R"({"name": 7, "kind": "rank"})"), HasSubstr("nodes[1].name is not a text: it is 7"));
  EXPECT_THAT(with(R"({"name": "b", "kind": "rank", "reduce": true})"), HasSubstr("only a switch can"));
  EXPECT_THAT(with(R"({"name": "b", "kind": "rank", "reduce": 1})"),
              HasSubstr("nodes[1].reduce is not true or false: it is 1"));
  EXPECT_THAT(with(R"("b")"), HasSubstr("nodes[1] is not an object: it is \"b\""));
  EXPECT_THAT(with("null"), HasSubstr("it is null"));
}

TEST(FabricJson, NamesTheLinkThatNamesNoNode) {
  EXPECT_THAT(error_of(with_links(R"({"from": "gpu0", "to": "gpu1", "bandwidth": "1GB/s"},
  {"from": "gpu0",
   "to": "sw9", "bandwidth": "1GB/s"})")),
              HasSubstr("f.json line 7: links[1].to: node 'sw9' is not declared (did you mean 'sw0'?)"));
  // Also when the links stand before the nodes.
  EXPECT_THAT(error_of(document("\n\"links\": [{\"from\": \"a\",\n\"to\": \"bb\", \"bandwidth\": \"1GB/s\"}],\n" +
                                std::string(kTwoRanks))),
              HasSubstr("f.json line 3: links[0].to: node 'bb' is not declared"));
}

TEST(FabricJson, RefusesBandwidthsThatAreNone) {
  for (const char* value : {"\"0 GB/s\"", "\"-1 GB/s\"", "\"NaN GB/s\"", "\"inf GB/s\"", "\"300\"", "\"300 GB\"",
                            "\"\"", "\"1e6 GB/s\"", "\"99999999999999999999999999999 GB/s\"", "\"9999999999 TB/s\"",
                            "\"0.3 B/s\"", "300", "-1", "true", "null", "[]", "\"GB/s\\u0000\""}) {
    const std::string error = error_of(with_bandwidth(value));
    EXPECT_THAT(error, StartsWith("f.json line 6: links[1].bandwidth")) << value;
  }
  EXPECT_THAT(error_of(with_bandwidth("300")), HasSubstr("is not a text with a unit such as \"400 Gb/s\": it is 300"));
  EXPECT_THAT(error_of(with_link_value("\"both\": true")), HasSubstr("links[1] has no \"bandwidth\""));
}

TEST(FabricJson, RefusesOtherWrongValuesOfALink) {
  const auto with = [](const std::string& field) {
    return error_of(with_link_value("\"bandwidth\": \"1GB/s\", \"both\": true, " + field));
  };
  EXPECT_THAT(with("\"latency\": 5"), HasSubstr("links[1].latency is not a text with a unit such as \"3 us\""));
  EXPECT_THAT(with("\"latency\": \"-1 us\""), HasSubstr("negative"));
  EXPECT_THAT(with("\"loss\": 1"), HasSubstr("links[1].loss is 1, so that nothing would arrive"));
  EXPECT_THAT(with("\"loss\": -0.5"), HasSubstr("links[1].loss"));
  EXPECT_EQ(with("\"loss\": -0.0"), "");
  EXPECT_THAT(with("\"loss\": \"1%\""), HasSubstr("is not a number from 0 to 1: it is \"1%\""));
  EXPECT_THAT(with("\"both\": true"), HasSubstr("links[1] has key 'both' twice"));
  EXPECT_THAT(error_of(with_links(R"({"from": "gpu0", "to": "gpu0", "bandwidth": "1GB/s"})")), HasSubstr("itself"));
  EXPECT_THAT(error_of(with_links(R"({"from": "gpu0", "bandwidth": "1GB/s"})")), HasSubstr("links[0] has no \"to\""));
}

TEST(FabricJson, RefusesUnknownKeysWithTheNearest) {
  EXPECT_THAT(error_of(with_link_value("\n\"bandwith\": \"1GB/s\"")),
              HasSubstr("f.json line 7: links[1] has unknown key 'bandwith' (did you mean 'bandwidth'?)"));
  EXPECT_THAT(error_of(document("\"vertices\": []")), HasSubstr("unknown key 'vertices' (known: banyan, nodes, links"));
  EXPECT_THAT(error_of(document("\"nodes\": [], \"nodes\": []")), HasSubstr("has key 'nodes' twice"));
}

TEST(FabricJson, RefusesOtherFormatsAndVersions) {
  EXPECT_THAT(error_of(R"({"banyan": "schedule/1", "x": 1})"),
              HasSubstr("is \"schedule/1\"; a fabric says \"banyan\": \"fabric/1\""));
  EXPECT_THAT(error_of(R"({"banyan": "fabric/2"})"), HasSubstr("is \"fabric/2\"; a fabric says"));
  EXPECT_THAT(error_of(R"({"banyan": 1})"), HasSubstr("is 1; a fabric says"));
  EXPECT_THAT(error_of("{" + std::string(kTwoRanks) + "," + kCable + "}"), HasSubstr("has no \"banyan\""));
  EXPECT_THAT(error_of(document(kTwoRanks)), HasSubstr("has no \"links\""));
  EXPECT_THAT(error_of(document(kCable)), HasSubstr("has no \"nodes\""));
  EXPECT_THAT(error_of("[]"), HasSubstr("the fabric is not an object"));
  EXPECT_THAT(error_of("7"), HasSubstr("the fabric is not an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("has no \"banyan\""));
}

TEST(FabricJson, RefusesFabricsThatAreNone) {
  EXPECT_THAT(error_of(document(R"("nodes": [{"name": "a", "kind": "rank"}], "links": [])")),
              HasSubstr("at least two ranks, this one has 1"));
  EXPECT_THAT(error_of(document(std::string(kTwoRanks) + ", \"links\": []")), HasSubstr("rank 'b' cannot"));
  EXPECT_THAT(error_of(with_links(R"({"from": "gpu0", "to": "gpu1", "bandwidth": "1GB/s"})")),
              HasSubstr("rank 'gpu1' cannot reach rank 'gpu0'"));
}

TEST(FabricJson, KnowsTheMembersOfThePublishedSchema) {
  const nlohmann::json schema = nlohmann::json::parse(read_file(BANYAN_SOURCE_DIR "/docs/formats/fabric.schema.json"));
  const auto check = [](const nlohmann::json& properties, size_t count, const std::string& before,
                        const std::string& after) {
    EXPECT_EQ(properties.size(), count);
    for (const auto& [name, unused] : properties.items()) {
      const std::string error = error_of(before + "\"" + name + "\": null" + after);
      EXPECT_THAT(error, AllOf(StartsWith("f.json"), Not(HasSubstr("unknown key")))) << name;
    }
  };
  check(schema.at("properties"), 4, "{", "}");
  const std::string before = R"({"banyan": "fabric/1", "nodes": [)";
  check(schema.at("$defs").at("node").at("properties"), 4, before + "{", "}]}");
  check(schema.at("$defs").at("link").at("properties"), 7, before + R"(], "links": [{)", "}]}");
}

TEST(FabricJson, LoadsAMillionNodesAndNotOneMore) {
  std::string nodes, links;
  const auto name = [](size_t i) { return "\"gpu" + std::to_string(i) + "\""; };
  for (size_t i = 0; i < Fabric::kMaxNodes; ++i) {
    nodes += (i == 0 ? "{\"name\": " : ",\n{\"name\": ") + name(i) + ", \"kind\": \"rank\"}";
    const std::string next = name((i + 1) % Fabric::kMaxNodes);
    links +=
        (i == 0 ? "{\"from\": " : ",\n{\"from\": ") + name(i) + ", \"to\": " + next + ", \"bandwidth\": \"50 GB/s\"}";
  }
  const Fabric ring = parse_fabric_json(document("\"nodes\": [" + nodes + "], \"links\": [" + links + "]"), "f.json");
  EXPECT_EQ(ring.ranks().size(), Fabric::kMaxNodes);
  EXPECT_EQ(ring.links().size(), Fabric::kMaxNodes);
  nodes += ",\n{\"name\": \"one more\", \"kind\": \"rank\"}";
  EXPECT_THAT(error_of(document("\"nodes\": [" + nodes + "], \"links\": []")), HasSubstr("more than 1000000 nodes"));
}

}  // namespace
}  // namespace banyan::fabric
