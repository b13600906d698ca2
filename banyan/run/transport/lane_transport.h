// LaneTransport: streams over connections that are made when they are first used, each lane a connection of its own:
// by TCP, and with peers of the same host through shared memory. A stream that is not connected yet takes nothing and
// shows nothing.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "banyan/run/seal/seal.h"
#include "banyan/run/system/awake_time.h"
#include "banyan/run/transport/channel_transport.h"
#include "banyan/run/transport/connection.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

class LaneTransport : public ChannelTransport, public LaneControl {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 0;
    std::function<Path(uint32_t peer, uint32_t lane)> path = {};  // asked when a lane is first used; empty: any
    bool zero_copy = false;                                       // when TCP sends: see TcpConnection
    bool checksums = false;  // of what links carry (checked_connection.h); the same on all ranks
    // Sealing of what links carry (sealed_connection.h), by the keys that the connector gives; the same on all ranks.
    // It finds all that checksums would, so there are none then.
    std::optional<Sealing> sealing = {};
    std::function<bool(uint32_t peer)> shares_memory = {};  // whether it may be tried; empty: with nobody
    // Asked before a connection is made, for the memory that this end of it has; `is_shared`: the peer maps that, too.
    // The result is kept as long as the connection; an exception is the failure of the lane. Empty: there is enough.
    std::function<std::shared_ptr<void>(uint64_t bytes, bool is_shared)> holder = {};
  };
  LaneTransport(std::unique_ptr<Connector> connector, Options options);
  ~LaneTransport() override;

  uint32_t channel(uint32_t peer, uint32_t lane) const override { return lane * options_.ranks + peer; }

  // Throw Error{peer_lost}, Error{timed_out}, Error{io}, all naming the peer, when there is no connection any more or
  // none could be made.
  size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override;
  size_t write_lasting(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) override;
  std::span<const std::byte> peek(uint32_t channel) override;
  void consume(uint32_t channel, size_t count) override;
  size_t read(uint32_t channel, std::span<std::byte> into) override;
  bool listen(uint32_t channel) override;
  void prepare(WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool has_unsent(uint32_t channel) override;
  bool has_unsent_but(LaneChoice leaves_out) override;
  void abandon() override;
  LaneControl* lane_control() override { return this; }
  SentBytes sent_bytes() const override;
  std::vector<LaneBytes> lane_bytes() const override;

  void pace(uint32_t channel, uint64_t bytes_per_second) override;
  void mark(uint8_t dscp) override;
  // A lane is lost if bytes that were sent more than once have not been acknowledged for kPatience, or if the peer
  // could not be called for so long. If an earlier lane on the same path was dropped less than kFirstAnswer before the
  // call, its silence counts, too, and the call itself need last only kFirstAnswer.
  static constexpr std::chrono::milliseconds kPatience{2000}, kFirstAnswer{500};
  std::vector<LaneHealth> health() override;
  std::vector<LaneLoad> loads() override;
  void drop_if(const std::function<bool(uint32_t lane)>& leaves) override;
  std::vector<std::byte> drain(uint32_t channel) override;
  size_t in_flight(uint32_t channel) override;
  bool was_reset(uint32_t channel) override;
  void announce_path(uint32_t peer, const Path& path) override { connector_->know(peer, path); }
  void try_path(uint32_t peer, const Path& path) override;
  std::vector<Tried> tried() override;
  void wake() override;

 private:
  using Clock = AwakeClock;
  // Bytes of a lane; one thread writes.
  struct Counter {
    uint32_t channel = 0;
    std::atomic<uint64_t> sent{0}, received{0};
  };
  // Bytes wait for their acknowledgement, and none has come.
  struct Standstill {
    uint64_t acknowledged = 0;
    Clock::time_point since;
  };
  // A path to a peer. Lanes of later plans take those of earlier ones.
  struct KnownPath {
    Clock::time_point silent_since = {}, left_at = {};  // as the lanes that were dropped knew
  };
  struct Stream {
    std::shared_ptr<void> held;  // of the holder
    std::unique_ptr<Connection> connection;
    KnownPath* path = nullptr;   // of what was requested
    Counter* counter = nullptr;  // of a lane that is connected
    bool is_requested = false, is_dropped = false;
    bool is_needed = false;   // and not only listened to
    bool is_patient = false;  // the request: made when it was not needed
    Clock::time_point requested_at, silent_since;
    uint64_t rate = 0;     // bytes per second; 0: any
    short unanswered = 0;  // events that were waited for, and that have not happened
    std::optional<Standstill> standstill = {};
    std::optional<Error> failure;
  };

  template <typename Body>
  static void attempt(Stream& stream, const Body& body);
  size_t count_sent(const Stream& stream, size_t taken);
  Counter* new_counter(uint32_t channel);
  // The connection, once it stands; asks for it at first.
  Connection* connected(uint32_t channel);
  void request(uint32_t channel);
  void drop(uint32_t channel);
  std::optional<LaneHealth> health_of(uint32_t channel, Clock::time_point now);
  bool shares_memory(uint32_t peer) const { return options_.shares_memory && options_.shares_memory(peer); }
  std::shared_ptr<void> hold(uint32_t peer) const;
  std::unique_ptr<Connection> connection_of(Connector::Answer answer) const;
  void take_answers();
  Stream& stream(uint32_t channel);

  const std::unique_ptr<Connector> connector_;
  const Options options_;
  std::vector<Stream> streams_;                                                // by channel
  std::map<std::tuple<uint32_t, std::string, std::string>, KnownPath> paths_;  // by peer and the addresses of both ends
  std::optional<uint8_t> dscp_;                                                // none: packets are as they come
  size_t pending_ = 0;                                                         // requested and not answered
  std::map<uint32_t, Path> trials_;                                            // of those, by lane
  std::vector<Tried> tried_;
  uint32_t next_trial_ = Connector::kFirstTrial;
  // Bytes that connections took; one thread writes.
  std::atomic<uint64_t> sent_by_tcp_{0}, sent_by_memory_{0};
  mutable std::mutex mutex_;  // protects that there are more and more of these
  std::deque<Counter> counters_;
  FileDescriptor wakes_;                          // an eventfd
  uint64_t open_since_ = WaitSet::draw_number();  // all descriptors that prepare() adds
  std::vector<uint32_t> used_;                    // channels that are connected
  std::vector<uint32_t> watched_;                 // channels whose descriptors are the last that prepare() added
};

}  // namespace banyan::run
