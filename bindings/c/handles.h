// The objects behind the handles of banyan.h, and errors as results. Known to bindings/c only.
#pragma once

#include <banyan/banyan.h>
#include <banyan/profiling.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/communicator/communicator.h"
#include "bindings/c/joining.h"

// Begins the definition of a function of banyan.h, say of mem_alloc: its twin does the work (profiling.h), and the
// plain name is a weak symbol for the twin, so that a profiler may define its own. The compiler holds both against the
// headers.
#define BANYAN_FUNCTION(result, name, ...)                                                     \
  extern "C" __attribute__((weak, alias("pbanyan_" #name))) result banyan_##name(__VA_ARGS__); \
  extern "C" result pbanyan_##name(__VA_ARGS__)
// The same for a function that can fail.
#define BANYAN_CALL(name, ...) BANYAN_FUNCTION(banyan_result_t, name, __VA_ARGS__)

namespace banyan::c {

// The last error of a communicator, for banyan_last_error.
struct LastError {
  std::mutex mutex;  // protects error
  std::optional<Error> error;
  std::atomic<bool> has_told{false};  // a function has returned the error of the communicator
};

// A reduction that a program has made.
struct OwnOp {
  element::ReduceOp op = element::ReduceOp::sum;
  double factor = 1;                             // of premul_sum
  std::shared_ptr<run::Residual> residual = {};  // of a sum or an average with feedback; else null
};

}  // namespace banyan::c

struct banyan_residual {
  std::shared_ptr<banyan::run::Residual> residual;
};

struct banyan_comm {
  std::optional<banyan::run::Communicator> made;  // or, where it was not waited for:
  std::unique_ptr<banyan::c::Joining> joining = {};
  bool is_finalized = false;
  // Shared with the requests, which may be waited for when the communicator is gone.
  std::shared_ptr<banyan::c::LastError> last_error = std::make_shared<banyan::c::LastError>();
  std::mutex mutex = {};                                      // protects the next two
  std::vector<std::optional<banyan::c::OwnOp>> own_ops = {};  // op kFirstOwnOp + i
  uint32_t sparse_tables = 0;                                 // that were made
  std::atomic<std::chrono::milliseconds> timeout = {};        // of operations that begin now; 0: that of the config

  bool has_joined() const { return made || (joining->is_over() && !joining->error()); }
  // Throws what Joining::communicator throws.
  banyan::run::Communicator& communicator() { return made ? *made : joining->communicator(); }
};

struct banyan_request {
  banyan::run::Request request;
  std::shared_ptr<banyan::c::LastError> last_error;
  int* source = nullptr;  // where to put the rank that sent
};

namespace banyan::c {

constexpr int kFirstOwnOp = 1000;
// Makes it an op of the communicator.
banyan_op_t add_op(banyan_comm* comm, OwnOp op);
// Null if there is none. The caller holds comm.mutex.
std::optional<OwnOp>* find_op(banyan_comm& comm, banyan_op_t op);

banyan_result_t result_of(const Error& error);
// Remembers the error for banyan_last_error: of this thread, and of a communicator unless that is null.
banyan_result_t fail(LastError* of_comm, banyan_result_t result, const Error& error) noexcept;
// The same of what was just caught.
banyan_result_t fail_with_caught(LastError* of_comm) noexcept;

// Calls `body`, whatever it throws becoming a result. Nothing leaves the library but results.
template <typename Body>
banyan_result_t guarded(LastError* of_comm, const Body& body) noexcept {
  try {
    body();
    return BANYAN_SUCCESS;
  } catch (...) {
    return fail_with_caught(of_comm);
  }
}
template <typename Body>
banyan_result_t guarded(banyan_comm* comm, const Body& body) noexcept {
  return guarded(comm != nullptr ? comm->last_error.get() : nullptr, body);
}
template <typename Body>
banyan_result_t guarded(std::nullptr_t, const Body& body) noexcept {
  return guarded(static_cast<LastError*>(nullptr), body);
}

[[noreturn]] void refuse_null(const char* name);
// Throws Error{invalid_input} when it is null.
inline void expect_pointer(const void* pointer, const char* name) {
  if (pointer == nullptr) refuse_null(name);
}

// As guarded(), for a call that needs a communicator.
template <typename Body>
banyan_result_t guarded_on(banyan_comm* comm, const Body& body) noexcept {
  return guarded(comm, [&] {
    expect_pointer(comm, "comm");
    body();
  });
}

}  // namespace banyan::c
