// The one exception of Banyan, for what a stranger can cause: a file, a flag, a peer's death, a packet.
//
// Our own bugs do not throw, they abort: see check.h. A message names the culprit and the mend in one line; `where`
// says in which file, line or option it was found ("fabric.json line 14"), and may be empty. Control characters of a
// quoted culprit become '?', so that a report stays one line whatever the input holds.
//
// Making an Error takes memory; copying and throwing one does not, so that an error can be kept and passed on where
// there is none left.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

namespace banyan {

enum class ErrorCode {
  invalid_input,  // a file, a text or a flag is wrong
  mismatch,       // two good things that do not belong together, such as a plan and another fabric
  unsupported,    // understood, but beyond what is implemented or can be represented; the message says the limit
  not_found,      // a name, file or link does not exist
  io,             // the operating system refused
  peer_lost,      // another process died or closed its connection
  timed_out,      // a deadline passed
  aborted,        // somebody asked for it to end
  invalid_usage,  // a call that is not allowed now
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message, std::string where = "");
  Error(const Error&) noexcept = default;
  Error& operator=(const Error&) noexcept = default;
  ~Error() override = default;

  ErrorCode code() const { return code_; }
  const std::string& message() const { return text_->message; }
  const std::string& where() const { return text_->where; }
  const char* what() const noexcept override { return text_->whole.c_str(); }

  // The same error seen from further out: `where` is put in front of what is known already.
  Error within(const std::string& where) const;

 private:
  struct Text {
    std::string message, where, whole;
  };
  ErrorCode code_;
  std::shared_ptr<const Text> text_;  // shared by the copies; a moved Error is a copied one
};

// Error{io} of a std::bad_alloc. It was made when the program was loaded, since there is no memory to make it now.
const Error& out_of_memory() noexcept;

// Whatever was thrown, as an Error; in a handler only. An Error stays as it is, std::bad_alloc becomes out_of_memory(),
// std::system_error and others Error{io} with their text.
Error current_error() noexcept;

// The most common error of readers.
inline Error invalid(const std::string& message) { return Error(ErrorCode::invalid_input, message); }

// A text of a stranger for a message: in single quotes, cut after 100 characters.
inline std::string in_quotes(std::string_view text) { return "'" + std::string(text.substr(0, 100)) + "'"; }

}  // namespace banyan
