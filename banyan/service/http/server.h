// HttpServer: answers HTTP requests on a reactor's thread: for operators, for Prometheus, for browsers.
//
// It takes connections from any number of listening sockets (unix or TCP), each with a handler of its own. A handler
// may answer at once or later; requests wait side by side and block nobody. What a caller does wrong costs it its
// connection: bodies above Options::most_body are refused with 413, requests that come too slowly are hung up on.
//
// On the reactor's thread, by libmicrohttpd.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"

namespace banyan::service {

struct HttpRequest {
  std::string method;  // "GET", "POST"
  std::string path;    // decoded, without the query: "/v1/cluster"
  std::map<std::string, std::string> query;
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

class HttpServer {
 public:
  struct Options {
    size_t most_body = size_t{1} << 20;  // bytes
    unsigned most_connections = 64;      // of one listening socket
    std::chrono::seconds timeout{30};    // without progress
  };
  // Answers once, on the reactor's thread, at once or later; also after the server has ended, where it does nothing.
  using Reply = std::function<void(HttpResponse)>;
  // What it throws before it has answered: Error{invalid_input} is 400, not_found 404, invalid_usage 403, anything else
  // 500, with {"error": "words"}.
  using Handler = std::function<void(const HttpRequest& request, Reply reply)>;

  HttpServer(run::Reactor& reactor, Options options);
  explicit HttpServer(run::Reactor& reactor) : HttpServer(reactor, Options()) {}
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // `listener` listens already. Throws Error{io}.
  void serve(run::FileDescriptor listener, Handler handler);

 private:
  class Door;
  run::Reactor& reactor_;
  const Options options_;
  std::map<int, std::unique_ptr<Door>> doors_;  // by descriptor
};

// {"error": "words"} with this status.
HttpResponse http_error(int status, const std::string& words);

}  // namespace banyan::service
