#include "banyan/run/join/tcp_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/reminder.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

// A host that swallows calls, or a process that is stopped, gets no more of one attempt; the next may find another.
constexpr milliseconds kAttempt{3000};
constexpr milliseconds kFirstPause{1}, kLongestPause{50};

// False when it is too late.
bool wait_for(int fd, short events, const Deadline& deadline) {
  while (true) {
    pollfd polled{.fd = fd, .events = events, .revents = 0};
    const int rc = poll(&polled, 1, static_cast<int>(deadline.next_sleep().count()));
    if (rc > 0) return true;
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for a socket");
    if (deadline.has_passed()) return false;
  }
}

// Connected, or why not.
std::optional<std::string> connect_to(const FileDescriptor& socket, const SocketAddress& address,
                                      const Deadline& deadline) {
  if (connect(socket.get(), address.get(), address.size) == 0) return {};
  if (errno != EINPROGRESS && errno != EINTR) return std::strerror(errno);
  if (!wait_for(socket.get(), POLLOUT, deadline)) return "no answer, as where a firewall drops what goes there";
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? std::nullopt : std::make_optional<std::string>(std::strerror(error));
}

}  // namespace

TcpStore::TcpStore(const Host& host, const Secret& secret, const std::string& job, const Deadline& deadline)
    : host_(host), secret_(secret), job_(job), name_(random_name(16)) {
  milliseconds pause = kFirstPause;
  std::string why;
  Reminder reminder(deadline);
  while (true) {
    const std::optional<std::string> failure = try_to_connect(deadline);
    if (!failure && introduce(false, deadline)) return;
    // An attempt that was cut short by the deadline says less than the one before.
    if (why.empty() || !deadline.has_passed()) why = failure.value_or("it hung up");
    if (deadline.has_passed()) {
      throw Error(ErrorCode::timed_out,
                  "rank 0 has not come to " + host_.place + " within " + deadline.text() + " (" + why + ")");
    }
    if (reminder.is_due()) reminder.log("rank 0 at " + host_.place + " (" + why + ")");
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min(pause * 2, kLongestPause);
  }
}

TcpStore::~TcpStore() {
  if (!socket_.is_open() || !sealer_ || getpid() != owner_)
    return;  // the connection of a forked process is its parent's
  try {
    std::string end;
    sealer_->end(end);
    send(socket_.get(), end.data(), end.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } catch (const Error&) {  // memory is short
  }
}

std::optional<std::string> TcpStore::try_to_connect(const Deadline& deadline) {
  std::string why;
  try {
    // Asked every time: a host that comes late may get its name late, too.
    for (const std::string& address : addresses_of(host_.name)) {
      const auto failure = try_address(SocketAddress::parse(address, host_.port), deadline);
      if (!failure) return {};
      why += (why.empty() ? "" : "; ") + address + ": " + *failure;
    }
    return why;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) throw;
    return error.message();
  }
}

std::optional<std::string> TcpStore::try_address(const SocketAddress& address, const Deadline& deadline) {
  const Deadline soon = deadline.within(kAttempt);
  FileDescriptor socket = make_tcp_socket(address.family());
  send_at_once(socket);
  if (const auto failure = connect_to(socket, address, soon)) return failure;
  if (has_reached_itself(socket.get())) return std::strerror(ECONNREFUSED);
  const bool looks = host_.is_any_job;
  Handshake handshake = Handshake::caller(std::move(socket), secret_,
                                          {.purpose = looks ? kLookPurpose : kStorePurpose,
                                           .payload = job_,
                                           .from = looks ? kLookPurpose : name_,
                                           .to = looks ? kLookPurpose : kStorePurpose});
  Handshake::State state;
  while (Handshake::is_waiting(state = handshake.advance())) {
    if (!wait_for(handshake.fd(), state == Handshake::State::wants_read ? POLLIN : POLLOUT, soon)) return "no answer";
  }
  if (state == Handshake::State::refused) {
    if (handshake.is_final()) throw Error(ErrorCode::mismatch, handshake.refusal(), host_.place);
    return handshake.refusal();
  }
  Admitted made = handshake.take();
  socket_ = std::move(made.socket);
  sealer_.emplace(made.keys.sending);
  opener_.emplace(made.keys.receiving);
  replies_ = {};
  std::string why = "it hosts another job";
  try {
    if (receive(soon).outcome == StoreOutcome::done) return {};
  } catch (const Error& error) {
    why = error.message();
  }
  socket_.reset();
  return why;
}

void TcpStore::set(const std::string& key, const std::string& value, const Deadline& deadline) {
  CHECK(value.size() <= kMaxValue) << key << " has " << value.size() << " bytes";
  ask(StoreVerb::set, key, WireWriter().text(value).take(), deadline);
}

std::string TcpStore::get(const std::string& key, const Deadline& deadline) {
  return ask(StoreVerb::wait, key, {}, deadline).value;
}

std::optional<std::string> TcpStore::try_get(const std::string& key, const Deadline& deadline) {
  Reply reply = ask(StoreVerb::try_get, key, {}, deadline);
  return reply.outcome == StoreOutcome::absent ? std::nullopt : std::make_optional(std::move(reply.value));
}

int64_t TcpStore::add(const std::string& key, int64_t delta, const Deadline& deadline) {
  const Reply reply = ask(StoreVerb::add, key, WireWriter().number(static_cast<uint64_t>(delta)).take(), deadline);
  int64_t count = 0;
  const char* end = reply.value.data() + reply.value.size();
  const auto [rest, error] = std::from_chars(reply.value.data(), end, count);
  if (error != std::errc() || rest != end) throw Error(ErrorCode::invalid_input, "answered no number", host_.place);
  return count;
}

void TcpStore::leave_will(const LastWill& will, const Deadline& deadline) {
  ask(StoreVerb::will, will.counter,
      WireWriter()
          .text(will.key)
          .text(will.value)
          .text(will.process.host_id)
          .number(static_cast<uint32_t>(will.process.pid))
          .number(will.process.start_time)
          .take(),
      deadline);
}

// ---- The conversation ----

TcpStore::Reply TcpStore::ask(StoreVerb verb, const std::string& key, std::string_view rest, const Deadline& deadline) {
  CHECK(!key.empty() && key.size() <= kMaxKey) << "a key of " << key.size() << " bytes";
  const uint32_t number = ++last_number_;
  const std::string request =
      WireWriter().number(number).number(static_cast<uint8_t>(verb)).text(key).take() + std::string(rest);
  for (;;) {
    try {
      return converse(number, request, deadline);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost) throw;
      call_again(error, deadline);
    }
  }
}

TcpStore::Reply TcpStore::converse(uint32_t number, std::string_view request, const Deadline& deadline) {
  send_all(frame_head(request.size()) + std::string(request), deadline);
  while (true) {
    Reply reply = receive(deadline);
    if (reply.number != number) continue;  // to an earlier request that was given up
    if (reply.outcome == StoreOutcome::failed) throw Error(ErrorCode::invalid_input, reply.value, host_.place);
    return reply;
  }
}

bool TcpStore::introduce(bool again, const Deadline& deadline) {
  constexpr uint32_t kNumber = 0;  // of no request
  try {
    const std::string request = WireWriter()
                                    .number(kNumber)
                                    .number(static_cast<uint8_t>(StoreVerb::call))
                                    .text(name_)
                                    .number(static_cast<uint8_t>(again))
                                    .take();
    return converse(kNumber, request, deadline.within(kAttempt)).outcome == StoreOutcome::done;
  } catch (const Error& error) {
    if (again || error.code() == ErrorCode::mismatch) throw;
    return false;
  }
}

void TcpStore::call_again(const Error& why, const Deadline& deadline) {
  const Deadline patience = deadline.within(kCallsAgain);
  std::string trouble;
  for (milliseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    try {
      const std::optional<std::string> failure = try_to_connect(patience);
      if (!failure) {
        if (introduce(true, patience)) return;
        throw Error(ErrorCode::peer_lost, "rank 0 is gone: another process hosts there now", host_.place);
      }
      trouble = *failure;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::peer_lost && error.code() != ErrorCode::timed_out) throw;
      trouble = error.message();
    }
    if (patience.has_passed()) {
      throw Error(ErrorCode::peer_lost, why.message() + ", and cannot be reached any more (" + trouble + ")",
                  host_.place);
    }
    std::this_thread::sleep_for(pause);
  }
}

void TcpStore::send_all(std::string_view request, const Deadline& deadline) {
  std::string sealed;
  sealer_->seal(request, sealed);
  for (std::string_view bytes = sealed; !bytes.empty();) {
    const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) {
        socket_.reset();  // half a request is no beginning for another
        throw Error(ErrorCode::timed_out, "took no request within " + deadline.text(), host_.place);
      }
    } else if (errno != EINTR) {
      throw Error(ErrorCode::peer_lost, std::string("rank 0 is gone: ") + std::strerror(errno), host_.place);
    }
  }
}

TcpStore::Reply TcpStore::receive(const Deadline& deadline) {
  std::optional<std::string> frame;
  while (!(frame = replies_.next())) {
    std::array<char, 64 * 1024> buffer;
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      std::string opened;
      try {
        opener_->open({buffer.data(), static_cast<size_t>(count)}, opened);
      } catch (const Error& error) {
        throw error.within(host_.place);
      }
      replies_.append(opened);
    } else if (count == 0) {
      throw Error(ErrorCode::peer_lost, "rank 0 hung up", host_.place);
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLIN, deadline)) {
        throw Error(ErrorCode::timed_out, "no answer within " + deadline.text(), host_.place);
      }
    } else if (errno != EINTR) {
      throw Error(ErrorCode::peer_lost, std::string("rank 0 is gone: ") + std::strerror(errno), host_.place);
    }
  }
  WireReader reader(*frame);
  Reply reply;
  reply.number = reader.number<uint32_t>();
  reply.outcome = static_cast<StoreOutcome>(reader.number<uint8_t>());
  reply.value = frame->substr(sizeof(uint32_t) + sizeof(StoreOutcome));
  return reply;
}

std::string TcpStore::own_address() const { return local_address_of(socket_); }

}  // namespace banyan::run
