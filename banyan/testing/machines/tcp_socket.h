// TcpSocket: one end of a simulated TCP connection, or a socket that listens. See machines.h for what is true to TCP.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "banyan/testing/machines/kernel.h"

namespace banyan::testing::machines {

class TcpSocket final : public Object, public std::enable_shared_from_this<TcpSocket> {
 public:
  explicit TcpSocket(Kernel& kernel);

  int bind(Address address);
  int listen();
  // None: nobody has called yet.
  std::shared_ptr<TcpSocket> accept();
  // Zero, or EINPROGRESS by fail().
  int connect(Address address);
  bool is_connecting() const { return state_ == State::connecting; }
  int shut_down_sending();

  uint32_t events() const override;
  // Bytes, or -1 and EAGAIN where there are none, or no room.
  ssize_t read(void* into, size_t size) override;
  ssize_t write(const void* from, size_t size) override;
  void close() override;

  Address local() const { return local_; }
  bool is_connected() const { return state_ == State::connected; }
  Address remote() const { return remote_; }
  std::shared_ptr<TcpSocket> peer() const { return peer_; }
  int take_error() { return std::exchange(error_, 0); }
  // The connection is lost for this end, which gets `error`.
  void break_off(int error);

  void set_user_timeout(std::chrono::milliseconds after) { user_timeout_ = after; }
  void keep_alive_for(std::chrono::seconds after);

  struct Info {
    bool is_broken = false;
    uint64_t unacknowledged = 0, acknowledged = 0, retransmits = 0;
    std::chrono::milliseconds last_heard{0};  // ago
  };
  Info info() const;

 private:
  enum class State : uint8_t { fresh, listening, connecting, connected, broken };

  Scheduler& scheduler() const { return kernel_.scheduler(); }
  uint16_t free_port();
  void call(Nanoseconds pause, Nanoseconds end);
  void join(const std::shared_ptr<TcpSocket>& peer);
  bool reaches_peer() const { return kernel_.is_open(local_.ip, remote_.ip); }
  bool hears_peer() const { return kernel_.is_open(remote_.ip, local_.ip); }
  size_t room() const;
  bool has_unacknowledged() const { return acked_ < sent_ || (has_fin_ && !is_fin_acked_); }
  void send_later(size_t count);
  void arrive(size_t count);
  void acknowledge_later();
  void acknowledged(uint64_t up_to, bool with_fin);
  void watch_for_silence();
  void retransmit();
  void probe();

  Kernel& kernel_;
  State state_ = State::fresh;
  bool is_closed_ = false;
  Address local_, remote_;
  std::deque<std::shared_ptr<TcpSocket>> callers_;  // while it listens
  std::shared_ptr<TcpSocket> peer_;
  int error_ = 0;

  // What this end sends.
  size_t capacity_ = 0;  // bytes on their way, or unread by the peer
  std::string unarrived_;
  uint64_t sent_ = 0, acked_ = 0;
  bool has_fin_ = false, is_fin_acked_ = false;
  bool has_gap_ = false;  // something was lost: the rest waits until it is sent again
  Nanoseconds last_arrival_ = 0, last_heard_ = 0, stalled_since_ = 0;
  uint64_t retransmits_ = 0;
  Nanoseconds pause_ = 0;                            // until it is sent again
  bool is_watched_ = false;                          // for acknowledgements that are late
  std::chrono::milliseconds user_timeout_{900'000};  // some 15 minutes, as by tcp_retries2
  std::chrono::seconds alive_for_{0};                // with keep-alive

  // What has arrived here.
  std::string inbox_;
  bool has_peers_fin_ = false;
};

}  // namespace banyan::testing::machines
