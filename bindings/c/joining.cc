#include "bindings/c/joining.h"

#include <string>
#include <utility>

#include "banyan/run/system/thread.h"

namespace banyan::c {

Joining::Joining(Join join) {
  thread_ = run::start_thread("banyan-join", [this, join = std::move(join)] { run(join); });
}

Joining::~Joining() {
  if (fork_guard_.is_in_child()) {
    thread_.detach();  // it is the parent's
    return;
  }
  stop();
  thread_.join();
}

run::Communicator& Joining::communicator() {
  if (!is_over()) {
    throw Error(ErrorCode::invalid_usage,
                "the communicator has not come together yet; see banyan_comm_get_async_error");
  }
  if (error_) throw Error(*error_);
  return *communicator_;
}

void Joining::run(const Join& join) noexcept {
  std::string why;
  try {
    why = "it was told to, while it joined";
    communicator_.emplace(join(stop_.get_token()));
  } catch (...) {
    error_ = current_error();
  }
  is_over_.store(true, std::memory_order_seq_cst);
  if (!stop_.stop_requested() || !communicator_) return;
  // Who asked for it may have come too late to stop joining, and too early to see the communicator.
  communicator_->abort(why);
}

}  // namespace banyan::c
