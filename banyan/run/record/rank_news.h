// RankNews: what a rank tells its peers of the calls it made last and of its messages, while somebody waits. It travels
// as a text.
//
// A few bytes per call, so that a whole world can answer many at once; what it has left out, the dumps (dump.h) have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/call/operation.h"
#include "banyan/run/record/message_book.h"
#include "banyan/run/record/stall.h"

namespace banyan::run {

struct RankNews {
  static constexpr size_t kCalls = 32, kMessages = 16, kPairs = 128;

  // Its last collectives, the oldest first, at most kCalls. Their times are not told.
  std::vector<OperationRecord> calls;
  int64_t since = 0;  // ns since the last of them ended, or since it was called if it is under way; 0 unknown
  // Those under way, and of those at most kMessages, first those that somebody waits for; at most kPairs peers, first
  // those of these messages. Times are before now, which is 0.
  MessageRecords messages = {};

  // The news from this memory of a Recorder, and from these messages, as of `now` on CLOCK_MONOTONIC. Throws
  // Error{invalid_input} when there is no recorder.
  static RankNews read(std::span<const std::byte> recorder, const MessageBook& messages, int64_t now);
  // A text that is not one of news gives no call and no message.
  static RankNews decode(std::string_view text);
  std::string encode() const;

  // For diagnose_stall. Points into `calls` and `messages`.
  RankState state(uint32_t rank, Health health) const;
};

}  // namespace banyan::run
