// JsonLine: an object as JSON, in one line.
//
//   JsonLine().add("rank", 3).add("name", "gpu3").add("addresses", addresses).take()   // {"rank":3,"name":"gpu3",...}
//
// For what is written where memory may be short: the objects of nlohmann take memory even to be destroyed, and end the
// process when there is none. Bytes that are no UTF-8 become the sign for that.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace banyan {

class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::integral auto value) {
    begin(key);
    text_ += std::to_string(value);
    return *this;
  }
  JsonLine& add(std::string_view key, std::string_view value) {
    begin(key);
    append(value);
    return *this;
  }
  JsonLine& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  // A list of texts, or of whole numbers.
  template <typename List>
  requires requires(const List& list) {
    list.begin();
  } &&(!std::convertible_to<List, std::string_view>)JsonLine& add(std::string_view key, const List& list) {
    begin(key);
    text_ += '[';
    bool is_first = true;
    for (const auto& item : list) {
      if (!std::exchange(is_first, false)) text_ += ',';
      if constexpr (std::integral<std::remove_cvref_t<decltype(item)>>) {
        text_ += std::to_string(item);
      } else {
        append(item);
      }
    }
    text_ += ']';
    return *this;
  }
  JsonLine& add(std::string_view key, JsonLine value) {
    begin(key);
    text_ += value.take();
    return *this;
  }
  // Nothing may be added afterwards.
  std::string take() {
    if (text_.empty()) text_ = "{";
    text_ += '}';
    return std::move(text_);
  }

 private:
  void begin(std::string_view key);
  void append(std::string_view value);

  std::string text_;
};

}  // namespace banyan
