#include "banyan/job/text/json_stream.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/job/text/json_text.h"

namespace banyan::job {
namespace {

// What nlohmann's parser walks over.
struct Cursor {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonText* text = nullptr;
  int current = -1;
  char shown = 0;

  explicit Cursor(JsonText* from) : text(from) {
    if (text != nullptr) ++*this;
  }
  char operator*() const { return static_cast<char>(current); }
  Cursor& operator++() {
    current = text->next();
    return *this;
  }
  friend bool operator==(const Cursor& a, const Cursor& b) { return a.current == b.current; }
  friend bool operator!=(const Cursor& a, const Cursor& b) { return !(a == b); }
};

class Handler {
 public:
  Handler(const JsonStreamHandler& handler, const TraceSource& source) : handler_(handler), source_(source) {}

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonValue out;
    out.type = JsonValue::Type::boolean;
    out.boolean = value;
    return add(std::move(out));
  }
  bool number_integer(int64_t value) {
    JsonValue out;
    out.type = JsonValue::Type::whole;
    out.integer = value;
    return add(std::move(out));
  }
  bool number_unsigned(uint64_t value) {
    return number_integer(static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max())));
  }
  bool number_float(double, const std::string& written) {
    JsonValue out;
    out.type = JsonValue::Type::number;
    out.written = written;
    return add(std::move(out));
  }
  bool string(std::string& text) {
    JsonValue out;
    out.type = JsonValue::Type::text;
    out.written = std::move(text);
    return add(std::move(out));
  }
  bool binary(nlohmann::json::binary_t&) {
    CHECK(false) << "JSON has no binary values";
    return false;
  }
  bool start_object(size_t) { return open(JsonValue::Type::object); }
  bool start_array(size_t) { return open(JsonValue::Type::list); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (depth_ == 1) {
      member_ = std::move(name);
    } else {
      open_.back()->keys.push_back(std::move(name));
    }
    return true;
  }
  template <class Failure>
  bool parse_error(size_t, const std::string&, const Failure& failure) {
    problem_ = failure.what();
    return false;
  }

  const std::string& problem() const { return problem_; }
  bool in_stream() const { return streaming_; }
  uint64_t elements() const { return elements_; }

 private:
  // At depth 1 stands a member of the document, at depth 2 within the streamed list an element.

  bool add(JsonValue value) {
    if (depth_ == 0) {
      problem_ = "the document is neither an object nor a list";
      return false;
    }
    if (open_.empty()) {
      begin_root();
      give(std::move(value));
      return true;
    }
    limit();
    open_.back()->items.push_back(std::move(value));
    return true;
  }

  bool open(JsonValue::Type type) {
    if (depth_ == 0) {
      ++depth_;
      if (type == JsonValue::Type::list) {
        streaming_ = true;
        stream_depth_ = 1;
      }
      return true;
    }
    if (open_.empty() && !streaming_ && type == JsonValue::Type::list && member_ == handler_.streamed) {
      ++depth_;
      streaming_ = true;
      stream_depth_ = 2;
      return true;
    }
    JsonValue value;
    value.type = type;
    ++depth_;
    if (open_.empty()) {
      begin_root();
      root_ = std::move(value);
      open_.push_back(&root_);
    } else {
      limit();
      if (open_.size() > 200) throw Error(ErrorCode::unsupported, "is nested more than 200 deep", where());
      // Only the last item of a value is open, so no pointer in open_ is moved away.
      open_.back()->items.push_back(std::move(value));
      open_.push_back(&open_.back()->items.back());
    }
    return true;
  }

  bool close() {
    --depth_;
    if (open_.empty()) {
      streaming_ = false;
      return true;
    }
    open_.pop_back();
    if (open_.empty()) give(std::move(root_));
    return true;
  }

  void begin_root() {
    root_began_ = source_.position();
    values_ = 0;
  }
  void limit() {
    if (source_.position() - root_began_ > kMaxJsonElement) {
      throw Error(ErrorCode::unsupported,
                  "is longer than " + std::to_string(kMaxJsonElement >> 20) + " MiB, which no profiler writes",
                  where());
    }
    if (++values_ > kMaxJsonValues) {
      throw Error(ErrorCode::unsupported,
                  "holds more than " + std::to_string(kMaxJsonValues) + " values, which no profiler writes", where());
    }
  }

  std::string where() const {
    return streaming_ ? source_.name() + " event " + std::to_string(elements_)
                      : source_.name() + " member '" + member_.substr(0, 80) + "'";
  }

  void give(JsonValue value) {
    try {
      if (streaming_) {
        handler_.element(value, elements_);
      } else if (handler_.member) {
        handler_.member(member_, value);
      }
    } catch (const Error& error) {
      throw error.within(where());
    }
    elements_ += streaming_;
  }

  const JsonStreamHandler& handler_;
  const TraceSource& source_;
  std::string problem_;
  std::string member_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  size_t depth_ = 0;
  size_t stream_depth_ = 0;
  bool streaming_ = false;
  uint64_t elements_ = 0;
  uint64_t root_began_ = 0;
  uint64_t values_ = 0;  // of the root so far
};

// nlohmann's words, without its own prefix.
std::string short_problem(const std::string& what) {
  const size_t begin = what.find("] ");
  std::string text = begin == std::string::npos ? what : what.substr(begin + 2);
  const size_t where = text.find(": syntax error ");
  if (where != std::string::npos) text = text.substr(where + 2);
  return text.substr(0, 200);
}

}  // namespace

JsonStreamResult stream_json(TraceSource& source, const JsonStreamHandler& handler) {
  JsonText text(source, handler.is_joined ? JsonText::Documents::joined : JsonText::Documents::one);
  Handler sax(handler, source);
  const bool good = nlohmann::json::sax_parse(Cursor(&text), Cursor(nullptr), &sax);
  JsonStreamResult result{.elements = sax.elements(), .mended = text.mended(), .position = text.position()};
  if (good) return result;
  if (handler.accept_cut && sax.in_stream() && text.is_at_end()) {
    result.cut = true;
    return result;
  }
  const std::string after = sax.in_stream() ? " event " + std::to_string(sax.elements()) : std::string();
  throw Error(ErrorCode::invalid_input, short_problem(sax.problem()) + "; is the file whole, and JSON?",
              source.name() + after + " byte " + std::to_string(result.position));
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (size_t i = 0; i < keys.size() && i < items.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::optional<int64_t> JsonValue::as_integer() const {
  if (type == Type::whole) return integer;
  if (type != Type::text && type != Type::number) return std::nullopt;
  std::string_view digits = written;
  if (type == Type::number) {
    const size_t point = digits.find('.');
    if (point == std::string_view::npos || digits.find_first_not_of('0', point + 1) != std::string_view::npos) {
      return std::nullopt;
    }
    digits = digits.substr(0, point);
  }
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<std::string_view> JsonValue::as_text() const {
  if (type != Type::text) return std::nullopt;
  return std::string_view(written);
}

std::optional<int64_t> JsonValue::as_nanoseconds() const {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 1000;
  if (type == Type::whole) {
    if (integer > kMost || integer < -kMost) return std::nullopt;
    return integer * 1000;
  }
  if (type != Type::number && type != Type::text) return std::nullopt;
  if (written.find_first_of("eE") != std::string::npos) {
    double value = 0;
    const auto [end, problem] = std::from_chars(written.data(), written.data() + written.size(), value);
    if (problem != std::errc() || end != written.data() + written.size()) return std::nullopt;
    if (!(value < 9.2e15 && value > -9.2e15)) return std::nullopt;
    return static_cast<int64_t>(value * 1000 + (value < 0 ? -0.5 : 0.5));
  }
  const size_t point = std::min(written.find('.'), written.size());
  int64_t whole = 0;
  const auto [end, problem] = std::from_chars(written.data(), written.data() + point, whole);
  if (problem != std::errc() || end != written.data() + point || whole >= kMost || whole <= -kMost) return std::nullopt;
  int64_t thousandths = 0, scale = 1000;
  bool up = false;
  for (size_t i = point + 1; i < written.size(); ++i) {
    const char digit = written[i];
    if (digit < '0' || digit > '9') return std::nullopt;
    if (scale > 1) {
      scale /= 10;
      thousandths += (digit - '0') * scale;
    } else if (i == point + 4) {
      up = digit >= '5';
    }
  }
  const int64_t fraction = thousandths + (up ? 1 : 0);
  return written.front() == '-' ? whole * 1000 - fraction : whole * 1000 + fraction;
}

std::string JsonValue::text_or_json() const { return type == Type::text ? written : to_text(); }

std::string_view text_of(const JsonValue* value) {
  return value ? value->as_text().value_or(std::string_view()) : std::string_view();
}

std::optional<int64_t> integer_of(const JsonValue* value) { return value ? value->as_integer() : std::nullopt; }

std::string JsonValue::to_text() const {
  switch (type) {
    case Type::null:
      return "null";
    case Type::boolean:
      return boolean ? "true" : "false";
    case Type::whole:
      return std::to_string(integer);
    case Type::number:
      return written;
    case Type::text:
      return nlohmann::json(written).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    case Type::list:
    case Type::object:
      break;
  }
  std::string out(1, type == Type::list ? '[' : '{');
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ',';
    if (type == Type::object) {
      out += nlohmann::json(keys[i]).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + ":";
    }
    out += items[i].to_text();
  }
  return out + (type == Type::list ? ']' : '}');
}

}  // namespace banyan::job
