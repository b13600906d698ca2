#include "banyan/service/operate/host_desk.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/view/view_json.h"

namespace banyan::service {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kView = "view";

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

struct HostDesk::Asked {
  uint64_t number = 0;
  std::string command, body;
  Reply reply;
  bool waits_for_older = false;
  std::optional<Answer> of_older;
  bool is_without_older = true;  // it was not there, or has ended since
  std::string trouble;           // why the older daemon's answer does not come; empty: it has come, or will
  bool has_asked_own = false;
  std::optional<Answer> own;
  std::optional<run::Timers::Timer> until;
};

HostDesk::~HostDesk() {
  for (const auto& [number, asked] : asked_) {
    if (asked->until) parts_.timers.cancel(*asked->until);
  }
}

void HostDesk::answer_alone(const std::string& command, const std::string& body, const Reply& reply) {
  if (command != kView || !ended_) return parts_.own(command, body, reply);
  const auto asked = std::make_shared<Asked>();
  asked->command = command;
  asked->body = body;
  asked->reply = reply;
  go_on(asked);
}

// A view is asked of this daemon at last: an event in it tells what the older one does not say. A command is not held
// up.
void HostDesk::answer(const std::string& command, const std::string& body, const Reply& reply) {
  const std::optional<DaemonName> older = parts_.older();
  if (!older || !is_for_all(command)) return answer_alone(command, body, reply);
  const auto asked = std::make_shared<Asked>();
  asked->number = next_number_++;
  asked->command = command;
  asked->body = body;
  asked->reply = reply;
  asked->is_without_older = false;
  asked_.emplace(asked->number, asked);
  asked->until = parts_.timers.after(command == kView ? kViewTime : kCommandTime, [this, asked] {
    asked->until.reset();
    give_up(asked);
  });
  ask_older(*asked, *older);
  if (command != kView) ask_own(asked);
  go_on(asked);
}

void HostDesk::ask_older(Asked& asked, const DaemonName& daemon) {
  try {
    if (overdue_) throw Error(ErrorCode::timed_out, "it does not answer");
    asked.waits_for_older = true;
    parts_.ask(daemon, {.number = asked.number, .command = asked.command, .body = asked.body});
  } catch (const Error& error) {
    asked.waits_for_older = false;
    asked.trouble = error.message();
  }
}

void HostDesk::ask_own(const std::shared_ptr<Asked>& asked) {
  asked->has_asked_own = true;
  parts_.own(asked->command, asked->body, [this, lives = std::weak_ptr(lives_), asked](Answer answer) {
    if (lives.expired() || asked->own) return;
    asked->own = std::move(answer);
    go_on(asked);
  });
}

void HostDesk::give_up(const std::shared_ptr<Asked>& asked) {
  if (std::exchange(asked->waits_for_older, false)) {
    asked->trouble = "it does not answer";
    if (!overdue_) {
      overdue_ = asked->number;
      parts_.note(
          "the daemon that was here before does not answer; until it does, the communicators that it still has are in "
          "no view, and commands do not reach them");
    }
  }
  go_on(asked);
}

void HostDesk::hear(const OperatorAnswer& answer) {
  if (overdue_ == answer.number) {
    overdue_.reset();
    parts_.note("the daemon that was here before answers again");
  }
  const auto found = asked_.find(answer.number);
  if (found == asked_.end()) return;
  const std::shared_ptr<Asked> asked = found->second;
  if (!std::exchange(asked->waits_for_older, false)) return;  // it comes too late
  asked->of_older = Answer{.is_refusal = answer.is_refusal, .body = answer.body};
  go_on(asked);
}

void HostDesk::forget_older() {
  overdue_.reset();
  if (remains_) {
    ended_ = kept(ended_ ? as_one_host({*std::move(ended_), *std::move(remains_)}) : *std::move(remains_));
    remains_.reset();
  }
  for (const auto& [number, asked] : std::map(asked_)) {
    asked->of_older.reset();
    asked->is_without_older = true;
    if (std::exchange(asked->waits_for_older, false)) go_on(asked);
  }
}

void HostDesk::go_on(const std::shared_ptr<Asked>& asked) {
  if (asked->waits_for_older) return;
  if (!asked->has_asked_own) return ask_own(asked);
  if (!asked->own || !asked->reply) return;
  if (asked->until) parts_.timers.cancel(*std::exchange(asked->until, std::nullopt));
  asked_.erase(asked->number);
  std::exchange(asked->reply, {})(joined(*asked));
}

HostDesk::Answer HostDesk::joined(Asked& asked) {
  if (asked.own->is_refusal) return *asked.own;
  try {
    return asked.command == kView ? joined_view(asked) : joined_command(asked);
  } catch (const Error& error) {
    return {.is_refusal = true, .body = error.what()};
  }
}

HostDesk::Answer HostDesk::joined_view(Asked& asked) {
  std::vector<HostView> daemons = {host_view_from(asked.own->body)};
  bool is_seen = false;
  if (asked.of_older && !asked.of_older->is_refusal) {
    try {
      daemons.push_back(host_view_from(asked.of_older->body));
      remains_ = kept(remains_of(daemons.back()));
      is_seen = true;
    } catch (const Error& error) {
      BANYAN_LOG(warning) << "the older daemon's view is not understood: " << error.what();
    }
  }
  if (remains_ && !is_seen && !asked.is_without_older) daemons.push_back(*remains_);
  if (ended_) daemons.push_back(*ended_);
  return {.is_refusal = false, .body = to_json(as_one_host(std::move(daemons)))};
}

HostDesk::Answer HostDesk::joined_command(const Asked& asked) {
  const std::string trouble = asked.of_older && asked.of_older->is_refusal ? asked.of_older->body : asked.trouble;
  if (!trouble.empty()) {
    return {
        .is_refusal = true,
        .body = "the newest daemon of this host has done so; the older one, which still has communicators, has not: " +
                trouble};
  }
  if (!asked.of_older) return *asked.own;
  return {.is_refusal = false, .body = joined_objects(asked.own->body, asked.of_older->body)};
}

}  // namespace banyan::service
