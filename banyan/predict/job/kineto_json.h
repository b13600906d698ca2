// Large JSON documents element by element: the events of a Kineto trace, the nodes of a host trace.
//
// nlohmann's SAX events are gathered into one small tree per element, handed to a callback and dropped; so memory is
// that of the largest element. What profilers write and JSON forbids is mended on the way and counted: NaN and
// infinities (become null), control characters and stray backslashes in strings, bytes that are not UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/predict/job/kineto_source.h"

namespace banyan {

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
};

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
};

// Throws Error{invalid_input} naming the source, the element and the position for text that is no JSON, and
// Error{unsupported} for an element of more than kMaxElement characters. Errors of the callbacks pass through, with the
// source and the element's number put in front.
JsonStreamResult stream_json(TraceSource& source, const JsonStreamHandler& handler);

constexpr uint64_t kMaxJsonElement = uint64_t{1} << 26;  // 64 MiB

}  // namespace banyan
