#include "banyan/run/join/store_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/store_table.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/seal.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {
namespace {

// The client of the table for what the server does itself.
constexpr uint64_t kSelf = UINT64_MAX;
// How long a process is waited for that has hung up, or whose connection has broken; and a process of this host, which
// lives as the kernel says.
constexpr std::chrono::milliseconds kAbsence{600}, kAbsenceOfLiving{5000}, kLookAfter{20};
constexpr size_t kPiece = size_t{128} << 10;  // of a reply, sealed at once

}  // namespace

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
    Visitor(FileDescriptor at, const SessionKeys& keys)
        : socket(std::move(at)), opener(keys.receiving), sealer(keys.sending) {}

    FileDescriptor socket;
    StreamOpener opener;
    StreamSealer sealer;
    FrameReader requests;
    StoreTable::Reply reply;  // being sent
    size_t sealed = 0;        // of its bytes
    std::string out;          // those, not sent yet
    bool is_sending = false;
    uint32_t watched_for = EPOLLIN;
    bool is_leaving = false;  // it is hung up on when all is sent
    std::string name;         // once it has said it
    std::string why_gone;     // errno of its connection, in words; empty where it hung up itself
  };
  // A process that visits, maybe by several connections one after the other.
  struct Guest {
    std::optional<uint64_t> visitor;
    uint32_t answered = 0;      // number of the last request
    StoreTable::Reply reply{};  // to that
    std::optional<LastWill> will;
    bool has_hung_up = false;  // itself, rather than that its connection broke
    std::optional<Deadline> end;
    Alarm look;
  };

  std::optional<std::string> admit(const Greeting& greeting, Admitted& connection);
  void serve(uint64_t number, uint32_t events);
  void serve(uint64_t number, Visitor& visitor, uint32_t events);
  // False when the visitor is gone.
  bool receive(uint64_t number, Visitor& visitor);
  bool send_reply(Visitor& visitor);
  void answer_requests(uint64_t number);
  void watch_for(Visitor& visitor, uint32_t events);
  void reply(uint64_t number, StoreTable::Reply reply);
  void drop(uint64_t number);
  void finish_when_empty();
  void close_door();
  // True when the request is none of the table's.
  bool is_for_guest(uint64_t number, const std::string& frame);
  void call(uint64_t number, WireReader& reader);
  void leave_will(Guest& guest, WireReader& reader);
  void answer(uint64_t number, uint32_t request, StoreOutcome outcome);
  void miss(const std::string& name);
  bool is_over(const Guest& guest) const;
  void carry_out(const LastWill& will);

  const Options options_;
  const uint16_t port_;
  const pid_t owner_ = getpid();
  Reactor reactor_;
  StoreTable table_;
  std::unordered_map<uint64_t, Visitor> visitors_;
  uint64_t next_visitor_ = 0;
  std::unordered_map<std::string, Guest> guests_;  // by name
  const std::string host_id_ = own_host_id();
  std::string own_answer_;                     // of the table, to a request of the server itself
  std::shared_ptr<std::promise<void>> empty_;  // there when finish() has asked for it; it may have given up since
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
          reactor_, std::move(listener), std::move(secret), kStorePurpose, options_.acceptor,
          [this](const Greeting& greeting, Admitted& connection) { return admit(greeting, connection); })) {
  thread_ = start_thread("banyan-store", [this] {
    reactor_.run([](const Error& error) { BANYAN_LOG(warning) << "the meeting point: " << error.what(); });
  });
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
    empty_ = empty;
    for (auto next = guests_.begin(); next != guests_.end();) {
      const auto guest = next++;
      if (!guest->second.visitor && guest->second.has_hung_up) guests_.erase(guest);
    }
    finish_when_empty();
  });
  while (done.wait_for(deadline.next_sleep()) != std::future_status::ready) {
    if (deadline.has_passed()) return false;
  }
  return true;
}

Acceptor::Refusals StoreServer::Impl::refusals() const {
  const std::lock_guard lock(mutex_);
  return acceptor_ == nullptr ? refusals_ : acceptor_->refusals();
}

std::optional<std::string> StoreServer::Impl::admit(const Greeting& greeting, Admitted& connection) {
  const bool looks = greeting.purpose == kLookPurpose;
  if (greeting.purpose != kStorePurpose && !looks)
    return "a caller wants '" + greeting.purpose + "', and this is a store";
  const uint64_t number = next_visitor_++;
  const int fd = connection.socket.get();
  Visitor& visitor = visitors_.try_emplace(number, std::move(connection.socket), connection.keys).first->second;
  const bool is_ours = looks || greeting.payload == options_.job;
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
  try {
    serve(number, found->second, events);
  } catch (...) {  // it is served no more, and says so itself
    drop(number);
    throw;
  }
}

void StoreServer::Impl::serve(uint64_t number, Visitor& visitor, uint32_t events) {
  if ((events & EPOLLOUT) != 0 && visitor.is_sending && !send_reply(visitor)) return drop(number);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !visitor.is_sending && !receive(number, visitor)) {
    return drop(number);
  }
  answer_requests(number);
}

bool StoreServer::Impl::receive(uint64_t number, Visitor& visitor) {
  std::array<char, 64 * 1024> buffer;
  const ssize_t count = recv(visitor.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (count < 0) visitor.why_gone = std::strerror(errno);
  if (count == 0 && !visitor.opener.has_ended()) visitor.why_gone = "its connection was cut off";
  if (count <= 0) return false;
  std::string opened;
  try {
    visitor.opener.open({buffer.data(), static_cast<size_t>(count)}, opened);
  } catch (const Error& error) {  // somebody stands between, or memory is short
    visitor.why_gone = error.what();
    return false;
  }
  visitor.requests.append(opened);
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
      if (!is_for_guest(number, *frame)) table_.request(number, *frame);
    }
  } catch (const Error&) {  // a member of the job that speaks nonsense; it will say so itself when we hang up
    drop(number);
  }
}

void StoreServer::Impl::reply(uint64_t number, StoreTable::Reply reply) {
  if (number == kSelf) {
    own_answer_ = reply.value == nullptr ? "" : *reply.value;
    return;
  }
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  Visitor& visitor = found->second;
  if (const auto guest = guests_.find(visitor.name); guest != guests_.end()) {
    guest->second.answered = WireReader(std::string_view(reply.head).substr(FrameReader::kHead)).number<uint32_t>();
    guest->second.reply = reply;
  }
  visitor.reply = std::move(reply);
  visitor.sealed = 0;
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
  while (visitor.sealed < head.size() + value.size() || !visitor.out.empty()) {
    // Piece by piece: a large value is sent to many at once, and each has keys of its own.
    while (visitor.out.size() < kPiece && visitor.sealed < head.size() + value.size()) {
      const bool in_head = visitor.sealed < head.size();
      const std::string_view rest = in_head ? std::string_view(head).substr(visitor.sealed)
                                            : std::string_view(value).substr(visitor.sealed - head.size());
      const std::string_view piece = rest.substr(0, kPiece);
      visitor.sealer.seal(piece, visitor.out);
      visitor.sealed += piece.size();
    }
    const ssize_t sent = send(visitor.socket.get(), visitor.out.data(), visitor.out.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN;
    }
    visitor.out.erase(0, static_cast<size_t>(sent));
  }
  visitor.reply = {};
  visitor.is_sending = false;
  return true;
}

void StoreServer::Impl::drop(uint64_t number) {
  const auto found = visitors_.find(number);
  if (found == visitors_.end()) return;
  reactor_.forget(found->second.socket.get());
  const Visitor gone = std::move(found->second);
  visitors_.erase(found);
  table_.forget(number);
  if (const auto guest = guests_.find(gone.name); guest != guests_.end() && guest->second.visitor == number) {
    guest->second.visitor.reset();
    guest->second.has_hung_up = gone.why_gone.empty();
    guest->second.end = Deadline::after(kAbsence);
    if (empty_ != nullptr && guest->second.has_hung_up) {
      guests_.erase(guest);
    } else {
      miss(gone.name);
    }
  }
  finish_when_empty();
}

// ---- Processes that visit ----

bool StoreServer::Impl::is_for_guest(uint64_t number, const std::string& frame) {
  WireReader reader(frame);
  const uint32_t request = reader.number<uint32_t>();
  const auto verb = static_cast<StoreVerb>(reader.number<uint8_t>());
  if (verb == StoreVerb::call) {
    call(number, reader);
    return true;
  }
  const auto found = guests_.find(visitors_.at(number).name);
  if (found == guests_.end()) return false;
  Guest& guest = found->second;
  if (request == guest.answered && !guest.reply.head.empty()) {  // the reply was lost with the last connection
    reply(number, StoreTable::Reply(guest.reply));
    return true;
  }
  if (verb != StoreVerb::will) return false;
  leave_will(guest, reader);
  answer(number, request, StoreOutcome::done);
  return true;
}

void StoreServer::Impl::call(uint64_t number, WireReader& reader) {
  const std::string name = reader.text();
  const bool is_known = reader.number<uint8_t>() != 0;
  reader.end();
  const auto found = guests_.find(name);
  // It knew another host, or comes when this one goes.
  const bool is_stranger = found == guests_.end() && (is_known || empty_ != nullptr);
  if (name.empty() || is_stranger) {
    visitors_.at(number).is_leaving = true;
    return answer(number, 0, StoreOutcome::absent);
  }
  answer(number, 0, StoreOutcome::done);  // before it has a name: this is no reply to keep
  Guest& guest = guests_[name];
  guest.look.cancel();
  const std::optional<uint64_t> before = std::exchange(guest.visitor, number);
  visitors_.at(number).name = name;
  if (before) drop(*before);  // half of a connection, whose other half has broken
}

void StoreServer::Impl::leave_will(Guest& guest, WireReader& reader) {
  LastWill will;
  will.counter = reader.text();
  will.key = reader.text();
  will.value = reader.text();
  will.process.host_id = reader.text();
  will.process.pid = static_cast<int32_t>(reader.number<uint32_t>());
  will.process.start_time = reader.number<uint64_t>();
  reader.end();
  const auto is_key = [](const std::string& key) { return !key.empty() && key.size() <= Store::kMaxKey; };
  if (!is_key(will.counter) || !is_key(will.key)) throw Error(ErrorCode::invalid_input, "a will without keys");
  guest.will = std::move(will);
}

void StoreServer::Impl::answer(uint64_t number, uint32_t request, StoreOutcome outcome) {
  const std::string text = WireWriter().number(request).number(static_cast<uint8_t>(outcome)).take();
  reply(number, {.head = frame_head(text.size()) + text, .value = nullptr});
}

// Looks again and again whether the process of a broken connection calls, until it is over with it.
void StoreServer::Impl::miss(const std::string& name) {
  Guest& guest = guests_.at(name);
  if (!is_over(guest)) {
    guest.look.set_after(reactor_, kLookAfter, [this, name] { miss(name); });
    return;
  }
  const std::optional<LastWill> will = std::move(guest.will);
  guests_.erase(name);
  if (will) carry_out(*will);
  finish_when_empty();
}

// A broken connection is no end. Of processes of this host the kernel knows; of others, that they do not call again.
bool StoreServer::Impl::is_over(const Guest& guest) const {
  const bool is_here = guest.will && guest.will->process.host_id == host_id_;
  if (!is_here) return guest.end->has_passed();
  if (has_ended(guest.will->process.pid, guest.will->process.start_time)) return true;
  return guest.has_hung_up ? guest.end->has_passed() : guest.end->later(kAbsenceOfLiving).has_passed();
}

void StoreServer::Impl::carry_out(const LastWill& will) {
  const auto request = [](StoreVerb verb, const std::string& key) {
    return WireWriter().number(uint32_t{0}).number(static_cast<uint8_t>(verb)).text(key);
  };
  try {
    table_.request(kSelf, request(StoreVerb::add, will.counter).number(uint64_t{1}).take());
    if (own_answer_ == "1") table_.request(kSelf, request(StoreVerb::set, will.key).text(will.value).take());
  } catch (const Error&) {  // it was no will that can be carried out
  }
}

// A guest whose connection broke may have still to read something: it calls again, unless it has ended. Visitors that
// are no guests come too late, and would keep the server for as long as they like.
void StoreServer::Impl::finish_when_empty() {
  if (empty_ == nullptr || !guests_.empty()) return;
  close_door();
  empty_->set_value();
  empty_ = nullptr;
}

void StoreServer::Impl::close_door() {
  const std::lock_guard lock(mutex_);
  if (acceptor_ != nullptr) refusals_ = acceptor_->refusals();
  acceptor_.reset();
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
