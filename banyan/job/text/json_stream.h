// Large JSON documents element by element: the events of a Kineto trace, the nodes of a host trace.
//
// nlohmann's SAX events are gathered into one small tree per element, handed to a callback and dropped; so memory is
// that of the largest element, of which kMaxJsonElement and kMaxJsonValues bound the characters and values. Text that
// profilers write and JSON forbids is mended on the way and counted, see json_text.h. Linear time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/text/trace_source.h"

namespace banyan::job {

// One value. A number keeps how it was written where that was with a fraction, since a time in microseconds since 1970
// does not fit into a double to the nanosecond.
struct JsonValue {
  enum class Type : uint8_t { null, boolean, whole, number, text, list, object };

  Type type = Type::null;
  bool boolean = false;
  int64_t integer = 0;  // of whole; above 2^63 clamped
  std::string written;  // of text: the text; of number: its digits
  std::vector<JsonValue> items;
  std::vector<std::string> keys;  // of an object: one per item

  const JsonValue* find(std::string_view key) const;
  // A whole number, or a text that is one ("12"), or a number without fraction.
  std::optional<int64_t> as_integer() const;
  std::optional<std::string_view> as_text() const;
  // Microseconds with a fraction ("1726134043823422.123") in nanoseconds, rounded. Nothing when it is no number or
  // beyond the range of nanoseconds.
  std::optional<int64_t> as_nanoseconds() const;
  // As JSON, for messages and for values that are printed lists.
  std::string to_text() const;
  // The text that it is, or else to_text().
  std::string text_or_json() const;
};

// The text of a member that may not be there, or nothing; its whole number, or nothing.
std::string_view text_of(const JsonValue* value);
std::optional<int64_t> integer_of(const JsonValue* value);

struct JsonStreamResult {
  uint64_t elements = 0;
  uint64_t mended = 0;    // characters and words that JSON forbids
  bool cut = false;       // the text ended within the streamed list, all complete elements were given
  uint64_t position = 0;  // where it ended
};

struct JsonStreamHandler {
  std::string_view
      streamed;  // the member of the document whose list is streamed; a document that is a list is streamed itself
  std::function<void(const JsonValue& element, uint64_t number)> element;
  std::function<void(std::string_view key, const JsonValue& value)> member;  // all others
  bool accept_cut = false;
  bool is_joined = false;  // documents follow one after the other without a list around them: each is an element
};

// An element, or a member of the document besides, has at most so many values: 400 MiB in memory.
constexpr uint64_t kMaxJsonValues = uint64_t{1} << 22;

// Throws Error{invalid_input} naming the source, the element and the position for text that is no JSON, and
// Error{unsupported} for an element that is too large. Errors of the callbacks pass through, with the source and the
// element's number, or the member's key, put in front.
JsonStreamResult stream_json(TraceSource& source, const JsonStreamHandler& handler);

}  // namespace banyan::job
