// One message between two ranks, as records and errors tell of it.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/element/data_type.h"
#include "banyan/run/call/operation.h"

namespace banyan::run {

struct MessageRecord {
  uint64_t number = 0;  // counts the messages of this rank from 1, in the order in which they began
  uint64_t count = 0;   // of elements
  // Since when somebody has waited for it in vain, by CLOCK_MONOTONIC in ns; 0: nobody waits for it.
  int64_t awaited_since = 0;
  uint32_t peer = kNoRank;  // kNoRank: of a receive from any rank, until it is over
  uint32_t tag = 0;
  bool is_send = false;
  element::DataType type = element::DataType::uint8;
  OperationState state = OperationState::running;  // not waiting

  // One that failed was under way until then.
  bool is_open() const { return state != OperationState::done; }
  uint64_t bytes() const { return count * size_of(type); }
  friend bool operator==(const MessageRecord&, const MessageRecord&) = default;
};

// "send of 400,000 bytes (tag 0) to rank 1", "receive of 4 bytes (tag 7) from any rank".
std::string describe(const MessageRecord& message);

}  // namespace banyan::run
