#include "banyan/run/agent/links.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "banyan/run/join/wire.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr size_t kHeadBytes = 5;  // length of the body, kind
constexpr std::chrono::milliseconds kFirstPause{5}, kLongestPause{500};

std::string frame_of(const Message& message) {
  return WireWriter().number(static_cast<uint32_t>(message.body.size())).number(message.kind).take() + message.body;
}

void set_option(const FileDescriptor& socket, int level, int name, int value) {
  if (setsockopt(socket.get(), level, name, &value, sizeof value) != 0) {
    throw system_error("cannot prepare a connection");
  }
}

// So that TCP gives up on a peer whose host is gone, whether something is being sent or not.
void notice_loss(const FileDescriptor& socket, std::chrono::milliseconds after) {
  const int seconds = static_cast<int>(after.count() / 1000);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(after.count()));
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds / 3));
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 6));
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 4);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

std::string why_broken(int error, std::chrono::milliseconds lost_after) {
  if (error == 0 || error == ECONNRESET || error == EPIPE) return "it has closed its connection";
  if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
    return "its host has not answered for " + std::to_string(lost_after.count() / 1000) + " s";
  }
  return std::string("its connection failed: ") + std::strerror(error);
}

}  // namespace

Links::Links(Reactor& reactor, Calls& calls, Options options, std::vector<Peer> peers, Events events)
    : reactor_(reactor), calls_(calls), options_(options), entries_(peers.size()), events_(std::move(events)) {
  for (size_t rank = 0; rank < peers.size(); ++rank) entries_[rank].peer = std::move(peers[rank]);
}

Links::~Links() {
  for (Entry& entry : entries_) drop(entry);
}

void Links::send(uint32_t rank, Message message) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || rank == options_.own) return;
  std::string& queue = entry.links.empty() ? entry.waiting : entry.links.front()->out;
  if (queue.size() + message.body.size() > kMaxQueued) return;
  queue += frame_of(message);
  if (entry.links.empty()) {
    call(rank);
  } else {
    flush(*entry.links.front());
  }
}

void Links::call(uint32_t rank) {
  Entry& entry = entries_[rank];
  if (entry.is_closed || !entry.links.empty() || entry.call || entry.pause) return;
  entry.next_pause = kFirstPause;
  entry.calling_since = Reactor::Clock::now();
  call_again(rank);
}

void Links::call_again(uint32_t rank) {
  Entry& entry = entries_[rank];
  entry.pause.reset();
  entry.call = calls_.call(entry.peer.target, entry.peer.greeting,
                           [this, rank](Calls::Outcome outcome) { call_ended(rank, std::move(outcome)); });
}

void Links::call_ended(uint32_t rank, Calls::Outcome outcome) {
  Entry& entry = entries_[rank];
  entry.call.reset();
  if (outcome.socket.is_open()) {
    try {
      adopt(rank, std::move(outcome.socket));
      return;
    } catch (const Error& error) {  // no descriptors left, or it was reset already
      outcome.failure = error.what();
    }
  }
  entry.trouble = outcome.failure;
  if (!entry.links.empty()) return;  // it has called us meanwhile
  // Its listener was open before anybody knew of it, and goes with its process.
  if (outcome.nobody_listens || Reactor::Clock::now() - entry.calling_since > options_.lost_after) {
    lose(rank, "it cannot be reached (" + outcome.failure + ")");
    return;
  }
  entry.pause = reactor_.after(entry.next_pause, [this, rank] { call_again(rank); });
  entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
}

bool Links::adopt(uint32_t rank, FileDescriptor socket) {
  Entry& entry = entries_[rank];
  if (entry.is_closed) return false;
  const auto link = std::make_shared<Link>();
  link->socket = std::move(socket);
  notice_loss(link->socket, options_.lost_after);
  reactor_.watch(link->socket.get(), EPOLLIN, [this, rank, link](uint32_t events) { serve(rank, link, events); });
  entry.links.push_back(link);
  if (entry.links.size() > 1) return true;
  end_pause(entry);
  link->out = std::exchange(entry.waiting, {});
  flush(*link);
  events_.linked(rank);
  return true;
}

void Links::close(uint32_t rank) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
}

void Links::serve(uint32_t rank, const std::shared_ptr<Link>& link, uint32_t events) {
  if ((events & EPOLLOUT) != 0) flush(*link);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  std::optional<std::string> broken = read(rank, link);
  if (!broken) return;
  // Its last words may wait on the other link.
  const std::vector<std::shared_ptr<Link>> links = entries_[rank].links;
  for (const std::shared_ptr<Link>& other : links) {
    if (other != link && other->socket.is_open()) read(rank, other);
  }
  if (!entries_[rank].is_closed) lose(rank, *broken);
}

std::optional<std::string> Links::read(uint32_t rank, const std::shared_ptr<Link>& link) {
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t count = recv(link->socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {};
    if (count <= 0) return why_broken(count == 0 ? 0 : errno, options_.lost_after);
    link->in.append(buffer.data(), static_cast<size_t>(count));
    if (std::optional<std::string> broken = deliver(rank, link)) return broken;
    if (!link->socket.is_open()) return {};  // what it said made us close it
  }
}

std::optional<std::string> Links::deliver(uint32_t rank, const std::shared_ptr<Link>& link) {
  size_t begin = 0;
  std::optional<std::string> broken;
  while (link->in.size() - begin >= kHeadBytes && link->socket.is_open()) {
    WireReader head(std::string_view(link->in).substr(begin, kHeadBytes));
    const size_t size = head.number<uint32_t>();
    const uint8_t kind = head.number<uint8_t>();
    if (size > kMaxMessage) {
      broken = "it sends nonsense";
      break;
    }
    if (link->in.size() - begin < kHeadBytes + size) break;
    Message message{.kind = kind, .body = link->in.substr(begin + kHeadBytes, size)};
    begin += kHeadBytes + size;
    try {
      events_.received(rank, std::move(message));
    } catch (const Error& error) {
      broken = "it sends nonsense (" + error.message() + ")";
      break;
    }
  }
  link->in.erase(0, begin);
  return broken;
}

// A broken link is found out by reading.
void Links::flush(Link& link) {
  size_t done = 0;
  while (done < link.out.size()) {
    const ssize_t sent =
        ::send(link.socket.get(), link.out.data() + done, link.out.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) break;
    done += static_cast<size_t>(sent);
  }
  link.out.erase(0, done);
  if (link.awaits_room == !link.out.empty()) return;
  link.awaits_room = !link.out.empty();
  reactor_.change(link.socket.get(), link.awaits_room ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Links::lose(uint32_t rank, const std::string& why) {
  entries_[rank].is_closed = true;
  drop(entries_[rank]);
  events_.lost(rank, why);
}

void Links::end_pause(Entry& entry) {
  if (entry.pause) reactor_.cancel(*entry.pause);
  entry.pause.reset();
}

void Links::drop(Entry& entry) {
  for (const std::shared_ptr<Link>& link : entry.links) {
    reactor_.forget(link->socket.get());
    link->socket.reset();
  }
  entry.links.clear();
  entry.waiting.clear();
  if (entry.call) calls_.cancel(*entry.call);
  entry.call.reset();
  end_pause(entry);
}

}  // namespace banyan::run
