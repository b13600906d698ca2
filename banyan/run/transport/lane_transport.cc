#include "banyan/run/transport/lane_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan {

LaneTransport::LaneTransport(std::unique_ptr<Connector> connector, Options options)
    : connector_(std::move(connector)),
      options_(std::move(options)),
      connections_(size_t{options_.ranks} * options_.lanes),
      requested_(connections_.size()),
      failures_(connections_.size()),
      wakes_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wakes_.is_open()) throw system_error("cannot make an eventfd");
}

LaneTransport::~LaneTransport() = default;

TcpConnection* LaneTransport::connected(uint32_t channel) {
  DCHECK(channel < connections_.size()) << channel;
  TcpConnection& connection = connections_[channel];
  if (connection.is_open()) return &connection;
  if (!requested_[channel]) {
    const uint32_t peer = channel % options_.ranks, lane = channel / options_.ranks;
    connector_->request(peer, lane, options_.path ? options_.path(peer, lane) : Path());
    requested_[channel] = true;
    ++pending_;
  }
  take_answers();
  if (failures_[channel]) throw *failures_[channel];
  return connection.is_open() ? &connection : nullptr;
}

void LaneTransport::take_answers() {
  if (pending_ == 0) return;
  for (Connector::Answer& answer : connector_->take()) {
    const uint32_t channel = this->channel(answer.peer, answer.lane);
    CHECK(requested_[channel] && !connections_[channel].is_open()) << "nobody asked for " << channel;
    --pending_;
    if (answer.failure) {
      failures_[channel] = std::move(answer.failure);
      continue;
    }
    // Messages are handed over whole, so nothing is gained by holding small ones back.
    const int on = 1;
    setsockopt(answer.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connections_[channel] = TcpConnection(answer.peer, std::move(answer.socket));
    used_.push_back(channel);
  }
}

size_t LaneTransport::write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
  TcpConnection* const connection = connected(channel);
  return connection == nullptr ? 0 : connection->write(head, body);
}

std::span<const std::byte> LaneTransport::peek(uint32_t channel) {
  TcpConnection* const connection = connected(channel);
  return connection == nullptr ? std::span<const std::byte>() : connection->peek();
}

void LaneTransport::consume(uint32_t channel, size_t count) { connections_[channel].consume(count); }

size_t LaneTransport::read(uint32_t channel, std::span<std::byte> into) {
  TcpConnection* const connection = connected(channel);
  return connection == nullptr ? 0 : connection->read(into);
}

void LaneTransport::wait(std::chrono::milliseconds at_most) {
  std::vector<pollfd> polled{{.fd = wakes_.get(), .events = POLLIN, .revents = 0}};
  if (pending_ > 0) polled.push_back({.fd = connector_->event_fd(), .events = POLLIN, .revents = 0});
  for (const uint32_t channel : used_) {
    // Only what was tried in vain: see TcpTransport.
    TcpConnection& connection = connections_[channel];
    if (const short events = connection.take_awaited(); events != 0) {
      polled.push_back({.fd = connection.fd(), .events = events, .revents = 0});
    }
  }
  const int rc = poll(polled.data(), polled.size(), static_cast<int>(at_most.count()));
  if (rc < 0 && errno != EINTR) throw system_error("cannot wait for connections");
  if (rc > 0 && polled[0].revents != 0) {
    eventfd_t count = 0;
    eventfd_read(wakes_.get(), &count);
  }
  take_answers();
}

void LaneTransport::wake() { eventfd_write(wakes_.get(), 1); }

}  // namespace banyan
