#include "banyan/testing/machines/tcp_socket.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace banyan::testing::machines {
namespace {

constexpr Nanoseconds kFirstPause = 200 * kMillisecond, kLongestPause = 120 * kSecond;

}  // namespace

TcpSocket::TcpSocket(Kernel& kernel) : kernel_(kernel), capacity_(size_t{2048} << scheduler().draw(8)) {}

// ---- Meeting ----

uint16_t TcpSocket::free_port() {
  Host& host = kernel_.host(owner->host);
  return host.next_port == 65535 ? std::exchange(host.next_port, uint16_t{32768}) : host.next_port++;
}

int TcpSocket::bind(Address address) {
  if (address.ip != 0 && address.ip >> 24 != 127) {
    const uint32_t* const host = kernel_.host_with(address.ip);
    if (host == nullptr || *host != owner->host) return fail(EADDRNOTAVAIL);
  }
  if (address.port != 0 && kernel_.listeners(owner->host).contains(address)) return fail(EADDRINUSE);
  local_ = address;
  return 0;
}

int TcpSocket::listen() {
  if (local_.port == 0) local_.port = free_port();
  state_ = State::listening;
  kernel_.listeners(owner->host)[local_] = weak_from_this();
  return 0;
}

std::shared_ptr<TcpSocket> TcpSocket::accept() {
  if (callers_.empty()) return nullptr;
  const std::shared_ptr<TcpSocket> caller = std::move(callers_.front());
  callers_.pop_front();
  return caller;
}

int TcpSocket::connect(Address address) {
  if (state_ == State::connecting) return fail(EALREADY);
  if (state_ != State::fresh) return fail(EISCONN);
  remote_ = address;
  if (local_.ip == 0) local_.ip = kernel_.address_towards(owner->host, address.ip);
  if (local_.port == 0) local_.port = free_port();
  if (address.ip >> 24 != 127 && kernel_.host_with(address.ip) == nullptr) return fail(ENETUNREACH);
  state_ = State::connecting;
  const Nanoseconds now = scheduler().now();
  scheduler().after(kernel_.draw_delay(local_.ip, remote_.ip),
                    [self = shared_from_this(), now] { self->call(kSecond, now + 127 * kSecond); });
  return fail(EINPROGRESS);
}

// One SYN, and what comes of it; another one after `pause` when it is lost.
void TcpSocket::call(Nanoseconds pause, Nanoseconds end) {
  if (state_ != State::connecting || is_closed_) return;
  if (!reaches_peer() || !hears_peer()) {
    if (scheduler().now() + pause > end) return break_off(ETIMEDOUT);
    return scheduler().after(pause, [self = shared_from_this(), pause, end] { self->call(2 * pause, end); });
  }
  const uint32_t* const host = remote_.ip >> 24 == 127 ? &owner->host : kernel_.host_with(remote_.ip);
  auto& listeners = kernel_.listeners(*host);
  auto found = listeners.find(remote_);
  if (found == listeners.end()) found = listeners.find(Address{.ip = 0, .port = remote_.port});
  const std::shared_ptr<TcpSocket> listener = found == listeners.end() ? nullptr : found->second.lock();
  if (listener == nullptr || listener->is_closed_) return break_off(ECONNREFUSED);
  const auto made = std::make_shared<TcpSocket>(kernel_);
  made->owner = listener->owner;
  made->local_ = remote_;
  made->remote_ = local_;
  made->join(shared_from_this());
  join(made);
  kernel_.note_connection(shared_from_this());
  kernel_.note_connection(made);
  listener->callers_.push_back(made);
}

void TcpSocket::join(const std::shared_ptr<TcpSocket>& peer) {
  peer_ = peer;
  state_ = State::connected;
  last_heard_ = scheduler().now();
}

// ---- What its user sees ----

size_t TcpSocket::room() const {
  const size_t unread = peer_->inbox_.size();
  const size_t used = (sent_ - acked_) + (unread > capacity_ / 2 ? unread : 0);
  return used >= capacity_ ? 0 : capacity_ - used;
}

uint32_t TcpSocket::events() const {
  switch (state_) {
    case State::fresh:
      return POLLOUT | POLLHUP;
    case State::listening:
      return callers_.empty() ? 0 : POLLIN;
    case State::connecting:
      return 0;
    case State::connected:
      return (!inbox_.empty() || has_peers_fin_ ? POLLIN : 0u) | (room() > 0 ? POLLOUT : 0u) |
             (has_peers_fin_ ? POLLRDHUP : 0u) | (has_peers_fin_ && has_fin_ ? POLLHUP : 0u);
    case State::broken:
      return POLLIN | POLLOUT | POLLHUP | POLLRDHUP | (error_ != 0 ? POLLERR : 0u);
  }
  return 0;
}

ssize_t TcpSocket::read(void* into, size_t size) {
  if (!inbox_.empty()) {
    const size_t count = inbox_.copy(static_cast<char*>(into), size);
    inbox_.erase(0, count);
    return static_cast<ssize_t>(count);
  }
  if (error_ != 0) return fail(take_error());
  if (state_ == State::broken || has_peers_fin_) return 0;
  return fail(state_ == State::connected ? EAGAIN : ENOTCONN);
}

ssize_t TcpSocket::write(const void* from, size_t size) {
  if (error_ != 0) return fail(take_error());
  if (state_ == State::broken || has_fin_) return fail(EPIPE);
  if (state_ != State::connected) return fail(ENOTCONN);
  const size_t count = std::min(size, room());
  if (count == 0) return size == 0 ? 0 : fail(EAGAIN);
  if (!has_unacknowledged()) stalled_since_ = scheduler().now();
  unarrived_.append(static_cast<const char*>(from), count);
  sent_ += count;
  // In pieces that follow each other at some distance, now and then.
  const size_t first = count > 1 && scheduler().draw(4) == 0 ? 1 + scheduler().draw(count - 1) : count;
  send_later(first);
  if (first < count) send_later(count - first);
  return static_cast<ssize_t>(count);
}

int TcpSocket::shut_down_sending() {
  if (state_ != State::connected) return fail(ENOTCONN);
  if (has_fin_) return 0;
  if (!has_unacknowledged()) stalled_since_ = scheduler().now();
  has_fin_ = true;
  send_later(0);
  return 0;
}

void TcpSocket::close() {
  is_closed_ = true;
  if (state_ == State::listening) {
    kernel_.listeners(owner->host).erase(local_);
    for (const std::shared_ptr<TcpSocket>& caller : callers_) caller->close();
    callers_.clear();
  }
  if (state_ != State::connected) return;
  if (inbox_.empty()) {
    shut_down_sending();
    return;
  }
  // The reset follows what is on its way.
  last_arrival_ = std::max(last_arrival_, scheduler().now() + kernel_.draw_delay(local_.ip, remote_.ip));
  scheduler().at(last_arrival_, [self = shared_from_this()] {
    if (self->reaches_peer()) self->peer_->break_off(ECONNRESET);
    self->break_off(ECONNRESET);
  });
}

void TcpSocket::break_off(int error) {
  if (state_ == State::broken) return;
  state_ = State::broken;
  error_ = error;
  unarrived_.clear();
}

TcpSocket::Info TcpSocket::info() const {
  const auto silence = std::chrono::nanoseconds(kernel_.scheduler().now() - last_heard_);
  return {.is_broken = state_ == State::broken,
          .unacknowledged = sent_ - acked_,
          .acknowledged = acked_,
          .retransmits = retransmits_,
          .last_heard = std::chrono::duration_cast<std::chrono::milliseconds>(silence)};
}

// ---- On the way ----

void TcpSocket::send_later(size_t count) {
  last_arrival_ = std::max(last_arrival_, scheduler().now() + kernel_.draw_delay(local_.ip, remote_.ip));
  scheduler().at(last_arrival_, [self = shared_from_this(), count] { self->arrive(count); });
  watch_for_silence();
}

void TcpSocket::arrive(size_t count) {
  if (state_ == State::broken) return;
  if (has_gap_ || !reaches_peer()) {
    has_gap_ = true;
    return;
  }
  if (peer_->state_ == State::broken || (peer_->is_closed_ && count > 0)) {
    // Nobody is there any more who could take it.
    scheduler().after(kernel_.draw_delay(remote_.ip, local_.ip), [self = shared_from_this()] {
      if (self->hears_peer()) self->break_off(ECONNRESET);
    });
    return;
  }
  count = std::min(count, unarrived_.size());
  peer_->inbox_.append(unarrived_, 0, count);
  unarrived_.erase(0, count);
  if (has_fin_ && unarrived_.empty()) peer_->has_peers_fin_ = true;
  peer_->last_heard_ = scheduler().now();
  acknowledge_later();
}

void TcpSocket::acknowledge_later() {
  const uint64_t up_to = sent_ - unarrived_.size();
  const bool with_fin = has_fin_ && unarrived_.empty();
  scheduler().after(kernel_.draw_delay(remote_.ip, local_.ip), [self = shared_from_this(), up_to, with_fin] {
    if (self->hears_peer()) self->acknowledged(up_to, with_fin);
  });
}

void TcpSocket::acknowledged(uint64_t up_to, bool with_fin) {
  if (state_ == State::broken) return;
  last_heard_ = scheduler().now();
  if (up_to > acked_ || (with_fin && !is_fin_acked_)) {
    stalled_since_ = last_heard_;
    retransmits_ = 0;
    pause_ = kFirstPause;
  }
  acked_ = std::max(acked_, up_to);
  is_fin_acked_ |= with_fin;
}

void TcpSocket::watch_for_silence() {
  if (std::exchange(is_watched_, true)) return;
  pause_ = kFirstPause;
  scheduler().after(pause_, [self = shared_from_this()] { self->retransmit(); });
}

// When nothing has been acknowledged for a while.
void TcpSocket::retransmit() {
  is_watched_ = false;
  if (state_ == State::broken || !has_unacknowledged()) return;
  const Nanoseconds now = scheduler().now();
  if (now - stalled_since_ >= std::chrono::nanoseconds(user_timeout_).count()) return break_off(ETIMEDOUT);
  if (now - stalled_since_ >= kFirstPause) {
    ++retransmits_;
    has_gap_ = false;
    arrive(unarrived_.size());
    pause_ = std::min(2 * pause_, kLongestPause);
  }
  is_watched_ = true;
  const Nanoseconds until_lost = stalled_since_ + std::chrono::nanoseconds(user_timeout_).count() - now;
  scheduler().after(std::clamp<Nanoseconds>(until_lost, kMillisecond, pause_),
                    [self = shared_from_this()] { self->retransmit(); });
}

void TcpSocket::keep_alive_for(std::chrono::seconds after) {
  if (alive_for_.count() == 0) {
    scheduler().after(std::chrono::nanoseconds(after).count() / 2, [self = shared_from_this()] { self->probe(); });
  }
  alive_for_ = after;
}

// As keep-alive does, some times within the time that it may take.
void TcpSocket::probe() {
  if (is_closed_ || state_ != State::connected) return;
  const Nanoseconds now = scheduler().now(), lost_after = std::chrono::nanoseconds(alive_for_).count();
  if (reaches_peer()) {
    if (hears_peer() && peer_->state_ == State::broken) return break_off(ECONNRESET);
    peer_->last_heard_ = now;  // of the question, whether the answer gets back or not
    if (hears_peer()) last_heard_ = now;
  }
  if (now - last_heard_ >= lost_after) return break_off(ETIMEDOUT);
  scheduler().after(lost_after / 6, [self = shared_from_this()] { self->probe(); });
}

}  // namespace banyan::testing::machines
