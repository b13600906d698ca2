#include "banyan/run/join/outgoing_connects.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "banyan/run/join/socket_address.h"
#include "banyan/run/system/ds_field.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// Zero, EINPROGRESS, or why not.
int start_to_connect(int fd, const ConnectTarget& target, const SocketAddress& address) {
  if (!target.local_address.empty()) {
    const int on = 1;
    const SocketAddress local = SocketAddress::parse(target.local_address, 0);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);  // spares ports; does no harm where it fails
    if (bind(fd, local.get(), local.size) != 0) return errno;
  }
  return connect(fd, address.get(), address.size) == 0 ? 0 : errno;
}

std::string text_of(const std::string& address, uint16_t port) {
  return (address.find(':') == std::string::npos ? address : "[" + address + "]") + ":" + std::to_string(port);
}

}  // namespace

OutgoingConnects::~OutgoingConnects() {
  for (auto& [number, call] : attempts_) drop_socket(call);
}

uint64_t OutgoingConnects::connect(ConnectTarget target, Greeting greeting, Done done) {
  const uint64_t number = ++next_number_;
  Attempt& call = attempts_[number];
  call.target = std::move(target);
  call.greeting = std::move(greeting);
  call.greeting.from = name_;
  call.greeting.to = call.target.name;
  call.done = std::move(done);
  call.timer.set_after(reactor_, {}, [this, number] { try_next(number); });
  return number;
}

void OutgoingConnects::cancel(uint64_t number) {
  const auto found = attempts_.find(number);
  if (found == attempts_.end()) return;
  drop_socket(found->second);
  attempts_.erase(found);
}

void OutgoingConnects::try_next(uint64_t number) {
  Attempt& call = attempts_.at(number);
  if (call.next == call.target.addresses.size()) {
    if (call.failure.empty()) call.failure = "it has told no address";
    finish(number, {.failure = call.failure,
                    .nobody_listens = call.next > 0 && call.refused == call.target.addresses.size(),
                    .somebody_listens = call.was_taken,
                    .is_short = call.is_short});
    return;
  }
  const std::string& address = call.target.addresses[call.next++];
  give_time(number, std::min(time_each_, kConnectTime));
  try {
    const SocketAddress parsed = SocketAddress::parse(address, call.target.port);
    call.connecting = try_tcp_socket(parsed.family());
    if (!call.connecting.is_open()) {
      const int error = errno;
      call.is_short = is_shortage(error);
      attempt_failed(number, std::strerror(error));
      return;
    }
    if (dscp_) mark_packets(call.connecting.get(), *dscp_);
    const int error = start_to_connect(call.connecting.get(), call.target, parsed);
    if (error != 0 && error != EINPROGRESS) {
      if (error == ECONNREFUSED) ++call.refused;
      attempt_failed(number, std::strerror(error));
      return;
    }
    reactor_.watch(call.connecting.get(), EPOLLOUT, [this, number](uint32_t) { connected(number); });
  } catch (const Error& error) {  // no address, or nothing left to watch it by
    attempt_failed(number, error.what());
  }
}

void OutgoingConnects::give_time(uint64_t number, std::chrono::milliseconds time) {
  attempts_.at(number).timer.set_after(reactor_, time, [this, number] {
    Attempt& late = attempts_.at(number);
    late.was_taken = late.was_taken || late.handshake != nullptr;
    attempt_failed(number, "it does not answer");
  });
}

void OutgoingConnects::connected(uint64_t number) {
  Attempt& call = attempts_.at(number);
  const int fd = call.connecting.get();
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0 && has_reached_itself(fd)) error = ECONNREFUSED;
  if (error != 0) {
    if (error == ECONNREFUSED) ++call.refused;
    attempt_failed(number, std::strerror(error));
    return;
  }
  try {
    send_at_once(call.connecting);
    reactor_.forget(fd);
    give_time(number, time_each_);
    call.handshake = std::make_unique<Handshake>(Handshake::caller(std::move(call.connecting), secret_, call.greeting));
    reactor_.watch(fd, EPOLLIN, [this, number](uint32_t) { advance(number); });
    advance(number);
  } catch (const Error& problem) {
    attempt_failed(number, problem.what());
  }
}

void OutgoingConnects::advance(uint64_t number) {
  Attempt& call = attempts_.at(number);
  Handshake& handshake = *call.handshake;
  const Handshake::State state = handshake.advance();
  if (Handshake::is_waiting(state)) {
    return reactor_.change(handshake.fd(), state == Handshake::State::wants_read ? EPOLLIN : EPOLLOUT);
  }
  if (state == Handshake::State::refused) return give_up_address(number, handshake.refusal());  // it names the address
  reactor_.forget(handshake.fd());
  Admitted made = handshake.take();
  finish(number, {.socket = std::move(made.socket), .keys = std::move(made.keys)});
}

void OutgoingConnects::attempt_failed(uint64_t number, const std::string& why) {
  const ConnectTarget& target = attempts_.at(number).target;
  give_up_address(number, text_of(target.addresses[attempts_.at(number).next - 1], target.port) + ": " + why);
}

void OutgoingConnects::give_up_address(uint64_t number, std::string failure) {
  Attempt& call = attempts_.at(number);
  drop_socket(call);
  call.failure = std::move(failure);
  call.timer.set_after(reactor_, {}, [this, number] { try_next(number); });
}

void OutgoingConnects::drop_socket(Attempt& call) {
  if (call.handshake) {
    reactor_.forget(call.handshake->fd());
    call.handshake.reset();
  }
  if (call.connecting.is_open()) {
    reactor_.forget(call.connecting.get());
    call.connecting.reset();
  }
}

void OutgoingConnects::finish(uint64_t number, Outcome outcome) {
  auto node = attempts_.extract(number);
  node.mapped().timer.cancel();
  node.mapped().done(std::move(outcome));
}

}  // namespace banyan::run
