#include "banyan/service/http/server.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

using TimePoint = run::Reactor::TimePoint;

constexpr std::chrono::milliseconds kPause{100};

// One request, from its first line until its answer is sent.
struct Exchange {
  MHD_Connection* connection = nullptr;
  HttpRequest request;
  size_t received = 0;  // bytes of the body, of which request.body has no more than are allowed
  bool is_asked = false;
  bool is_suspended = false;
  std::optional<HttpResponse> response;
  std::function<void()> wake;  // after it was resumed, of which libmicrohttpd tells no epoll
};

// What a Reply holds. Its copies share it; when the last one goes, nobody can answer any more.
class Promise {
 public:
  explicit Promise(std::weak_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~Promise() {
    try {
      answer(http_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "nobody has answered this request"));
    } catch (const std::exception&) {  // no memory: the caller waits until it, or the server, ends
    }
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  // False when it comes too late.
  bool answer(HttpResponse response) {
    const std::shared_ptr<Exchange> exchange = exchange_.lock();
    if (!exchange || exchange->response) return false;
    exchange->response = std::move(response);
    if (std::exchange(exchange->is_suspended, false)) {
      MHD_resume_connection(exchange->connection);
      exchange->wake();
    }
    return true;
  }

 private:
  const std::weak_ptr<Exchange> exchange_;  // kept by its connection
};

// Returns what the handler throws although it has answered.
std::optional<Error> ask(const HttpServer::Handler& handler, const std::shared_ptr<Exchange>& exchange) {
  exchange->is_asked = true;
  const auto promise = std::make_shared<Promise>(exchange);
  try {
    handler(exchange->request, [promise](HttpResponse response) { promise->answer(std::move(response)); });
  } catch (...) {
    const Error error = current_error();
    if (!promise->answer(http_error(error))) return error;
  }
  return std::nullopt;
}

// Gives the answer to libmicrohttpd, which sends it. Throws std::bad_alloc.
MHD_Result send(MHD_Connection* connection, HttpResponse response, bool is_last) {
  CHECK(response.status >= 200 && response.status < 600) << "HTTP status " << response.status;
  using Body = std::shared_ptr<const std::string>;
  auto body = std::make_unique<Body>(std::move(response.shared_body));
  if (!*body) *body = std::make_shared<const std::string>(std::move(response.body));
  const auto release = [](void* text) { delete static_cast<Body*>(text); };
  void* const bytes = const_cast<char*>((*body)->data());  // which it does not change
  const std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)> answer(
      MHD_create_response_from_buffer_with_free_callback_cls((*body)->size(), bytes, release, body.get()),
      &MHD_destroy_response);
  if (!answer) return MHD_NO;
  body.release();
  const std::pair<const char*, const char*> headers[] = {{MHD_HTTP_HEADER_CONTENT_TYPE, response.type.c_str()},
                                                         {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
                                                         {"X-Content-Type-Options", "nosniff"}};
  for (const auto& [name, value] : headers) {
    if (MHD_add_response_header(answer.get(), name, value) != MHD_YES) return MHD_NO;
  }
  // libmicrohttpd hangs up then.
  if (is_last && MHD_add_response_header(answer.get(), MHD_HTTP_HEADER_CONNECTION, "close") != MHD_YES) return MHD_NO;
  return MHD_queue_response(connection, static_cast<unsigned>(response.status), answer.get());
}

std::map<std::string, std::string> query_of(MHD_Connection* connection) {
  std::map<std::string, std::string> query;
  const MHD_KeyValueIteratorN add = [](void* into, MHD_ValueKind, const char* key, size_t key_size, const char* value,
                                       size_t value_size) {
    try {
      auto& all = *static_cast<std::map<std::string, std::string>*>(into);
      all[std::string(key, key_size)] = value == nullptr ? "" : std::string(value, value_size);
      return MHD_YES;
    } catch (const std::exception&) {  // no memory
      return MHD_NO;
    }
  };
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, add, &query);
  return query;
}

// Empty without.
std::string header_of(MHD_Connection* connection, const char* name) {
  const char* const text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return text == nullptr ? "" : text;
}

// Of the body, as its header announces it; 0 without.
size_t announced_size(MHD_Connection* connection) {
  const char* const text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (text == nullptr) return 0;
  size_t size = 0;
  const auto [end, error] = std::from_chars(text, text + std::char_traits<char>::length(text), size);
  return error == std::errc::result_out_of_range ? SIZE_MAX : size;
}

}  // namespace

// One listening socket and its connections. libmicrohttpd has an epoll descriptor of its own for them, which the
// reactor watches; so are the listener, since libmicrohttpd spins when descriptors are short, and the time, since it
// counts none for a caller that sends a byte now and then.
class HttpServer::Door {
 public:
  Door(run::Reactor& reactor, const Options& options, run::FileDescriptor listener, Handler handler);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void let_in(bool shall_let_in) {
    lets_in_ = shall_let_in;
    listen(lets_in_ && !is_full() && !pause_);
    pump_at(reactor_.now());  // other times hold for those that are there
  }
  void close() {
    let_in(false);
    listener_.reset();
  }

 private:
  enum class Stage { receiving, thinking, sending };
  struct Caller {
    Stage stage = Stage::receiving;
    TimePoint since;
    bool is_hung_up = false;             // libmicrohttpd hears of it from the socket, and then forgets it
    std::shared_ptr<Exchange> exchange;  // null between requests
  };

  static MHD_Result on_request(void* door, MHD_Connection* connection, const char* path, const char* method,
                               const char* version, const char* body, size_t* size, void** context) noexcept;
  static void on_sent(void* door, MHD_Connection* connection, void** context, MHD_RequestTerminationCode how) noexcept;
  static void on_connection(void* door, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode what) noexcept;

  MHD_Result serve(MHD_Connection* connection, const char* path, const char* method, std::string_view body);
  MHD_Result begin(MHD_Connection* connection, Caller& caller, const char* path, const char* method);
  MHD_Result receive(Caller& caller, std::string_view body);
  MHD_Result answer(MHD_Connection* connection, Caller& caller);
  HttpResponse too_long() const;

  void accept();
  void pump();
  void arrange();
  void pump_at(TimePoint when);
  void listen(bool shall_listen);
  void hang_up_on_slow_ones();
  bool is_full() const { return callers_.size() >= options_.most_connections; }
  std::optional<TimePoint> deadline(const Caller& caller) const;

  run::Reactor& reactor_;
  const Options options_;
  run::FileDescriptor listener_;
  const Handler handler_;
  std::unordered_map<MHD_Connection*, Caller> callers_;
  std::unique_ptr<MHD_Daemon, decltype(&MHD_stop_daemon)> daemon_{nullptr, &MHD_stop_daemon};
  int epoll_ = -1;  // daemon_'s
  std::optional<run::Reactor::Timer> timer_;
  std::optional<run::Reactor::Timer> pause_;  // between two attempts to accept
  std::optional<Error> failure_;              // that is nobody's answer
  bool has_resumed_ = false;                  // a connection that libmicrohttpd has not looked at since
  bool is_listening_ = false, lets_in_ = true;
  bool is_ending_ = false;
};

HttpServer::Door::Door(run::Reactor& reactor, const Options& options, run::FileDescriptor listener, Handler handler)
    : reactor_(reactor), options_(options), listener_(std::move(listener)), handler_(std::move(handler)) {
  CHECK(options_.most_connections > 0);
  daemon_.reset(MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr,
                                 nullptr, &on_request, this, MHD_OPTION_CONNECTION_LIMIT, options_.most_connections,
                                 MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this, MHD_OPTION_NOTIFY_COMPLETED,
                                 &on_sent, this, MHD_OPTION_END));
  if (!daemon_) throw Error(ErrorCode::io, "libmicrohttpd cannot serve: memory or descriptors are short");
  epoll_ = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  reactor_.watch(epoll_, EPOLLIN, [this](uint32_t) { pump(); });
  try {
    listen(true);
  } catch (...) {
    reactor_.forget(epoll_);
    throw;
  }
}

HttpServer::Door::~Door() {
  is_ending_ = true;
  listen(false);
  reactor_.forget(epoll_);
  if (timer_) reactor_.cancel(*timer_);
  if (pause_) reactor_.cancel(*pause_);
  for (auto& [connection, caller] : callers_) {
    Exchange* const exchange = caller.exchange.get();
    if (exchange == nullptr || exchange->response) continue;
    try {
      exchange->response = http_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the daemon ends");
    } catch (const std::exception&) {  // no memory to say so: the connection just ends
    }
    // libmicrohttpd does not end while anything is suspended.
    if (std::exchange(exchange->is_suspended, false)) MHD_resume_connection(connection);
  }
  // So that what fits into the sockets is sent.
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  for (int left = 8; left > 0; --left) {
    MHD_run(daemon_.get());
    if (MHD_get_timeout(daemon_.get(), &milliseconds) != MHD_YES) break;
  }
  daemon_.reset();
}

// ---- What libmicrohttpd calls. No exception may go through it. ----

MHD_Result HttpServer::Door::on_request(void* door, MHD_Connection* connection, const char* path, const char* method,
                                        const char*, const char* body, size_t* size, void**) noexcept {
  try {
    const std::string_view part(body, std::exchange(*size, 0));
    return static_cast<Door*>(door)->serve(connection, path, method, part);
  } catch (...) {  // no memory: the caller is hung up on
    return MHD_NO;
  }
}

void HttpServer::Door::on_sent(void* door, MHD_Connection* connection, void**, MHD_RequestTerminationCode) noexcept {
  Door& self = *static_cast<Door*>(door);
  const auto found = self.callers_.find(connection);
  if (found == self.callers_.end()) return;
  found->second.exchange.reset();
  found->second.stage = Stage::receiving;
  found->second.since = self.reactor_.now();
}

void HttpServer::Door::on_connection(void* door, MHD_Connection* connection, void**,
                                     MHD_ConnectionNotificationCode what) noexcept {
  Door& self = *static_cast<Door*>(door);
  if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
    self.callers_.erase(connection);
    return;
  }
  try {
    self.callers_[connection].since = self.reactor_.now();
  } catch (...) {  // no memory: serve() does not find it, and it is hung up on
  }
}

MHD_Result HttpServer::Door::serve(MHD_Connection* connection, const char* path, const char* method,
                                   std::string_view body) {
  const auto found = callers_.find(connection);
  if (found == callers_.end()) return MHD_NO;
  Caller& caller = found->second;
  if (!caller.exchange) return begin(connection, caller, path, method);
  if (!body.empty()) return receive(caller, body);
  return answer(connection, caller);
}

// The request without its body.
MHD_Result HttpServer::Door::begin(MHD_Connection* connection, Caller& caller, const char* path, const char* method) {
  const auto exchange = std::make_shared<Exchange>();
  exchange->connection = connection;
  exchange->wake = [this] {
    has_resumed_ = true;
    pump_at(reactor_.now());
  };
  exchange->request.method = method == std::string_view(MHD_HTTP_METHOD_HEAD) ? MHD_HTTP_METHOD_GET : method;
  exchange->request.path = path;
  exchange->request.query = query_of(connection);
  exchange->request.host = header_of(connection, MHD_HTTP_HEADER_HOST);
  caller.exchange = exchange;
  if (announced_size(connection) <= options_.most_body) return MHD_YES;
  exchange->response = too_long();
  return answer(connection, caller);
}

MHD_Result HttpServer::Door::receive(Caller& caller, std::string_view body) {
  Exchange& exchange = *caller.exchange;
  exchange.received += body.size();
  if (exchange.received <= options_.most_body) {
    exchange.request.body += body;
    return MHD_YES;
  }
  // It had announced no size. The answer comes after the body, which must not go on for ever.
  exchange.response = too_long();
  return exchange.received <= 2 * options_.most_body ? MHD_YES : MHD_NO;
}

// Once the request is whole, and again once it can be answered.
MHD_Result HttpServer::Door::answer(MHD_Connection* connection, Caller& caller) {
  const std::shared_ptr<Exchange> exchange = caller.exchange;
  if (is_ending_ && !exchange->response) {
    exchange->response = http_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the daemon ends");
  }
  if (!exchange->response && !exchange->is_asked) {
    if (const std::optional<Error> error = ask(handler_, exchange)) {
      failure_ = error->within("after its answer, a request to " + in_quotes(exchange->request.path));
    }
  }
  if (!exchange->response) {
    caller.stage = Stage::thinking;
    exchange->is_suspended = true;
    MHD_suspend_connection(connection);
    return MHD_YES;
  }
  caller.stage = Stage::sending;
  caller.since = reactor_.now();
  // It stays answered, though its words are gone.
  return send(connection, std::exchange(*exchange->response, HttpResponse()), !lets_in_);
}

HttpResponse HttpServer::Door::too_long() const {
  return http_error(MHD_HTTP_CONTENT_TOO_LARGE,
                    "the body is longer than " + std::to_string(options_.most_body) + " bytes");
}

// ---- What the reactor calls ----

void HttpServer::Door::accept() {
  while (!is_full()) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* const where = reinterpret_cast<sockaddr*>(&address);
    const int socket = accept4(listener_.get(), where, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      MHD_add_connection(daemon_.get(), socket, where, size);  // where it refuses, it has closed the socket
      continue;
    }
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) break;
    failure_ = run::system_error("an HTTP call was not answered");
    // Descriptors or memory are short. The call stays in the queue, and would wake us again at once.
    pause_ = reactor_.after(kPause, [this] {
      pause_.reset();
      pump();
    });
    break;
  }
  pump();
}

void HttpServer::Door::pump() {
  has_resumed_ = false;
  MHD_run(daemon_.get());
  arrange();
}

// What to wait for from now on. Throws what went wrong before, for the reactor to tell.
void HttpServer::Door::arrange() {
  listen(lets_in_ && !is_full() && !pause_);
  MHD_UNSIGNED_LONG_LONG milliseconds = 0;
  std::optional<TimePoint> next;
  if (has_resumed_) next = reactor_.now();
  if (MHD_get_timeout(daemon_.get(), &milliseconds) == MHD_YES) {
    next = reactor_.now() + std::chrono::milliseconds(milliseconds);  // 0: what was read already is not done yet
  }
  for (const auto& [connection, caller] : callers_) {
    const std::optional<TimePoint> end = deadline(caller);
    if (end && (!next || *end < *next)) next = end;
  }
  if (next) {
    pump_at(*next);
  } else if (timer_) {
    reactor_.cancel(*timer_);
    timer_.reset();
  }
  if (failure_) throw Error(*std::exchange(failure_, std::nullopt));
}

// In place of the moment that was meant before.
void HttpServer::Door::pump_at(TimePoint when) {
  if (timer_) reactor_.cancel(*timer_);
  timer_.reset();
  timer_ = reactor_.at(when, [this] {
    timer_.reset();
    hang_up_on_slow_ones();
    pump();
  });
}

void HttpServer::Door::listen(bool shall_listen) {
  if (shall_listen == is_listening_) return;
  if (shall_listen) {
    reactor_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept(); });
  } else {
    reactor_.forget(listener_.get());
  }
  is_listening_ = shall_listen;
}

void HttpServer::Door::hang_up_on_slow_ones() {
  const TimePoint now = reactor_.now();
  for (auto& [connection, caller] : callers_) {
    const std::optional<TimePoint> end = deadline(caller);
    if (!end || *end > now) continue;
    caller.is_hung_up = true;
    shutdown(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd, SHUT_RDWR);
  }
}

std::optional<TimePoint> HttpServer::Door::deadline(const Caller& caller) const {
  if (caller.stage == Stage::thinking || caller.is_hung_up) return std::nullopt;
  if (!is_full() && lets_in_) return caller.since + options_.timeout;
  const auto hurry = caller.stage == Stage::receiving ? options_.hurry : options_.answer_hurry;
  return caller.since + std::min(hurry, options_.timeout);
}

HttpServer::HttpServer(run::Reactor& reactor, Options options) : reactor_(reactor), options_(options) {}
HttpServer::~HttpServer() = default;

void HttpServer::let_in(bool shall_let_in) {
  for (const std::unique_ptr<Door>& door : doors_) door->let_in(shall_let_in);
}

void HttpServer::close_doors() {
  for (const std::unique_ptr<Door>& door : doors_) door->close();
}

void HttpServer::serve(run::FileDescriptor listener, Handler handler) {
  doors_.push_back(std::make_unique<Door>(reactor_, options_, std::move(listener), std::move(handler)));
}

}  // namespace banyan::service
