// The fields of views: a row for each, from which their JSON is written and read (view_json.h), what several daemons
// say is joined (host_view.h), the counts of ranks are summed for metrics (metrics.h), and tests fill views at random.
//
// A new field is a member in host_view.h and a row here. Only this room and its tests know this header. Constants and
// pure functions, for any thread.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

template <typename Value>
struct FieldTraits {
  // Makes one value of those of two views of the same thing; none: the first view's stays.
  void (*join)(Value& joined, Value&& other) = nullptr;
  bool came_later = false;        // daemons of earlier versions do not send it
  bool ends_with_daemon = false;  // nothing of it stays when the daemon has ended
};

template <typename View, typename Value>
struct Field {
  constexpr Field(const char* in_json, Value View::*of, FieldTraits<std::type_identity_t<Value>> has = {})
      : name(in_json), member(of), traits(has) {}

  const char* name;
  Value View::*member;
  FieldTraits<Value> traits;
};

// ---- Ways to join two values.

template <typename Number>
requires std::is_arithmetic_v<Number>
void add(Number& sum, Number&& more) { sum += more; }
inline void add(std::map<std::string, uint64_t>& sums, std::map<std::string, uint64_t>&& more) {
  for (const auto& [name, count] : more) sums[name] += count;
}
// Nothing is no limit: then the sum is none, either.
inline void add(std::optional<uint64_t>& limit, std::optional<uint64_t>&& more) {
  limit = limit && more ? std::optional(*limit + *more) : std::nullopt;
}
template <typename Value>
void append(std::vector<Value>& list, std::vector<Value>&& more) {
  list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  more.clear();
}
template <typename Value>
void keep_larger(Value& value, Value&& other) {
  value = std::max(value, other);
}
template <typename Value>
void keep_smaller(Value& value, Value&& other) {
  value = std::min(value, other);
}
// Nothing is no limit: the other one holds then.
inline void keep_smaller_limit(std::optional<uint64_t>& limit, std::optional<uint64_t>&& other) {
  if (other) limit = std::min(limit.value_or(*other), *other);
}

// ---- The rows of each view, in the order of its JSON.

template <typename View>
inline constexpr std::tuple<> kFields;

// Joined are counts of two ranks, for sums.
template <>
inline constexpr auto kFields<RankView> = std::tuple{
    Field("rank", &RankView::rank),
    Field("host", &RankView::host),
    Field("process", &RankView::process),
    Field("user", &RankView::user),
    Field("program", &RankView::program),
    Field("calls_begun", &RankView::calls_begun, {.join = add}),
    Field("calls_over", &RankView::calls_over, {.join = add}),
    Field("messages_over", &RankView::messages_over, {.join = add}),
    Field("payload_bytes", &RankView::payload_bytes, {.join = add}),
    Field("sent_tcp_bytes", &RankView::sent_tcp_bytes, {.join = add}),
    Field("sent_shared_memory_bytes", &RankView::sent_shared_memory_bytes, {.join = add}),
    Field("call", &RankView::call),
    Field("call_seconds", &RankView::call_seconds),
    Field("stalled_seconds", &RankView::stalled_seconds),
    Field("idle_seconds", &RankView::idle_seconds),
    Field("idle_total_seconds", &RankView::idle_total_seconds, {.join = add, .came_later = true}),
    Field("waiting_for", &RankView::waiting_for),
    Field("core_seconds", &RankView::core_seconds, {.join = add}),
    Field("generation", &RankView::generation),
    Field("reroutes", &RankView::reroutes, {.join = add}),
    Field("error", &RankView::error),
};
// A host knows the cap of its own grant and the rate that it was told last; the smaller one holds for all ranks. A call
// is as far as the rank is that is least far.
template <>
inline constexpr auto kFields<CommunicatorView> = std::tuple{
    Field("id", &CommunicatorView::id),
    Field("name", &CommunicatorView::name),
    Field("tenant", &CommunicatorView::tenant),
    Field("size", &CommunicatorView::size, {.join = keep_larger}),
    Field("hosts", &CommunicatorView::hosts, {.join = append}),
    Field("is_direct", &CommunicatorView::is_direct, {.came_later = true}),
    Field("rule", &CommunicatorView::rule),
    Field("sharer", &CommunicatorView::sharer),
    Field("weight", &CommunicatorView::weight),
    Field("share_class", &CommunicatorView::share_class),
    Field("cap", &CommunicatorView::cap, {.join = keep_smaller_limit}),
    Field("rate", &CommunicatorView::rate, {.join = keep_smaller_limit}),
    Field("progress", &CommunicatorView::progress, {.join = keep_smaller}),
    Field("ranks", &CommunicatorView::ranks, {.join = append}),
};
template <>
inline constexpr auto kFields<LinkView> = std::tuple{
    Field("name", &LinkView::name),
    Field("capacity", &LinkView::capacity, {.join = keep_larger}),
    Field("bytes_by_tenant", &LinkView::bytes_by_tenant, {.join = add}),
};
template <>
inline constexpr auto kFields<WayLink> = std::tuple{
    Field("name", &WayLink::name),
    Field("capacity", &WayLink::capacity),
};
// Joined is what two daemons of a host have sent along the same links in about the same window. Times of pressure
// belong together: host_view.cc joins them.
template <>
inline constexpr auto kFields<WayView> = std::tuple{
    Field("from", &WayView::from),
    Field("to", &WayView::to),
    Field("links", &WayView::links),
    Field("is_whole", &WayView::is_whole, {.join = keep_smaller}),
    Field("seconds", &WayView::seconds, {.join = keep_larger}),
    Field("busy_seconds", &WayView::busy_seconds, {.join = keep_larger}),
    Field("pressed_seconds", &WayView::pressed_seconds),
    Field("delayed_seconds", &WayView::delayed_seconds),
    Field("round_trip_seconds", &WayView::round_trip_seconds),
    Field("wake_seconds", &WayView::wake_seconds, {.join = keep_larger}),
    Field("bytes_by_tenant", &WayView::bytes_by_tenant, {.join = add}),
    Field("allowed", &WayView::allowed, {.join = add}),
};
template <>
inline constexpr auto kFields<EventView> = std::tuple{
    Field("at", &EventView::at),
    Field("host", &EventView::host),
    Field("words", &EventView::words),
};
// Joined are the daemons of one host, the newest first. host_view.cc joins their communicators, links, ways and events.
template <>
inline constexpr auto kFields<HostView> = std::tuple{
    Field("at", &HostView::at),
    Field("host", &HostView::host),
    Field("name", &HostView::name),
    Field("node", &HostView::node),
    Field("version", &HostView::version),
    Field("up_seconds", &HostView::up_seconds),
    Field("steward", &HostView::steward),
    Field("is_draining", &HostView::is_draining),
    Field("obeys", &HostView::obeys, {.came_later = true}),
    Field("rules_version", &HostView::rules_version),
    Field("clients", &HostView::clients, {.join = add, .ends_with_daemon = true}),
    Field("memory_bytes", &HostView::memory_bytes, {.join = add, .ends_with_daemon = true}),
    Field("core_seconds", &HostView::core_seconds, {.join = add}),
    Field("refused", &HostView::refused, {.join = add}),
    Field("replans", &HostView::replans, {.join = add}),
    Field("events_dropped", &HostView::events_dropped, {.join = add}),
    Field("communicators", &HostView::communicators, {.ends_with_daemon = true}),
    Field("links", &HostView::links),
    Field("ways", &HostView::ways, {.came_later = true, .ends_with_daemon = true}),
    Field("events", &HostView::events),
    Field("descriptors", &HostView::descriptors, {.came_later = true}),
    Field("most_descriptors", &HostView::most_descriptors, {.came_later = true}),
    Field("troubles", &HostView::troubles, {.came_later = true, .ends_with_daemon = true}),
    Field("lost_hosts", &HostView::lost_hosts, {.came_later = true}),
    Field("unlisted", &HostView::unlisted, {.join = add, .came_later = true, .ends_with_daemon = true}),
};
template <>
inline constexpr auto kFields<FindingView> = std::tuple{
    Field("kind", &FindingView::kind),
    Field("communicator", &FindingView::communicator),
    Field("words", &FindingView::words),
};
template <>
inline constexpr auto kFields<UnreachableHost> = std::tuple{
    Field("host", &UnreachableHost::host),
    Field("why", &UnreachableHost::why),
};
template <>
inline constexpr auto kFields<ClusterView> = std::tuple{
    Field("at", &ClusterView::at),
    Field("hosts", &ClusterView::hosts),
    Field("unreachable", &ClusterView::unreachable),
    Field("communicators", &ClusterView::communicators),
    Field("links", &ClusterView::links),
    Field("events", &ClusterView::events),
    Field("findings", &ClusterView::findings),
};

// ---- What is done with them.

// Calls visit(field) for each row of a view.
template <typename View, typename Visit>
void each_field(const Visit& visit) {
  std::apply([&](const auto&... fields) { (visit(fields), ...); }, kFields<View>);
}

// Joins the values of each row.
template <typename View>
void join(View& joined, View&& other) {
  each_field<View>([&](const auto& field) {
    if (field.traits.join) field.traits.join(joined.*field.member, std::move(other.*field.member));
  });
}

}  // namespace banyan::service
