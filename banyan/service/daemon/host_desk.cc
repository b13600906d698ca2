#include "banyan/service/daemon/host_desk.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/service/daemon/event_log.h"
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
std::string joined_objects(const std::vector<std::string>& bodies) {
  constexpr const char* kSummed = "sessions";
  Json all = object_from(bodies.front());
  for (size_t i = 1; i < bodies.size(); ++i) {
    const Json more = object_from(bodies[i]);
    for (const auto& [key, value] : more.items()) {
      if (value.is_array() && all.contains(key) && all[key].is_array()) {
        all[key].insert(all[key].end(), value.begin(), value.end());
      } else if (key == kSummed && value.is_number_unsigned() && all.contains(key) && all[key].is_number_unsigned()) {
        all[key] = all[key].get<uint64_t>() + value.get<uint64_t>();
      }
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
  std::set<uint64_t> older;    // daemons whose answers belong to it
  std::set<uint64_t> missing;  // of those, that have not answered
  std::map<uint64_t, Answer> answers;
  std::string trouble;  // of one from which no answer comes; empty: all have answered, or will
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

// A view is asked of this daemon at last: what the others do not say is an event in it. A command is not held up.
void HostDesk::answer(const std::string& command, const std::string& body, const Reply& reply) {
  const std::vector<DaemonName> older = parts_.older();
  if (older.empty() || !is_for_all(command)) return answer_alone(command, body, reply);
  const auto asked = std::make_shared<Asked>();
  asked->number = next_number_++;
  asked->command = command;
  asked->body = body;
  asked->reply = reply;
  asked_.emplace(asked->number, asked);
  asked->until = parts_.timers.after(command == kView ? kViewTime : kCommandTime, [this, asked] {
    asked->until.reset();
    give_up(asked);
  });
  for (const DaemonName& daemon : older) {
    asked->older.insert(daemon.incarnation);
    ask(*asked, daemon);
  }
  if (command != kView) ask_own(asked);
  go_on(asked);
}

void HostDesk::ask(Asked& asked, const DaemonName& daemon) {
  try {
    if (overdue_.contains(daemon.incarnation)) throw Error(ErrorCode::timed_out, "it does not answer");
    asked.missing.insert(daemon.incarnation);
    parts_.ask(daemon, {.number = asked.number, .command = asked.command, .body = asked.body});
  } catch (const Error& error) {
    asked.missing.erase(daemon.incarnation);
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
  for (const uint64_t daemon : std::exchange(asked->missing, {})) {
    asked->trouble = "it does not answer";
    if (!overdue_.emplace(daemon, asked->number).second) continue;
    parts_.note(
        "the daemon that was here before does not answer; until it does, the communicators that it still has are in no "
        "view, and commands do not reach them");
  }
  go_on(asked);
}

void HostDesk::hear(uint64_t daemon, const OperatorAnswer& answer) {
  if (const auto late = overdue_.find(daemon); late != overdue_.end() && late->second == answer.number) {
    overdue_.erase(late);
    parts_.note("the daemon that was here before answers again");
  }
  const auto found = asked_.find(answer.number);
  if (found == asked_.end()) return;
  const std::shared_ptr<Asked> asked = found->second;
  if (asked->missing.erase(daemon) == 0) return;  // it comes too late
  asked->answers.emplace(daemon, Answer{.is_refusal = answer.is_refusal, .body = answer.body});
  go_on(asked);
}

void HostDesk::forget(uint64_t daemon) {
  overdue_.erase(daemon);
  if (auto remains = remains_.extract(daemon)) {
    ended_ =
        kept(ended_ ? as_one_host({*std::move(ended_), std::move(remains.mapped())}) : std::move(remains.mapped()));
  }
  for (const auto& [number, asked] : std::map(asked_)) {
    asked->older.erase(daemon);
    asked->answers.erase(daemon);
    if (asked->missing.erase(daemon) > 0) go_on(asked);
  }
}

void HostDesk::go_on(const std::shared_ptr<Asked>& asked) {
  if (!asked->missing.empty()) return;
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
  std::set<uint64_t> seen;
  for (const auto& [daemon, answer] : asked.answers) {
    if (answer.is_refusal) continue;
    try {
      daemons.push_back(host_view_from(answer.body));
    } catch (const Error& error) {
      BANYAN_LOG(warning) << "an older daemon's view is not understood: " << error.what();
      continue;
    }
    seen.insert(daemon);
    remains_.insert_or_assign(daemon, kept(remains_of(daemons.back())));
  }
  for (const auto& [daemon, remains] : remains_) {
    if (asked.older.contains(daemon) && !seen.contains(daemon)) daemons.push_back(remains);
  }
  if (ended_) daemons.push_back(*ended_);
  return {.is_refusal = false, .body = to_json(as_one_host(std::move(daemons)))};
}

HostDesk::Answer HostDesk::joined_command(const Asked& asked) {
  std::vector<std::string> bodies = {asked.own->body};
  std::string trouble = asked.trouble;
  for (const auto& [daemon, answer] : asked.answers) {
    if (answer.is_refusal) {
      trouble = answer.body;
    } else {
      bodies.push_back(answer.body);
    }
  }
  if (trouble.empty()) return {.is_refusal = false, .body = joined_objects(bodies)};
  return {.is_refusal = true,
          .body = "the newest daemon of this host has done so; an older one, which still has communicators, has not: " +
                  trouble};
}

}  // namespace banyan::service
