#include "banyan/service/http/client.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/run/system/socket_owner.h"
#include "banyan/service/http/curl_request.h"

namespace banyan::service {
namespace {

constexpr size_t kLongestAnswer = size_t{256} << 20;

struct Place {
  std::string socket;  // a path; empty: TCP
  std::string base;    // "http://localhost"
};

// "node1", "[::1]:9420", "10.0.0.1:9420": what may stand between "http://" and the path. libcurl reads it.
bool looks_like_host(std::string_view text) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos;
}

Place parse(const std::string& url) {
  constexpr std::string_view kUnix = "unix:", kHttp = "http://";
  const auto refuse = [&](const std::string& why) {
    throw invalid(in_quotes(url) + " " + why + "; write unix:PATH or http://HOST:PORT");
  };
  const std::string_view text = url;
  if (text.starts_with(kUnix)) {
    const std::string_view path = text.substr(kUnix.size());
    if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path) || path.find('\0') != std::string_view::npos) {
      refuse("is no path of a socket: it is empty, or longer than " +
             std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " characters");
    }
    return {.socket = std::string(path), .base = "http://localhost"};
  }
  if (!text.starts_with(kHttp)) refuse("is no place of a daemon");
  std::string_view host = text.substr(kHttp.size());
  if (host.ends_with('/')) host.remove_suffix(1);
  if (!looks_like_host(host)) refuse("names no host");
  return {.socket = "", .base = std::string(kHttp) + std::string(host)};
}

// The socket of a request, and whose it must be.
struct Caller {
  std::string path;  // of the daemon's socket
  int socket = -1;   // libcurl's
  std::optional<Error> refusal = {};
};
curl_socket_t make_socket(void* caller, curlsocktype, curl_sockaddr* address) noexcept {
  return static_cast<Caller*>(caller)->socket =
             ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}
// Once it is connected, before anything is said.
int look_who_listens(void* caller, char*, char*, int, int) noexcept {
  Caller& self = *static_cast<Caller*>(caller);
  try {
    run::expect_trusted(self.socket, self.path);
    return CURL_PREREQFUNC_OK;
  } catch (...) {
    self.refusal = current_error();
    return CURL_PREREQFUNC_ABORT;
  }
}

class Request {
 public:
  Request(const Place& place, const std::string& method, const std::string& target, const std::string& body,
          std::chrono::milliseconds at_most);
  HttpResponse carry_out(const std::string& url, std::chrono::milliseconds at_most);

 private:
  [[noreturn]] void refuse(CURLcode why, const std::string& url, std::chrono::milliseconds at_most) const;

  Caller caller_;
  CurlRequest request_{"http", kLongestAnswer};
};

// Borrows `body`.
Request::Request(const Place& place, const std::string& method, const std::string& target, const std::string& body,
                 std::chrono::milliseconds at_most) {
  if (!place.socket.empty()) {
    caller_.path = place.socket;
    request_.set(CURLOPT_UNIX_SOCKET_PATH, place.socket.c_str());
    request_.set(CURLOPT_OPENSOCKETFUNCTION, &make_socket);
    request_.set(CURLOPT_OPENSOCKETDATA, &caller_);
    request_.set(CURLOPT_PREREQFUNCTION, &look_who_listens);
    request_.set(CURLOPT_PREREQDATA, &caller_);
  }
  request_.set(CURLOPT_PATH_AS_IS, 1L);
  request_.set(CURLOPT_URL, (place.base + target).c_str());
  request_.set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(at_most.count(), 1)));
  if (method == "HEAD") {
    request_.set(CURLOPT_NOBODY, 1L);
  } else if (method != "GET" || !body.empty()) {
    request_.set_body(body);
    request_.set(CURLOPT_CUSTOMREQUEST, method.c_str());
  }
}

HttpResponse Request::carry_out(const std::string& url, std::chrono::milliseconds at_most) {
  if (const CURLcode code = curl_easy_perform(request_.handle()); code != CURLE_OK) refuse(code, url, at_most);
  const char* const type = request_.info<const char*>(CURLINFO_CONTENT_TYPE);
  return {.status = static_cast<int>(request_.info<long>(CURLINFO_RESPONSE_CODE)),
          .type = type == nullptr ? "" : type,
          .body = request_.take_answer()};
}

void Request::refuse(CURLcode why, const std::string& url, std::chrono::milliseconds at_most) const {
  if (caller_.refusal) throw Error(*caller_.refusal);
  const std::string detail = request_.problem(why);
  const long number = request_.info<long>(CURLINFO_OS_ERRNO);
  switch (why) {
    case CURLE_OUT_OF_MEMORY:
      throw out_of_memory();
    case CURLE_OPERATION_TIMEDOUT:
      throw Error(ErrorCode::timed_out, "the daemon at " + in_quotes(url) + " has not answered within " +
                                            std::to_string(at_most.count()) + " ms; is its process stopped?");
    case CURLE_URL_MALFORMAT:
      throw invalid(in_quotes(url) + " is no place of a daemon: " + detail + "; write unix:PATH or http://HOST:PORT");
    case CURLE_WRITE_ERROR:
      throw Error(ErrorCode::io, "the answer of " + in_quotes(url) + " is longer than " +
                                     std::to_string(kLongestAnswer >> 20) + " MiB");
    case CURLE_COULDNT_CONNECT:
      if (number == EACCES || number == EPERM) {
        throw Error(ErrorCode::invalid_usage,
                    "this user may not use " + in_quotes(url) + "; ask as the user that runs the daemon, or as root");
      }
      [[fallthrough]];
    case CURLE_COULDNT_RESOLVE_HOST:
      throw Error(ErrorCode::not_found, "no daemon listens at " + in_quotes(url) +
                                            (caller_.path.empty() ? " (" + detail + ")" : "") +
                                            "; is banyand running? name its place by --at");
    default:
      throw Error(ErrorCode::io, "cannot ask the daemon at " + in_quotes(url) + ": " + detail);
  }
}

}  // namespace

HttpResponse http_ask(const std::string& url, const std::string& method, const std::string& target,
                      const std::string& body, std::chrono::milliseconds at_most) {
  CHECK(!method.empty() && method.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos) << method;
  CHECK(target.starts_with('/') &&
        std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; }))
      << target;
  const Place place = parse(url);
  return Request(place, method, target, body, at_most).carry_out(url, at_most);
}

}  // namespace banyan::service
