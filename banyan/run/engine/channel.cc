#include "banyan/run/engine/channel.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
void Channel::add(Port& port) {
  if (port.in_left > 0) in_.add(port);
  if (port.out_left > 0) out_.add(port);
}

void Channel::reset() {
  const uint64_t count = messages_sent_;
  *this = Channel(number_);
  messages_sent_ = count;
}

// ---- Receiving ----

bool Channel::receive(Transport& transport, size_t& allowance, Execution*& finished) {
  has_read_confirmation_ = false;
  if (in_.is_empty()) return false;  // what may follow belongs to an operation that this rank has not begun
  bool moved = false;
  // 1. The header. Before the first message of an execution stands an opening, which says what was called there.
  if (!has_body_) {
    moved = fill_header(transport, allowance);
    if (header_bytes_ < sizeof(MessageHeader)) return moved;
    if (opening_.header.kind == MessageKind::opening) {
      moved |= receive_opening(transport, allowance);
      if (header_bytes_ > 0) return moved;
      moved |= fill_header(transport, allowance);
      if (header_bytes_ < sizeof(MessageHeader)) return moved;
    }
    begin_message();
  }
  // 2. The body, into its place or straight through the reduction.
  if (done_ < incoming_.size) {
    moved |= incoming_.is_reduced ? receive_and_reduce(transport, allowance) : receive_body(transport, allowance);
    if (done_ < incoming_.size) return moved;
  }
  // 3. The message is whole: the execution goes on, and its turn ends with its last one.
  Port& port = in_.first();
  has_read_confirmation_ = has_body_ && incoming_.is_confirmation;
  if (has_body_) port.owner->slice_came(port, incoming_);
  has_body_ = false;
  header_bytes_ = 0;
  if (port.in_left > 0) return true;
  in_.end_first();
  if (port.owner->is_done()) finished = port.owner;
  return true;
}

bool Channel::fill_header(Transport& transport, size_t& allowance) {
  const auto header = std::as_writable_bytes(std::span(&opening_.header, 1));
  const size_t count = read(transport, allowance, header.subspan(std::min(header_bytes_, header.size())));
  header_bytes_ += count;
  return count > 0;
}

// Reads what an opening has beyond its header; then the header is free for the next message.
bool Channel::receive_opening(Transport& transport, size_t& allowance) {
  const auto opening = std::as_writable_bytes(std::span(&opening_, 1));
  const size_t count = read(transport, allowance, opening.subspan(header_bytes_));
  header_bytes_ += count;
  if (header_bytes_ < opening.size()) return count > 0;
  check_opening();
  in_.first().has_opened_in = true;
  header_bytes_ = 0;
  return true;
}

void Channel::check_opening() const {
  const EngineCommand& command = in_.first().owner->command();
  // Sequence and signature tell whether both ranks make the same call here.
  const MismatchError::Side own{command.sequence, command.signature};
  const MismatchError::Side others{opening_.header.number, opening_.signature};
  if (!in_.first().has_opened_in && own.sequence == others.sequence && own.signature == others.signature) return;
  throw MismatchError(in_.first().peer, own, others);
}

void Channel::begin_message() {
  Port& port = in_.first();
  const MessageHeader& header = opening_.header;
  const std::string sender = "rank " + std::to_string(port.peer);
  done_ = 0;
  incoming_ = {};
  if (header.kind < MessageKind::opening || header.kind > MessageKind::credit ||
      (header.kind == MessageKind::credit && header.length > 0)) {
    throw Error(ErrorCode::mismatch,
                sender + " sent what is no message: it runs another version, or with another BANYAN_CHECKSUMS");
  }
  // No opening: the peer has more to send than this rank expects of the execution before.
  if (!port.has_opened_in) {
    throw Error(ErrorCode::mismatch, sender + " sends more than this rank expects of the operation before number " +
                                         std::to_string(port.owner->command().sequence));
  }
  if (header.kind == MessageKind::credit) return port.owner->credit_came(port, header);
  incoming_ = port.owner->slice_comes(port, header);
  has_body_ = true;
}

bool Channel::receive_body(Transport& transport, size_t& allowance) {
  const size_t count = read(transport, allowance, {incoming_.target + done_, incoming_.size - done_});
  done_ += count;
  return count > 0;
}

bool Channel::receive_and_reduce(Transport& transport, size_t& allowance) {
  Execution& execution = *in_.first().owner;
  const size_t element_bytes = execution.element_bytes();
  bool moved = false;
  while (done_ < incoming_.size && allowance > 0) {
    // The bytes are reduced where the transport has them, without a copy.
    std::span<const std::byte> arrived = transport.peek(number_);
    if (arrived.empty()) break;
    moved = true;
    arrived = arrived.first(std::min(arrived.size(), allowance));
    // An element may arrive in parts: its first bytes wait for the others.
    if (split_bytes_ > 0 || arrived.size() < element_bytes) {
      split_bytes_ += read(transport, allowance, {split_.data() + split_bytes_, element_bytes - split_bytes_});
      if (split_bytes_ < element_bytes) continue;
      execution.reduce_piece(incoming_, done_, split_.data(), 1);
      split_bytes_ = 0;
      done_ += element_bytes;
    } else {
      const size_t count = std::min(arrived.size(), incoming_.size - done_) / element_bytes;
      execution.reduce_piece(incoming_, done_, arrived.data(), count);
      transport.consume(number_, count * element_bytes);
      allowance -= count * element_bytes;
      done_ += count * element_bytes;
    }
  }
  return moved;
}

// ---- Sending ----

// Of the next message of the port.
void Channel::put_head(Port& port, const Execution::Outgoing& outgoing) {
  const auto put = [&](const auto& part) {
    std::memcpy(head_.data() + head_size_, &part, sizeof part);
    head_size_ += sizeof part;
  };
  // The first message of an execution on the channel comes behind an opening.
  if (!port.has_opened_out) {
    const EngineCommand& command = port.owner->command();
    put(Opening{.header = {.number = command.sequence, .length = sizeof(Opening::signature)},
                .signature = command.signature});
    port.has_opened_out = true;
  }
  put(outgoing.header);
}

// Takes the next message of the execution whose turn it is, and with its confirmation the next one of the execution
// behind it; false when there is none that may leave now.
inline bool Channel::begin_sending(bool may_hold) {
  Port& port = out_.first();
  Port* const behind = port.next_out;
  const bool is_last = port.owner->has_only_confirmation(port);
  head_size_ = 0;
  // A confirmation goes with the next message of the execution behind it, if there is one now.
  const bool goes_with_next = is_last && behind != nullptr && !behind->owner->has_only_confirmation(*behind) &&
                              behind->owner->next_message(*behind, outgoing_);
  // Of more than two ranks others may wait for it to pass their own on.
  const EngineCommand& command = port.owner->command();
  is_holding_ = is_last && may_hold && !goes_with_next && command.confirms_late && command.plan->ranks == 2;
  if (is_holding_) return false;
  if (goes_with_next) {
    Execution::Outgoing confirmation;
    port.owner->next_message(port, confirmation);
    put_head(port, confirmation);
    port.owner->message_sent(port, confirmation);
    ++messages_sent_;
    out_.end_first();
    if (port.owner->is_done()) confirmed_ = port.owner;
  } else if (!port.owner->next_message(port, outgoing_)) {
    return false;
  }
  put_head(out_.first(), outgoing_);
  written_ = 0;
  is_sending_ = true;
  return true;
}

bool Channel::send(Transport& transport, size_t& allowance, Execution*& finished, bool may_hold) {
  if (out_.is_empty() || allowance == 0) return false;
  if (!is_sending_ && !begin_sending(may_hold)) return false;
  Port& port = out_.first();
  // Head and body are one write. It may be cut by the allowance or the transport, and goes on from there.
  const size_t of_head = std::min(written_, head_size_);
  std::span<const std::byte> head = std::span(head_).first(head_size_).subspan(of_head);
  std::span<const std::byte> body = outgoing_.body.subspan(written_ - of_head);
  if (head.size() + body.size() > allowance) {
    head = head.first(std::min(head.size(), allowance));
    body = body.first(std::min(body.size(), allowance - head.size()));
  }
  const size_t count =
      outgoing_.lasts ? transport.write_lasting(number_, head, body) : transport.write(number_, head, body);
  written_ += count;
  allowance -= count;
  if (written_ < head_size_ + outgoing_.body.size()) return count > 0;
  // The message has gone; the turn ends with the last one of its execution.
  is_sending_ = false;
  ++messages_sent_;
  port.owner->message_sent(port, outgoing_);
  if (port.out_left > 0) return true;
  out_.end_first();
  if (port.owner->is_done()) finished = port.owner;
  return true;
}

}  // namespace banyan::run
