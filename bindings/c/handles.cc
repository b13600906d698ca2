#include "bindings/c/handles.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <system_error>

#include "banyan/base/error.h"

namespace banyan::c {
namespace {

// Of a thread. A longer text is cut. It needs no memory and no destructor, to register which a thread needs memory too.
struct ErrorText {
  char text[2048];
  void set(const char* from) noexcept {
    const size_t size = std::min(std::strlen(from), sizeof text - 1);
    std::memcpy(text, from, size);
    text[size] = '\0';
  }
};

// With these results a communicator is in error.
bool is_of_communicator(banyan_result_t result) {
  constexpr std::array kOfCommunicator = {BANYAN_MISMATCH,  BANYAN_SYSTEM_ERROR, BANYAN_PEER_LOST,
                                          BANYAN_TIMED_OUT, BANYAN_ABORTED,      BANYAN_INTERNAL};
  return std::find(kOfCommunicator.begin(), kOfCommunicator.end(), result) != kOfCommunicator.end();
}

// The texts of results, in the order of their numbers.
constexpr std::array kResultTexts = {"success",
                                     "invalid argument",
                                     "a call that is not allowed now",
                                     "ranks called different things",
                                     "not supported",
                                     "the operating system refused",
                                     "a rank was lost",
                                     "timed out",
                                     "aborted",
                                     "in progress",
                                     "internal error"};
static_assert(kResultTexts.size() == BANYAN_INTERNAL + 1);

// What banyan_last_error(comm) returned to this thread stays valid until its next call.
thread_local ErrorText thread_error, comm_error_copy;

}  // namespace

banyan_result_t result_of(const Error& error) {
  switch (error.code()) {
    case ErrorCode::invalid_input:
    case ErrorCode::not_found:
      return BANYAN_INVALID_ARGUMENT;
    case ErrorCode::mismatch:
      return BANYAN_MISMATCH;
    case ErrorCode::unsupported:
      return BANYAN_UNSUPPORTED;
    case ErrorCode::io:
      return BANYAN_SYSTEM_ERROR;
    case ErrorCode::peer_lost:
      return BANYAN_PEER_LOST;
    case ErrorCode::timed_out:
      return BANYAN_TIMED_OUT;
    case ErrorCode::aborted:
      return BANYAN_ABORTED;
    case ErrorCode::invalid_usage:
      return BANYAN_INVALID_USAGE;
  }
  return BANYAN_INTERNAL;
}

banyan_result_t fail(LastError* of_comm, banyan_result_t result, const Error& error) noexcept {
  thread_error.set(error.what());
  if (of_comm != nullptr) {
    if (is_of_communicator(result)) of_comm->has_told = true;
    const std::lock_guard lock(of_comm->mutex);
    of_comm->error = error;
  }
  return result;
}

banyan_result_t fail_with_caught(LastError* of_comm) noexcept {
  const Error caught = current_error();
  try {
    throw;
  } catch (const Error&) {  // these three have a result of their own
  } catch (const std::bad_alloc&) {
  } catch (const std::system_error&) {
  } catch (...) {
    return fail(of_comm, BANYAN_INTERNAL, caught);
  }
  return fail(of_comm, result_of(caught), caught);
}

void refuse_null(const char* name) { throw Error(ErrorCode::invalid_input, std::string(name) + " is NULL"); }

}  // namespace banyan::c

BANYAN_FUNCTION(int, get_version, void) { return BANYAN_VERSION; }

BANYAN_FUNCTION(const char*, last_error, banyan_comm_t comm) {
  using namespace banyan::c;
  if (comm == nullptr) return thread_error.text;
  const std::lock_guard lock(comm->last_error->mutex);
  comm_error_copy.set(comm->last_error->error ? comm->last_error->error->what() : "");
  return comm_error_copy.text;
}

BANYAN_FUNCTION(size_t, type_size, banyan_type_t type) {
  using banyan::codec::WireType;
  const auto number = static_cast<uint64_t>(type);
  return WireType::is_known(number) ? size_of(WireType::of_number(static_cast<uint8_t>(number)).element()) : 0;
}

BANYAN_FUNCTION(const char*, result_text, banyan_result_t result) {
  using banyan::c::kResultTexts;
  const auto number = static_cast<size_t>(result);  // negative ones become large
  return number < kResultTexts.size() ? kResultTexts[number] : "unknown result";
}
