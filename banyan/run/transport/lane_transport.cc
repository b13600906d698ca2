#include "banyan/run/transport/lane_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/ds_field.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/system/tcp_state.h"
#include "banyan/run/transport/checked_connection.h"
#include "banyan/run/transport/sealed_connection.h"
#include "banyan/run/transport/shared_connection.h"
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {
namespace {

// What waits in the kernel cannot be overtaken by what has become more urgent.
constexpr int kLowWater = 128 << 10;

void tune(const FileDescriptor& socket) {
  // Messages are handed over whole, so nothing is gained by holding small ones back.
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kLowWater, sizeof kLowWater);
  // So that an idle connection is heard of each second while its way is whole: health() tells which are not. Whether
  // the peer lives is for others to say, so these questions never end it by themselves.
  const int idle = 1, most = 127;
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof idle);
  setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof most);
}

// The kernel spreads the packets of the stream over time.
void set_rate(int socket, uint64_t bytes_per_second) {
  const uint64_t rate = bytes_per_second == 0 ? UINT64_MAX : bytes_per_second;
  if (setsockopt(socket, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) != 0) {
    throw system_error("cannot pace a connection");
  }
}

// By the only thread that writes it.
void add_to(std::atomic<uint64_t>& counter, size_t count) {
  counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
}

}  // namespace

LaneTransport::LaneTransport(std::unique_ptr<Connector> connector, Options options)
    : connector_(std::move(connector)), options_(std::move(options)), wakes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakes_.is_open()) throw system_error("cannot make an eventfd");
}

LaneTransport::~LaneTransport() = default;

LaneTransport::Stream& LaneTransport::stream(uint32_t channel) {
  if (channel >= streams_.size()) streams_.resize((channel / options_.ranks + 1) * size_t{options_.ranks});
  return streams_[channel];
}

void LaneTransport::pace(uint32_t channel, uint64_t bytes_per_second) {
  Stream& stream = this->stream(channel);
  if (stream.rate == bytes_per_second) return;
  stream.rate = bytes_per_second;
  if (stream.connection && stream.connection->uses_links()) set_rate(stream.connection->fd(), stream.rate);
}

void LaneTransport::mark(uint8_t dscp) {
  if (dscp_ == dscp) return;
  dscp_ = dscp;
  for (const uint32_t channel : used_) {
    const Connection& connection = *streams_[channel].connection;
    if (connection.uses_links()) mark_packets(connection.fd(), dscp);
  }
}

Connection* LaneTransport::connected(uint32_t channel) {
  Stream& stream = this->stream(channel);
  if (stream.failure) throw Error(*stream.failure);
  if (stream.connection) return stream.connection.get();
  stream.is_needed = true;
  return listen(channel) ? stream.connection.get() : nullptr;
}

bool LaneTransport::listen(uint32_t channel) {
  Stream& stream = this->stream(channel);
  if (stream.connection) return true;
  if (!stream.is_requested) request(channel);
  take_answers();
  if (stream.failure) throw Error(*stream.failure);
  return stream.connection != nullptr;
}

void LaneTransport::request(uint32_t channel) {
  Stream& stream = streams_[channel];
  const uint32_t peer = channel % options_.ranks, lane = channel / options_.ranks;
  const Path path = options_.path ? options_.path(peer, lane) : Path();
  connector_->request(peer, lane, path);
  stream.path = &paths_[{peer, path.local_address, path.peer_address}];
  stream.is_requested = true;
  stream.is_patient = !stream.is_needed;
  stream.requested_at = stream.silent_since = Clock::now();
  if (stream.requested_at - stream.path->left_at < kFirstAnswer) stream.silent_since = stream.path->silent_since;
  ++pending_;
}

void LaneTransport::take_answers() {
  if (pending_ == 0) return;
  for (Connector::Answer& answer : connector_->take()) {
    if (answer.lane >= Connector::kFirstTrial) {
      --pending_;
      tried_.push_back({.peer = answer.peer,
                        .path = std::move(trials_.extract(answer.lane).mapped()),
                        .works = answer.socket.is_open()});
      continue;
    }
    const uint32_t channel = this->channel(answer.peer, answer.lane);
    Stream& stream = streams_.at(channel);
    CHECK(stream.is_requested && !stream.connection) << "nobody asked for " << channel;
    --pending_;
    if (stream.is_dropped) continue;
    if (answer.failure && answer.failure->code() == ErrorCode::timed_out && stream.is_patient) {
      request(channel);
      continue;
    }
    if (answer.failure) {
      stream.failure = std::move(answer.failure);
      continue;
    }
    try {
      stream.held = hold(answer.peer);
      tune(answer.socket);
      stream.connection = connection_of(std::move(answer));
    } catch (const Error& error) {
      stream.held.reset();
      stream.failure = error;
      continue;
    }
    if (stream.connection->uses_links()) {
      if (stream.rate > 0) set_rate(stream.connection->fd(), stream.rate);
      if (dscp_) mark_packets(stream.connection->fd(), *dscp_);
    }
    stream.counter = new_counter(channel);
    used_.push_back(channel);
  }
}

std::shared_ptr<void> LaneTransport::hold(uint32_t peer) const {
  if (!options_.holder) return nullptr;
  const bool is_shared = shares_memory(peer);
  uint64_t bytes = TcpConnection::kBufferBytes;
  if (is_shared && options_.rank < peer) bytes += SharedConnection::memory_bytes();
  if (!is_shared && options_.sealing) bytes += 2 * SealedConnection::kBufferBytes;
  return options_.holder(bytes, is_shared);
}

std::unique_ptr<Connection> LaneTransport::connection_of(Connector::Answer answer) const {
  if (shares_memory(answer.peer)) {
    return std::make_unique<SharedConnection>(answer.peer, std::move(answer.socket), options_.rank < answer.peer);
  }
  auto plain = std::make_unique<TcpConnection>(answer.peer, std::move(answer.socket), options_.zero_copy);
  if (options_.sealing) {
    return std::make_unique<SealedConnection>(answer.peer, std::move(plain), answer.keys, *options_.sealing);
  }
  if (!options_.checksums) return plain;
  return std::make_unique<CheckedConnection>(answer.peer, std::move(plain));
}

std::vector<LaneHealth> LaneTransport::health() {
  std::vector<LaneHealth> all;
  const Clock::time_point now = Clock::now();
  for (uint32_t channel = 0; channel < streams_.size(); ++channel) {
    if (const std::optional<LaneHealth> health = health_of(channel, now)) all.push_back(*health);
  }
  return all;
}

// None of a lane that is not in use, or of whose way nothing is known.
std::optional<LaneHealth> LaneTransport::health_of(uint32_t channel, Clock::time_point now) {
  Stream& stream = streams_[channel];
  if (!stream.is_requested || stream.is_dropped) return std::nullopt;
  LaneHealth health{.peer = channel % options_.ranks, .lane = channel / options_.ranks};
  const auto since = [&](Clock::time_point then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - then);
  };
  if (stream.connection) {
    if (!stream.connection->uses_links()) return std::nullopt;
    const std::optional<TcpState> tcp = tcp_state(stream.connection->fd());
    if (!tcp) return std::nullopt;
    // The peer's questions arrive, with old acknowledgements, also where it gets nothing from here.
    if (tcp->unacknowledged == 0) {
      stream.standstill.reset();
    } else if (!stream.standstill || stream.standstill->acknowledged != tcp->bytes_acknowledged) {
      stream.standstill = Standstill{.acknowledged = tcp->bytes_acknowledged, .since = now};
    }
    const auto stands = stream.standstill ? since(stream.standstill->since) : std::chrono::milliseconds(0);
    // That the peer has closed the connection says no more than the questions.
    if (tcp->is_open) stream.silent_since = now - tcp->heard_ago;
    health.silent = since(stream.silent_since);
    health.is_broken = tcp->is_broken;
    if (tcp->unacknowledged > 0 && tcp->retransmits >= 2) health.silent = std::max(health.silent, stands);
    health.is_lost = tcp->unacknowledged > 0 && tcp->retransmits >= 2 && health.silent >= kPatience;
    health.is_mute = tcp->unacknowledged == 0 && tcp->unanswered >= 2 && health.silent >= kPatience;
  } else if (stream.failure) {
    health.is_lost = stream.failure->code() != ErrorCode::peer_lost;
  } else if (options_.rank < health.peer) {
    health.silent = since(stream.silent_since);
    health.is_lost = health.silent >= kPatience && since(stream.requested_at) >= kFirstAnswer;
  } else {
    return std::nullopt;  // who has not been called knows nothing of the way
  }
  return health;
}

std::vector<LaneLoad> LaneTransport::loads() {
  std::vector<LaneLoad> all;
  for (const uint32_t channel : used_) {
    const Stream& stream = streams_[channel];
    if (!stream.connection->uses_links()) continue;
    const std::optional<TcpState> tcp = tcp_state(stream.connection->fd());
    if (!tcp) continue;
    // The kernel may have no room although all that it holds is on its way.
    const bool was_refused = (stream.unanswered & POLLOUT) != 0;
    all.push_back({.peer = channel % options_.ranks,
                   .lane = channel / options_.ranks,
                   .has_more = tcp->bytes_unsent > 0 || was_refused,
                   .under_way = tcp->unacknowledged,
                   .arrived = tcp->bytes_acknowledged,
                   .busy = tcp->busy,
                   .receiver_was_full = tcp->receiver_was_full,
                   .round_trip = tcp->round_trip,
                   .least_round_trip = tcp->least_round_trip,
                   .rate = stream.rate});
  }
  return all;
}

void LaneTransport::try_path(uint32_t peer, const Path& path) {
  CHECK(options_.rank < peer) << "rank " << options_.rank << " is called by " << peer;
  connector_->request(peer, next_trial_, path);
  trials_.emplace(next_trial_++, path);
  ++pending_;
}

std::vector<LaneControl::Tried> LaneTransport::tried() {
  take_answers();
  return std::exchange(tried_, {});
}

void LaneTransport::drop_if(const std::function<bool(uint32_t lane)>& leaves) {
  for (uint32_t channel = 0; channel < streams_.size(); ++channel) {
    const bool is_open = streams_[channel].is_requested && !streams_[channel].is_dropped;
    if (is_open && leaves(channel / options_.ranks)) drop(channel);
  }
}

void LaneTransport::drop(uint32_t channel) {
  Stream& stream = this->stream(channel);
  const Clock::time_point now = Clock::now();
  if (const std::optional<LaneHealth> health = health_of(channel, now)) {
    stream.path->silent_since = std::max(stream.path->silent_since, now - health->silent);
    stream.path->left_at = now;
  }
  stream.is_dropped = true;
  stream.connection.reset();
  stream.held.reset();
  open_since_ = WaitSet::draw_number();
  stream.failure.reset();
  std::erase(used_, channel);
}

std::vector<std::byte> LaneTransport::drain(uint32_t channel) {
  take_answers();
  Stream& stream = this->stream(channel);
  std::vector<std::byte> rest;
  const auto read_all = [&] {
    std::array<std::byte, size_t{64} << 10> buffer;
    while (const size_t count = stream.connection->read(buffer)) {
      rest.insert(rest.end(), buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(count));
      add_to(stream.counter->received, count);
    }
  };
  if (stream.connection) {
    try {
      read_all();
    } catch (const Error&) {  // it has ended, or what follows is damaged: the peer is told how much was good
    }
  }
  drop(channel);
  return rest;
}

size_t LaneTransport::in_flight(uint32_t channel) {
  const Stream& stream = this->stream(channel);
  return stream.connection ? stream.connection->in_flight() : 0;
}

bool LaneTransport::was_reset(uint32_t channel) {
  const Stream& stream = this->stream(channel);
  if (!stream.connection) return false;
  const std::optional<TcpState> tcp = tcp_state(stream.connection->fd());
  return tcp && tcp->is_broken;
}

size_t LaneTransport::write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
  Connection* const connection = connected(channel);
  return connection == nullptr ? 0 : count_sent(streams_[channel], connection->write(head, body));
}

size_t LaneTransport::write_lasting(uint32_t channel, std::span<const std::byte> head,
                                    std::span<const std::byte> body) {
  Connection* const connection = connected(channel);
  return connection == nullptr ? 0 : count_sent(streams_[channel], connection->write_lasting(head, body));
}

size_t LaneTransport::count_sent(const Stream& stream, size_t taken) {
  add_to(stream.connection->uses_links() ? sent_by_tcp_ : sent_by_memory_, taken);
  add_to(stream.counter->sent, taken);
  return taken;
}

LaneTransport::Counter* LaneTransport::new_counter(uint32_t channel) {
  const std::lock_guard lock(mutex_);
  Counter& counter = counters_.emplace_back();
  counter.channel = channel;
  return &counter;
}

std::vector<LaneBytes> LaneTransport::lane_bytes() const {
  const std::lock_guard lock(mutex_);
  std::vector<LaneBytes> lanes;
  for (const Counter& counter : counters_) {
    lanes.push_back({.peer = counter.channel % options_.ranks,
                     .lane = counter.channel / options_.ranks,
                     .sent = counter.sent.load(std::memory_order_relaxed),
                     .received = counter.received.load(std::memory_order_relaxed)});
  }
  return lanes;
}

SentBytes LaneTransport::sent_bytes() const {
  return {.tcp = sent_by_tcp_.load(std::memory_order_relaxed),
          .shared_memory = sent_by_memory_.load(std::memory_order_relaxed)};
}

std::span<const std::byte> LaneTransport::peek(uint32_t channel) {
  Connection* const connection = connected(channel);
  return connection == nullptr ? std::span<const std::byte>() : connection->peek();
}

void LaneTransport::consume(uint32_t channel, size_t count) {
  if (count == 0) return;
  streams_[channel].connection->consume(count);
  add_to(streams_[channel].counter->received, count);
}

size_t LaneTransport::read(uint32_t channel, std::span<std::byte> into) {
  Connection* const connection = connected(channel);
  if (connection == nullptr) return 0;
  const size_t count = connection->read(into);
  add_to(streams_[channel].counter->received, count);
  return count;
}

// What breaks while nobody uses the stream is told to who does so next, and can then make its lane again.
template <typename Body>
void LaneTransport::attempt(Stream& stream, const Body& body) {
  if (stream.failure) return;
  try {
    body();
  } catch (const Error& error) {
    stream.failure = error;
  }
}

void LaneTransport::prepare(WaitSet& set) {
  set.watch_kept(wakes_.get(), POLLIN, open_since_);
  if (pending_ > 0) set.watch(connector_->event_fd(), POLLIN);
  watched_.clear();
  for (const uint32_t channel : used_) {
    // Only for what was tried in vain: bytes may have arrived that nobody is ready to read.
    Stream& stream = streams_[channel];
    short events = 0;
    const bool had_failed = stream.failure.has_value();
    attempt(stream, [&] { events = stream.connection->before_sleep(); });
    if (stream.failure) {
      if (!had_failed) set.work_now();  // to find it
      continue;
    }
    if (events == Connection::kNoSleep) {
      set.work_now();
    } else if ((stream.unanswered |= events) != 0) {
      set.watch_kept(stream.connection->fd(), stream.unanswered, open_since_);
      watched_.push_back(channel);
    }
  }
}

bool LaneTransport::react(std::span<const pollfd> polled) {
  const auto has_happened = [](const pollfd& each) { return each.revents != 0; };
  const std::span<const pollfd> of_streams = polled.last(watched_.size());
  for (size_t i = 0; i < watched_.size(); ++i) {
    if (!has_happened(of_streams[i])) continue;
    Stream& stream = streams_[watched_[i]];
    stream.unanswered = 0;
    attempt(stream, [&] { stream.connection->after_sleep(); });
  }
  if (has_happened(polled.front())) {
    eventfd_t count = 0;
    eventfd_read(wakes_.get(), &count);
  }
  take_answers();
  return std::ranges::any_of(polled, has_happened);
}

void LaneTransport::abandon() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  for (const Stream& stream : streams_) {
    if (!stream.connection || !stream.connection->uses_links()) continue;
    setsockopt(stream.connection->fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
}

bool LaneTransport::has_unsent(uint32_t channel) {
  const Stream& stream = this->stream(channel);
  if (!stream.connection) return false;
  if (stream.failure) throw Error(*stream.failure);
  return stream.connection->has_unsent();
}

bool LaneTransport::has_unsent_but(LaneChoice leaves_out) {
  return std::ranges::any_of(
      used_, [&](uint32_t channel) { return !leaves_out(channel / options_.ranks) && has_unsent(channel); });
}

void LaneTransport::wake() { eventfd_write(wakes_.get(), 1); }

}  // namespace banyan::run
