#include "banyan/base/error.h"

#include <utility>

namespace banyan {
namespace {

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

Error::Error(ErrorCode code, std::string message, std::string where)
    : std::runtime_error(one_line(where.empty() ? message : where + ": " + message)),
      code_(code),
      message_(one_line(std::move(message))),
      where_(one_line(std::move(where))) {}

Error Error::within(const std::string& where) const {
  return Error(code_, message_, where_.empty() ? where : where + " " + where_);
}

}  // namespace banyan
