#include "banyan/run/transport/ucx/transport.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/system_error.h"
#include "banyan/run/system/waiter.h"
#include "banyan/run/transport/arrival_ring.h"
#include "banyan/run/transport/tcp_connection.h"
#include "banyan/run/transport/ucx/control.h"
#include "banyan/run/transport/ucx/worker.h"

namespace banyan::run::ucx {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kWindow = ArrivalRing::kBytes;
// Room is made known when there is so much of it that nobody is ever held back for long, without a message for each
// one that is read.
constexpr uint64_t kReport = kWindow / 4;
// Parcels of one stream that UCX has not sent yet. More would only cost memory.
constexpr uint32_t kMostInFlight = 24;
// At the end, for what is on its way; and for receipts, which do not come from those who do nothing.
constexpr milliseconds kLinger{500}, kReceiptLinger{100};
// Whoever never waits looks at the sockets once in so many looks at UCX.
constexpr uint32_t kLooksPerSocketLook = 256;
// What UCX cannot wait for, a full ring in shared memory for instance, is looked for so many times, then at intervals.
constexpr uint32_t kRestlessLooks = 1000;
constexpr milliseconds kNap{1};
// Marks in epoll what is not a peer's socket.
constexpr uint64_t kWakes = UINT64_MAX, kAnswers = UINT64_MAX - 1, kUcx = UINT64_MAX - 2;

// As much of both as there is room for; says how much.
size_t copy(std::span<const std::byte> head, std::span<const std::byte> body, std::span<std::byte> into) {
  const size_t of_head = std::min(head.size(), into.size());
  const size_t of_body = std::min(body.size(), into.size() - of_head);
  if (of_head > 0) std::memcpy(into.data(), head.data(), of_head);
  if (of_body > 0) std::memcpy(into.data() + of_head, body.data(), of_body);
  return of_head + of_body;
}

class Transport final : public ChannelTransport, private WorkerListener {
 public:
  Transport(std::unique_ptr<Connector> connector, const Options& options);
  ~Transport() override;

  uint32_t channel(uint32_t peer, uint32_t lane) const override { return lane * options_.ranks + peer; }
  size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override;
  std::span<const std::byte> peek(uint32_t channel) override;
  void consume(uint32_t channel, size_t count) override;
  size_t read(uint32_t channel, std::span<std::byte> into) override;
  bool listen(uint32_t channel) override;
  void prepare(WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  void wake() override { eventfd_write(wakes_.get(), 1); }
  bool has_unsent(uint32_t channel) override;
  bool has_unsent_but(LaneChoice leaves_out) override;
  LaneControl* lane_control() override { return nullptr; }
  SentBytes sent_bytes() const override { return {.ucx = sent_bytes_.load(std::memory_order_relaxed)}; }

 private:
  // One direction each of what two ranks say on a lane.
  struct Stream {
    uint64_t sent = 0, acknowledged = 0;
    uint64_t sent_before_answer = 0;  // before anything had come from the peer
    uint32_t in_flight = 0;           // parcels
    ArrivalRing arrivals;
    uint64_t reported = 0;  // as consumed
  };
  struct Peer {
    bool is_requested = false;
    bool is_needed = false;   // and not only listened to
    bool is_patient = false;  // the request: made when it was not needed
    FileDescriptor socket;
    std::optional<ControlReader> control;
    std::vector<std::byte> unsent;  // of our own
    uint64_t ticket = 0;            // that its messages show; 0: none, they are not heard
    bool is_met = false;            // UCX knows its address
    bool is_connected = false;      // and a first message has gone there
    bool has_answered = false;      // something has come from it by UCX
    bool is_settled = false;        // and it has consumed what we sent since: UCX has connected both for good
    bool is_broken = false;         // UCX brings nothing more
    bool has_receipt = false;       // from us
    std::optional<Error> failure;   // why nothing can be sent any more
  };

  Peer& peer_of(uint32_t channel) { return peers_[channel % options_.ranks]; }
  bool is_connected(uint32_t rank);
  void seek(uint32_t rank);
  void request(uint32_t rank);
  void take_answers();
  void adopt(Connector::Answer answer);
  void post(uint32_t rank, const std::vector<std::byte>& message);
  void send_control(uint32_t rank);
  void receive_control(uint32_t rank);
  void meet(uint32_t rank);
  void fail(uint32_t rank, Error error);
  bool is_awaited(uint32_t rank, uint32_t lane) const;
  bool is_awaited(uint32_t rank) const;
  void give_receipt(uint32_t rank);
  void drop_lost_peers();
  void look();
  void look_at_sockets();
  void report(uint32_t channel);
  void send_parcel(uint32_t channel, Parcel& parcel);
  void send_consumed(uint32_t channel);
  void watch(int fd, uint64_t mark, uint32_t events, int how);
  bool has_arrivals(uint32_t channel);
  void part();
  void linger(Clock::time_point end, const std::function<bool()>& is_over);
  bool is_everything_sent() const;
  bool is_everything_received() const;

  void arrived(const Header& header, std::span<const std::byte> bytes) override;
  void sent(uint32_t channel) override;
  void failed(uint32_t rank, const std::string& why) override;

  const std::unique_ptr<Connector> connector_;
  const Options options_;
  std::vector<Peer> peers_;
  std::vector<Stream> streams_;  // by channel
  FileDescriptor wakes_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::atomic<uint64_t> sent_bytes_{0};  // one thread writes
  FileDescriptor epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::random_device random_;
  size_t pending_ = 0;          // requested and not answered
  std::vector<size_t> unsent_;  // parcels, by lane
  uint32_t looks_ = 0;
  std::vector<uint32_t> gone_;  // peers that failed and that UCX still keeps
  bool has_news_ = false;       // something happened since the last sleep
  bool is_armed_ = false;       // UCX wakes this sleep when it has something to do
  uint32_t restless_ = 0;       // sleeps in a row in which it could not be armed
  // The last, since its end may still report to us.
  const ForkGuard fork_guard_;
  std::unique_ptr<Worker> worker_{new Worker(*this)};
};

Transport::Transport(std::unique_ptr<Connector> connector, const Options& options)
    : connector_(std::move(connector)),
      options_(options),
      peers_(options.ranks),
      streams_(size_t{options.ranks} * options.lanes),
      unsent_(options.lanes) {
  if (!wakes_.is_open() || !epoll_.is_open()) throw system_error("cannot make file descriptors to wait on");
  watch(wakes_.get(), kWakes, EPOLLIN, EPOLL_CTL_ADD);
  watch(connector_->event_fd(), kAnswers, EPOLLIN, EPOLL_CTL_ADD);
  watch(worker_->event_fd(), kUcx, EPOLLIN, EPOLL_CTL_ADD);
}

Transport::~Transport() {
  if (fork_guard_.is_in_child()) {  // what is shared with the parent goes on there
    static_cast<void>(worker_.release());
    return;
  }
  try {
    part();
  } catch (...) {
    // Nobody is left to be told: what this end still owed is lost, which its peers notice.
  }
}

void Transport::watch(int fd, uint64_t mark, uint32_t events, int how) {
  epoll_event event{.events = events, .data = {.u64 = mark}};
  if (epoll_ctl(epoll_.get(), how, fd, &event) != 0) throw system_error("cannot watch a file descriptor");
}

// ---- Peers ----

bool Transport::is_connected(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.is_connected) return true;
  peer.is_needed = true;
  seek(rank);
  if (peer.failure) throw Error(*peer.failure);
  // What is taken before would stay here until UCX has connected itself, and this process may be busy elsewhere then.
  peer.is_connected = peer.is_met && streams_[rank].in_flight == 0;
  return peer.is_connected;
}

// Comes nearer to a connection.
void Transport::seek(uint32_t rank) {
  if (!peers_[rank].is_requested) request(rank);
  if (pending_ > 0) take_answers();
  if (peers_[rank].socket.is_open()) receive_control(rank);
}

void Transport::request(uint32_t rank) {
  connector_->request(rank, 0, Path());
  peers_[rank].is_requested = true;
  peers_[rank].is_patient = !peers_[rank].is_needed;
  ++pending_;
}

void Transport::take_answers() {
  for (Connector::Answer& answer : connector_->take()) {
    --pending_;
    adopt(std::move(answer));
  }
}

void Transport::adopt(Connector::Answer answer) {
  const uint32_t rank = answer.peer;
  Peer& peer = peers_.at(rank);
  CHECK(peer.is_requested && answer.lane == 0 && !peer.control) << "nobody asked for rank " << rank;
  has_news_ = true;
  if (answer.failure && answer.failure->code() == ErrorCode::timed_out && peer.is_patient) return request(rank);
  if (answer.failure) {
    peer.failure = std::move(answer.failure);
    return;
  }
  peer.socket = std::move(answer.socket);
  peer.control.emplace(options_.lanes, "rank " + std::to_string(rank));
  while (peer.ticket == 0) peer.ticket = uint64_t{random_()} << 32 | random_();
  watch(peer.socket.get(), rank, EPOLLIN, EPOLL_CTL_ADD);
  post(rank, to_bytes(Greeting{
                 .lanes = options_.lanes, .your_rank = rank, .ticket = peer.ticket, .address = worker_->address()}));
}

void Transport::post(uint32_t rank, const std::vector<std::byte>& message) {
  Peer& peer = peers_[rank];
  if (!peer.socket.is_open()) return;
  peer.unsent.insert(peer.unsent.end(), message.begin(), message.end());
  watch(peer.socket.get(), rank, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
  send_control(rank);
}

void Transport::send_control(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (!peer.socket.is_open() || peer.unsent.empty()) return;
  const ssize_t count = send(peer.socket.get(), peer.unsent.data(), peer.unsent.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) fail(rank, connection_error(rank, errno));
    return;
  }
  peer.unsent.erase(peer.unsent.begin(), peer.unsent.begin() + count);
  if (peer.unsent.empty()) watch(peer.socket.get(), rank, EPOLLIN, EPOLL_CTL_MOD);
}

void Transport::receive_control(uint32_t rank) {
  Peer& peer = peers_[rank];
  std::array<std::byte, 4096> bytes;
  while (peer.socket.is_open()) {
    const ssize_t count = recv(peer.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (count <= 0) return fail(rank, connection_error(rank, count == 0 ? ECONNRESET : errno));
    try {
      peer.control->take(std::span(bytes).first(static_cast<size_t>(count)));
      if (peer.control->greeting() && !peer.is_met) meet(rank);
      give_receipt(rank);
      has_news_ = true;
    } catch (const Error& error) {
      return fail(rank, error);
    }
  }
}

void Transport::meet(uint32_t rank) {
  worker_->connect(rank, peers_[rank].control->greeting()->address);
  peers_[rank].is_met = true;
  has_news_ = true;
  send_consumed(channel(rank, 0));
  for (uint32_t lane = 1; lane < options_.lanes; ++lane) report(channel(rank, lane));
}

// The first reason is the reason.
void Transport::fail(uint32_t rank, Error error) {
  Peer& peer = peers_[rank];
  if (peer.socket.is_open()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, peer.socket.get(), nullptr);  // a forked process may have it, too
    peer.socket.reset();
  }
  if (peer.failure) return;
  peer.failure = std::move(error);
  if (peer.is_met) gone_.push_back(rank);
  has_news_ = true;
}

// Whether bytes may still come although the peer is gone: UCX may be slower than the socket.
bool Transport::is_awaited(uint32_t rank, uint32_t lane) const {
  const Peer& peer = peers_[rank];
  return !peer.is_broken && peer.control && peer.control->farewell() &&
         streams_[channel(rank, lane)].arrivals.arrived() < peer.control->farewell()->at(lane);
}

bool Transport::is_awaited(uint32_t rank) const {
  for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (is_awaited(rank, lane)) return true;
  }
  return false;
}

void Transport::give_receipt(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (peer.has_receipt || !peer.control->farewell() || is_awaited(rank)) return;
  peer.has_receipt = true;
  post(rank, receipt_to_bytes());
}

// UCX may not notice for long that a peer is gone, and would go on trying to send to it.
void Transport::drop_lost_peers() {
  if (gone_.empty()) return;
  while (worker_->progress()) {
  }
  std::erase_if(gone_, [this](uint32_t rank) {
    if (is_awaited(rank)) return false;
    peers_[rank].is_broken = true;
    worker_->cut(rank, peers_[rank].is_settled);
    return true;
  });
}

// ---- Streams ----

size_t Transport::write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
  if (!is_connected(channel % options_.ranks)) {
    look();
    return 0;
  }
  const Peer& peer = peer_of(channel);
  Stream& of = streams_[channel];
  const auto room = [&of] { return of.in_flight < kMostInFlight ? kWindow - (of.sent - of.acknowledged) : 0; };
  if (room() == 0) look();
  size_t count = 0;
  while (!peer.failure && count < head.size() + body.size() && room() > 0) {
    Parcel& parcel = worker_->take_parcel();
    const auto into = std::span(parcel.bytes).first(std::min<uint64_t>(room(), Parcel::kBytes));
    const size_t size =
        count < head.size() ? copy(head.subspan(count), body, into) : copy({}, body.subspan(count - head.size()), into);
    parcel.size = static_cast<uint32_t>(size);
    count += size;
    send_parcel(channel, parcel);
  }
  if (peer.failure) throw Error(*peer.failure);
  return count;
}

void Transport::send_parcel(uint32_t channel, Parcel& parcel) {
  const uint32_t rank = channel % options_.ranks;
  const Greeting& greeting = *peers_[rank].control->greeting();
  Stream& of = streams_[channel];
  of.reported = of.arrivals.consumed();
  parcel.channel = channel;
  parcel.header = {.ticket = greeting.ticket,
                   .position = of.sent,
                   .consumed = of.reported,
                   .rank = greeting.your_rank,
                   .lane = channel / options_.ranks};
  of.sent += parcel.size;
  sent_bytes_.store(sent_bytes_.load(std::memory_order_relaxed) + parcel.size, std::memory_order_relaxed);
  if (!worker_->send(rank, parcel)) return;
  ++of.in_flight;
  ++unsent_[channel / options_.ranks];
}

void Transport::send_consumed(uint32_t channel) {
  Parcel& parcel = worker_->take_parcel();
  parcel.size = 0;
  send_parcel(channel, parcel);
}

// Tells the sender of what was consumed, when it is much.
void Transport::report(uint32_t channel) {
  const Stream& of = streams_[channel];
  Peer& peer = peer_of(channel);
  if (of.arrivals.consumed() - of.reported < kReport || !peer.is_met || peer.failure) return;
  receive_control(channel % options_.ranks);
  if (peer.failure || peer.control->farewell()) return;  // whoever leaves must not be talked to
  send_consumed(channel);
}

bool Transport::has_arrivals(uint32_t channel) {
  const ArrivalRing& arrivals = streams_[channel].arrivals;
  if (!arrivals.is_empty()) return true;
  const uint32_t rank = channel % options_.ranks;
  is_connected(rank);
  look();
  if (!arrivals.is_empty()) return true;
  if (!peers_[rank].failure || is_awaited(rank, channel / options_.ranks)) return false;
  drop_lost_peers();  // which looks once more
  if (arrivals.is_empty()) throw Error(*peers_[rank].failure);
  return true;
}

std::span<const std::byte> Transport::peek(uint32_t channel) {
  return has_arrivals(channel) ? streams_[channel].arrivals.peek() : std::span<const std::byte>();
}

void Transport::consume(uint32_t channel, size_t count) {
  streams_[channel].arrivals.consume(count);
  report(channel);
}

size_t Transport::read(uint32_t channel, std::span<std::byte> into) {
  if (!has_arrivals(channel)) return 0;
  const size_t count = streams_[channel].arrivals.read(into);
  report(channel);
  return count;
}

bool Transport::has_unsent(uint32_t channel) {
  if (streams_[channel].in_flight > 0) look();
  return streams_[channel].in_flight > 0;
}

bool Transport::has_unsent_but(LaneChoice leaves_out) {
  for (uint32_t lane = 0; lane < unsent_.size(); ++lane) {
    if (unsent_[lane] > 0 && !leaves_out(lane)) return true;
  }
  return false;
}

// What there is to know else, read() finds out.
bool Transport::listen(uint32_t channel) {
  const uint32_t rank = channel % options_.ranks;
  const Peer& peer = peers_[rank];
  if (!peer.is_met && !peer.failure) seek(rank);
  return peer.is_met || peer.failure;
}

// ---- What happens ----

void Transport::arrived(const Header& header, std::span<const std::byte> bytes) {
  if (header.rank >= options_.ranks || header.lane >= options_.lanes) return;
  Peer& peer = peers_[header.rank];
  if (peer.ticket == 0 || header.ticket != peer.ticket) return;  // strangers may knock
  Stream& of = streams_[channel(header.rank, header.lane)];
  if (header.consumed > of.sent || (!bytes.empty() && !of.arrivals.put(header.position, bytes))) {
    peer.ticket = 0;
    peer.is_broken = true;
    return fail(header.rank, Error(ErrorCode::invalid_input, "rank " + std::to_string(header.rank) +
                                                                 " does not keep to the rules of the UCX transport"));
  }
  if (!peer.has_answered) {
    for (uint32_t lane = 0; lane < options_.lanes; ++lane) {
      Stream& stream = streams_[channel(header.rank, lane)];
      stream.sent_before_answer = stream.sent;
    }
    peer.has_answered = true;
  }
  of.acknowledged = std::max(of.acknowledged, header.consumed);
  if (of.acknowledged > of.sent_before_answer) peer.is_settled = true;
  has_news_ = true;
  give_receipt(header.rank);
}

void Transport::sent(uint32_t channel) {
  --streams_[channel].in_flight;
  --unsent_[channel / options_.ranks];
  has_news_ = true;
}

void Transport::failed(uint32_t rank, const std::string& why) {
  peers_[rank].is_broken = true;
  const std::string lost = connection_error(rank, ECONNRESET).message();
  fail(rank, Error(ErrorCode::peer_lost, lost + " (UCX: " + why + ")"));
}

// ---- Waiting ----

void Transport::look() {
  worker_->progress();
  if (++looks_ % kLooksPerSocketLook == 0) look_at_sockets();
}

void Transport::look_at_sockets() {
  std::array<epoll_event, 16> events;
  const int count = epoll_wait(epoll_.get(), events.data(), events.size(), 0);
  if (count < 0 && errno != EINTR) throw system_error("cannot look at connections");
  for (int i = 0; i < count; ++i) {
    const uint64_t mark = events[static_cast<size_t>(i)].data.u64;
    if (mark == kWakes) {
      eventfd_t wakes = 0;
      eventfd_read(wakes_.get(), &wakes);
      has_news_ = true;
    } else if (mark == kAnswers) {
      take_answers();
    } else if (mark != kUcx) {
      const auto rank = static_cast<uint32_t>(mark);
      send_control(rank);
      receive_control(rank);
    }
  }
}

// UCX has a descriptor of its own, which is armed before each sleep. Where it cannot be, since UCX waits for something
// that has no descriptor, the sleep is short.
void Transport::prepare(WaitSet& set) {
  drop_lost_peers();
  do {
    while (!has_news_ && worker_->progress()) continue;
    is_armed_ = has_news_ || worker_->arm();
  } while (!is_armed_ && worker_->progress());
  set.watch(epoll_.get(), POLLIN);
  restless_ = is_armed_ ? 0 : restless_ + 1;
  if (has_news_) {
    set.work_now();
  } else if (!is_armed_) {
    set.wake_at(WaitSet::Clock::now() + (restless_ < kRestlessLooks ? milliseconds(0) : kNap));
  }
}

bool Transport::react(std::span<const pollfd> polled) {
  if (polled.front().revents != 0) look_at_sockets();
  if (!is_armed_) sched_yield();  // it depends on a process that wants to run
  return std::exchange(has_news_, false);
}

// ---- The end ----

void Transport::linger(Clock::time_point end, const std::function<bool()>& is_over) {
  while (!is_over() && Clock::now() < end) {
    if (!worker_->progress()) wait_for(*this, milliseconds(1));
  }
}

bool Transport::is_everything_sent() const {
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].in_flight > 0 && !peers_[i % options_.ranks].failure) return false;
  }
  return true;
}

bool Transport::is_everything_received() const {
  for (uint32_t i = 0; i < streams_.size(); ++i) {
    const Peer& peer = peers_[i % options_.ranks];
    const bool is_known = peer.failure || !peer.is_met || peer.control->has_receipt();
    if (!is_known && streams_[i].acknowledged < streams_[i].sent) return false;
  }
  return true;
}

void Transport::part() {
  const Clock::time_point end = Clock::now() + kLinger;
  linger(end, [this] { return is_everything_sent(); });
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (!peers_[rank].is_met || peers_[rank].failure) continue;
    std::vector<uint64_t> sent;
    for (uint32_t lane = 0; lane < options_.lanes; ++lane) sent.push_back(streams_[channel(rank, lane)].sent);
    post(rank, farewell_to_bytes(sent));
  }
  linger(std::min(end, Clock::now() + kReceiptLinger), [this] { return is_everything_received(); });
  for (uint32_t rank = 0; rank < options_.ranks; ++rank) {
    if (peers_[rank].failure) worker_->cut(rank, peers_[rank].is_settled);
  }
  worker_->flush();
  linger(end, [this] { return worker_->has_finished(); });
}

}  // namespace

std::unique_ptr<ChannelTransport> make_transport(std::unique_ptr<Connector> connector, const Options& options) {
  CHECK(options.ranks > 0 && options.lanes > 0) << options.ranks << " ranks, " << options.lanes << " lanes";
  return std::make_unique<Transport>(std::move(connector), options);
}

std::string why_unavailable() {
  try {
    const Library library;
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace banyan::run::ucx
