// The characters of a source as JSON allows them, for a parser that is as strict as JSON.
//
// Mended and counted is what profilers write and JSON forbids: NaN and infinities (become null), control characters in
// texts (become spaces), stray backslashes (are doubled), bytes that are not UTF-8 (become '?'). All else passes, for
// the parser to refuse.
//
// Constant time a character. Memory: a few characters. Since a parser gathers a text or number before it tells of it,
// one of more than kMaxJsonElement characters is refused here.
#pragma once

#include <cstdint>
#include <string>

#include "banyan/job/text/trace_source.h"

namespace banyan::job {

constexpr uint64_t kMaxJsonElement = uint64_t{1} << 26;  // 64 MiB

class JsonText {
 public:
  // The source is borrowed.
  explicit JsonText(TraceSource& source) : source_(source) {}

  // The next character, or -1 after the last. Throws Error{unsupported} for a text or number that is too long, and what
  // TraceSource::next throws.
  int next();

  uint64_t mended() const { return mended_; }

 private:
  int give(std::string text);
  int word(int first);
  int in_string(int c);
  int character(int first);
  [[noreturn]] void too_long() const;

  TraceSource& source_;
  std::string waiting_;
  size_t waiting_at_ = 0;
  bool in_string_ = false;
  bool in_number_ = false;
  uint64_t run_ = 0;  // characters since a text, or a value, began
  uint64_t mended_ = 0;
};

}  // namespace banyan::job
