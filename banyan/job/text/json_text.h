// The characters of a source as JSON allows them, for a parser that is as strict as JSON.
//
// Mended and counted is what profilers write and JSON forbids: NaN and infinities (become null), control characters in
// texts (become spaces), stray backslashes (are doubled), bytes that are not UTF-8 (become '?'), quotes within texts
// that are not keys (get their backslash). A quote ends such a text where JSON could go on behind it: at the end of the
// object or list, or at a comma with a key, or a value of a list, behind it. All else passes, for the parser to refuse.
//
// Constant time a character. Memory: a few characters, up to kMostAhead behind a quote, and a bit a level of nesting.
// Since a parser gathers a text or number before it tells of it, one of more than kMaxJsonElement characters is refused
// here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/job/text/trace_source.h"

namespace banyan::job {

constexpr uint64_t kMaxJsonElement = uint64_t{1} << 26;  // 64 MiB

class JsonText {
 public:
  enum class Documents : uint8_t { one, joined };  // joined: any number, one after the other, become one list

  // The source is borrowed.
  explicit JsonText(TraceSource& source, Documents documents = Documents::one)
      : source_(source), joins_(documents == Documents::joined) {}

  // The next character, or -1 after the last. Throws Error{unsupported} for a text or number that is too long, and what
  // TraceSource::next throws.
  int next();

  uint64_t mended() const { return mended_; }
  // A place in the text: what next() has taken.
  uint64_t position() const { return source_.position() - (ahead_.size() - ahead_at_); }
  bool is_at_end() { return peek(0) < 0; }

 private:
  static constexpr size_t kMostAhead = 4096;

  int take();              // the next character as it is written
  int take_ahead();        // of what was looked at
  int peek(size_t ahead);  // the one so many behind that, or -1; O(ahead)
  int after_blanks(size_t& ahead);
  bool ends_text();
  bool is_key(size_t ahead);
  void follow(int c);
  int joined(int c);
  int give(std::string text);
  int word(int first);
  int in_string(int c);
  int character(int first);
  [[noreturn]] void too_long() const;

  TraceSource& source_;
  const bool joins_;
  uint64_t joined_ = 0;     // documents
  bool is_closed_ = false;  // the list of them
  std::string ahead_;       // taken from the source across its pieces; given from ahead_at_ on
  size_t ahead_at_ = 0;
  std::vector<bool> in_object_;  // else in a list: by level
  bool key_is_next_ = false;     // a text that begins now is a key
  std::string waiting_;
  size_t waiting_at_ = 0;
  bool in_string_ = false;
  bool in_number_ = false;
  uint64_t run_ = 0;  // characters since a text, or a value, began
  uint64_t mended_ = 0;
};

}  // namespace banyan::job
