#include "banyan/predict/link_events.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr const char* kHowTo = "write it as '10ms a-b=10GB/s', '10ms a-b fail' or '20ms a-b returns'";

std::string in_quotes(std::string_view text) { return "'" + std::string(text.substr(0, 100)) + "'"; }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

// Takes the time off the front of `text`: "10ms ..." or "10 ms ...".
Picoseconds take_time(std::string_view& text) {
  size_t end = text.find(' ');
  if (end != std::string_view::npos) {
    const size_t next = text.find_first_not_of(' ', end);
    const size_t next_end = text.find(' ', next);
    const std::string_view word = text.substr(next, next_end - next);
    for (const std::string_view unit : {"ps", "ns", "us", "ms", "s"}) {
      if (word == unit) end = next_end;
    }
  }
  if (end == std::string_view::npos) {
    throw Error(ErrorCode::invalid_input, "it needs a time and, after a space, a link; " + std::string(kHowTo));
  }
  const Picoseconds time = parse_duration(text.substr(0, end));
  text = trimmed(text.substr(end));
  return time;
}

// Takes what happens off the end of `text`.
std::optional<Bandwidth> take_change(std::string_view& text) {
  const size_t space = text.rfind(' ');
  const std::string_view last = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
  if (last == "fail" || last == "fails" || last == "returns" || last == "return") {
    text = trimmed(text.substr(0, space));
    if (last.starts_with("return")) return std::nullopt;
    return Bandwidth();
  }
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    throw Error(ErrorCode::invalid_input, "it does not say what happens to the link; " + std::string(kHowTo));
  }
  const std::string_view figure = trimmed(text.substr(equals + 1));
  text = trimmed(text.substr(0, equals));
  if (figure.starts_with('0') && figure.find_first_of("123456789") == std::string_view::npos) {
    throw Error(ErrorCode::invalid_input,
                "a bandwidth of zero is a failure; write '" + std::string(text.substr(0, 100)) + " fail'");
  }
  return Bandwidth::parse(figure);
}

struct Pair {
  NodeId a, b;
};

Pair parse_pair(const Fabric& fabric, std::string_view text) {
  std::optional<Pair> found;
  std::optional<std::string_view> stranger;  // where the other side is a node
  for (size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const std::string_view one = text.substr(0, dash), other = text.substr(dash + 1);
    const auto a = fabric.find(one), b = fabric.find(other);
    if (a && b && found) {
      throw Error(ErrorCode::invalid_input, in_quotes(text) +
                                                " is ambiguous: more than one '-' has a node on both sides; "
                                                "rename a node");
    }
    if (a && b) found = Pair{*a, *b};
    if (a.has_value() != b.has_value()) stranger = a ? other : one;
  }
  if (found) return *found;
  if (stranger) fabric.at(*stranger);
  throw Error(ErrorCode::invalid_input, in_quotes(text) + " names no two nodes; " + kHowTo);
}

std::vector<LinkId> links_between(const Fabric& fabric, Pair pair) {
  std::vector<LinkId> links;
  std::set<std::string> near;
  for (const LinkId link : fabric.out_links(pair.a)) {
    near.insert(fabric.name(fabric.link(link).to));
    if (fabric.link(link).to == pair.b) links.push_back(link);
  }
  for (const LinkId link : fabric.in_links(pair.a)) {
    near.insert(fabric.name(fabric.link(link).from));
    if (fabric.link(link).from == pair.b) links.push_back(link);
  }
  if (!links.empty()) return links;
  constexpr size_t kShown = 6;
  std::string text = "no link joins " + in_quotes(fabric.name(pair.a)) + " and " + in_quotes(fabric.name(pair.b)) +
                     "; " + in_quotes(fabric.name(pair.a)) + " is joined to ";
  size_t shown = 0;
  for (const std::string& name : near) {
    if (shown++ < kShown) text += (shown == 1 ? "" : ", ") + name;
  }
  if (near.size() > kShown) text += " and " + std::to_string(near.size() - kShown) + " more";
  throw Error(ErrorCode::not_found, text);
}

}  // namespace

std::vector<LinkEvent> parse_link_events(const Fabric& fabric, std::string_view text) {
  try {
    std::string_view left = trimmed(text);
    const Picoseconds time = take_time(left);
    const std::optional<Bandwidth> change = take_change(left);
    std::vector<LinkEvent> events;
    for (const LinkId link : links_between(fabric, parse_pair(fabric, left))) {
      events.push_back({.time = time, .link = link, .bandwidth = change});
    }
    return events;
  } catch (const Error& error) {
    throw error.within(in_quotes(text));
  }
}

OnFailure parse_on_failure(std::string_view text) {
  if (text == "stop") return OnFailure::stop;
  if (text == "move") return OnFailure::move;
  if (text == "fail") return OnFailure::fail;
  throw Error(ErrorCode::invalid_input, in_quotes(text) + " is none of stop, move and fail");
}

LinkTimeline::LinkTimeline(const Fabric& fabric, std::span<const LinkEvent> events) : states_(1) {
  std::map<Picoseconds, std::map<LinkId, LinkEvent>> by_time;
  for (const LinkEvent& event : events) {
    CHECK(index(event.link) < fabric.links().size() && event.time.count() >= 0)
        << "link " << index(event.link) << " at " << event.time.count() << " ps";
    by_time[event.time].insert_or_assign(event.link, event);
  }
  std::set<LinkId> down;
  std::map<std::vector<LinkId>, uint32_t> numbers{{{}, 0}};
  for (const auto& [time, changes] : by_time) {
    Moment moment{.time = time, .changes = {}, .state = 0};
    for (const auto& [link, event] : changes) {
      moment.changes.push_back(event);
      if (event.bandwidth == Bandwidth()) {
        down.insert(link);
      } else {
        down.erase(link);
      }
    }
    const auto [known, is_new] =
        numbers.emplace(std::vector(down.begin(), down.end()), static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(known->first);
    moment.state = known->second;
    moments_.push_back(std::move(moment));
  }
}

bool LinkTimeline::is_down(uint32_t state, LinkId link) const {
  return state != 0 && std::binary_search(states_[state].begin(), states_[state].end(), link);
}

}  // namespace banyan
