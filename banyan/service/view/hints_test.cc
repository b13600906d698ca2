#include "banyan/service/view/hints.h"

#include <nlohmann/json.hpp>

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Json = nlohmann::json;

// Of half a second.
WayView way(const std::string& from, const std::string& to, const std::map<std::string, uint64_t>& bytes) {
  return {.from = from,
          .to = to,
          .links = {{.name = from + "->sw", .capacity = 1000}, {.name = "sw->" + to, .capacity = 1000}},
          .seconds = 0.5,
          .bytes_by_tenant = bytes};
}

const HintQuestion kQuestion{.hosts = {"a", "b"},
                             .tenants = {"1000/vgg", "1000/gpt"},
                             .links = {{.name = "a->sw", .capacity = 1000, .from = {"a"}, .to = {"b"}},
                                       {.name = "sw->b", .capacity = 1000, .from = {"a"}, .to = {"b"}}}};

TEST(Hints, SayWhatIsFreeAndHowManyOthersThereAre) {
  const std::vector<WayView> ways{way("a", "b", {{"1000/vgg", 100}, {"1001/x", 50}}), way("a", "c", {{"1000/gpt", 20}}),
                                  way("d", "b", {{"1001/x", 30}, {"1002/y", 40}, {"1003/idle", 0}})};
  EXPECT_EQ(Json::parse(hints_json(kQuestion, ways)), Json::parse(R"({"hosts": ["a", "b"], "links": [
      {"name": "a->sw", "capacity": 1000, "own": 240, "free": 660, "cotenants": 1, "from": ["a"], "to": ["b"]},
      {"name": "sw->b", "capacity": 1000, "own": 200, "free": 560, "cotenants": 2, "from": ["a"], "to": ["b"]}]})"));
}

TEST(Hints, NameNobodyElse) {
  EXPECT_THAT(hints_json(kQuestion, std::vector<WayView>{way("d", "b", {{"1001/secret", 50}})}),
              Not(::testing::AnyOf(HasSubstr("secret"), HasSubstr("\"d\""), HasSubstr("1000/vgg"))));
}

TEST(Hints, OfIdleLinksAreTheirCapacity) {
  const Json link = Json::parse(hints_json(kQuestion, {}))["links"][0];
  EXPECT_EQ(link["free"], 1000);
  EXPECT_EQ(link["cotenants"], 0);
}

TEST(Hints, SayThatNothingIsKnownWhereTheNetworkChoosesWays) {
  WayView part = way("a", "b", {{"1001/x", 100}});
  part.links.pop_back();
  part.is_whole = false;
  const Json links = Json::parse(hints_json(kQuestion, std::vector<WayView>{part}))["links"];
  EXPECT_EQ(links[0]["free"], 800);
  EXPECT_TRUE(links[1]["free"].is_null());
  EXPECT_TRUE(links[1]["cotenants"].is_null());
}

TEST(Hints, OfAnOverfullLinkAreNothing) {
  const Json links = Json::parse(hints_json(kQuestion, std::vector<WayView>{way("a", "b", {{"x", 600}})}))["links"];
  EXPECT_EQ(links[0]["free"], 0);
}

}  // namespace
}  // namespace banyan::service
