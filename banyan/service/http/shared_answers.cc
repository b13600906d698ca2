#include "banyan/service/http/shared_answers.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace banyan::service {
namespace {

// Are kept by the reply that the handler has: where that is gone, so are they, which answers them.
using Waiting = std::vector<HttpServer::Reply>;

struct Question {
  run::Reactor::TimePoint begun;
  std::optional<HttpResponse> answer;
  std::weak_ptr<Waiting> waiting;
};

}  // namespace

HttpServer::Handler shared_for(run::Reactor& reactor, std::chrono::milliseconds time, std::set<std::string> paths,
                               HttpServer::Handler handler) {
  // Shared with answers under way.
  const auto questions = std::make_shared<std::map<std::string, Question>>();
  return [&reactor, time, paths = std::move(paths), handler = std::move(handler), questions](const HttpRequest& request,
                                                                                             HttpServer::Reply reply) {
    if (request.method != "GET" || !paths.contains(request.path)) return handler(request, std::move(reply));
    Question& question = (*questions)[request.path];
    if (const auto waiting = question.waiting.lock()) return waiting->push_back(std::move(reply));
    if (question.answer && reactor.now() - question.begun < time) return reply(*question.answer);
    const auto waiting = std::make_shared<Waiting>(1, std::move(reply));
    question = {.begun = reactor.now(), .answer = {}, .waiting = waiting};
    handler(request, [questions, path = request.path, waiting](HttpResponse response) {
      Question& answered = (*questions)[path];
      if (waiting->empty()) return;  // it has been answered
      if (!response.shared_body) {
        response.shared_body = std::make_shared<const std::string>(std::exchange(response.body, {}));
      }
      answered.waiting.reset();
      answered.answer = response;
      for (const HttpServer::Reply& each : std::exchange(*waiting, {})) each(response);
    });
  };
}

}  // namespace banyan::service
