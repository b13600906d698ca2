// Messages between two ranks, as the executors start them and describe them.
#pragma once

#include <string>

#include "banyan/element/data_type.h"
#include "banyan/run/call/call.h"
#include "banyan/run/message/tag_matcher.h"

namespace banyan::run {

// "10 int32". A type of another version's is a number.
inline std::string message_words(const MessageShape& shape) {
  if (shape.type() >= element::kDataTypes) {
    return std::to_string(shape.bytes()) + " bytes of type " + std::to_string(shape.type());
  }
  const auto type = static_cast<element::DataType>(shape.type());
  return std::to_string(shape.bytes() / size_of(type)) + " " + std::string(to_string(type));
}

// Begins to send or receive as the call says; returns the ticket. `messages`: Mailboxes or a Messenger.
template <typename Messages>
uint64_t start_message_in(Messages& messages, const Call& call) {
  static_assert(kAnyRank == kAnyPeer);
  const size_t bytes = call.count * size_of(call.type);
  const auto type = static_cast<uint8_t>(call.type);
  return call.kind == OperationKind::send
             ? messages.send({.to = call.other, .tag = call.tag, .bytes = {call.send, bytes}, .type = type})
             : messages.receive({.from = call.other, .tag = call.tag, .into = {call.recv, bytes}, .type = type});
}

}  // namespace banyan::run
