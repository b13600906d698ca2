#include "banyan/predict/report/json_writer.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "banyan/base/check.h"

namespace banyan::predict::report {

void append_json_text(std::string& out, std::string_view text) {
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

JsonWriter& JsonWriter::open(char bracket) {
  CHECK(bracket == '{' || bracket == '[') << bracket;
  separate();
  out_ += bracket;
  closers_ += bracket == '{' ? '}' : ']';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close() {
  CHECK(!closers_.empty());
  out_ += closers_.back();
  closers_.pop_back();
  needs_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  CHECK(!closers_.empty() && closers_.back() == '}') << name;
  separate();
  append_json_text(out_, name);
  out_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) {
  separate();
  append_json_text(out_, value);
  return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

JsonWriter& JsonWriter::number(double value) {
  // Whole numbers are written as such, not as 7e+10.
  constexpr double kMostWhole = int64_t{1} << 53;
  const bool is_whole =
      std::trunc(value) == value && std::abs(value) <= kMostWhole && !(value == 0 && std::signbit(value));
  if (is_whole) return append(static_cast<int64_t>(value));
  return std::isfinite(value) ? append(value) : null();
}
JsonWriter& JsonWriter::number(float value) { return std::isfinite(value) ? append(value) : null(); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::line() {
  begins_line_ = true;
  return *this;
}

}  // namespace banyan::predict::report
