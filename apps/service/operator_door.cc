#include "apps/service/operator_door.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/service/http/client.h"
#include "banyan/service/protocol/place.h"
#include "banyan/service/view/view_json.h"

namespace banyan::app {
namespace {

Json parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw invalid("answers what is no JSON: " + in_quotes(text));
  return json;
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    throw invalid("answers a host without \"" + std::string(key) + "\"");
  }
  return found->get<std::string>();
}

const Json& list_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  const auto is_object = [](const Json& each) { return each.is_object(); };
  if (found == object.end() || !found->is_array() || !std::all_of(found->begin(), found->end(), is_object)) {
    throw invalid("answers no list of \"" + std::string(key) + "\"");
  }
  return *found;
}

OperatorAnswers answers_from(Json json) {
  if (!json.is_object()) throw invalid("answers no object");
  OperatorAnswers answers;
  for (const Json& each : list_at(json, "hosts")) {
    const bool is_refused = each.contains("error");
    answers.hosts.push_back(
        {.name = text_at(each, "host"), .error = is_refused ? text_at(each, "error") : "", .said = each});
  }
  for (const Json& each : list_at(json, "unreachable")) {
    answers.unreachable.push_back({.host = text_at(each, "host"), .why = text_at(each, "why")});
  }
  answers.all = std::move(json);
  return answers;
}

ErrorCode code_of(int status) {
  if (status == 403) return ErrorCode::invalid_usage;
  if (status == 404) return ErrorCode::not_found;
  return status < 500 ? ErrorCode::invalid_input : ErrorCode::io;
}

}  // namespace

bool OperatorAnswers::is_good() const {
  return unreachable.empty() &&
         std::all_of(hosts.begin(), hosts.end(), [](const Host& each) { return each.error.empty(); });
}

OperatorDoor::OperatorDoor(std::string url, std::chrono::milliseconds patience)
    : url_(url.empty() ? "unix:" + service::found_operator_socket() : std::move(url)), patience_(patience) {}

std::string OperatorDoor::ask(const std::string& method, const std::string& target, const std::string& body) const {
  service::HttpResponse response = service::http_ask(url_, method, target, body, patience_);
  if (response.status >= 200 && response.status < 300) return std::move(response.body);
  const Json json = Json::parse(response.body, nullptr, false);
  if (json.is_object() && json.contains("error") && json["error"].is_string()) {
    throw Error(code_of(response.status), "banyand refuses it: " + json["error"].get<std::string>());
  }
  throw Error(code_of(response.status),
              "answers " + method + " " + target + " with HTTP status " + std::to_string(response.status) +
                  " and no words; is it banyand?",
              url_);
}

std::string OperatorDoor::cluster_text() const { return ask("GET", "/v1/cluster", ""); }

service::ClusterView OperatorDoor::cluster() const {
  const std::string text = cluster_text();
  return understood([&] { return service::cluster_view_from(text); });
}

Json OperatorDoor::get(const std::string& target) const {
  const std::string text = ask("GET", target, "");
  return understood([&] { return parse(text); });
}

OperatorAnswers OperatorDoor::post(const std::string& target, const Json& body) const {
  const std::string text = ask("POST", target, body.dump(-1, ' ', false, Json::error_handler_t::replace));
  return understood([&] { return answers_from(parse(text)); });
}

}  // namespace banyan::app
