#include "banyan/job/text/json_text.h"

#include <cctype>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::job {

int JsonText::next() {
  if (waiting_at_ < waiting_.size()) return static_cast<unsigned char>(waiting_[waiting_at_++]);
  const int c = source_.next();
  if (c < 0) return c;
  if (++run_ > kMaxJsonElement) too_long();
  if (in_string_) return in_string(c);
  if (c == '"') {
    in_string_ = true;
    run_ = 0;
  } else if (c == ',' || c == ':') {
    run_ = 0;
  } else if (c < 0x80 && (std::isalpha(c) || (c == '-' && source_.peek() >= 0 && std::isalpha(source_.peek())))) {
    if (!in_number_) return word(c);
  }
  in_number_ = std::isdigit(c) || (in_number_ && (c == '.' || c == 'e' || c == 'E' || c == '-' || c == '+'));
  return c;
}

int JsonText::give(std::string text) {
  waiting_ = std::move(text);
  waiting_at_ = 1;
  return static_cast<unsigned char>(waiting_[0]);
}

int JsonText::word(int first) {
  std::string text(1, static_cast<char>(first));
  while (text.size() < 16 && source_.peek() >= 0 && std::isalpha(source_.peek())) {
    text += static_cast<char>(source_.next());
  }
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
      source_.name() + " byte " + std::to_string(source_.position()));
}

int JsonText::in_string(int c) {
  if (c == '"') {
    in_string_ = false;
    run_ = 0;
    return c;
  }
  if (c == '\\') {
    const int escaped = source_.peek();
    if (escaped >= 0 && std::string_view("\"\\/bfnrtu").find(static_cast<char>(escaped)) != std::string_view::npos) {
      return give({'\\', static_cast<char>(source_.next())});
    }
    ++mended_;
    return give("\\\\");
  }
  if (c < 0x20) {
    ++mended_;
    return ' ';
  }
  return c < 0x80 ? c : character(c);
}

// A character of several bytes, or '?' for what is none.
int JsonText::character(int first) {
  const int more = first >= 0xc2 && first < 0xe0   ? 1
                   : first >= 0xe0 && first < 0xf0 ? 2
                   : first >= 0xf0 && first < 0xf5 ? 3
                                                   : 0;
  std::string text(1, static_cast<char>(first));
  for (int i = 0; i < more; ++i) {
    const int next = source_.peek();
    int least = 0x80, most = 0xbf;
    if (i == 0 && first == 0xe0) least = 0xa0;
    if (i == 0 && first == 0xed) most = 0x9f;
    if (i == 0 && first == 0xf0) least = 0x90;
    if (i == 0 && first == 0xf4) most = 0x8f;
    if (next < least || next > most) break;
    text += static_cast<char>(source_.next());
  }
  if (more == 0 || text.size() != static_cast<size_t>(more) + 1) {
    ++mended_;
    return '?';
  }
  return give(std::move(text));
}

}  // namespace banyan::job
