#include "banyan/service/operate/operator_api.h"

#include <algorithm>
#include <array>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/run/record/log.h"
#include "banyan/service/page/page.h"
#include "banyan/service/view/view_json.h"

namespace banyan::service {
namespace {

// What changes something: its path, and the command of host_operations.h.
struct Change {
  const char* path;
  const char* command;
};
constexpr std::array<Change, 5> kChanges = {{{"/v1/upgrade", "upgrade"},
                                             {"/v1/set", "set"},
                                             {"/v1/replan", "replan"},
                                             {"/v1/drain", "drain"},
                                             {"/v1/rules", "load rules"}}};

constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// An object of JSON with one more field in front.
std::string with_host(const std::string& host, const std::string& object) {
  std::string field = JsonLine().add("host", host).take();
  if (object.size() <= 2) return field;
  field.back() = ',';
  return field + object.substr(1);
}

}  // namespace

// ---- Requests ----

HttpServer::Handler OperatorApi::handler(bool may_change) {
  return [this, may_change](const HttpRequest& request, HttpServer::Reply reply) {
    serve(request, may_change, std::move(reply));
  };
}

void OperatorApi::serve(const HttpRequest& request, bool may_change, HttpServer::Reply reply) {
  if (request.method == "GET") return show(request.path, may_change, std::move(reply));
  if (request.method != "POST") return reply(http_error(405, "GET what is known, or POST what is to change"));
  if (!may_change) {
    throw Error(ErrorCode::invalid_usage, "here one may look only; commands are for the operator's own socket");
  }
  change(request.path, request.body, std::move(reply));
}

void OperatorApi::show(const std::string& path, bool may_change, HttpServer::Reply reply) {
  const auto answer_with = [reply](auto to_response) {
    return [reply, to_response](const Gather::Answer& answer) {
      reply(answer.is_refusal ? http_error(500, answer.body) : to_response(answer.body));
    };
  };
  if (path == "/v1/cluster") {
    look([reply](std::vector<HostView> views, std::vector<UnreachableHost> unreachable) {
      reply({.body = to_json(merge(std::move(views), std::move(unreachable), seconds_now()))});
    });
  } else if (path == "/v1/host") {
    parts_.host.answer("view", "{}", answer_with([](const std::string& body) { return HttpResponse{.body = body}; }));
  } else if (path == "/metrics") {
    parts_.host.answer("view", "{}",
                       lifetime_.guard([this, reply](const auto& answer) { reply(metrics_from(answer)); }));
  } else if (path == "/") {
    reply({.type = "text/html; charset=utf-8", .body = std::string(dashboard_page())});
  } else if (path == "/v1/alive") {
    reply({.body = "{}"});
  } else if (path == "/v1/rules" && !may_change) {
    throw Error(ErrorCode::invalid_usage, "the rules are for the operator's own socket");
  } else if (path == "/v1/rules") {
    parts_.host.answer("rules", "{}", answer_with([](const std::string& body) { return HttpResponse{.body = body}; }));
  } else {
    throw Error(ErrorCode::not_found, "there is nothing at " + in_quotes(path));
  }
}

void OperatorApi::look(const Seen& seen) {
  const auto done = [seen](const Asked& asked) {
    std::vector<HostView> views;
    std::vector<UnreachableHost> unreachable = asked.unreachable;
    for (const auto& [host, answer] : asked.answers) {
      try {
        if (answer.is_refusal) throw Error(ErrorCode::io, answer.body);
        views.push_back(host_view_from(answer.body));
      } catch (const Error& error) {
        unreachable.push_back({.host = host, .why = error.what()});
      }
    }
    seen(std::move(views), std::move(unreachable));
  };
  parts_.cards.look_if_old(
      lifetime_.guard([this, done] { ask(all_hosts(), {.command = "view", .body = "{}"}, kViewTime, done); }));
}

void OperatorApi::order(const std::string& command, const std::string& body) {
  ask(all_hosts(), {.command = command, .body = body}, kCommandTime, [command](const Asked& asked) {
    for (const auto& [host, answer] : asked.answers) {
      if (!answer.is_refusal) continue;
      BANYAN_LOG(warning) << "host " << in_quotes(host) << " does not obey the service (" << command
                          << "): " << answer.body;
    }
    for (const UnreachableHost& each : asked.unreachable) {
      BANYAN_LOG(warning) << "host " << in_quotes(each.host) << " does not hear of it (" << command
                          << "): " << each.why;
    }
  });
}

HttpResponse OperatorApi::metrics_from(const Gather::Answer& view) {
  try {
    if (view.is_refusal) throw Error(ErrorCode::io, view.body);
    return {.type = kMetricsType, .body = metrics_of(host_view_from(view.body), metrics_)};
  } catch (const Error& error) {
    return http_error(500, error.what());
  }
}

void OperatorApi::change(const std::string& path, const std::string& body, HttpServer::Reply reply) {
  const auto known =
      std::find_if(kChanges.begin(), kChanges.end(), [&](const Change& change) { return change.path == path; });
  if (known == kChanges.end()) throw Error(ErrorCode::not_found, "there is no command at " + in_quotes(path));
  const auto done = [reply](const Asked& asked) {
    std::string hosts, unreachable;
    for (const auto& [host, answer] : asked.answers) {
      hosts += hosts.empty() ? "" : ",";
      hosts += answer.is_refusal ? JsonLine().add("host", host).add("error", answer.body).take()
                                 : with_host(host, answer.body);
    }
    for (const UnreachableHost& each : asked.unreachable) {
      unreachable += unreachable.empty() ? "" : ",";
      unreachable += JsonLine().add("host", each.host).add("why", each.why).take();
    }
    reply({.body = "{\"hosts\":[" + hosts + "],\"unreachable\":[" + unreachable + "]}"});
  };
  const OperatorQuestion question{.command = known->command, .body = body};
  parts_.cards.look({}, lifetime_.guard([this, names = hosts_of_command(body), question, reply, done] {
    try {
      ask(names.empty() ? all_hosts() : hosts_called(names), question, kCommandTime, done);
    } catch (const Error& error) {
      reply(http_error(error));
    }
  }));
}

// ---- Other hosts ----

OperatorApi::Names OperatorApi::all_hosts() const {
  Names names;
  for (const auto& [host, card] : parts_.cards.cards()) names.emplace(host, card.name);
  for (const auto& [host, why] : parts_.cards.unread()) names.emplace(host, host);
  return names;
}

// By their names or as daemons call them. Throws Error{not_found} for one that is unknown.
OperatorApi::Names OperatorApi::hosts_called(const std::vector<std::string>& names) const {
  Names meant;
  for (const std::string& name : names) {
    bool is_known = false;
    for (const auto& host : all_hosts()) {
      if (name != host.first && name != host.second) continue;
      meant.insert(host);
      is_known = true;
    }
    if (!is_known) throw Error(ErrorCode::not_found, "no daemon of a host " + in_quotes(name) + " is known");
  }
  return meant;
}

void OperatorApi::ask(const Names& hosts, const OperatorQuestion& question, std::chrono::milliseconds at_most,
                      Done done) {
  std::set<std::string> whom;
  for (const auto& [host, name] : hosts) whom.insert(host);
  gather_.ask(
      whom, at_most,
      [&](const std::string& host, uint64_t number) {
        ask_host(host, {.number = number, .command = question.command, .body = question.body});
      },
      [hosts, done = std::move(done)](Gather::Result result) {
        Asked asked;
        for (auto& [host, answer] : result.answers) asked.answers.emplace_back(hosts.at(host), std::move(answer));
        for (const auto& [host, why] : result.missing) {
          asked.unreachable.push_back({.host = hosts.at(host), .why = why.empty() ? "it has not answered" : why});
        }
        done(asked);
      });
}

void OperatorApi::ask_host(const std::string& host, const OperatorQuestion& question) {
  if (host == parts_.own) {
    return parts_.host.answer(question.command, question.body,
                              lifetime_.guard([this, host, number = question.number](Gather::Answer answer) {
                                gather_.answer(number, host, std::move(answer));
                              }));
  }
  const auto unread = parts_.cards.unread().find(host);
  if (unread != parts_.cards.unread().end()) throw Error(ErrorCode::peer_lost, "its card: " + unread->second);
  // Else questions would pile up until it comes back.
  if (!parts_.mesh.reaches(host)) throw Error(ErrorCode::peer_lost, "its daemon cannot be reached");
  parts_.mesh.send(host, encode(question));
}

void OperatorApi::receive(const DaemonName& asking, const OperatorQuestion& question) {
  const auto reply = lifetime_.guard(
      [this, asking, number = question.number](const Gather::Answer& answer) { send_answer(asking, number, answer); });
  const std::string body = question.command == "view" ? HostOperations::kShortly : question.body;
  if (const auto why = parts_.obedience.refusal(asking, question.command, question.body)) {
    reply(Gather::Answer{.is_refusal = true, .body = *why});
  } else if (asking.host == parts_.own) {
    parts_.host.answer_alone(question.command, body, reply);
  } else {
    parts_.host.answer(question.command, body, reply);
  }
}

// Who asks is told why, where there is an answer that cannot be sent.
void OperatorApi::send_answer(const DaemonName& asking, uint64_t number, const Gather::Answer& answer) {
  try {
    parts_.mesh.send_to_one(
        asking, encode(OperatorAnswer{.number = number, .is_refusal = answer.is_refusal, .body = answer.body}));
  } catch (const Error& error) {
    BANYAN_LOG(info) << "an operator's question of host " << in_quotes(asking.host)
                     << " is not answered: " << error.what();
    if (error.code() == ErrorCode::unsupported) send_answer(asking, number, {.is_refusal = true, .body = error.what()});
  }
}

void OperatorApi::receive(const std::string& host, const OperatorAnswer& answer) {
  gather_.answer(answer.number, host, {.is_refusal = answer.is_refusal, .body = answer.body});
}

}  // namespace banyan::service
