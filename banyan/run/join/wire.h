// Small messages between processes: numbers in little-endian order, texts with their length in front.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::run {

class WireWriter {
 public:
  template <typename Number>
  WireWriter& number(Number value) {
    static_assert(std::is_unsigned_v<Number>);
    for (size_t i = 0; i < sizeof value; ++i) bytes_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    return *this;
  }
  WireWriter& text(std::string_view text) {
    number(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  WireWriter& ranks(const std::vector<uint32_t>& ranks) {
    number(static_cast<uint32_t>(ranks.size()));
    for (const uint32_t rank : ranks) number(rank);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Bytes of a peer may be anything: every function throws Error{invalid_input} when there is less than they say.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number number() {
    static_assert(std::is_unsigned_v<Number>);
    const std::string_view bytes = cut(sizeof(Number));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return static_cast<Number>(value);
  }
  std::string text() { return std::string(cut(number<uint32_t>())); }
  std::vector<uint32_t> ranks() {
    std::vector<uint32_t> ranks(count(sizeof(uint32_t)));
    for (uint32_t& rank : ranks) rank = number<uint32_t>();
    return ranks;
  }
  // A number of things that are at least so long each: none is allocated for that is not there.
  size_t count(size_t bytes_each) {
    const size_t count = number<uint32_t>();
    if (count > rest_.size() / bytes_each) throw Error(ErrorCode::invalid_input, "a message is cut short");
    return count;
  }
  bool is_at_end() const { return rest_.empty(); }
  void end() const {
    if (!is_at_end()) throw Error(ErrorCode::invalid_input, "a message is longer than it should be");
  }

 private:
  std::string_view cut(size_t size) {
    if (size > rest_.size()) throw Error(ErrorCode::invalid_input, "a message is cut short");
    const std::string_view head = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return head;
  }

  std::string_view rest_;
};

}  // namespace banyan::run
