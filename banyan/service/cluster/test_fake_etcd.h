// A server in the place of etcd, which answers what the test wants.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/run/join/listener.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::service {

inline std::string answer_of(const std::string& body, const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         body;
}

// One request for each connection.
class FakeServer {
 public:
  // In the server's thread. An empty answer is none at all: the client gives up.
  using Answer = std::function<std::string(const std::string& path)>;

  explicit FakeServer(Answer answer)
      : answer_(std::move(answer)), listener_(run::Listener::on("127.0.0.1")), thread_([this] { serve(); }) {}
  ~FakeServer() {
    shutdown(listener_.fd(), SHUT_RDWR);
    thread_.join();
  }

  std::string place() const { return "127.0.0.1:" + std::to_string(listener_.port()); }
  std::string url() const { return "etcd://" + place() + "/banyan"; }
  // "/v3/kv/range", so far.
  std::vector<std::string> paths() const {
    const std::lock_guard lock(mutex_);
    return paths_;
  }
  std::ptrdiff_t count(const std::string& path) const {
    const std::vector<std::string> seen = paths();
    return std::count(seen.begin(), seen.end(), path);
  }
  // Of the last request to this path.
  std::string body(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = bodies_.find(path);
    return found == bodies_.end() ? "" : found->second;
  }

 private:
  void serve() {
    for (;;) {
      pollfd call{.fd = listener_.fd(), .events = POLLIN, .revents = 0};
      poll(&call, 1, -1);
      const run::FileDescriptor client(accept(listener_.fd(), nullptr, nullptr));
      if (!client.is_open() && errno == EAGAIN) continue;
      if (!client.is_open()) return;
      const std::string request = read_request(client.get());
      const size_t begin = request.find(' ') + 1;
      const std::string path = request.substr(begin, request.find(' ', begin) - begin);
      {
        const std::lock_guard lock(mutex_);
        paths_.push_back(path);
        bodies_[path] = request.substr(std::min(request.find("\r\n\r\n"), request.size()));
      }
      const std::string reply = answer_(path);
      send_all(client.get(), reply);
      char rest = 0;
      while (reply.empty() && recv(client.get(), &rest, 1, 0) > 0) continue;
    }
  }
  static std::string read_request(int client) {
    std::string request;
    for (;;) {
      const size_t head = request.find("\r\n\r\n");
      if (head != std::string::npos) {
        constexpr std::string_view kLength = "Content-Length: ";
        size_t length = 0;
        const size_t number = request.find(kLength) + kLength.size();
        std::from_chars(request.data() + number, request.data() + request.size(), length);
        if (request.size() >= head + 4 + length) return request;
      }
      char buffer[4096];
      const ssize_t got = recv(client, buffer, sizeof buffer, 0);
      if (got <= 0) return request;
      request.append(buffer, static_cast<size_t>(got));
    }
  }
  static void send_all(int client, std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the client has had enough
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }

  const Answer answer_;
  const run::Listener listener_;
  mutable std::mutex mutex_;  // protects what the test reads
  std::vector<std::string> paths_;
  std::map<std::string, std::string> bodies_;
  std::thread thread_;
};

}  // namespace banyan::service
