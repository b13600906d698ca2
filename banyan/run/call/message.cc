#include "banyan/run/call/message.h"

#include "banyan/base/text.h"

namespace banyan::run {

std::string describe(const MessageRecord& message) {
  const std::string other = message.peer == kNoRank ? "any rank" : "rank " + std::to_string(message.peer);
  return (message.is_send ? "send of " : "receive of ") + with_thousands(message.bytes()) + " bytes (tag " +
         std::to_string(message.tag) + (message.is_send ? ") to " : ") from ") + other;
}

}  // namespace banyan::run
