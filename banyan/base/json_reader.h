// JSON documents read strictly: what a reader did not ask for, or asked for and did not find, is an Error that names
// the place of the culprit ("chunks[3].units") and the mend.
//
//   const JsonDocument document(text, {.name = "plan", .format = "schedule/1", .depth = 16});
//   const JsonNode plan = document.root().with_keys({"banyan", "planner", "chunks"});
//   for (const JsonNode chunk : plan.at("chunks").items()) {
//     chunk.with_keys({"root", "units"});
//     units += chunk.at("units").whole();        // "chunks[3].units is not a whole number, zero or above: it is -1"
//   }
//
// Refused are broken JSON (with line and column), nesting deeper than the format's, a key that stands twice in an
// object, unknown keys (with the nearest known one), missing keys, other types, numbers that do not fit. Errors are
// Error{invalid_input} where nothing else is said; their `where` is empty, or "line 7" where the form asks for lines,
// for the caller to put the file's name in front.
//
// A document is one array of values of 16 bytes and one of their texts, so it costs about as much as its text and is
// read once. A node is two words, to be passed by value; it borrows its document, which must outlive it. Its place is
// looked for only when an error needs it. All are immutable: any thread may read them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/units.h"

namespace banyan {

class JsonDocument;

// One value of a document.
class JsonNode {
 public:
  // "chunks[3].units"; of the whole document its name, "the plan".
  std::string place() const;
  // An Error about this value: its place, a space and `message`.
  Error error(const std::string& message) const;
  // Returns step(); its errors get this place.
  template <typename Step>
  auto placed(Step step) const -> decltype(step()) {
    try {
      return step();
    } catch (const Error& error) {
      throw with_place(error);
    }
  }

  // ---- What it is.

  bool is_object() const;
  bool is_array() const;
  bool is_text() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_whole(uint64_t least, uint64_t most) const;

  // ---- Objects. All throw when it is none.

  // Itself, when it has no other keys than these.
  JsonNode with_keys(std::initializer_list<std::string_view> known) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  std::optional<JsonNode> find(std::string_view key) const;
  JsonNode at(std::string_view key) const;  // throws when there is none

  struct Member;
  std::vector<Member> members() const;  // in the order of the document

  // ---- Arrays. All throw when it is none.

  class Items;
  Items items() const;
  size_t size() const;
  JsonNode operator[](size_t i) const;          // i < size()
  std::vector<uint32_t> small_numbers() const;  // all of it; each below 2^32

  // ---- Values. All throw when it is of another type or out of range.

  std::string text() const;
  bool boolean() const;
  uint64_t whole(uint64_t least = 0, uint64_t most = UINT64_MAX) const;
  int64_t integer(int64_t least, int64_t most) const;
  double number(double least, double most) const;  // the limits may be infinite
  // A number of something of which there are `count`, counted from 0: "ranks".
  uint32_t number_of(size_t count, std::string_view what) const;
  // Returns `parse` of the text; its errors get this place.
  template <typename Parse>
  auto parsed(Parse parse) const -> decltype(parse(std::string())) {
    const std::string value = text();
    return placed([&] { return parse(value); });
  }
  // Texts with a unit, as units.h reads them.
  Bytes bytes() const;
  Bandwidth bandwidth() const;
  Picoseconds duration() const;

  // An object as it stands in the document, for another reader.
  std::string_view object_text() const;

  std::string in_words() const;  // short, for messages: "abc" in quotes, -1, an array

 private:
  friend class JsonDocument;
  JsonNode(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}

  Error is_not(const std::string& expected) const;
  Error with_place(const Error& error) const;
  template <typename Parse>
  auto with_unit(const char* example, Parse parse) const;

  const JsonDocument* document_;
  uint32_t index_;
};

struct JsonNode::Member {
  std::string_view key;
  JsonNode value;
};

class JsonNode::Items {
 public:
  class Iterator {
   public:
    JsonNode operator*() const { return JsonNode(document_, index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend class Items;
    Iterator(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
    const JsonDocument* document_;
    uint32_t index_;
  };
  Iterator begin() const { return {document_, first_}; }
  Iterator end() const { return {document_, first_ + count_}; }

 private:
  friend class JsonNode;
  Items(const JsonDocument* document, uint32_t first, uint32_t count)
      : document_(document), first_(first), count_(count) {}
  const JsonDocument* document_;
  uint32_t first_, count_;
};

// Shared by documents of one kind.
struct JsonForm {
  std::string_view name;         // "plan", for messages about the whole
  std::string_view format = {};  // what "banyan" says in each of them: "schedule/1"; empty: they have no such key
  size_t depth = 16;             // of nesting; what is deeper is refused before anything recursive sees it
  bool tells_lines = false;      // by people: errors say "line 7" in front of the place
};

class JsonDocument {
 public:
  // Borrows `text`, which is smaller than 4 GiB. Linear in its size.
  JsonDocument(std::string_view text, const JsonForm& form);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonNode root() const { return {this, static_cast<uint32_t>(values_.size() - 1)}; }

 private:
  friend class JsonNode;
  friend class JsonTreeBuilder;

  enum class Type : uint8_t { null, no, yes, whole, negative, number, text, array, object };
  // The contents of a container lie together and before it: of an array its items, of an object each key and its value.
  struct Value {
    Type type = Type::null;
    uint32_t count = 0;  // bytes of a text, items, members
    union {
      uint64_t whole = 0;
      int64_t negative;
      double number;
      struct {
        uint32_t first;  // into texts_ or values_
        uint32_t begin;  // into text_; of a text, its end
      } place;
    };
  };

  const Value& value(uint32_t index) const { return values_[index]; }
  std::string_view text_of(const Value& value) const {
    return std::string_view(texts_).substr(value.place.first, value.count);
  }
  struct Place {
    std::string name;
    uint32_t begin = 0;  // of the value, or of the last thing before it whose place is known: into text_
  };
  Place place_of(uint32_t wanted) const;
  // Leads the place of the container `at` on to `wanted`; false when that is not in it.
  bool find_place(uint32_t at, uint32_t wanted, Place& place) const;
  // `where` of an error about what stands at `begin`.
  std::string line_at(uint32_t begin) const;

  std::string_view text_;
  std::string name_;
  bool tells_lines_;
  std::vector<Value> values_;
  std::string texts_;
};

}  // namespace banyan
