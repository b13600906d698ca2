#include "banyan/service/view/view_json.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>

#include "banyan/base/json_reader.h"

namespace banyan::service {
namespace {

using Json = nlohmann::ordered_json;

// The deepest place is communicators[0].ranks[0].call; a newer daemon may have more.
constexpr JsonForm kHostForm{.name = "view of a host", .depth = 32};
constexpr JsonForm kClusterForm{.name = "view of a cluster", .depth = 32};

// ---- The fields of each view, once for both directions.

template <typename Type, typename View>
concept Is = std::same_as<std::remove_const_t<Type>, View>;

template <Is<RankView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("rank", view.rank);
  visit("host", view.host);
  visit("process", view.process);
  visit("user", view.user);
  visit("program", view.program);
  visit("calls_begun", view.calls_begun);
  visit("calls_over", view.calls_over);
  visit("messages_over", view.messages_over);
  visit("payload_bytes", view.payload_bytes);
  visit("sent_tcp_bytes", view.sent_tcp_bytes);
  visit("sent_shared_memory_bytes", view.sent_shared_memory_bytes);
  visit("call", view.call);
  visit("call_seconds", view.call_seconds);
  visit("stalled_seconds", view.stalled_seconds);
  visit("idle_seconds", view.idle_seconds);
  visit("idle_total_seconds", view.idle_total_seconds);
  visit("waiting_for", view.waiting_for);
  visit("core_seconds", view.core_seconds);
  visit("generation", view.generation);
  visit("reroutes", view.reroutes);
  visit("error", view.error);
}

template <Is<CommunicatorView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("id", view.id);
  visit("name", view.name);
  visit("tenant", view.tenant);
  visit("size", view.size);
  visit("hosts", view.hosts);
  visit("is_direct", view.is_direct);
  visit("rule", view.rule);
  visit("sharer", view.sharer);
  visit("weight", view.weight);
  visit("share_class", view.share_class);
  visit("cap", view.cap);
  visit("rate", view.rate);
  visit("progress", view.progress);
  visit("ranks", view.ranks);
}

template <Is<LinkView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("name", view.name);
  visit("capacity", view.capacity);
  visit("bytes_by_tenant", view.bytes_by_tenant);
}

template <Is<WayLink> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("name", view.name);
  visit("capacity", view.capacity);
}

template <Is<WayView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("from", view.from);
  visit("to", view.to);
  visit("links", view.links);
  visit("is_whole", view.is_whole);
  visit("seconds", view.seconds);
  visit("busy_seconds", view.busy_seconds);
  visit("pressed_seconds", view.pressed_seconds);
  visit("delayed_seconds", view.delayed_seconds);
  visit("round_trip_seconds", view.round_trip_seconds);
  visit("wake_seconds", view.wake_seconds);
  visit("bytes_by_tenant", view.bytes_by_tenant);
  visit("allowed", view.allowed);
}

template <Is<EventView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("at", view.at);
  visit("host", view.host);
  visit("words", view.words);
}

template <Is<HostView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("at", view.at);
  visit("host", view.host);
  visit("name", view.name);
  visit("node", view.node);
  visit("version", view.version);
  visit("up_seconds", view.up_seconds);
  visit("steward", view.steward);
  visit("is_draining", view.is_draining);
  visit("obeys", view.obeys);
  visit("rules_version", view.rules_version);
  visit("clients", view.clients);
  visit("memory_bytes", view.memory_bytes);
  visit("core_seconds", view.core_seconds);
  visit("refused", view.refused);
  visit("replans", view.replans);
  visit("events_dropped", view.events_dropped);
  visit("communicators", view.communicators);
  visit("links", view.links);
  visit("ways", view.ways);
  visit("events", view.events);
  visit("descriptors", view.descriptors);
  visit("most_descriptors", view.most_descriptors);
  visit("troubles", view.troubles);
  visit("lost_hosts", view.lost_hosts);
  visit("unlisted", view.unlisted);
}

template <Is<FindingView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("kind", view.kind);
  visit("communicator", view.communicator);
  visit("words", view.words);
}

template <Is<UnreachableHost> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("host", view.host);
  visit("why", view.why);
}

template <Is<ClusterView> View, typename Visit>
void each_field(View& view, Visit visit) {
  visit("at", view.at);
  visit("hosts", view.hosts);
  visit("unreachable", view.unreachable);
  visit("communicators", view.communicators);
  visit("links", view.links);
  visit("events", view.events);
  visit("findings", view.findings);
}

// ---- Writing.

template <typename Number>
requires std::integral<Number> || std::floating_point<Number> Json written(Number value) { return value; }
Json written(const std::string& text) { return text; }
Json written(ShareClass share_class) { return to_string(share_class); }
template <typename Value>
Json written(const std::optional<Value>& value) {
  return value ? written(*value) : Json(nullptr);
}
Json written(const std::map<std::string, uint64_t>& counts) {
  Json object = Json::object();
  for (const auto& [name, count] : counts) object[name] = count;
  return object;
}
template <typename View>
Json written(const std::vector<View>& views);
template <typename View>
requires std::is_class_v<View> Json written(const View& view) {
  Json object = Json::object();
  each_field(view, [&](const char* name, const auto& value) { object.emplace(name, written(value)); });
  return object;
}
template <typename View>
Json written(const std::vector<View>& views) {
  Json list = Json::array();
  for (const View& view : views) list.push_back(written(view));
  return list;
}

// Programs and their communicators are called as somebody likes, who need not write UTF-8.
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// ---- Reading.

bool is_null(const JsonNode& node) {
  return !node.is_object() && !node.is_array() && !node.is_text() && !node.is_boolean() && !node.is_number();
}

void read(JsonNode node, bool& value) { value = node.boolean(); }
template <std::unsigned_integral Number>
void read(JsonNode node, Number& value) {
  value = static_cast<Number>(node.whole(0, std::numeric_limits<Number>::max()));
}
void read(JsonNode node, double& value) { value = node.number(0, std::numeric_limits<double>::max()); }
void read(JsonNode node, std::string& text) { text = node.text(); }
void read(JsonNode node, ShareClass& share_class) {
  share_class = node.parsed([](const std::string& text) { return parse_share_class(text); });
}
template <typename Value>
void read(JsonNode node, std::optional<Value>& value) {
  value.reset();
  if (!is_null(node)) read(node, value.emplace());
}
void read(JsonNode node, std::map<std::string, uint64_t>& counts) {
  for (const auto& [name, count] : node.members()) counts.emplace(name, count.whole());
}
template <typename View>
void read(JsonNode node, std::vector<View>& views);
// Daemons of earlier versions do not tell of them.
bool may_be_missing(std::string_view name) {
  constexpr std::array<std::string_view, 9> kLater = {
      "idle_total_seconds", "ways",  "is_direct",  "descriptors", "most_descriptors",
      "troubles",           "obeys", "lost_hosts", "unlisted"};
  return std::find(kLater.begin(), kLater.end(), name) != kLater.end();
}
template <typename View>
requires std::is_class_v<View>
void read(JsonNode node, View& view) {
  each_field(view, [&](const char* name, auto& value) {
    if (!may_be_missing(name) || node.has(name)) read(node.at(name), value);
  });
}
template <typename View>
void read(JsonNode node, std::vector<View>& views) {
  views.reserve(node.size());
  for (const JsonNode item : node.items()) read(item, views.emplace_back());
}

template <typename View>
View view_from(std::string_view json, const JsonForm& form) {
  const JsonDocument document(json, form);
  View view;
  read(document.root(), view);
  return view;
}

}  // namespace

size_t most_json_bytes(std::string_view text) {
  size_t bytes = 8;
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    // Escaped in six, or in two; what is no UTF-8 is replaced by a character of three.
    bytes += byte < 0x20 ? 6 : byte == '"' || byte == '\\' ? 2 : byte < 0x7f ? 1 : 3;
  }
  return bytes;
}

size_t most_json_bytes(const RankView& rank) {
  size_t bytes = 1000;  // names of fields, and numbers
  for (const std::string* const text : {&rank.host, &rank.program, &rank.call, &rank.error}) {
    bytes += most_json_bytes(*text);
  }
  return bytes;
}

size_t most_json_bytes(const CommunicatorView& communicator) {
  size_t bytes = 400;
  for (const std::string* const text :
       {&communicator.id, &communicator.name, &communicator.tenant, &communicator.rule, &communicator.sharer}) {
    bytes += most_json_bytes(*text);
  }
  for (const std::string& host : communicator.hosts) bytes += most_json_bytes(host);
  return bytes;
}

std::string to_json(const HostView& view) { return text_of(written(view)); }
std::string to_json(const ClusterView& view) { return text_of(written(view)); }
HostView host_view_from(std::string_view json) { return view_from<HostView>(json, kHostForm); }
ClusterView cluster_view_from(std::string_view json) { return view_from<ClusterView>(json, kClusterForm); }

}  // namespace banyan::service
