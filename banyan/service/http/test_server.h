// A server with a thread of its own, and callers by plain sockets, for tests.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cctype>
#include <future>
#include <mutex>

#include "banyan/base/check.h"
#include "banyan/service/http/server.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {

enum class Family { unix_socket, tcp };

inline sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  CHECK(path.size() < sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// One that a server may be given: of a path, or of a port of the loopback that was free.
inline run::FileDescriptor listener_at(const std::string& path) {
  run::FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_un address = address_of(path);
  CHECK(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) << std::strerror(errno);
  CHECK(listen(socket.get(), 128) == 0);
  return socket;
}
inline std::pair<run::FileDescriptor, uint16_t> listener_on_loopback() {
  run::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(listen(socket.get(), 128) == 0);
  socklen_t size = sizeof address;
  CHECK(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return {std::move(socket), ntohs(address.sin_port)};
}

struct Answer {
  int status = 0;  // 0: the connection ended before there was one
  std::string head, body;
};

// A caller that says byte for byte what it is told to.
class Caller {
 public:
  explicit Caller(int family) : socket_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) { CHECK(socket_.is_open()); }
  void reach(const sockaddr* address, socklen_t size) {
    CHECK(connect(socket_.get(), address, size) == 0) << std::strerror(errno);
  }
  void reach(const sockaddr_un& address) { reach(reinterpret_cast<const sockaddr*>(&address), sizeof address); }
  void reach(const sockaddr_in& address) { reach(reinterpret_cast<const sockaddr*>(&address), sizeof address); }
  // False when the other side has hung up.
  bool say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
  }
  // The next one, of which the head says the length; `is_head`: which has no body though.
  Answer hear(bool is_head = false) {
    Answer answer;
    while (heard_.find("\r\n\r\n") == std::string::npos) {
      if (!read_more()) return answer;
    }
    const size_t end = heard_.find("\r\n\r\n") + 4;
    answer.head = heard_.substr(0, end);
    CHECK(answer.head.starts_with("HTTP/1.")) << answer.head;
    answer.status = std::stoi(answer.head.substr(9, 3));
    if (answer.status == 100) {
      heard_.erase(0, end);
      return hear(is_head);
    }
    const size_t length = is_head ? 0 : length_of(answer.head);
    while (heard_.size() < end + length) {
      if (!read_more()) return Answer();
    }
    answer.body = heard_.substr(end, length);
    heard_.erase(0, end + length);
    return answer;
  }
  // Whether the other side hangs up within `patience`, saying nothing before.
  bool is_hung_up_on(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(patience.count())) <= 0) return false;
    char byte = 0;
    return recv(socket_.get(), &byte, 1, 0) <= 0;
  }
  void hang_up() { socket_.reset(); }

 private:
  static size_t length_of(std::string head) {
    std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) { return std::tolower(c); });
    const size_t at = head.find("content-length: ");
    CHECK(at != std::string::npos) << head;
    return std::stoul(head.substr(at + 16));
  }
  bool read_more() {
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    CHECK(poll(&ready, 1, 20'000) > 0) << "nothing is said for 20 s";
    char bytes[65536];
    const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
    if (count > 0) heard_.append(bytes, static_cast<size_t>(count));
    return count > 0;
  }

  run::FileDescriptor socket_;
  std::string heard_;
};

// A server with one listening socket.
class TestServer {
 public:
  TestServer(Family family, HttpServer::Handler handler, HttpServer::Options options = {}) : family_(family) {
    server_.emplace(reactor_, options);
    if (family == Family::unix_socket) {
      server_->serve(listener_at(path()), std::move(handler));
    } else {
      auto [listener, port] = listener_on_loopback();
      port_ = port;
      server_->serve(std::move(listener), std::move(handler));
    }
    thread_ = std::thread([this] {
      reactor_.run([this](const Error& error) {
        const std::lock_guard lock(mutex_);
        failures_.emplace_back(error.what());
      });
    });
  }
  ~TestServer() {
    end();
    reactor_.stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string path() const { return folder_.path() + "/socket"; }
  std::string url() const {
    return family_ == Family::unix_socket ? "unix:" + path() : "http://127.0.0.1:" + std::to_string(port_);
  }
  Caller call() const {
    Caller caller(family_ == Family::unix_socket ? AF_UNIX : AF_INET);
    reach(caller);
    return caller;
  }
  void reach(Caller& caller) const {
    if (family_ == Family::unix_socket) {
      caller.reach(address_of(path()));
    } else {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      address.sin_port = htons(port_);
      caller.reach(address);
    }
  }
  // What the answer is to a whole request.
  Answer ask(const std::string& request) const {
    Caller caller = call();
    caller.say(request);
    return caller.hear();
  }

  run::Reactor& reactor() { return reactor_; }
  // On the server's thread, and waits for it.
  template <typename Body>
  void on_thread(Body body) {
    std::promise<void> done;
    reactor_.mailbox()->post([&] {
      body();
      done.set_value();
    });
    done.get_future().get();
  }
  void let_in(bool shall_let_in) {
    on_thread([&] { server_->let_in(shall_let_in); });
  }
  void close_doors() {
    on_thread([&] { server_->close_doors(); });
  }
  // By TCP.
  bool is_reachable() const {
    const run::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port_);
    return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  // Ends the server; its thread goes on.
  void end() {
    on_thread([this] { server_.reset(); });
  }
  // What was thrown to the reactor.
  std::vector<std::string> failures() {
    on_thread([] {});
    const std::lock_guard lock(mutex_);
    return failures_;
  }

 private:
  const Family family_;
  const testing::TemporaryFolder folder_;
  run::Reactor reactor_;
  std::optional<HttpServer> server_;
  uint16_t port_ = 0;
  std::mutex mutex_;  // protects failures_
  std::vector<std::string> failures_;
  std::thread thread_;
};

}  // namespace banyan::service
