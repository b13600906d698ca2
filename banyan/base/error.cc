#include "banyan/base/error.h"

#include <utility>

namespace banyan {

Error::Error(ErrorCode code, std::string message, std::string where)
    : std::runtime_error(where.empty() ? message : where + ": " + message),
      code_(code),
      message_(std::move(message)),
      where_(std::move(where)) {}

Error Error::within(const std::string& where) const {
  return Error(code_, message_, where_.empty() ? where : where + " " + where_);
}

}  // namespace banyan
