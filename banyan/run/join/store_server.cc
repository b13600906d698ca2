#include "banyan/run/join/store_server.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "banyan/base/error.h"

namespace banyan {

StoreServer::StoreServer(Listener listener, Secret secret, Options options)
    : options_(std::move(options)),
      port_(listener.port()),
      table_(options_.max_memory,
             [this](uint64_t client, StoreTable::Reply answer) { reply(client, std::move(answer)); }),
      reception_(std::make_unique<Reception>(
          reactor_, std::move(listener), std::move(secret), options_.reception,
          [this](const Greeting& greeting, FileDescriptor& socket) { return admit(greeting, socket); })) {
  thread_ = std::thread([this] { reactor_.run(); });
}

StoreServer::~StoreServer() {
  reactor_.stop();
  thread_.join();
}

bool StoreServer::finish(const Deadline& deadline) {
  const auto empty = std::make_shared<std::promise<void>>();
  std::future<void> done = empty->get_future();
  reactor_.mailbox()->post([this, empty] {
    const std::lock_guard lock(mutex_);
    if (reception_ != nullptr) refusals_ = reception_->refusals();
    reception_.reset();
    empty_ = empty;
    tell_when_empty();
  });
  return done.wait_until(deadline.at()) == std::future_status::ready;
}

Reception::Refusals StoreServer::refusals() const {
  const std::lock_guard lock(mutex_);
  return reception_ == nullptr ? refusals_ : reception_->refusals();
}

std::optional<std::string> StoreServer::admit(const Greeting& greeting, FileDescriptor& socket) {
  if (greeting.purpose != "store") return "a caller wants '" + greeting.purpose + "', and this is a store";
  const uint64_t number = next_visitor_++;
  const int fd = socket.get();
  Visitor& visitor = visitors_[number];
  visitor.socket = std::move(socket);
  const bool is_ours = greeting.payload == options_.job;
  visitor.is_leaving = !is_ours;
  // Its number is that of no request.
  constexpr size_t kWelcome = sizeof(uint32_t) + sizeof(StoreOutcome);
  const auto outcome = static_cast<char>(is_ours ? StoreOutcome::done : StoreOutcome::absent);
  reactor_.watch(fd, EPOLLIN, [this, number](uint32_t events) { serve(number, events); });
  reply(number, {.head = frame_head(kWelcome) + std::string(sizeof(uint32_t), '\0') + outcome, .value = nullptr});
  if (is_ours) return {};
  reactor_.mailbox()->post([this, number] { answer_requests(number); });  // not here: it would be dropped at once
  return "a caller is of job '" + greeting.payload + "', and this is job '" + options_.job + "'";
}

void StoreServer::serve(uint64_t number, uint32_t events) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  Visitor& visitor = found->second;
  if ((events & EPOLLOUT) != 0 && visitor.is_sending && !send_reply(visitor)) return drop(number);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !visitor.is_sending && !receive(number, visitor)) {
    return drop(number);
  }
  answer_requests(number);
}

bool StoreServer::receive(uint64_t number, Visitor& visitor) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t count = recv(visitor.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  visitor.requests.append({buffer.data(), static_cast<size_t>(count)});
  table_.forget(number);  // it says something new, or has begun to
  return true;
}

// One after the other: who does not take its reply gets no other, so that little is kept for it.
void StoreServer::answer_requests(uint64_t number) {
  try {
    while (true) {
      const auto found = visitors_.find(number);
      if (found == visitors_.end()) return;
      Visitor& visitor = found->second;
      if (visitor.is_sending) return watch_for(visitor, EPOLLOUT);
      if (visitor.is_leaving) return drop(number);
      const std::optional<std::string> frame = visitor.requests.next();
      if (!frame) return watch_for(visitor, EPOLLIN);
      table_.request(number, *frame);
    }
  } catch (const Error&) {  // a member of the job that speaks nonsense; it will say so itself when we hang up
    drop(number);
  }
}

void StoreServer::reply(uint64_t number, StoreTable::Reply reply) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  Visitor& visitor = found->second;
  visitor.reply = std::move(reply);
  visitor.sent = 0;
  visitor.is_sending = true;
  if (!send_reply(visitor)) {
    // Not here: a table may be answering many.
    reactor_.mailbox()->post([this, number] { drop(number); });
  } else if (visitor.is_sending) {
    watch_for(visitor, EPOLLOUT);
  }
}

void StoreServer::watch_for(Visitor& visitor, uint32_t events) {
  if (visitor.watched_for == events) return;
  reactor_.change(visitor.socket.get(), events);
  visitor.watched_for = events;
}

// False when it cannot be sent any more.
bool StoreServer::send_reply(Visitor& visitor) {
  static const std::string kNothing;
  const std::string& head = visitor.reply.head;
  const std::string& value = visitor.reply.value == nullptr ? kNothing : *visitor.reply.value;
  while (visitor.sent < head.size() + value.size()) {
    const bool in_head = visitor.sent < head.size();
    const std::string_view rest = in_head ? std::string_view(head).substr(visitor.sent)
                                          : std::string_view(value).substr(visitor.sent - head.size());
    const int more = in_head && !value.empty() ? MSG_MORE : 0;
    const ssize_t sent = send(visitor.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | more);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    visitor.sent += static_cast<size_t>(sent);
  }
  visitor.reply = {};
  visitor.is_sending = false;
  return true;
}

void StoreServer::drop(uint64_t number) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  reactor_.forget(found->second.socket.get());
  visitors_.erase(found);
  table_.forget(number);
  tell_when_empty();
}

void StoreServer::tell_when_empty() {
  if (empty_ == nullptr || !visitors_.empty()) return;
  empty_->set_value();
  empty_ = nullptr;
}

}  // namespace banyan
