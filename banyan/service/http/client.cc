#include "banyan/service/http/client.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/socket_owner.h"

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

void expect(CURLcode code) {
  if (code == CURLE_OUT_OF_MEMORY) throw out_of_memory();
  if (code != CURLE_OK) throw Error(ErrorCode::io, std::string("libcurl: ") + curl_easy_strerror(code));
}

// No exception may go through libcurl, which calls this.
size_t take_bytes(char* bytes, size_t, size_t count, void* into) noexcept {
  auto& answer = *static_cast<std::string*>(into);
  if (answer.size() + count > kLongestAnswer) return 0;
  try {
    answer.append(bytes, count);
  } catch (const std::exception&) {
    return 0;
  }
  return count;
}

struct CloseEasy {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
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
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

class Request {
 public:
  Request(const Place& place, const std::string& method, const std::string& target, const std::string& body,
          std::chrono::milliseconds at_most);
  HttpResponse carry_out(const std::string& url, std::chrono::milliseconds at_most);

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    expect(curl_easy_setopt(easy_.get(), option, value));
  }
  [[noreturn]] void refuse(CURLcode why, const std::string& url, std::chrono::milliseconds at_most) const;

  Caller caller_;
  std::unique_ptr<CURL, CloseEasy> easy_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  std::array<char, CURL_ERROR_SIZE> problem_{};
  std::string answer_;
};

// Borrows `body`.
Request::Request(const Place& place, const std::string& method, const std::string& target, const std::string& body,
                 std::chrono::milliseconds at_most) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  expect(ready);
  easy_.reset(curl_easy_init());
  headers_.reset(curl_slist_append(nullptr, "Content-Type: application/json"));
  if (!easy_ || !headers_) throw out_of_memory();
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http");
  set(CURLOPT_NOPROXY, "*");  // a proxy of the environment is for other hosts
  if (!place.socket.empty()) {
    caller_.path = place.socket;
    set(CURLOPT_UNIX_SOCKET_PATH, place.socket.c_str());
    set(CURLOPT_OPENSOCKETFUNCTION, &make_socket);
    set(CURLOPT_OPENSOCKETDATA, &caller_);
    set(CURLOPT_PREREQFUNCTION, &look_who_listens);
    set(CURLOPT_PREREQDATA, &caller_);
  }
  set(CURLOPT_PATH_AS_IS, 1L);
  set(CURLOPT_URL, (place.base + target).c_str());
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(std::max<int64_t>(at_most.count(), 1)));
  set(CURLOPT_ERRORBUFFER, problem_.data());
  set(CURLOPT_WRITEFUNCTION, &take_bytes);
  set(CURLOPT_WRITEDATA, &answer_);
  if (method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (method != "GET" || !body.empty()) {
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_POSTFIELDS, body.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_CUSTOMREQUEST, method.c_str());
  }
}

HttpResponse Request::carry_out(const std::string& url, std::chrono::milliseconds at_most) {
  if (const CURLcode code = curl_easy_perform(easy_.get()); code != CURLE_OK) refuse(code, url, at_most);
  long status = 0;
  const char* type = nullptr;
  expect(curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status));
  expect(curl_easy_getinfo(easy_.get(), CURLINFO_CONTENT_TYPE, &type));
  return {.status = static_cast<int>(status), .type = type == nullptr ? "" : type, .body = std::move(answer_)};
}

void Request::refuse(CURLcode why, const std::string& url, std::chrono::milliseconds at_most) const {
  if (caller_.refusal) throw Error(*caller_.refusal);
  const std::string detail = problem_[0] != 0 ? problem_.data() : curl_easy_strerror(why);
  long number = 0;
  expect(curl_easy_getinfo(easy_.get(), CURLINFO_OS_ERRNO, &number));
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
