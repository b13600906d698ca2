#include "banyan/service/view/view_json.h"

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "banyan/base/json_reader.h"
#include "banyan/service/view/view_fields.h"

namespace banyan::service {
namespace {

using Json = nlohmann::ordered_json;

// The deepest place is communicators[0].ranks[0].call; a newer daemon may have more.
constexpr JsonForm kHostForm{.name = "view of a host", .depth = 32};
constexpr JsonForm kClusterForm{.name = "view of a cluster", .depth = 32};

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
  each_field<View>([&](const auto& field) { object.emplace(field.name, written(view.*field.member)); });
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
template <typename View>
requires std::is_class_v<View>
void read(JsonNode node, View& view) {
  each_field<View>([&](const auto& field) {
    if (!field.traits.came_later || node.has(field.name)) read(node.at(field.name), view.*field.member);
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

// Of a view's own texts and lists of texts. Names of fields, and numbers, are not counted.
template <typename View>
size_t most_bytes_of_texts(const View& view) {
  size_t bytes = 0;
  each_field<View>([&](const auto& field) {
    const auto& value = view.*field.member;
    if constexpr (std::is_same_v<decltype(value), const std::string&>) bytes += most_json_bytes(value);
    if constexpr (std::is_same_v<decltype(value), const std::vector<std::string>&>) {
      for (const std::string& each : value) bytes += most_json_bytes(each);
    }
  });
  return bytes;
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

size_t most_json_bytes(const RankView& rank) { return most_bytes_of_texts(rank) + 1000; }
size_t most_json_bytes(const CommunicatorView& communicator) { return most_bytes_of_texts(communicator) + 400; }

std::string to_json(const HostView& view) { return text_of(written(view)); }
std::string to_json(const ClusterView& view) { return text_of(written(view)); }
HostView host_view_from(std::string_view json) { return view_from<HostView>(json, kHostForm); }
ClusterView cluster_view_from(std::string_view json) { return view_from<ClusterView>(json, kClusterForm); }

}  // namespace banyan::service
