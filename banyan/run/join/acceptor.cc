#include "banyan/run/join/acceptor.h"

#include <sys/socket.h>

#include <atomic>
#include <utility>

#include "banyan/run/join/socket_address.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

std::atomic<uint64_t> not_proved = 0;

}  // namespace

uint64_t Acceptor::not_proved_in_process() { return not_proved; }

Acceptor::Acceptor(Reactor& reactor, Listener listener, Secret secret, std::string name, Options options, Admit admit)
    : reactor_(reactor),
      listener_(std::move(listener)),
      secret_(std::move(secret)),
      name_(std::move(name)),
      options_(std::move(options)),
      admit_(std::move(admit)) {
  listen();
}

Acceptor::~Acceptor() { close(); }

void Acceptor::close() noexcept {
  pause_.cancel();
  quiet_.cancel();
  reactor_.forget(listener_.fd());
  const Listener closed = std::move(listener_);
  for (Stranger& stranger : strangers_) reactor_.forget(stranger.handshake.fd());
  strangers_.clear();
}

Acceptor::Refusals Acceptor::refusals() const {
  const std::lock_guard lock(mutex_);
  return refusals_;
}

void Acceptor::listen() {
  reactor_.watch(listener_.fd(), EPOLLIN, [this](uint32_t) { answer(); });
}

void Acceptor::answer() {
  FileDescriptor socket(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) {
    const int error = errno;
    if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return;
    const Error why = system_error("a call was not answered", error);
    refuse(why.message());
    if (!strangers_.empty()) {
      dismiss(strangers_.begin(), "a caller was hung up on, as descriptors are short and it did not say who it is");
    } else if (options_.is_short && is_shortage(error)) {
      options_.is_short(why);
    }
    // The call stays in the queue, and would wake us again at once.
    reactor_.forget(listener_.fd());
    pause_.set_after(reactor_, std::chrono::milliseconds(100), [this] { listen(); });
    return;
  }
  if (strangers_.size() >= options_.stranger_limit) {
    dismiss(strangers_.begin(), "a caller was hung up on, as too many others called before it said who it is");
  }
  try {
    send_at_once(socket);
    const int fd = socket.get();
    const auto stranger = strangers_.emplace(strangers_.end(), Handshake::callee(std::move(socket), secret_, name_));
    stranger->timer.set_after(reactor_, options_.stranger_time, [this, stranger] {
      dismiss(stranger, "a caller was hung up on, as it did not say who it is");
    });
    reactor_.watch(fd, EPOLLIN, [this, stranger](uint32_t) { serve(stranger); });
    serve(stranger);
  } catch (...) {  // it hung up at once, or memory is short
    refuse(current_error().what());
  }
}

// A stranger of whom nothing can be made is hung up on.
void Acceptor::serve(Strangers::iterator stranger) {
  bool is_over = false;
  try {
    is_over = advance(stranger);
  } catch (...) {
    dismiss(stranger, current_error().what());
    return;
  }
  if (is_over) let_in(stranger);
}

// True when the caller has proved itself.
bool Acceptor::advance(Strangers::iterator stranger) {
  Handshake& handshake = stranger->handshake;
  const Handshake::State state = handshake.advance();
  if (state == Handshake::State::refused) throw Error(ErrorCode::invalid_input, handshake.refusal());
  if (state == Handshake::State::done) return true;
  reactor_.change(handshake.fd(), state == Handshake::State::wants_read ? EPOLLIN : EPOLLOUT);
  return false;
}

void Acceptor::let_in(Strangers::iterator stranger) {
  reactor_.forget(stranger->handshake.fd());
  stranger->timer.cancel();
  Strangers proved;
  proved.splice(proved.begin(), strangers_, stranger);
  const Greeting greeting = proved.front().handshake.greeting();
  Admitted connection = proved.front().handshake.take();
  std::optional<std::string> refusal;
  try {
    refusal = admit_(greeting, connection);
  } catch (const Error& error) {  // a greeting that is cut short, or no descriptor left
    refusal = error.what();
  }
  if (refusal) refuse(*refusal);
}

void Acceptor::dismiss(Strangers::iterator stranger, const std::string& why) noexcept {
  refuse(why);  // before it is hung up on, and before what may be its own text goes with it
  try {
    if (stranger->handshake.is_final()) record_not_proved(why);
  } catch (...) {  // memory is short: it is counted by refuse(), and not told of
  }
  reactor_.forget(stranger->handshake.fd());
  strangers_.erase(stranger);
}

// One may come thousands of times a second, and the first of them is to be heard of at once.
void Acceptor::record_not_proved(const std::string& why) {
  ++not_proved;
  if (options_.not_proved) options_.not_proved();
  ++unreported_;
  last_unreported_ = why;
  if (!quiet_.is_set()) report_callers();
}

void Acceptor::report_callers() {
  if (unreported_ == 0) return;
  const std::string words = std::to_string(unreported_) + (unreported_ == 1 ? " caller has" : " callers have") +
                            " not proved to be of this job or service" +
                            (unreported_ == 1 ? ": " : "; the last one: ") + last_unreported_;
  unreported_ = 0;
  quiet_.set_after(reactor_, kQuiet, [this] { report_callers(); });
  if (options_.tell) {
    options_.tell(words);
  } else {
    BANYAN_LOG(warning) << words;
  }
}

// Without memory for its text it is counted only.
void Acceptor::refuse(const std::string& why) noexcept {
  const std::lock_guard lock(mutex_);
  ++refusals_.count;
  try {
    refusals_.last.push_back(why);
    if (refusals_.last.size() > kRemembered) refusals_.last.pop_front();
  } catch (...) {
    refusals_.last.clear();
  }
}

}  // namespace banyan::run
