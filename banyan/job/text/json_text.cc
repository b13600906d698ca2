#include "banyan/job/text/json_text.h"

#include <cctype>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::job {
namespace {

// Of ASCII; the end of the text is none of them.
bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(int c) { return c >= '0' && c <= '9'; }
// Within a text, what neither ends it nor is mended.
bool is_plain(int c) { return c >= 0x20 && c < 0x80 && c != '"' && c != '\\'; }

}  // namespace

int JsonText::next() {
  if (waiting_at_ < waiting_.size()) return static_cast<unsigned char>(waiting_[waiting_at_++]);
  const int c = ahead_at_ == ahead_.size() ? source_.next() : take_ahead();
  if (!in_string_ && joins_ && in_object_.empty() && (c < 0 || c == '{' || c == '[')) return joined(c);
  if (c < 0) return c;
  if (++run_ > kMaxJsonElement) too_long();
  if (in_string_) return is_plain(c) ? c : in_string(c);
  if (c == '"') {
    in_string_ = true;
    run_ = 0;
  } else if (is_letter(c) || (c == '-' && is_letter(peek(0)))) {
    if (!in_number_) return word(c);
  } else {
    follow(c);
  }
  in_number_ = is_digit(c) || (in_number_ && (c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+'));
  return c;
}

int JsonText::take() { return ahead_at_ == ahead_.size() ? source_.next() : take_ahead(); }

int JsonText::take_ahead() {
  const int c = static_cast<unsigned char>(ahead_[ahead_at_++]);
  if (ahead_at_ == ahead_.size()) {
    ahead_.clear();
    ahead_at_ = 0;
  }
  return c;
}

int JsonText::peek(size_t ahead) {
  if (ahead_at_ == ahead_.size()) {
    const std::string_view buffered = source_.buffered();
    if (ahead < buffered.size()) return static_cast<unsigned char>(buffered[ahead]);
    if (ahead == 0) return source_.peek();
  }
  if (ahead_at_ > kMostAhead) ahead_.erase(0, std::exchange(ahead_at_, 0));
  while (ahead_.size() - ahead_at_ <= ahead) {
    const int c = source_.next();
    if (c < 0) return c;
    ahead_ += static_cast<char>(c);
  }
  return static_cast<unsigned char>(ahead_[ahead_at_ + ahead]);
}

// What stands between values.
void JsonText::follow(int c) {
  switch (c) {
    case '{':
    case '[':
      in_object_.push_back(c == '{');
      key_is_next_ = c == '{';
      return;
    case '}':
    case ']':
      if (!in_object_.empty()) in_object_.pop_back();
      return;
    case ',':
    case ':':
      run_ = 0;
      key_is_next_ = c == ',' && !in_object_.empty() && in_object_.back();
      return;
    default:
      return;
  }
}

// A document begins, or none is left.
int JsonText::joined(int c) {
  if (c < 0) return joined_ == 0 || std::exchange(is_closed_, true) ? c : ']';
  follow(c);
  run_ = 0;
  return give({joined_++ == 0 ? '[' : ',', static_cast<char>(c)});
}

// The first character that is no blank, from `ahead` on, which is moved there.
int JsonText::after_blanks(size_t& ahead) {
  for (;; ++ahead) {
    const int c = peek(ahead);
    if ((c != ' ' && c != '\n' && c != '\t' && c != '\r') || ahead >= kMostAhead) return c;
  }
}

// Whether a key and its colon stand there, or what could still become one.
bool JsonText::is_key(size_t ahead) {
  const int first = after_blanks(ahead);
  if (first != '"') return first < 0 || first == '}' || ahead >= kMostAhead;  // "}": for the parser to refuse
  for (++ahead; ahead < kMostAhead; ++ahead) {
    const int c = peek(ahead);
    if (c < 0) return true;
    if (c < 0x20) return false;
    if (c == '\\') ++ahead;
    if (c != '"') continue;
    const int colon = after_blanks(++ahead);
    return colon == ':' || colon < 0 || ahead >= kMostAhead;
  }
  return true;
}

// Whether the quote that was just taken ends its text. Valid JSON never has one that does not.
bool JsonText::ends_text() {
  if (key_is_next_ || in_object_.empty()) return true;
  size_t ahead = 0;
  const int next = after_blanks(ahead);
  if (next < 0 || ahead >= kMostAhead) return true;
  if (next == '"') {  // a comma may be missing: for the parser to refuse
    key_is_next_ = in_object_.back() && is_key(ahead);
    return key_is_next_;
  }
  if (next == ',' && in_object_.back()) return is_key(ahead + 1);
  if (next != ',' && next != (in_object_.back() ? '}' : ']')) return false;
  if (next != ',' && in_object_.size() == 1) return true;  // the end of the document
  const int behind = after_blanks(++ahead);
  if (behind < 0 || ahead >= kMostAhead) return true;
  const char* const allowed = next == ',' ? "\"-0123456789{[tfnNI]" : ",}]";
  return std::string_view(allowed).find(static_cast<char>(behind)) != std::string_view::npos;
}

int JsonText::give(std::string text) {
  waiting_ = std::move(text);
  waiting_at_ = 1;
  return static_cast<unsigned char>(waiting_[0]);
}

int JsonText::word(int first) {
  std::string text(1, static_cast<char>(first));
  while (text.size() < 16 && is_letter(peek(0))) text += static_cast<char>(take());
  if (text == "true" || text == "false" || text == "null") return give(text);
  std::string plain = text.front() == '-' ? text.substr(1) : text;
  for (char& letter : plain) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  if (plain != "nan" && plain != "inf" && plain != "infinity") return give(text);  // for the parser to refuse
  ++mended_;
  return give("null");
}

void JsonText::too_long() const {
  throw Error(
      ErrorCode::unsupported,
      "a single text is longer than " + std::to_string(kMaxJsonElement >> 20) + " MiB, which no profiler writes",
      source_.name() + " byte " + std::to_string(position()));
}

int JsonText::in_string(int c) {
  if (c == '"') {
    if (!ends_text()) {
      ++mended_;
      return give("\\\"");
    }
    in_string_ = false;
    run_ = 0;
    return c;
  }
  if (c == '\\') {
    const int escaped = peek(0);
    if (escaped >= 0 && std::string_view("\"\\/bfnrtu").find(static_cast<char>(escaped)) != std::string_view::npos) {
      return give({'\\', static_cast<char>(take())});
    }
    ++mended_;
    return give("\\\\");
  }
  if (c < 0x20) {
    ++mended_;
    return ' ';
  }
  return character(c);
}

// A character of several bytes, or '?' for what is none.
int JsonText::character(int first) {
  const int more = first >= 0xc2 && first < 0xe0   ? 1
                   : first >= 0xe0 && first < 0xf0 ? 2
                   : first >= 0xf0 && first < 0xf5 ? 3
                                                   : 0;
  std::string text(1, static_cast<char>(first));
  for (int i = 0; i < more; ++i) {
    const int next = peek(0);
    int least = 0x80, most = 0xbf;
    if (i == 0 && first == 0xe0) least = 0xa0;
    if (i == 0 && first == 0xed) most = 0x9f;
    if (i == 0 && first == 0xf0) least = 0x90;
    if (i == 0 && first == 0xf4) most = 0x8f;
    if (next < least || next > most) break;
    text += static_cast<char>(take());
  }
  if (more == 0 || text.size() != static_cast<size_t>(more) + 1) {
    ++mended_;
    return '?';
  }
  return give(std::move(text));
}

}  // namespace banyan::job
