#include "banyan/run/join/store_server.h"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/store_table.h"

namespace banyan::run {

class StoreServer::Impl {
 public:
  Impl(Listener listener, Secret secret, Options options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  bool is_ours() const { return getpid() == owner_; }
  uint16_t port() const { return port_; }
  bool finish(const Deadline& deadline);
  Acceptor::Refusals refusals() const;

 private:
  struct Visitor {
    FileDescriptor socket;
    FrameReader requests;
    StoreTable::Reply reply;  // being sent
    size_t sent = 0;
    bool is_sending = false;
    uint32_t watched_for = EPOLLIN;
    bool is_leaving = false;  // it is hung up on when all is sent
  };

  std::optional<std::string> admit(const Greeting& greeting, FileDescriptor& socket);
  void serve(uint64_t number, uint32_t events);
  // False when the visitor is gone.
  bool receive(uint64_t number, Visitor& visitor);
  bool send_reply(Visitor& visitor);
  void answer_requests(uint64_t number);
  void watch_for(Visitor& visitor, uint32_t events);
  void reply(uint64_t number, StoreTable::Reply reply);
  void drop(uint64_t number);
  void tell_when_empty();

  const Options options_;
  const uint16_t port_;
  const pid_t owner_ = getpid();
  Reactor reactor_;
  StoreTable table_;
  std::unordered_map<uint64_t, Visitor> visitors_;
  uint64_t next_visitor_ = 0;
  std::shared_ptr<std::promise<void>> empty_;  // asked for by finish(), which may have given up since
  mutable std::mutex mutex_;                   // protects what follows, while it lives and when it ends
  std::unique_ptr<Acceptor> acceptor_;
  Acceptor::Refusals refusals_;  // when there is no acceptor any more
  std::thread thread_;
};

StoreServer::Impl::Impl(Listener listener, Secret secret, Options options)
    : options_(std::move(options)),
      port_(listener.port()),
      table_(options_.max_memory,
             [this](uint64_t client, StoreTable::Reply answer) { reply(client, std::move(answer)); }),
      acceptor_(std::make_unique<Acceptor>(
          reactor_, std::move(listener), std::move(secret), options_.acceptor,
          [this](const Greeting& greeting, FileDescriptor& socket) { return admit(greeting, socket); })) {
  sigset_t all, before;  // signals are for the threads of the application
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { reactor_.run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StoreServer::Impl::~Impl() {
  reactor_.stop();
  thread_.join();
}

bool StoreServer::Impl::finish(const Deadline& deadline) {
  if (!is_ours()) return true;
  const auto empty = std::make_shared<std::promise<void>>();
  std::future<void> done = empty->get_future();
  reactor_.mailbox()->post([this, empty] {
    const std::lock_guard lock(mutex_);
    if (acceptor_ != nullptr) refusals_ = acceptor_->refusals();
    acceptor_.reset();
    empty_ = empty;
    tell_when_empty();
  });
  return done.wait_until(deadline.at()) == std::future_status::ready;
}

Acceptor::Refusals StoreServer::Impl::refusals() const {
  const std::lock_guard lock(mutex_);
  return acceptor_ == nullptr ? refusals_ : acceptor_->refusals();
}

std::optional<std::string> StoreServer::Impl::admit(const Greeting& greeting, FileDescriptor& socket) {
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

void StoreServer::Impl::serve(uint64_t number, uint32_t events) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  Visitor& visitor = found->second;
  if ((events & EPOLLOUT) != 0 && visitor.is_sending && !send_reply(visitor)) return drop(number);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !visitor.is_sending && !receive(number, visitor)) {
    return drop(number);
  }
  answer_requests(number);
}

bool StoreServer::Impl::receive(uint64_t number, Visitor& visitor) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t count = recv(visitor.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  visitor.requests.append({buffer.data(), static_cast<size_t>(count)});
  table_.forget(number);  // it says something new, or has begun to
  return true;
}

// One after the other: who does not take its reply gets no other, so that little is kept for it.
void StoreServer::Impl::answer_requests(uint64_t number) {
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

void StoreServer::Impl::reply(uint64_t number, StoreTable::Reply reply) {
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

void StoreServer::Impl::watch_for(Visitor& visitor, uint32_t events) {
  if (visitor.watched_for == events) return;
  reactor_.change(visitor.socket.get(), events);
  visitor.watched_for = events;
}

// False when it cannot be sent any more.
bool StoreServer::Impl::send_reply(Visitor& visitor) {
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

void StoreServer::Impl::drop(uint64_t number) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  reactor_.forget(found->second.socket.get());
  visitors_.erase(found);
  table_.forget(number);
  tell_when_empty();
}

void StoreServer::Impl::tell_when_empty() {
  if (empty_ == nullptr || !visitors_.empty()) return;
  empty_->set_value();
  empty_ = nullptr;
}

StoreServer::StoreServer(Listener listener, Secret secret, Options options)
    : impl_(std::make_unique<Impl>(std::move(listener), std::move(secret), std::move(options))) {}

StoreServer::~StoreServer() {
  // The thread is not here, and what it watches is shared with it.
  if (!impl_->is_ours()) static_cast<void>(impl_.release());
}

uint16_t StoreServer::port() const { return impl_->port(); }
bool StoreServer::finish(const Deadline& deadline) { return impl_->finish(deadline); }
Acceptor::Refusals StoreServer::refusals() const { return impl_->refusals(); }

}  // namespace banyan::run
