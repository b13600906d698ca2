#include "banyan/base/error.h"

#include <new>
#include <utility>

#include "banyan/base/utf8.h"

namespace banyan {
namespace {

// Never destroyed, since threads may fail until the very end.
const Error* const no_memory = new Error(ErrorCode::io, "there is not enough memory");

}  // namespace

Error::Error(ErrorCode code, std::string message, std::string where) : code_(code) {
  Text text{.message = harmless(message), .where = harmless(where), .whole = {}};
  text.whole = text.where.empty() ? text.message : text.where + ": " + text.message;
  text_ = std::make_shared<const Text>(std::move(text));
}

Error Error::within(const std::string& where) const {
  return Error(code_, message(), this->where().empty() ? where : where + " " + this->where());
}

const Error& out_of_memory() noexcept { return *no_memory; }

Error current_error() noexcept {
  try {
    try {
      throw;
    } catch (const Error& error) {
      return error;
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    } catch (const std::exception& error) {
      return Error(ErrorCode::io, error.what());
    } catch (...) {
      return Error(ErrorCode::io, "an exception of an unknown type");
    }
  } catch (const std::exception&) {
    return out_of_memory();
  }
}

}  // namespace banyan
