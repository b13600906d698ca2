#include "lab/link_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <deque>
#include <optional>

#include "banyan/run/system/ds_field.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "lab/network_namespace.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in socket_address(Address address, uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = htonl(address.bits);
  result.sin_port = htons(port);
  return result;
}

run::FileDescriptor make_socket(const std::string& network_namespace, Address address) {
  const InNamespace inside(network_namespace);
  run::FileDescriptor made(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made.is_open()) throw run::system_error("cannot make a socket");
  const sockaddr_in own = socket_address(address, 0);
  if (bind(made.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
    throw run::system_error("cannot use " + address.to_string());
  }
  return made;
}

// A stream that is under way.
class Flow {
 public:
  Flow(const Lab& lab, const Stream& stream) {
    listener_ = make_socket(lab.namespace_of(stream.to), stream.to_address);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    if (listen(listener_.get(), 1) != 0 ||
        getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      throw run::system_error("cannot listen at " + stream.to_address.to_string());
    }
    sender_ = make_socket(lab.namespace_of(stream.from), stream.from_address);
    run::mark_packets(sender_.get(), stream.dscp);
    is_broken_ =
        connect(sender_.get(), reinterpret_cast<const sockaddr*>(&bound), sizeof bound) != 0 && errno != EINPROGRESS;
  }

  // What is waited for; a negative descriptor is not.
  std::array<pollfd, 2> polled() const {
    return {pollfd{.fd = receiver_.is_open() ? receiver_.get() : listener_.get(), .events = POLLIN, .revents = 0},
            pollfd{.fd = is_broken_ ? -1 : sender_.get(), .events = POLLOUT, .revents = 0}};
  }

  void go_on(bool may_receive, bool may_send, Clock::time_point counting_since) {
    if (may_send && send(sender_.get(), piece_.data(), piece_.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
      is_broken_ = true;
    }
    if (!may_receive) return;
    if (!receiver_.is_open()) {
      receiver_ = run::FileDescriptor(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      return;
    }
    const ssize_t count = recv(receiver_.get(), piece_.data(), piece_.size(), 0);
    if (count <= 0) return;
    last_ = Clock::now();
    // The bytes that the bucket held at the beginning came faster.
    if (first_) {
      counted_ += static_cast<uint64_t>(count);
    } else if (last_ > counting_since) {
      first_ = last_;
    }
  }

  double bytes_per_second() const {
    if (is_broken_ || !first_ || last_ <= *first_) return 0;
    return static_cast<double>(counted_) / std::chrono::duration<double>(last_ - *first_).count();
  }

 private:
  run::FileDescriptor listener_, sender_, receiver_;
  bool is_broken_ = false;
  std::array<std::byte, 1 << 16> piece_{};
  std::optional<Clock::time_point> first_;  // that counts
  Clock::time_point last_;
  uint64_t counted_ = 0;
};

}  // namespace

std::vector<double> measure_streams(const Lab& lab, const std::vector<Stream>& streams,
                                    std::chrono::milliseconds duration) {
  std::deque<Flow> flows;
  for (const Stream& stream : streams) flows.emplace_back(lab, stream);
  const Clock::time_point begin = Clock::now(), end = begin + duration;
  std::vector<pollfd> polled;
  for (Clock::time_point now = begin; now < end; now = Clock::now()) {
    polled.clear();
    for (const Flow& flow : flows) {
      for (const pollfd& each : flow.polled()) polled.push_back(each);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - now);
    if (poll(polled.data(), polled.size(), static_cast<int>(left.count())) < 0) throw run::system_error("cannot poll");
    for (size_t i = 0; i < flows.size(); ++i) {
      flows[i].go_on(polled[2 * i].revents != 0, polled[2 * i + 1].revents != 0, begin + duration / 5);
    }
  }
  std::vector<double> rates;
  for (const Flow& flow : flows) rates.push_back(flow.bytes_per_second());
  return rates;
}

double measure_link(const Lab& lab, uint32_t cable, NodeId from, std::chrono::milliseconds duration) {
  const NodeId to = lab.plan().cables()[cable].other_end(from);
  return measure_streams(lab,
                         {{.from = from,
                           .to = to,
                           .from_address = lab.plan().port(from, cable).address,
                           .to_address = lab.plan().port(to, cable).address}},
                         duration)
      .front();
}

}  // namespace banyan::lab
