// A JSON object that is read key by key, with its place for messages ("devices[2].rates"). For the files of this folder
// and of train/; the headers beside it do not know JSON.
//
// Numbers with a unit are texts ("312 TFLOP/s", "60 us"); plain numbers are ratios and counts. A key that was not
// named as known is refused with the nearest known one, so that a mistyped one is not silently ignored.
#pragma once

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/units.h"

namespace banyan::cost_json {

using Json = nlohmann::ordered_json;

inline Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

// Throws Error{invalid_input} with line and column where it is not JSON, or is nested deeper than these files ever are.
inline Json parse(std::string_view text) {
  constexpr int kMaxDepth = 16;
  try {
    const Json::parser_callback_t shallow = [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) throw invalid("is nested deeper than such a file ever is");
      return true;
    };
    return Json::parse(text, shallow);
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const size_t start = what.find("parse error");
    throw invalid(start == std::string::npos ? "is not JSON" : "is not JSON: " + what.substr(start).substr(0, 200));
  } catch (const Json::exception& error) {
    throw invalid("is not JSON that can be read: " + std::string(error.what()).substr(0, 200));
  }
}

class Object {
 public:
  Object(const Json& json, std::string place, std::initializer_list<std::string_view> known)
      : json_(json), place_(std::move(place)) {
    if (!json.is_object()) throw invalid(place_ + " is not an object");
    for (const auto& [key, value] : json.items()) {
      bool is_known = false;
      for (const std::string_view name : known) is_known = is_known || name == key;
      if (is_known) continue;
      NearestName nearest(key);
      for (const std::string_view name : known) nearest.offer(name);
      throw invalid(place_ + " has unknown key '" + key.substr(0, 60) + "'" + nearest.hint());
    }
  }

  const std::string& place() const { return place_; }
  std::string at_key(const char* key) const { return place_ + "." + key; }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw invalid(place_ + " has no \"" + key + "\"");
    return *found;
  }
  const Json& array(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) throw invalid(at_key(key) + " is not an array");
    return value;
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) throw invalid(at_key(key) + " is not a text");
    return value.get<std::string>();
  }
  uint64_t whole(const char* key, uint64_t least, uint64_t most) const {
    const Json& value = at(key);
    const bool good = value.is_number_unsigned() && value.get<uint64_t>() >= least && value.get<uint64_t>() <= most;
    if (!good)
      throw invalid(at_key(key) + " is not a whole number from " + std::to_string(least) + " to " +
                    std::to_string(most));
    return value.get<uint64_t>();
  }
  double ratio(const char* key, double least, double most) const {
    const Json& value = at(key);
    const double number = value.is_number() ? value.get<double>() : NAN;
    if (!(number >= least && number <= most))
      throw invalid(at_key(key) + " is not a number from " + short_number(least) + " to " + short_number(most));
    return number;
  }
  Bytes bytes(const char* key) const {
    return quantity(key, [](const std::string& value) { return Bytes::parse(value); });
  }
  Bandwidth bandwidth(const char* key) const {
    return quantity(key, [](const std::string& value) { return Bandwidth::parse(value); });
  }
  Picoseconds duration(const char* key) const {
    return quantity(key, [](const std::string& value) { return parse_duration(value); });
  }

 private:
  static std::string short_number(double number) {
    std::string digits = std::to_string(number);
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
    return digits;
  }
  template <typename Parse>
  auto quantity(const char* key, Parse parse_text) const -> decltype(parse_text(std::string())) {
    const std::string value = text(key);
    try {
      return parse_text(value);
    } catch (const Error& error) {
      throw Error(error.code(), at_key(key) + ": " + error.message());
    }
  }

  const Json& json_;
  std::string place_;
};

}  // namespace banyan::cost_json
