#include "banyan/service/client/control_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <variant>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/socket_owner.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

// ---- Hello ----

std::string path_of(const std::string& url) {
  constexpr std::string_view kScheme = "unix:";
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  const std::string path = url.starts_with(kScheme) ? url.substr(kScheme.size()) : "";
  if (path.empty() || path.size() > kLongest || path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::invalid_input, in_quotes(url) +
                                              " is no url of a service: it has to be 'unix:' and a path of at most " +
                                              std::to_string(kLongest) + " characters");
  }
  return path;
}

Error too_late(const std::string& url, const run::Deadline& deadline) {
  return Error(ErrorCode::timed_out, "the service at " + url + " has not answered within " + deadline.text());
}

run::FileDescriptor connect_to(const std::string& url, const run::Deadline& deadline) {
  constexpr std::chrono::milliseconds kQueueTime{10};
  const std::string path = path_of(url);
  const auto wait = [&] {
    if (deadline.has_passed()) return false;
    std::this_thread::sleep_for(std::min(kQueueTime, deadline.next_sleep()));
    return true;
  };
  try {
    return run::call_trusted(path, SOCK_SEQPACKET, wait, kMaxMessage);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) throw Error(ErrorCode::not_found, "no service listens at " + url);
    if (error.code() == ErrorCode::timed_out) throw too_late(url, deadline);
    throw;
  }
}

// A daemon that lets nobody in says why before it hangs up. The kernel tells of the hang-up first, once.
std::optional<Parcel> last_words(int socket) {
  for (int tries = 0; tries < 2; ++tries) {
    try {
      return receive_parcel(socket);
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

Parcel say_hello(int socket, const std::string& url, int doorbell, const run::Deadline& deadline) {
  try {
    const std::string hello = encode(ClientMessage(Hello{.program = program_invocation_short_name}));
    CHECK(send_parcel(socket, hello, doorbell)) << "a new socket is full";
    for (;;) {
      if (std::optional<Parcel> parcel = receive_parcel(socket)) return *std::move(parcel);
      if (deadline.has_passed()) throw too_late(url, deadline);
      pollfd waited{.fd = socket, .events = POLLIN, .revents = 0};
      poll(&waited, 1, static_cast<int>(deadline.next_sleep().count()));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost) throw;
    if (std::optional<Parcel> parcel = last_words(socket)) return *std::move(parcel);
    throw Error(ErrorCode::peer_lost, "the service at " + url + " has hung up");
  }
}

Welcome welcome_of(const Parcel& parcel, const std::string& url) {
  try {
    DaemonMessage message = decode_daemon_message(parcel.bytes);
    if (const Refused* const refused = std::get_if<Refused>(&message)) throw Error(refused->error);
    if (Welcome* const welcome = std::get_if<Welcome>(&message)) return std::move(*welcome);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_input) throw;
  }
  throw Error(ErrorCode::mismatch, "what listens at " + url + " does not speak as a service of this version");
}

}  // namespace

Greeting greet(const std::string& url, int doorbell, const run::Deadline& deadline) {
  run::FileDescriptor socket = connect_to(url, deadline);
  Parcel parcel = say_hello(socket.get(), url, doorbell, deadline);
  Welcome welcome = welcome_of(parcel, url);
  if (welcome.version != kProtocolVersion) {
    throw Error(ErrorCode::mismatch, "the service at " + url + " speaks version " + std::to_string(welcome.version) +
                                         " of the protocol, and this process version " +
                                         std::to_string(kProtocolVersion) + ": have both of one Banyan");
  }
  if (!parcel.descriptor) {
    throw Error(ErrorCode::mismatch, "the service at " + url + " cannot be woken: its welcome has no descriptor");
  }
  return {.socket = std::move(socket), .welcome = std::move(welcome), .event = *std::move(parcel.descriptor)};
}

// ---- The connection ----

ControlConnection::ControlConnection(run::FileDescriptor socket, const std::string& url, Events events)
    : socket_(std::move(socket)),
      url_(url),
      gone_(ErrorCode::peer_lost, "the service has gone (" + url + ")"),
      events_(std::move(events)) {
  thread_ = run::start_thread("banyan-service", [this] { run(); });
}

ControlConnection::~ControlConnection() {
  stops_ = true;
  event_.set();
  thread_.join();
}

void ControlConnection::expect_own_process() const {
  if (!is_in_child()) return;
  throw Error(ErrorCode::unsupported, "this process was forked from one that had attached to the service (" + url_ +
                                          "); it has to attach anew");
}

// Under the mutex. Throws as send_parcel().
void ControlConnection::send_bytes(std::string bytes, run::FileDescriptor descriptor) {
  if (unsent_.empty() && send_parcel(socket_.get(), bytes, descriptor.get())) return;
  unsent_.push_back({.bytes = std::move(bytes), .descriptor = std::move(descriptor)});
  event_.set();
}

DaemonMessage ControlConnection::ask_by(const Encode& encode, run::FileDescriptor descriptor,
                                        const run::Deadline& deadline, std::function<void(const DaemonMessage&)> late) {
  expect_own_process();
  std::unique_lock lock(mutex_);
  if (is_gone_) throw Error(gone_);
  const uint64_t number = ++wishes_;
  std::string bytes = encode(number);
  if (bytes.size() > kMaxMessage) {
    throw Error(ErrorCode::unsupported, "a wish of " + std::to_string(bytes.size()) +
                                            " bytes is more than the service reads, which is " +
                                            std::to_string(kMaxMessage));
  }
  const auto wish = pending_.try_emplace(number).first;
  try {
    send_bytes(std::move(bytes), std::move(descriptor));
  } catch (const Error& error) {
    pending_.erase(wish);
    if (error.code() != ErrorCode::peer_lost) throw;
    is_gone_ = true;  // the thread notices it soon
    throw Error(gone_);
  }
  while (!wish->second.answer) {
    if (is_gone_) throw Error(gone_);
    if (deadline.has_passed()) {
      wish->second.late = std::move(late);
      throw too_late(url_, deadline);
    }
    answered_.wait_for(lock, deadline.next_sleep());
  }
  DaemonMessage answer = *std::move(wish->second.answer);
  pending_.erase(wish);
  return answer;
}

uint64_t ControlConnection::send(const ClientMessage& message, run::FileDescriptor descriptor) noexcept {
  if (is_in_child()) return 0;  // the daemon and the lock are the parent's
  const std::lock_guard lock(mutex_);
  try {
    if (!is_gone_) send_bytes(encode(message), std::move(descriptor));
  } catch (...) {
    // Who has gone needs no word. Where memory is short, the daemon keeps what it would have given
    // back, or does not see what it would have been shown.
  }
  return wishes_;
}

// ---- The thread ----

void ControlConnection::run() noexcept {
  try {
    listen();
  } catch (...) {
    lose(current_error());
  }
}

void ControlConnection::listen() {
  while (!stops_) {
    pollfd waited[] = {{.fd = socket_.get(), .events = POLLIN, .revents = 0},
                       {.fd = event_.fd(), .events = POLLIN, .revents = 0}};
    {
      const std::lock_guard lock(mutex_);
      if (!unsent_.empty()) waited[0].events |= POLLOUT;
    }
    if (poll(waited, std::size(waited), -1) < 0) {
      if (errno == EINTR) continue;
      throw run::system_error("cannot wait for the service");
    }
    if (waited[1].revents != 0) event_.clear();
    if ((waited[0].revents & POLLOUT) != 0) send_on();
    while (std::optional<Parcel> parcel = receive_parcel(socket_.get())) receive(decode_daemon_message(parcel->bytes));
  }
}

void ControlConnection::send_on() {
  const std::lock_guard lock(mutex_);
  for (; !unsent_.empty(); unsent_.pop_front()) {
    if (!send_parcel(socket_.get(), unsent_.front().bytes, unsent_.front().descriptor.get())) return;
  }
}

void ControlConnection::receive(const DaemonMessage& message) {
  if (const auto* const failed = std::get_if<SessionFailed>(&message)) return events_.session_failed(*failed);
  if (std::holds_alternative<Succeeded>(message)) {
    is_succeeded_.store(true, std::memory_order_release);
    return events_.succeeded();
  }
  const auto wish = std::visit(
      [](const auto& said) -> std::optional<uint64_t> {
        if constexpr (requires { said.wish; }) return said.wish;
        return std::nullopt;
      },
      message);
  if (!wish) throw invalid("it says welcome twice");
  receive_answer(*wish, message);
}

void ControlConnection::receive_answer(uint64_t wish, const DaemonMessage& message) {
  // A refusal may come before what was told earlier is carried out.
  if (!std::holds_alternative<Refused>(message)) {
    last_granted_.store(std::max(last_granted_.load(std::memory_order_relaxed), wish), std::memory_order_release);
  }
  std::function<void(const DaemonMessage&)> late;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(wish);
    if (found == pending_.end() || found->second.answer) {
      throw invalid("it answers wish " + std::to_string(wish) + ", which nobody has");
    }
    if (!found->second.late) {
      found->second.answer = message;
      answered_.notify_all();
      return;
    }
    late = std::move(found->second.late);
    pending_.erase(found);
  }
  late(message);
}

void ControlConnection::lose(const Error& why) noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_gone_ = true;
    answered_.notify_all();
  }
  shutdown(socket_.get(), SHUT_RDWR);  // should the daemon live: it must not touch this process's memory any more
  try {
    BANYAN_LOG(info) << gone_.what() << ": " << why.what();
    events_.gone(gone_);
  } catch (...) {  // there is no memory even to tell of it; calls throw the error all the same
  }
}

}  // namespace banyan::service
