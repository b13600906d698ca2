#include "banyan/base/error.h"

#include <new>
#include <utility>

namespace banyan {
namespace {

std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// Never destroyed, since threads may fail until the very end.
const Error* const no_memory = new Error(ErrorCode::io, "there is not enough memory");

}  // namespace

Error::Error(ErrorCode code, std::string message, std::string where) : code_(code) {
  Text text{.message = one_line(std::move(message)), .where = one_line(std::move(where)), .whole = {}};
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
