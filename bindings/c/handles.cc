#include "bindings/c/handles.h"

#include <algorithm>
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
  switch (result) {
    case BANYAN_MISMATCH:
    case BANYAN_SYSTEM_ERROR:
    case BANYAN_PEER_LOST:
    case BANYAN_TIMED_OUT:
    case BANYAN_ABORTED:
    case BANYAN_INTERNAL:
      return true;
    default:
      return false;
  }
}

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
  } catch (const Error&) {
    return fail(of_comm, result_of(caught), caught);
  } catch (const std::bad_alloc&) {
    return fail(of_comm, result_of(caught), caught);
  } catch (const std::system_error&) {
    return fail(of_comm, result_of(caught), caught);
  } catch (...) {
    return fail(of_comm, BANYAN_INTERNAL, caught);
  }
}

void refuse_null(const char* name) { throw Error(ErrorCode::invalid_input, std::string(name) + " is NULL"); }

const char* last_error(banyan_comm* comm) {
  if (comm == nullptr) return thread_error.text;
  const std::lock_guard lock(comm->last_error->mutex);
  comm_error_copy.set(comm->last_error->error ? comm->last_error->error->what() : "");
  return comm_error_copy.text;
}

}  // namespace banyan::c

extern "C" {

int pbanyan_get_version(void) { return BANYAN_VERSION; }

const char* pbanyan_last_error(banyan_comm_t comm) { return banyan::c::last_error(comm); }

size_t pbanyan_type_size(banyan_type_t type) {
  using banyan::codec::WireType;
  const auto number = static_cast<uint64_t>(type);
  return WireType::is_known(number) ? size_of(WireType::of_number(static_cast<uint8_t>(number)).element()) : 0;
}

const char* pbanyan_result_text(banyan_result_t result) {
  switch (result) {
    case BANYAN_SUCCESS:
      return "success";
    case BANYAN_INVALID_ARGUMENT:
      return "invalid argument";
    case BANYAN_INVALID_USAGE:
      return "a call that is not allowed now";
    case BANYAN_MISMATCH:
      return "ranks called different things";
    case BANYAN_UNSUPPORTED:
      return "not supported";
    case BANYAN_SYSTEM_ERROR:
      return "the operating system refused";
    case BANYAN_PEER_LOST:
      return "a rank was lost";
    case BANYAN_TIMED_OUT:
      return "timed out";
    case BANYAN_ABORTED:
      return "aborted";
    case BANYAN_IN_PROGRESS:
      return "in progress";
    case BANYAN_INTERNAL:
      return "internal error";
  }
  return "unknown result";
}

}  // extern "C"

BANYAN_TWIN(banyan_get_version);
BANYAN_TWIN(banyan_last_error);
BANYAN_TWIN(banyan_result_text);
BANYAN_TWIN(banyan_type_size);
