#include "banyan/predict/simulation/link_events.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/fabric/node_pair.h"

namespace banyan::predict {
namespace {
constexpr const char* kHowTo = "write it as '10ms a-b=10GB/s', '10ms a-b fail' or '20ms a-b returns'";

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
    throw invalid("it needs a time and, after a space, a link; " + std::string(kHowTo));
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
    throw invalid("it does not say what happens to the link; " + std::string(kHowTo));
  }
  const std::string_view figure = trimmed(text.substr(equals + 1));
  text = trimmed(text.substr(0, equals));
  if (figure.starts_with('0') && figure.find_first_of("123456789") == std::string_view::npos) {
    throw invalid("a bandwidth of zero is a failure; write '" + std::string(text.substr(0, 100)) + " fail'");
  }
  return Bandwidth::parse(figure);
}

}  // namespace

std::vector<LinkEvent> parse_link_events(const Fabric& fabric, std::string_view text) {
  try {
    std::string_view left = trimmed(text);
    const Picoseconds time = take_time(left);
    const std::optional<Bandwidth> change = take_change(left);
    const fabric::NodePairs pairs(fabric);
    std::vector<LinkEvent> events;
    for (const LinkId link : pairs.links_between(pairs.at(left))) {
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
  throw invalid(in_quotes(text) + " is none of stop, move and fail");
}

LinkTimeline::LinkTimeline(const Fabric& fabric, std::span<const LinkEvent> events) : states_(1) {
  std::map<Picoseconds, std::map<LinkId, LinkEvent>> by_time;
  for (const LinkEvent& event : events) {
    CHECK(index(event.link) < fabric.links().size() && event.time.count() >= 0)
        << "link " << index(event.link) << " at " << event.time.count() << " ps";
    by_time[event.time].insert_or_assign(event.link, event);
  }
  // A state is all links that differ from the fabric at a time. Equal states have one number, so plans are made once.
  std::map<LinkId, Bandwidth> changed;
  std::map<State, uint32_t> numbers{{{}, 0}};
  for (const auto& [time, changes] : by_time) {
    Moment moment{.time = time, .changes = {}, .state = 0};
    for (const auto& [link, event] : changes) {
      moment.changes.push_back(event);
      const Bandwidth own = fabric.link(link).bandwidth;
      if (event.bandwidth.value_or(own) == own) {
        changed.erase(link);
      } else {
        changed[link] = *event.bandwidth;
      }
    }
    State state;
    for (const auto& [link, bandwidth] : changed) state.push_back({link, bandwidth});
    const auto [known, is_new] = numbers.emplace(std::move(state), static_cast<uint32_t>(states_.size()));
    if (is_new) states_.push_back(known->first);
    moment.state = known->second;
    moments_.push_back(std::move(moment));
  }
}

const LinkTimeline::Changed* LinkTimeline::find(uint32_t state, LinkId link) const {
  const State& all = states_[state];
  const auto found = std::ranges::lower_bound(all, link, {}, &Changed::link);
  return found != all.end() && found->link == link ? &*found : nullptr;
}

bool LinkTimeline::is_down(uint32_t state, LinkId link) const {
  if (state == 0) return false;
  const Changed* changed = find(state, link);
  return changed != nullptr && changed->bandwidth == Bandwidth();
}

bool LinkTimeline::any_ever_down() const {
  const auto is_zero = [](const Changed& row) { return row.bandwidth == Bandwidth(); };
  return std::ranges::any_of(states_, [&](const State& state) { return std::ranges::any_of(state, is_zero); });
}

Bandwidth LinkTimeline::bandwidth(uint32_t state, LinkId link, Bandwidth own) const {
  const Changed* changed = find(state, link);
  return changed == nullptr ? own : changed->bandwidth;
}

}  // namespace banyan::predict
