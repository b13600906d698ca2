// Channel: one stream of bytes each way with a peer, as a sequence of messages of the executions that use it.
//
// Executions have their turns in the order in which they were started, each way
// on its own: the next one begins to send when the one before has sent all it has to send here, and to receive
// likewise. Within a turn, credits go first, and the streams of the execution take turns slice by slice.
//
// A confirmation may be held back, until the next execution has a message of its own to send here: both are written at
// once then. The receiver reads the same bytes either way.
//
// For the engine, whose header is the manual. After an exception, only reset() may be called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "banyan/run/engine/execution.h"
#include "banyan/run/engine/message.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

class Channel {
 public:
  using Port = Execution::Port;

  explicit Channel(uint32_t number) : number_(number) {}

  // The last in the order, in the directions in which it moves anything.
  void add(Port& port);
  // No execution waits for a turn.
  bool is_idle() const { return in_.is_empty() && out_.is_empty(); }
  // Forgets all turns, and what is half way.
  void reset();
  uint32_t number() const { return number_; }

  // Both move what can be moved of one message within `allowance` bytes, which they count down, and say whether
  // anything moved. `finished` becomes the execution that is done with that, if one is.
  bool receive(Transport& transport, size_t& allowance, Execution*& finished);
  // True if the last message that came whole was a confirmation; another message may have come with it.
  bool has_read_confirmation() const { return has_read_confirmation_; }
  // `may_hold`: a confirmation may be held back if nobody waits for it, and nothing can be sent behind it. One that
  // went with another message may have ended an execution, too: take_confirmed().
  bool send(Transport& transport, size_t& allowance, Execution*& finished, bool may_hold);
  // True if a message is ready, or half sent.
  bool has_more_to_send() const {
    return is_sending_ ||
           (!out_.is_empty() && !is_holding_ &&
            (out_.first().first_owing != Execution::kNone || out_.first().first_ready != Execution::kNone));
  }
  Execution* take_confirmed() { return std::exchange(confirmed_, nullptr); }
  // True if the last send() held a confirmation back.
  bool is_holding() const { return is_holding_; }

  uint64_t message_count() const { return messages_sent_; }  // sent so far

 private:
  // Ports in the order of their turns, one way. Each has the link to the next one itself.
  template <Port* Port::*next>
  class Turns {
   public:
    bool is_empty() const { return first_ == nullptr; }
    Port& first() const { return *first_; }
    void add(Port& port) {
      port.*next = nullptr;
      (is_empty() ? first_ : last_->*next) = &port;
      last_ = &port;
    }
    void end_first() { first_ = first_->*next; }

   private:
    Port *first_ = nullptr, *last_ = nullptr;
  };

  size_t read(Transport& transport, size_t& allowance, std::span<std::byte> into) const {
    const size_t count = transport.read(number_, into.size() <= allowance ? into : into.first(allowance));
    allowance -= count;
    return count;
  }
  bool fill_header(Transport& transport, size_t& allowance);
  bool receive_opening(Transport& transport, size_t& allowance);
  bool receive_body(Transport& transport, size_t& allowance);
  bool receive_and_reduce(Transport& transport, size_t& allowance);
  bool begin_sending(bool may_hold);
  void put_head(Port& port, const Execution::Outgoing& outgoing);
  void check_opening() const;
  void begin_message();

  uint32_t number_ = 0;
  uint64_t messages_sent_ = 0;

  // State of receiving.
  Turns<&Port::next_in> in_;
  Opening opening_;          // of it only the header, but in an opening
  size_t header_bytes_ = 0;  // of these, read
  bool has_body_ = false;    // the header is complete; the body is awaited
  bool has_read_confirmation_ = false;
  Execution::Incoming incoming_;
  size_t done_ = 0;                   // bytes of the body
  std::array<std::byte, 8> split_{};  // the first bytes of an element whose other bytes have not arrived
  size_t split_bytes_ = 0;

  // State of sending.
  Turns<&Port::next_out> out_;
  bool is_sending_ = false, is_holding_ = false;
  Execution* confirmed_ = nullptr;
  std::array<std::byte, 2 * (sizeof(Opening) + sizeof(MessageHeader))> head_{};  // a confirmation's before another one
  size_t head_size_ = 0;
  Execution::Outgoing outgoing_;
  size_t written_ = 0;  // bytes of head and body
};

}  // namespace banyan::run
