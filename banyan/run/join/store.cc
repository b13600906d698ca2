#include "banyan/run/join/store.h"

#include <charconv>

#include "banyan/base/error.h"

namespace banyan::run {

std::string add_to_counter(const std::optional<std::string>& value, int64_t delta) {
  int64_t count = 0;
  if (value) {
    const char* end = value->data() + value->size();
    const auto [rest, error] = std::from_chars(value->data(), end, count);
    if (error != std::errc() || rest != end) throw Error(ErrorCode::invalid_input, "this value is no counter");
  }
  if (__builtin_add_overflow(count, delta, &count)) {
    throw Error(ErrorCode::invalid_input, "the counter would have more than 64 bits");
  }
  return std::to_string(count);
}

}  // namespace banyan::run
