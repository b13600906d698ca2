#include "banyan/testing/simulated_network.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <utility>

namespace banyan::testing {

using run::ByteStream;
using run::Dialer;

run::Timers::Timer SimulatedTime::at(TimePoint when, std::function<void()> task) {
  const Timer timer{std::max(when, now_), ++next_number_};
  tasks_.emplace(timer, std::move(task));
  return timer;
}

void SimulatedTime::run_for(TimePoint::duration time) {
  const TimePoint end = now_ + time;
  while (!tasks_.empty() && tasks_.begin()->first.first <= end) {
    const auto node = tasks_.extract(tasks_.begin());
    now_ = node.key().first;
    node.mapped()();
  }
  now_ = end;
}

run::Timers::Timer SimulatedClock::at(TimePoint when, std::function<void()> task) {
  const Timer timer{std::max(when, now()), ++next_number_};
  tasks_.emplace(timer, std::move(task));
  arm();
  return timer;
}

void SimulatedClock::jump(TimePoint::duration forward) {
  ahead_ += forward;
  arm();
}

void SimulatedClock::stop() {
  is_stopped_ = true;
  disarm();
}

void SimulatedClock::go_on() {
  is_stopped_ = false;
  arm();
}

void SimulatedClock::disarm() {
  if (armed_) time_.cancel(*armed_);
  armed_.reset();
}

void SimulatedClock::arm() {
  disarm();
  if (is_stopped_ || tasks_.empty()) return;
  armed_ = time_.at(tasks_.begin()->first.first - ahead_, [this] {
    armed_.reset();
    call_due();
  });
}

// One: others come after it, so that events of the network may come between.
void SimulatedClock::call_due() {
  if (!tasks_.empty() && tasks_.begin()->first.first <= now()) {
    const auto node = tasks_.extract(tasks_.begin());
    arm();
    node.mapped()();
    return;  // it may have ended the process
  }
  arm();
}

// Two directions; the bytes that side s sends come to side 1 - s. Kept alive by its ends and by what is on its way.
class SimulatedNetwork::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(SimulatedNetwork& network, uint32_t caller, uint32_t callee, uint32_t path)
      : network_(network), processes_{caller, callee}, path_(path) {}

  bool joins(uint32_t a, uint32_t b) const {
    return (processes_[0] == a && processes_[1] == b) || (processes_[0] == b && processes_[1] == a);
  }
  bool is_of(uint32_t process) const { return processes_[0] == process || processes_[1] == process; }
  bool uses(uint32_t a, uint32_t b, uint32_t path) const { return path_ == path && joins(a, b); }
  bool is_blocked(size_t from) const { return network_.is_blocked(processes_[from], processes_[1 - from], path_); }

  void watch(size_t side, ByteStream::Ready ready) {
    sides_[side].ready = std::move(ready);
    notify_later(side);
  }
  void await_room(size_t side, bool on) {
    if (on && !sides_[side].awaits_room) tell_of_room(side);
    sides_[side].awaits_room = on;
  }
  size_t send(size_t side, std::string_view bytes) {
    if (is_broken_ || bytes.empty()) return 0;
    const size_t taken = network_.draw(4) == 0 ? network_.draw(bytes.size() + 1) : bytes.size();
    for (size_t begin = 0; begin < taken;) {
      const size_t piece = 1 + network_.draw(taken - begin);
      put(side, {.bytes = std::string(bytes.substr(begin, piece)), .is_end = false});
      begin += piece;
    }
    return taken;
  }
  ByteStream::Received receive(size_t side, std::span<char> buffer) {
    Side& own = sides_[side];
    const size_t count = std::min(buffer.size(), own.arrived.size());
    std::copy_n(own.arrived.begin(), count, buffer.begin());
    own.arrived.erase(0, count);
    if (count > 0) return {.count = count};
    if (is_broken_) return {.count = 0, .is_over = true, .is_orderly = false, .why = why_broken_};
    return {.count = 0,
            .is_over = own.has_ended,
            .is_orderly = own.has_ended,
            .is_said = own.has_ended,
            .why = own.has_ended ? "it has closed its connection" : ""};
  }
  void close(size_t side) {
    sides_[side].ready = {};
    if (!is_broken_) put(side, {.bytes = "", .is_end = true});
  }
  void break_off(const std::string& why) {
    if (std::exchange(is_broken_, true)) return;
    why_broken_ = why;
    for (size_t side : {0, 1}) {
      sides_[side].on_way.clear();
      notify_later(side);
    }
  }

 private:
  struct Packet {
    std::string bytes;
    bool is_end = false;
  };
  struct Side {
    ByteStream::Ready ready;
    std::string arrived;
    bool has_ended = false;  // the other side has closed, and all it sent is here
    bool awaits_room = false;
    std::deque<Packet> on_way;  // to the other side
  };

  void put(size_t side, Packet packet) {
    if (!packet.is_end) network_.count_piece();
    if (network_.silent_.contains(processes_[side]) && !packet.is_end) return;
    sides_[side].on_way.push_back(std::move(packet));
    if (sides_[side].on_way.size() == 1) deliver_after(side, network_.delay());
  }
  void deliver_after(size_t side, std::chrono::microseconds delay) {
    network_.time_.after(delay, [self = shared_from_this(), side] { self->deliver(side); });
  }
  // The first packet that `side` has on its way.
  void deliver(size_t side) {
    std::deque<Packet>& on_way = sides_[side].on_way;
    if (on_way.empty()) return;  // it was reset
    if (is_blocked(side)) return deliver_after(side, std::chrono::milliseconds(20));
    Side& other = sides_[1 - side];
    other.arrived += on_way.front().bytes;
    other.has_ended = other.has_ended || on_way.front().is_end;
    on_way.pop_front();
    if (!on_way.empty()) deliver_after(side, network_.draw(2) == 0 ? std::chrono::microseconds(0) : network_.delay());
    notify(1 - side, true, false);
  }
  void notify_later(size_t side) {
    network_.time_.after(network_.delay(), [self = shared_from_this(), side] { self->notify(side, true, false); });
  }
  // Again and again, as long as it is awaited.
  void tell_of_room(size_t side) {
    network_.time_.after(network_.delay(), [self = shared_from_this(), side] {
      if (!self->sides_[side].awaits_room || !self->sides_[side].ready) return;
      self->notify(side, false, true);
      self->tell_of_room(side);
    });
  }
  void notify(size_t side, bool may_receive, bool may_send) {
    network_.deliver_to(processes_[side], [self = shared_from_this(), side, may_receive, may_send] {
      const ByteStream::Ready ready = self->sides_[side].ready;  // which may be taken back while it runs
      if (ready) ready(may_receive, may_send);
    });
  }

  SimulatedNetwork& network_;
  const std::array<uint32_t, 2> processes_;
  const uint32_t path_;
  std::array<Side, 2> sides_;
  bool is_broken_ = false;
  std::string why_broken_;
};

class SimulatedNetwork::End final : public ByteStream {
 public:
  End(std::shared_ptr<Connection> connection, size_t side) : connection_(std::move(connection)), side_(side) {}
  ~End() override { connection_->close(side_); }
  void watch(Ready ready) override { connection_->watch(side_, std::move(ready)); }
  void await_room(bool on) override { connection_->await_room(side_, on); }
  size_t send(std::string_view bytes) override { return connection_->send(side_, bytes); }
  Received receive(std::span<char> buffer) override { return connection_->receive(side_, buffer); }

 private:
  const std::shared_ptr<Connection> connection_;  // shared by both ends
  const size_t side_;
};

class SimulatedNetwork::ProcessDialer final : public Dialer {
 public:
  ProcessDialer(SimulatedNetwork& network, uint32_t process) : network_(network), process_(process) {}
  uint32_t paths(uint32_t) const override { return network_.options_.paths; }
  uint64_t dial(uint32_t peer, uint32_t path, Done done) override {
    const uint64_t call = ++network_.next_call_;
    network_.calls_.emplace(call, Call{.caller = process_, .done = std::move(done)});
    network_.time_.after(network_.delay(), [this, call, peer, path] {
      network_.dial(call, process_, peer, path, network_.options_.dial_time);
    });
    return call;
  }
  void cancel(uint64_t call) override { network_.calls_.erase(call); }

 private:
  SimulatedNetwork& network_;
  const uint32_t process_;
};

SimulatedNetwork::SimulatedNetwork(SimulatedTime& time, const Options& options)
    : time_(time), options_(options), random_(options.seed), accepts_(options.processes) {
  for (uint32_t process = 0; process < options.processes; ++process) {
    dialers_.push_back(std::make_unique<ProcessDialer>(*this, process));
  }
}

SimulatedNetwork::~SimulatedNetwork() = default;

Dialer& SimulatedNetwork::dialer(uint32_t process) { return *dialers_[process]; }

void SimulatedNetwork::listen(uint32_t process, Accept accept) { accepts_[process] = std::move(accept); }

void SimulatedNetwork::end(uint32_t process) {
  accepts_[process] = nullptr;
  std::erase_if(calls_, [process](const auto& call) { return call.second.caller == process; });
  held_.erase(process);
  stopped_.erase(process);
}

void SimulatedNetwork::go_on(uint32_t process) {
  stopped_.erase(process);
  auto held = held_.extract(process);
  if (held.empty()) return;
  for (std::function<void()>& event : held.mapped()) {
    time_.after(delay(), [this, process, event = std::move(event)] { deliver_to(process, event); });
  }
}

void SimulatedNetwork::count_piece() {
  for (auto due = actions_.extract(pieces_); !due.empty(); due = actions_.extract(pieces_)) due.mapped()();
  ++pieces_;
}

void SimulatedNetwork::deliver_to(uint32_t process, std::function<void()> event) {
  if (stopped_.contains(process)) {
    held_[process].push_back(std::move(event));
  } else {
    event();
  }
}

std::chrono::microseconds SimulatedNetwork::delay() {
  const auto range = static_cast<uint64_t>((options_.most_delay - options_.least_delay).count());
  return options_.least_delay + std::chrono::microseconds(draw(range + 1));
}

void SimulatedNetwork::finish(uint64_t call, Dialer::Outcome outcome) {
  const auto found = calls_.find(call);
  if (found == calls_.end()) return;
  const auto shared = std::make_shared<Dialer::Outcome>(std::move(outcome));
  deliver_to(found->second.caller, [this, call, shared] {
    const auto node = calls_.extract(call);
    if (!node.empty()) node.mapped().done(std::move(*shared));
  });
}

// Until it is answered, again and again for the time that is left.
void SimulatedNetwork::dial(uint64_t call, uint32_t from, uint32_t to, uint32_t path, std::chrono::milliseconds left) {
  if (!calls_.contains(call)) return;
  const bool is_reached = is_open(from, to, path);
  if (is_reached && (!accepts_[to] || refusing_.contains(to) || refusing_.contains(from))) {
    finish(call, {.stream = nullptr, .failure = "nobody listens at its port", .nobody_listens = true});
    return;
  }
  if (!is_reached || stopped_.contains(to)) {
    constexpr std::chrono::milliseconds kAgain{50};
    if (left <= kAgain) {
      return finish(call, {.stream = nullptr, .failure = "it does not answer", .somebody_listens = is_reached});
    }
    time_.after(kAgain, [=, this] { dial(call, from, to, path, left - kAgain); });
    return;
  }
  const auto connection = std::make_shared<Connection>(*this, from, to, path);
  std::erase_if(connections_, [](const auto& known) { return known.expired(); });
  connections_.push_back(connection);
  auto own = std::make_shared<std::unique_ptr<ByteStream>>(std::make_unique<End>(connection, 0));
  accepts_[to](from, std::make_unique<End>(connection, 1));
  time_.after(delay(), [this, call, own] { finish(call, {.stream = std::move(*own), .failure = ""}); });
}

void SimulatedNetwork::reset(uint32_t a, uint32_t b) {
  for (const auto& known : std::vector(connections_)) {
    const auto connection = known.lock();
    if (connection != nullptr && connection->joins(a, b)) connection->break_off("its connection was reset");
  }
}

void SimulatedNetwork::refuse(uint32_t process, bool on) {
  if (!on) {
    refusing_.erase(process);
    return;
  }
  refusing_.insert(process);
  for (const auto& known : std::vector(connections_)) {
    const auto connection = known.lock();
    if (connection != nullptr && connection->is_of(process)) connection->break_off("its connection was reset");
  }
}

void SimulatedNetwork::block(uint32_t a, uint32_t b, uint32_t path) {
  const uint64_t number = ++blocks_;
  if (!blocked_.emplace(std::tuple(a, b, path), number).second) return;
  time_.after(options_.lost_after, [this, a, b, path, number] {
    const auto found = blocked_.find({a, b, path});
    if (found == blocked_.end() || found->second != number) return;
    for (const auto& known : std::vector(connections_)) {
      const auto connection = known.lock();
      if (connection != nullptr && connection->uses(a, b, path)) connection->break_off("its host has not answered");
    }
  });
}

void SimulatedNetwork::cut(const std::set<uint32_t>& side) {
  for (uint32_t a = 0; a < options_.processes; ++a) {
    for (uint32_t b = 0; b < options_.processes; ++b) {
      if (side.contains(a) == side.contains(b)) continue;
      for (uint32_t path = 0; path < options_.paths; ++path) block(a, b, path);
    }
  }
}

}  // namespace banyan::testing
