#include "banyan/base/json_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text_cursor.h"

namespace banyan {
namespace {
constexpr size_t kShown = 60;  // bytes of a stranger's text in a message
constexpr size_t kFewMembers = 16;

template <typename Number>
std::string digits_of(Number number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  return {digits.data(), end.ptr};
}

std::string append_key(std::string place, std::string_view key) {
  if (!place.empty()) place += '.';
  if (key.empty()) return place += "''";
  return place += key;
}

std::string append_number(std::string place, size_t number) {
  place += '[';
  place += std::to_string(number);
  return place += ']';
}

// nlohmann's words, without its own prefix.
std::string problem_in(const std::string& what) {
  const size_t syntax = what.find("parse error");
  if (syntax != std::string::npos) return "is not JSON: " + what.substr(syntax).substr(0, 200);
  const size_t prefix = what.find("] ");
  return "is not JSON that can be read: " + what.substr(prefix == std::string::npos ? 0 : prefix + 2).substr(0, 200);
}

}  // namespace

// The handler of nlohmann's SAX events. The contents of open containers wait in `waiting_` until they close.
class JsonTreeBuilder {
 public:
  JsonTreeBuilder(JsonDocument& document, const JsonForm& form) : document_(document), form_(form) {}

  void build() {
    const char* const begin = document_.text_.data();
    const char* const end = begin + document_.text_.size();
    reached_ = begin;
    if (begin == end) throw invalid("is empty, not JSON");
    nlohmann::json::sax_parse(TextCursor{begin, &reached_}, TextCursor{end, &reached_}, this);
    CHECK(open_.empty() && waiting_.size() == 1);
    document_.values_.push_back(waiting_.front());
  }

  bool null() { return add({}); }
  bool boolean(bool value) { return add({.type = value ? Type::yes : Type::no, .whole = 0}); }
  bool number_unsigned(uint64_t value) { return add({.type = Type::whole, .whole = value}); }
  bool number_integer(int64_t value) { return add({.type = Type::negative, .negative = value}); }
  bool number_float(double value, const std::string&) { return add({.type = Type::number, .number = value}); }
  bool string(std::string& value) { return add(text(value)); }
  [[noreturn]] bool binary(std::vector<uint8_t>&) { CHECK(false) << "JSON has no binary values"; }
  bool key(std::string& name) {
    waiting_.push_back(text(name));
    return true;
  }
  bool start_object(size_t) { return open(Type::object); }
  bool start_array(size_t) { return open(Type::array); }
  bool end_object() {
    expect_no_key_twice();
    return close();
  }
  bool end_array() { return close(); }
  [[noreturn]] bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) {
    const std::string problem = problem_in(error.what());
    throw problem.find(" at line ") == std::string::npos ? wrong(problem) : invalid(problem);
  }

 private:
  using Type = JsonDocument::Type;
  using Value = JsonDocument::Value;
  struct Open {
    Type type;
    size_t first;    // into waiting_
    uint32_t begin;  // into the text
  };

  // The character that was looked at last.
  uint32_t reached() const {
    return static_cast<uint32_t>(std::max(reached_ - 1 - document_.text_.data(), ptrdiff_t{0}));
  }
  Error wrong(const std::string& message) const {
    return Error(ErrorCode::invalid_input, message, document_.line_at(reached()));
  }

  bool add(const Value& value) {
    waiting_.push_back(value);
    return true;
  }

  Value text(const std::string& text) {
    const auto first = static_cast<uint32_t>(document_.texts_.size());
    document_.texts_ += text;
    return {.type = Type::text, .count = static_cast<uint32_t>(text.size()), .place = {first, reached()}};
  }

  bool open(Type type) {
    if (open_.size() == form_.depth) throw wrong("is nested deeper than a " + std::string(form_.name) + " ever is");
    open_.push_back({type, waiting_.size(), reached()});
    return true;
  }

  bool close() {
    const Open top = open_.back();
    open_.pop_back();
    const size_t held = waiting_.size() - top.first;
    const Value container = {.type = top.type,
                             .count = static_cast<uint32_t>(top.type == Type::object ? held / 2 : held),
                             .place = {.first = static_cast<uint32_t>(document_.values_.size()), .begin = top.begin}};
    document_.values_.insert(document_.values_.end(), waiting_.begin() + static_cast<ptrdiff_t>(top.first),
                             waiting_.end());
    waiting_.resize(top.first);
    return add(container);
  }

  void expect_no_key_twice() {
    const size_t first = open_.back().first, members = (waiting_.size() - first) / 2;
    const auto key = [&](size_t member) { return document_.text_of(waiting_[first + 2 * member]); };
    if (members <= kFewMembers) {
      for (size_t i = 1; i < members; ++i) {
        for (size_t k = 0; k < i; ++k) {
          if (key(i) == key(k)) refuse_twice(first + 2 * i);
        }
      }
      return;
    }
    std::vector<std::pair<std::string_view, size_t>> keys;
    for (size_t i = 0; i < members; ++i) keys.emplace_back(key(i), first + 2 * i);
    std::sort(keys.begin(), keys.end());
    const auto twice =
        std::adjacent_find(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first == b.first; });
    if (twice != keys.end()) refuse_twice(std::next(twice)->second);
  }

  [[noreturn]] void refuse_twice(size_t key_at) const {
    const Value& key = waiting_[key_at];
    std::string place;
    for (size_t i = 0; i + 1 < open_.size(); ++i) {
      const size_t held = open_[i + 1].first - open_[i].first;
      place = open_[i].type == Type::object
                  ? append_key(std::move(place), document_.text_of(waiting_[open_[i + 1].first - 1]))
                  : append_number(std::move(place), held);
    }
    throw Error(ErrorCode::invalid_input,
                (place.empty() ? document_.name_ : place) + " has key " + in_quotes(document_.text_of(key)) +
                    " twice; keep one",
                document_.line_at(key.place.begin));
  }

  JsonDocument& document_;
  const JsonForm& form_;
  const char* reached_ = nullptr;
  std::vector<Open> open_;
  std::vector<Value> waiting_;
};

JsonDocument::JsonDocument(std::string_view text, const JsonForm& form)
    : text_(text), name_("the " + std::string(form.name)), tells_lines_(form.tells_lines) {
  static_assert(sizeof(Value) == 16);
  CHECK(text.size() < UINT32_MAX) << text.size();
  JsonTreeBuilder(*this, form).build();
  if (form.format.empty()) return;
  const std::string says = "; a " + std::string(form.name) + " says \"banyan\": \"" + std::string(form.format) + "\"";
  const std::optional<JsonNode> format = root().find("banyan");
  if (!format) throw invalid(name_ + " has no \"banyan\"" + says);
  if (format->is_text() && format->text() == form.format) return;
  throw Error(ErrorCode::invalid_input, "is " + format->in_words() + says, line_at(place_of(format->index_).begin));
}

std::string JsonDocument::line_at(uint32_t begin) const {
  if (!tells_lines_) return "";
  return "line " + std::to_string(1 + std::count(text_.data(), text_.data() + begin, '\n'));
}

JsonDocument::Place JsonDocument::place_of(uint32_t wanted) const {
  const uint32_t whole = root().index_;
  Place place;
  if (wanted == whole) return {.name = name_, .begin = 0};
  CHECK(find_place(whole, wanted, place)) << wanted;
  return place;
}

// The contents of a container lie together, so only containers need to be looked into.
bool JsonDocument::find_place(uint32_t at, uint32_t wanted, Place& place) const {
  const Value& container = values_[at];
  const uint32_t first = container.place.first, step = container.type == Type::object ? 2 : 1;
  for (uint32_t i = 0; i < container.count; ++i) {
    const uint32_t inner = first + i * step + step - 1;
    const bool is_container = values_[inner].type == Type::array || values_[inner].type == Type::object;
    if (inner != wanted && !is_container) continue;
    Place found{.name = {}, .begin = step == 2 ? values_[inner - 1].place.begin : container.place.begin};
    if (is_container || values_[inner].type == Type::text) found.begin = values_[inner].place.begin;
    found.name = step == 2 ? append_key(place.name, text_of(values_[inner - 1]).substr(0, kShown))
                           : append_number(place.name, i);
    if (inner != wanted && !find_place(inner, wanted, found)) continue;
    place = std::move(found);
    return true;
  }
  return false;
}

std::string JsonNode::place() const { return document_->place_of(index_).name; }

Error JsonNode::error(const std::string& message) const {
  const JsonDocument::Place place = document_->place_of(index_);
  return Error(ErrorCode::invalid_input, place.name + " " + message, document_->line_at(place.begin));
}

Error JsonNode::is_not(const std::string& expected) const {
  return error("is not " + expected + ": it is " + in_words());
}

Error JsonNode::with_place(const Error& error) const {
  const JsonDocument::Place place = document_->place_of(index_);
  return Error(error.code(), place.name + ": " + error.what(), document_->line_at(place.begin));
}

bool JsonNode::is_text() const { return document_->value(index_).type == JsonDocument::Type::text; }
bool JsonNode::is_array() const { return document_->value(index_).type == JsonDocument::Type::array; }
bool JsonNode::is_object() const { return document_->value(index_).type == JsonDocument::Type::object; }
bool JsonNode::is_boolean() const {
  const auto type = document_->value(index_).type;
  return type == JsonDocument::Type::yes || type == JsonDocument::Type::no;
}

bool JsonNode::is_number() const {
  const auto type = document_->value(index_).type;
  return type == JsonDocument::Type::whole || type == JsonDocument::Type::negative ||
         type == JsonDocument::Type::number;
}

bool JsonNode::is_whole(uint64_t least, uint64_t most) const {
  const JsonDocument::Value& value = document_->value(index_);
  return value.type == JsonDocument::Type::whole && value.whole >= least && value.whole <= most;
}

JsonNode JsonNode::with_keys(std::initializer_list<std::string_view> known) const {
  if (!is_object()) throw is_not("an object");
  const JsonDocument::Value& object = document_->value(index_);
  for (uint32_t i = 0; i < object.count; ++i) {
    const std::string_view key = document_->text_of(document_->value(object.place.first + 2 * i));
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    NearestName nearest(key);
    std::string names;
    for (const std::string_view name : known) {
      nearest.offer(name);
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    throw Error(ErrorCode::invalid_input,
                place() + " has unknown key " + in_quotes(key) +
                    (nearest.best().empty() ? " (known: " + names + ")" : nearest.hint()),
                document_->line_at(document_->value(object.place.first + 2 * i).place.begin));
  }
  return *this;
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  if (!is_object()) throw is_not("an object");
  const JsonDocument::Value& object = document_->value(index_);
  for (uint32_t i = 0; i < object.count; ++i) {
    const uint32_t at = object.place.first + 2 * i;
    if (document_->text_of(document_->value(at)) == key) return JsonNode(document_, at + 1);
  }
  return std::nullopt;
}

JsonNode JsonNode::at(std::string_view key) const {
  const std::optional<JsonNode> found = find(key);
  if (!found) throw error("has no \"" + std::string(key) + "\"");
  return *found;
}

std::vector<JsonNode::Member> JsonNode::members() const {
  if (!is_object()) throw is_not("an object");
  const JsonDocument::Value& object = document_->value(index_);
  std::vector<Member> members;
  members.reserve(object.count);
  for (uint32_t i = 0; i < object.count; ++i) {
    const uint32_t at = object.place.first + 2 * i;
    members.push_back({document_->text_of(document_->value(at)), JsonNode(document_, at + 1)});
  }
  return members;
}

JsonNode::Items JsonNode::items() const {
  const auto count = static_cast<uint32_t>(size());
  return {document_, document_->value(index_).place.first, count};
}

size_t JsonNode::size() const {
  const JsonDocument::Value& array = document_->value(index_);
  if (array.type != JsonDocument::Type::array) throw is_not("an array");
  return array.count;
}

JsonNode JsonNode::operator[](size_t i) const {
  const JsonDocument::Value& array = document_->value(index_);
  DCHECK(array.type == JsonDocument::Type::array && i < array.count) << i;
  return {document_, array.place.first + static_cast<uint32_t>(i)};
}

std::vector<uint32_t> JsonNode::small_numbers() const {
  std::vector<uint32_t> numbers;
  numbers.reserve(size());
  for (const JsonNode item : items()) numbers.push_back(static_cast<uint32_t>(item.whole(0, UINT32_MAX)));
  return numbers;
}

std::string JsonNode::text() const {
  if (!is_text()) throw is_not("a text");
  return std::string(document_->text_of(document_->value(index_)));
}

bool JsonNode::boolean() const {
  if (!is_boolean()) throw is_not("true or false");
  return document_->value(index_).type == JsonDocument::Type::yes;
}

uint64_t JsonNode::whole(uint64_t least, uint64_t most) const {
  if (is_whole(least, most)) return document_->value(index_).whole;
  const std::string range = most < UINT64_MAX ? " from " + std::to_string(least) + " to " + std::to_string(most)
                            : least > 0       ? ", " + std::to_string(least) + " or above"
                                              : ", zero or above";
  throw is_not("a whole number" + range);
}

int64_t JsonNode::integer(int64_t least, int64_t most) const {
  const JsonDocument::Value& value = document_->value(index_);
  const bool is_whole = value.type == JsonDocument::Type::whole && value.whole <= uint64_t{INT64_MAX};
  if (is_whole || value.type == JsonDocument::Type::negative) {
    const int64_t number = is_whole ? static_cast<int64_t>(value.whole) : value.negative;
    if (number >= least && number <= most) return number;
  }
  throw is_not("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

double JsonNode::number(double least, double most) const {
  const JsonDocument::Value& value = document_->value(index_);
  const double number = value.type == JsonDocument::Type::number     ? value.number
                        : value.type == JsonDocument::Type::whole    ? static_cast<double>(value.whole)
                        : value.type == JsonDocument::Type::negative ? static_cast<double>(value.negative)
                                                                     : NAN;
  if (number >= least && number <= most) return number;
  throw is_not(std::isfinite(least) && std::isfinite(most)
                   ? "a number from " + digits_of(least) + " to " + digits_of(most)
               : std::isfinite(least) ? "a number, " + digits_of(least) + " or above"
               : std::isfinite(most)  ? "a number, at most " + digits_of(most)
                                      : "a number");
}

uint32_t JsonNode::number_of(size_t count, std::string_view what) const {
  const uint64_t number = whole();
  if (number < count) return static_cast<uint32_t>(number);
  throw error("is " + std::to_string(number) + ", but there are " + std::to_string(count) + " " + std::string(what) +
              (count > 0 ? ", counted from 0" : ""));
}

template <typename Parse>
auto JsonNode::with_unit(const char* example, Parse parse) const {
  if (!is_text()) throw is_not("a text with a unit such as \"" + std::string(example) + "\"");
  return parsed(parse);
}

Bytes JsonNode::bytes() const {
  return with_unit("64 KiB", [](const std::string& text) { return Bytes::parse(text); });
}
Bandwidth JsonNode::bandwidth() const {
  return with_unit("400 Gb/s", [](const std::string& text) { return Bandwidth::parse(text); });
}
Picoseconds JsonNode::duration() const {
  return with_unit("3 us", [](const std::string& text) { return parse_duration(text); });
}

std::string_view JsonNode::object_text() const {
  const JsonDocument::Value& value = document_->value(index_);
  if (!is_object()) throw is_not("an object");
  const std::string_view text = document_->text_.substr(value.place.begin);
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == '}') && --depth == 0) {
      return text.substr(0, i + 1);
    }
  }
  CHECK(false) << "a document that was read has an end for every beginning";
}

std::string JsonNode::in_words() const {
  const JsonDocument::Value& value = document_->value(index_);
  switch (value.type) {
    case JsonDocument::Type::null:
      return "null";
    case JsonDocument::Type::no:
      return "false";
    case JsonDocument::Type::yes:
      return "true";
    case JsonDocument::Type::whole:
      return digits_of(value.whole);
    case JsonDocument::Type::negative:
      return digits_of(value.negative);
    case JsonDocument::Type::number:
      return digits_of(value.number);
    case JsonDocument::Type::text:
      return "\"" + std::string(document_->text_of(value).substr(0, kShown)) + "\"";
    case JsonDocument::Type::array:
      return "an array";
    case JsonDocument::Type::object:
      return "an object";
  }
  CHECK(false) << static_cast<int>(value.type);
}

}  // namespace banyan
