#include "banyan/service/view/view_json.h"

#include <nlohmann/json.hpp>

#include "banyan/service/view/test_random_view.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Json = nlohmann::json;

// A view of a cluster with one of everything.
ClusterView sample() {
  ClusterView view{.at = 1.5};
  view.hosts.push_back({.at = 1.25, .host = "h1", .name = "a", .refused = {{"sealed", 3}}});
  view.unreachable.push_back({.host = "b", .why = "it is gone"});
  view.communicators.push_back({.id = "7f", .name = "job", .hosts = {"a"}, .share_class = ShareClass::high, .cap = 5});
  view.communicators.back().ranks.push_back({.rank = 3, .host = "a", .call = "barrier", .waiting_for = 2});
  view.links.push_back({.name = "a->b", .capacity = 1e9, .bytes_by_tenant = {{"t", UINT64_MAX}}});
  view.events.push_back({.at = 1, .host = "a", .words = "hello"});
  view.findings.push_back({.kind = "stalled", .communicator = "7f", .words = "it is"});
  return view;
}

std::string refused_cluster(const Json& json) {
  return testing::error_of([&] { cluster_view_from(json.dump()); }, ErrorCode::invalid_input);
}

// Stands for a value of any type.
struct Anything {
  template <typename Value>
  operator Value() const;
};

template <typename View, typename... Values>
constexpr size_t count_members() {
  if constexpr (requires { View{Values{}..., Anything{}}; }) return count_members<View, Values..., Anything>();
  return sizeof...(Values);
}

template <typename... Views>
constexpr bool kHaveARowForEachMember =
    ((std::tuple_size_v<std::remove_const_t<decltype(kFields<Views>)>> == count_members<Views>()) && ...);

TEST(ViewFields, HaveARowForEachMember) {
  EXPECT_TRUE((kHaveARowForEachMember<RankView, CommunicatorView, LinkView, WayLink, WayView, EventView>));
  EXPECT_TRUE((kHaveARowForEachMember<HostView, FindingView, UnreachableHost, ClusterView>));
}

TEST(ViewJson, GoesThereAndBack) {
  const auto seed = static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomViews views(seed);
  for (int i = 0; i < 200; ++i) {
    const HostView host = views.host();
    EXPECT_EQ(host_view_from(to_json(host)), host);
    const ClusterView cluster = views.cluster();
    EXPECT_EQ(cluster_view_from(to_json(cluster)), cluster);
  }
}

TEST(ViewJson, IsAsTheFormatSays) {
  const Json json = Json::parse(to_json(sample()));
  EXPECT_EQ(json["hosts"][0]["name"], "a");
  EXPECT_EQ(json["hosts"][0]["communicators"], Json::array());
  EXPECT_EQ(json["hosts"][0]["refused"]["sealed"], 3);
  EXPECT_EQ(json["communicators"][0]["share_class"], "high");
  EXPECT_EQ(json["communicators"][0]["cap"], 5);
  EXPECT_TRUE(json["communicators"][0]["rate"].is_null());
  EXPECT_EQ(json["communicators"][0]["ranks"][0]["waiting_for"], 2);
  EXPECT_EQ(json["links"][0]["bytes_by_tenant"]["t"], UINT64_MAX);
}

// The places of all fields below, by JSON's own walk: "hosts[0].up_seconds".
void collect(const Json& json, const std::string& place, std::vector<std::pair<Json::json_pointer, std::string>>& all,
             const Json::json_pointer& at = Json::json_pointer()) {
  if (json.is_array() && !json.empty()) collect(json[0], place + "[0]", all, at / 0);
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items()) {
    const std::string name = place.empty() ? key : place + "." + key;
    if (!place.ends_with("bytes_by_tenant") && !place.ends_with("refused") && !place.ends_with("unlisted"))
      all.emplace_back(at / key, name);
    collect(value, name, all, at / key);
  }
}

std::vector<std::pair<Json::json_pointer, std::string>> fields_of(const Json& view) {
  std::vector<std::pair<Json::json_pointer, std::string>> fields;
  collect(view, "", fields);
  return fields;
}

// What daemons of earlier versions do not tell of.
bool may_be_missing(const std::string& name) {
  constexpr std::string_view kLater[] = {".ways",        ".is_direct", ".idle_total_seconds",
                                         ".descriptors", ".troubles",  ".most_descriptors",
                                         ".lost_hosts",  ".obeys",     ".unlisted"};
  return std::any_of(std::begin(kLater), std::end(kLater), [&](auto later) { return name.ends_with(later); });
}

TEST(ViewJson, NamesEachFieldThatIsMissing) {
  const Json good = Json::parse(to_json(sample()));
  std::vector<std::pair<Json::json_pointer, std::string>> fields = fields_of(good);
  std::erase_if(fields, [](const auto& each) { return may_be_missing(each.second); });
  ASSERT_EQ(fields.size(), 7u + 18 + 2 + 13 + 20 + 3 + 3 + 3) << "daemons of earlier versions do not send a new field";
  for (const auto& [pointer, name] : fields) {
    Json broken = good;
    broken[pointer.parent_pointer()].erase(pointer.back());
    EXPECT_THAT(refused_cluster(broken), HasSubstr("\"" + pointer.back() + "\"")) << name;
  }
}

TEST(ViewJson, OfAnEarlierDaemonHasNothingInPlaceOfWhatItDoesNotTell) {
  Json json = Json::parse(to_json(sample()));
  for (const auto& [pointer, name] : fields_of(json))
    if (may_be_missing(name)) json[pointer.parent_pointer()].erase(pointer.back());
  EXPECT_EQ(cluster_view_from(json.dump()), sample());
}

TEST(ViewJson, NamesEachFieldThatIsOfAnotherType) {
  const Json good = Json::parse(to_json(sample()));
  for (const auto& [pointer, name] : fields_of(good)) {
    for (const Json& wrong : {Json(-1), Json(nullptr), Json({{"x", 1}, {"y", "z"}})}) {
      if (wrong.is_null() && (name.ends_with("cap") || name.ends_with("rate") || name.ends_with("waiting_for")))
        continue;
      if (wrong.is_object() && name.ends_with("bytes_by_tenant")) continue;
      Json broken = good;
      broken[pointer] = wrong;
      EXPECT_THAT(refused_cluster(broken), HasSubstr(name)) << wrong;
    }
  }
}

TEST(ViewJson, SaysWhatIsWrong) {
  Json json = Json::parse(to_json(sample()));
  json["communicators"][0]["share_class"] = "urgent";
  EXPECT_THAT(refused_cluster(json),
              AllOf(StartsWith("communicators[0].share_class"), HasSubstr("'urgent'; known are high, normal, low")));
  json = Json::parse(to_json(sample()));
  json["communicators"][0]["ranks"][0]["process"] = uint64_t{1} << 32;
  EXPECT_THAT(refused_cluster(json), StartsWith("communicators[0].ranks[0].process is"));
  EXPECT_THAT(testing::error_of([] { host_view_from("<html>"); }, ErrorCode::invalid_input), HasSubstr("is not JSON"));
  EXPECT_THAT(testing::error_of([] { host_view_from("[]"); }, ErrorCode::invalid_input), HasSubstr("view of a host"));
  EXPECT_THAT(testing::error_of([] { cluster_view_from(std::string(1000, '[')); }, ErrorCode::invalid_input),
              HasSubstr("deep"));
}

TEST(ViewJson, IgnoresWhatItDoesNotKnow) {
  Json json = Json::parse(to_json(sample()));
  json["from_tomorrow"] = {{"a", {1, 2, 3}}};
  json["communicators"][0]["ranks"][0]["from_tomorrow"] = "x";
  EXPECT_EQ(cluster_view_from(json.dump()), sample());
}

TEST(ViewJson, WritesTextsThatAreNoUtf8) {
  HostView view{.name = "a\xff"};
  EXPECT_THAT(host_view_from(to_json(view)).name, EndsWith("\xef\xbf\xbd"));
}

// A figure that is none is a bug of whoever made the view; it reaches nobody as a figure.
TEST(ViewJson, RefusesFiguresThatAreNone) {
  HostView view{.at = std::numeric_limits<double>::quiet_NaN()};
  const std::string json = to_json(view);
  EXPECT_THAT(testing::error_of([&] { host_view_from(json); }, ErrorCode::invalid_input), StartsWith("at is not"));
}

}  // namespace
}  // namespace banyan::service
