// For tests of transports that take their sockets from a Connector.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

// Passes on the answers that it is given.
class AnsweringConnector : public Connector {
 public:
  std::vector<Answer> take() override {
    eventfd_t count = 0;
    eventfd_read(event_.get(), &count);
    return std::exchange(answers_, {});
  }
  int event_fd() const override { return event_.get(); }

  void answer(Answer answer) {
    answers_.push_back(std::move(answer));
    eventfd_write(event_.get(), 1);
  }

 private:
  std::vector<Answer> answers_;
  FileDescriptor event_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

// Answers at once.
class ReadyConnector : public AnsweringConnector {
 public:
  explicit ReadyConnector(std::vector<FileDescriptor> sockets) : sockets_(std::move(sockets)) {}

  void request(uint32_t peer, uint32_t lane, const Path& /*path*/) override {
    Answer ready{.peer = peer, .lane = lane, .socket = {}, .failure = {}};
    if (lane == 0 && sockets_.at(peer).is_open()) {
      ready.socket = std::move(sockets_.at(peer));
    } else {
      ready.failure = Error(ErrorCode::timed_out, "rank " + std::to_string(peer) + " did not answer");
    }
    answer(std::move(ready));
  }

 protected:
  void give(std::vector<FileDescriptor> sockets) { sockets_ = std::move(sockets); }

 private:
  std::vector<FileDescriptor> sockets_;  // by peer
};

// Two connected sockets, by TCP on this machine: of AF_INET or AF_INET6.
inline std::array<FileDescriptor, 2> make_tcp_pair(int family = AF_INET) {
  const FileDescriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::array<FileDescriptor, 2> ends;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  auto* const here = family == AF_INET ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
  socklen_t size = family == AF_INET ? sizeof four : sizeof six;
  ends[0] = FileDescriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), here, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), here, &size) != 0 || connect(ends[0].get(), here, size) != 0) {
    throw system_error("cannot connect the ranks of a test");
  }
  ends[1] = FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const int flags = fcntl(ends[0].get(), F_GETFL);
  if (!ends[1].is_open() || fcntl(ends[0].get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    throw system_error("cannot connect the ranks of a test");
  }
  return ends;
}

// Joins ranks that live in one process, any lane of any two, by pairs of sockets. Any thread.
class Switchboard {
 public:
  enum class Kind : uint8_t { local, tcp };
  explicit Switchboard(Kind kind = Kind::local)
      : make_pair_([kind] { return kind == Kind::tcp ? make_tcp_pair() : make_local_pair(); }) {}
  explicit Switchboard(std::function<std::array<FileDescriptor, 2>()> make_pair) : make_pair_(std::move(make_pair)) {}

  static std::array<FileDescriptor, 2> make_local_pair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
      throw system_error("cannot connect the ranks of a test");
    }
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
  }

  std::unique_ptr<Connector> connector(uint32_t rank) { return std::make_unique<Cord>(*this, rank); }

 private:
  class Cord : public AnsweringConnector {
   public:
    Cord(Switchboard& board, uint32_t rank) : board_(board), rank_(rank) {}
    void request(uint32_t peer, uint32_t lane, const Path&) override {
      answer({.peer = peer, .lane = lane, .socket = board_.end_of(rank_, peer, lane), .failure = {}});
    }

   private:
    Switchboard& board_;
    const uint32_t rank_;
  };

  // Whoever asks first gets one end, and leaves the other one here.
  FileDescriptor end_of(uint32_t rank, uint32_t peer, uint32_t lane) {
    const std::lock_guard lock(mutex_);
    const auto key = std::tuple(std::min(rank, peer), std::max(rank, peer), lane);
    if (const auto found = waiting_.find(key); found != waiting_.end()) {
      FileDescriptor end = std::move(found->second);
      waiting_.erase(found);
      return end;
    }
    std::array<FileDescriptor, 2> ends = make_pair_();
    waiting_.emplace(key, std::move(ends[1]));
    return std::move(ends[0]);
  }
  const std::function<std::array<FileDescriptor, 2>()> make_pair_;
  std::mutex mutex_;                                                            // protects waiting_
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, FileDescriptor> waiting_;  // by the ranks and the lane
};

// How processes that are forked after it was made connect with each other, by TCP on this machine.
class MeetingPoint {
 public:
  explicit MeetingPoint(uint32_t ranks) : listeners_(ranks) {
    for (FileDescriptor& listener : listeners_) {
      listener = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_in here{};
      here.sin_family = AF_INET;
      here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      demand(bind(listener.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here));
      demand(listen(listener.get(), static_cast<int>(ranks)));
    }
  }

  // In the process that is this rank; waits for all others. It has no ends but its own, so that its death ends its
  // connections.
  std::vector<FileDescriptor> connect(uint32_t rank) {
    const auto ranks = static_cast<uint32_t>(listeners_.size());
    std::vector<FileDescriptor> sockets(ranks);
    for (uint32_t peer = 0; peer < rank; ++peer) {
      sockaddr_in there{};
      socklen_t size = sizeof there;
      demand(getsockname(listeners_[peer].get(), reinterpret_cast<sockaddr*>(&there), &size));
      sockets[peer] = FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      demand(::connect(sockets[peer].get(), reinterpret_cast<const sockaddr*>(&there), size));
      demand(send(sockets[peer].get(), &rank, sizeof rank, MSG_NOSIGNAL) == sizeof rank ? 0 : -1);
    }
    for (uint32_t later = rank + 1; later < ranks; ++later) {
      FileDescriptor socket(accept4(listeners_[rank].get(), nullptr, nullptr, SOCK_CLOEXEC));
      uint32_t peer = 0;
      demand(recv(socket.get(), &peer, sizeof peer, MSG_WAITALL) == sizeof peer ? 0 : -1);
      sockets.at(peer) = std::move(socket);
    }
    listeners_.clear();
    return sockets;
  }
  std::unique_ptr<Connector> connector(uint32_t rank) { return std::make_unique<ReadyConnector>(connect(rank)); }

 private:
  static void demand(int result) {
    if (result != 0) throw system_error("cannot connect the processes of a test");
  }

  std::vector<FileDescriptor> listeners_;  // by rank
};

}  // namespace banyan::run
