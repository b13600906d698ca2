// HttpServer: answers HTTP requests on a reactor's thread: for operators, for Prometheus, for browsers.
//
// It takes connections from any number of listening sockets (unix or TCP), each with a handler of its own. A handler
// may answer at once or later; requests wait side by side and block nobody. A caller's mistake costs it its connection:
// bodies above Options::most_body are refused with 413, anything that is no HTTP with 400. A caller that sends its
// request or takes its answer too slowly is hung up on; at once, nearly, where all connections of a socket are in use,
// so that slow callers keep out nobody for long. HEAD is answered as GET, without the body.
//
// Memory: per connection 32 KiB, the body, and the answer until it is sent; of a shared body one copy.
//
// Errors that are nobody's answer (descriptors are short, a handler throws after it has answered) are thrown to the
// reactor. On the reactor's thread, by libmicrohttpd; without that library serve() throws.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/host_names.h"
#include "banyan/run/system/reactor.h"

namespace banyan::service {

struct HttpRequest {
  std::string method;                        // "GET", "POST", any other that a caller makes up; HEAD arrives as GET
  std::string path;                          // decoded, without the query: "/v1/cluster". Any bytes
  std::map<std::string, std::string> query;  // decoded; of a name that comes twice, the last
  std::string host;  // what the caller calls this host, maybe with a port; empty: it does not say
  std::string body;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  // In its place, where many callers get the same. Null: `body` is it.
  std::shared_ptr<const std::string> shared_body = {};
};

class HttpServer {
 public:
  struct Options {
    size_t most_body = size_t{1} << 20;  // bytes
    unsigned most_connections = 64;      // of one listening socket
    // Until a request is there, from the connection or the last answer on; and until an answer is taken. Handlers have
    // as much time as they want.
    std::chrono::milliseconds timeout{30'000};
    // The same while all connections are in use: a request is there as soon as its caller is, unless it is none.
    std::chrono::milliseconds hurry{50}, answer_hurry{1000};
  };
  // Answers, on the reactor's thread, at once or later. The first call counts, others do nothing; nor does one after
  // the server has ended or the caller has gone. A Reply of which all copies are gone, with no call, is 500.
  using Reply = std::function<void(HttpResponse)>;
  // An error that a handler throws before it has answered becomes the answer, {"error": "words"}: Error{invalid_input}
  // is 400, not_found 404, invalid_usage 403, anything else 500. A handler must not end the server.
  using Handler = std::function<void(const HttpRequest& request, Reply reply)>;

  HttpServer(run::Reactor& reactor, Options options);
  explicit HttpServer(run::Reactor& reactor) : HttpServer(reactor, Options()) {}
  // Callers that wait for an answer get 503.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // `listener` listens already and does not block. Throws Error{io}, Error{unsupported} without libmicrohttpd.
  void serve(run::FileDescriptor listener, Handler handler);
  // False: no new connections are taken, which wait or go to others that listen at the same sockets. Those that are
  // there get the answers that they wait for and are hung up on, after Options::hurry at the latest where nothing was
  // asked: so they come to the others, too.
  void let_in(bool shall_let_in);
  // The same for ever: the sockets that listen are closed here. Others may have them.
  void close_doors();

 private:
  class Door;
  run::Reactor& reactor_;
  const Options options_;
  std::vector<std::unique_ptr<Door>> doors_;
};

// {"error": "words"} with this status.
HttpResponse http_error(int status, const std::string& words);
// The same, with the status of what the handler of a request throws.
HttpResponse http_error(const Error& error);

// The names of its host that a server answers to (run/system/host_names.h).
using run::HostNames;

// Answers 421 instead of `handler` where the caller means another host, and says what would help.
HttpServer::Handler only_for(HostNames names, HttpServer::Handler handler);

}  // namespace banyan::service
