#include "banyan/service/operate/host_answers.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/view/view_json.h"

namespace banyan::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kView = "view";
constexpr const char* kOlder = "older";
constexpr const char* kSilent = "it does not answer";

// The others are the newest daemon's alone: it opens what is opened, and has the rules that new sessions get.
bool is_for_all(const std::string& command) {
  constexpr std::array<std::string_view, 5> kForAll = {kView, "set", "replan", "drain", "load rules"};
  return std::find(kForAll.begin(), kForAll.end(), command) != kForAll.end();
}

Json object_from(const std::string& body) {
  Json object = Json::parse(body, nullptr, false);
  if (!object.is_object()) throw Error(ErrorCode::invalid_input, "a daemon's answer is no object of JSON");
  return object;
}

// Lists one after the other, numbers of sessions added; what else there is, the first one says.
std::string joined_objects(const std::string& first, const std::string& second) {
  constexpr const char* kSummed = "sessions";
  Json all = object_from(first);
  const Json more = object_from(second);
  for (const auto& [key, value] : more.items()) {
    if (value.is_array() && all.contains(key) && all[key].is_array()) {
      all[key].insert(all[key].end(), value.begin(), value.end());
    } else if (key == kSummed && value.is_number_unsigned() && all.contains(key) && all[key].is_number_unsigned()) {
      all[key] = all[key].get<uint64_t>() + value.get<uint64_t>();
    }
  }
  return all.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// With the last events only, as each daemon keeps them.
HostView kept(HostView remains) {
  if (remains.events.size() > EventLog::kKept) {
    const size_t dropped = remains.events.size() - EventLog::kKept;
    remains.events.erase(remains.events.begin(), remains.events.begin() + static_cast<ptrdiff_t>(dropped));
    remains.events_dropped += dropped;
  }
  return remains;
}

}  // namespace

struct HostAnswers::Asked {
  std::string command, body;
  Reply reply;
  bool is_of_both = true;  // else of this daemon, and of those that have ended
  std::optional<Answer> own;
  std::optional<Gather::Result> older;
};

void HostAnswers::answer_alone(const std::string& command, const std::string& body, const Reply& reply) {
  if (command != kView || !ended_) return parts_.own(command, body, reply);
  ask_own(std::make_shared<Asked>(Asked{
      .command = command, .body = body, .reply = reply, .is_of_both = false, .own = {}, .older = Gather::Result()}));
}

// A view is asked of this daemon at last: an event in it tells what the older one does not say. A command is not held
// up.
void HostAnswers::answer(const std::string& command, const std::string& body, const Reply& reply) {
  const std::optional<DaemonName> older = parts_.older();
  if (!older || !is_for_all(command)) return answer_alone(command, body, reply);
  const auto asked =
      std::make_shared<Asked>(Asked{.command = command, .body = body, .reply = reply, .own = {}, .older = {}});
  gather_.ask(
      {kOlder}, command == kView ? kViewTime : kCommandTime,
      [&](const std::string&, uint64_t number) {
        if (overdue_) throw Error(ErrorCode::timed_out, kSilent);
        parts_.ask(*older, {.number = number, .command = command, .body = body});
      },
      [this, asked](Gather::Result result) { receive_older(asked, std::move(result)); });
  if (command != kView) ask_own(asked);
}

void HostAnswers::ask_own(const std::shared_ptr<Asked>& asked) {
  parts_.own(asked->command, asked->body, lifetime_.guard([this, asked](Answer answer) {
    if (asked->own) return;  // an operator is answered once
    asked->own = std::move(answer);
    reply_if_complete(*asked);
  }));
}

void HostAnswers::receive_older(const std::shared_ptr<Asked>& asked, Gather::Result result) {
  const auto missing = result.missing.find(kOlder);
  if (missing != result.missing.end() && missing->second.empty()) {
    missing->second = kSilent;
    if (!overdue_) {
      overdue_ = result.number;
      parts_.record(
          "the daemon that was here before does not answer; until it does, the communicators that it still has are in "
          "no view, and commands do not reach them");
    }
  }
  asked->older = std::move(result);
  if (asked->command == kView) return ask_own(asked);
  reply_if_complete(*asked);
}

void HostAnswers::receive(const OperatorAnswer& answer) {
  if (overdue_ == answer.number) {
    overdue_.reset();
    parts_.record("the daemon that was here before answers again");
  }
  gather_.answer(answer.number, kOlder, {.is_refusal = answer.is_refusal, .body = answer.body});
}

void HostAnswers::forget_older() {
  overdue_.reset();
  if (remains_) {
    ended_ = kept(ended_ ? as_one_host({*std::move(ended_), *std::move(remains_)}) : *std::move(remains_));
    remains_.reset();
  }
  gather_.leave(kOlder, "it has ended");
}

void HostAnswers::reply_if_complete(const Asked& asked) {
  if (asked.own && asked.older) asked.reply(joined(asked));
}

HostAnswers::Answer HostAnswers::joined(const Asked& asked) {
  if (asked.own->is_refusal) return *asked.own;
  try {
    return asked.command == kView ? joined_view(asked) : joined_command(asked);
  } catch (const Error& error) {
    return {.is_refusal = true, .body = error.what()};
  }
}

// A daemon that has ended meanwhile is among those that have ended.
HostAnswers::Answer HostAnswers::joined_view(const Asked& asked) {
  std::vector<HostView> daemons = {host_view_from(asked.own->body)};
  if (asked.is_of_both && parts_.older()) {
    std::optional<HostView> older = view_of_older(asked);
    if (older) remains_ = kept(remains_of(*older));
    if (!older) older = remains_;
    if (older) daemons.push_back(*std::move(older));
  }
  if (ended_) daemons.push_back(*ended_);
  return {.is_refusal = false, .body = to_json(as_one_host(std::move(daemons)))};
}

std::optional<HostView> HostAnswers::view_of_older(const Asked& asked) {
  const auto answer = asked.older->answers.find(kOlder);
  if (answer == asked.older->answers.end() || answer->second.is_refusal) return std::nullopt;
  try {
    return host_view_from(answer->second.body);
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "the older daemon's view is not understood: " << error.what();
    return std::nullopt;
  }
}

HostAnswers::Answer HostAnswers::joined_command(const Asked& asked) const {
  if (!parts_.older()) return *asked.own;
  const auto answer = asked.older->answers.find(kOlder);
  const bool has_answered = answer != asked.older->answers.end();
  if (has_answered && !answer->second.is_refusal) {
    return {.is_refusal = false, .body = joined_objects(asked.own->body, answer->second.body)};
  }
  return {
      .is_refusal = true,
      .body = "the newest daemon of this host has done so; the older one, which still has communicators, has not: " +
              (has_answered ? answer->second.body : asked.older->missing.at(kOlder))};
}

}  // namespace banyan::service
